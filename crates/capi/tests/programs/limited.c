/* 256 MiB of address space or of data: requests beyond it are refused, and the heap lives on. 20 and 16 MiB: it begins at
 * all. Limits bind also if the program sets them when it has a heap. */
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void fill(void) {
    static void *blocks[4000];
    int n = 0;
    while (n < 4000 && (blocks[n] = malloc(100000))) memset(blocks[n++], 1, 100000);
    CHECK(n > 1000 && n < 4000);
    CHECK(!malloc(1 << 30));
    while (n) free(blocks[--n]);
    void *again = malloc(50u << 20);
    CHECK(again);
    free(again);
}

/* Two mebibytes at least of what is little more than the C library needs. */
static void begin(void) {
    int n = 0;
    while (n < 2000 && malloc(1000)) n++;
    CHECK(n == 2000);
}

/* The limit is for the program that comes, before its first allocation. */
static void run(const char *program, const char *what, int resource, rlim_t bytes) {
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {bytes, bytes};
        if (!setrlimit(resource, &limit)) execl(program, program, what, (char *)0);
        _exit(9);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void *nothing(void *unused) { return unused; }

/* Limits of address space that the program sets itself, when it has a heap, again and again: they bind, and there is room for
 * a mapping and a thread. In the end there is no limit again. */
static void set_addresses(void) {
    struct rlimit old, none;
    CHECK(!getrlimit(RLIMIT_AS, &none));
    for (int i = 0; i < 12; i++) {
        struct rlimit limit = {256u << 20, none.rlim_max};
        CHECK(i % 2 ? !setrlimit(RLIMIT_AS, &limit) : !prlimit(getpid(), RLIMIT_AS, &limit, &old));
        void *mapped = mmap(0, 20 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(mapped != MAP_FAILED && !munmap(mapped, 20 << 20));
        pthread_t thread;
        CHECK(!pthread_create(&thread, 0, nothing, 0) && !pthread_join(thread, 0));
        if (i == 1) fill();
        CHECK(!setrlimit(RLIMIT_AS, &none));
        void *more = malloc(300u << 20);
        CHECK(more);
        free(more);
    }
    CHECK(old.rlim_cur == none.rlim_cur);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        if (!strcmp(argv[1], "begin")) begin();
        else fill();
        return broken != 0;
    }
    run(argv[0], "limited", RLIMIT_AS, 256u << 20);
    run(argv[0], "limited", RLIMIT_DATA, 256u << 20);
    run(argv[0], "begin", RLIMIT_AS, 20u << 20);
    run(argv[0], "begin", RLIMIT_AS, 16u << 20);
    CHECK(malloc(1000));
    struct rlimit limit = {256u << 20, 256u << 20};
    pid_t child = fork();
    if (child == 0) _exit(setrlimit(RLIMIT_DATA, &limit) || (fill(), broken != 0));
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    set_addresses();
    return broken != 0;
}
