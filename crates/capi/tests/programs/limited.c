/* 256 MiB of address space or of data: requests beyond it are refused, and the heap lives on. 20 and 16 MiB: it begins at
 * all. The limit on data binds also if the program sets it when it has a heap. */
#include "check.h"
#include <stdlib.h>
#include <string.h>
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
    CHECK(!setrlimit(RLIMIT_DATA, &limit));
    fill();
    return broken != 0;
}
