/* storm_refused KIND: the system refuses. `space`: 256 MiB of address space. `data`: 128 MiB of writable memory, which is
 * what strict overcommit refuses. `calls`: a seccomp filter refuses madvise, mremap, mbind and the like. Requests may
 * fail where memory is short, never otherwise; what lives stays whole; afterwards everything can be had again. */
#include "check.h"
#include "memory.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 4, MOST = 2000 };

static int may_refuse;

static size_t size_of(unsigned *random) {
    switch (rand_r(random) % 10) {
    case 0: return rand_r(random) % 3000000;
    case 1: case 2: return rand_r(random) % 100000;
    default: return rand_r(random) % 3000;
    }
}

static void fill(char *block, size_t size) {
    memset(block, (int)(size & 127), size < 5000 ? size : 5000);
    if (size) block[size - 1] = (char)(size & 127);
}

static int whole(const char *block, size_t size) {
    for (size_t i = 0; i < size && i < 5000; i++)
        if (block[i] != (char)(size & 127)) return 0;
    return !size || block[size - 1] == (char)(size & 127);
}

static void *live(void *seed) {
    unsigned random = (unsigned)(size_t)seed;
    char **blocks = calloc(MOST, sizeof *blocks);
    size_t *sizes = calloc(MOST, sizeof *sizes);
    if (!blocks || !sizes) return (void *)-1L;
    size_t refused = 0;
    for (int round = 0; round < 5000; round++) {
        int i = rand_r(&random) % MOST;
        CHECK(!blocks[i] || whole(blocks[i], sizes[i]));
        size_t size = size_of(&random);
        errno = 0;
        char *block;
        if (rand_r(&random) % 3 == 0) {
            block = realloc(blocks[i], size + 1);
            if (block) CHECK(!sizes[i] || block[0] == (char)(sizes[i] & 127));
            size++;
        } else {
            free(blocks[i]);
            blocks[i] = 0;
            sizes[i] = 0;
            block = rand_r(&random) % 2 ? malloc(size) : calloc(1, size);
        }
        if (block) {
            fill(block, size);
            blocks[i] = block;
            sizes[i] = size;
        } else {
            CHECK(errno == ENOMEM);
            refused++;
        }
        if (round % 2000 == 0) malloc_trim(0);
    }
    for (int i = 0; i < MOST; i++) {
        CHECK(!blocks[i] || whole(blocks[i], sizes[i]));
        free(blocks[i]);
    }
    free(blocks);
    free(sizes);
    return (void *)refused;
}

static void storm(void) {
    pthread_t threads[THREADS];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    size_t refused = 0;
    for (size_t i = 0; i < THREADS; i++) CHECK(!pthread_create(&threads[i], &small, live, (void *)(i + 1)));
    for (int i = 0; i < THREADS; i++) {
        void *result = 0;
        pthread_join(threads[i], &result);
        refused += (size_t)result;
    }
    CHECK(may_refuse ? refused > 0 : refused == 0);
    malloc_trim(0);
    void *again = malloc(40 << 20);
    CHECK(again);
    if (again) memset(again, 1, 40 << 20);
    free(again);
    malloc_trim(0);
}

static void refuse_calls(void) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mbind, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_move_pages, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_capset, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
        puts("no seccomp here");
        _exit(77);
    }
    CHECK(syscall(SYS_madvise, 0, 0, 0) == -1 && errno == EPERM);
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    if (argc == 2 && strcmp(kind, "calls")) {
        /* Limits are for the program that comes, from its first allocation on. */
        int is_space = !strcmp(kind, "space");
        struct rlimit limit = {is_space ? 256u << 20 : 128u << 20, is_space ? 256u << 20 : 128u << 20};
        CHECK(!setrlimit(is_space ? RLIMIT_AS : RLIMIT_DATA, &limit));
        execl(argv[0], argv[0], kind, "limited", (char *)0);
        return 1;
    }
    may_refuse = strcmp(kind, "calls") != 0;
    if (!may_refuse) refuse_calls();
    for (int i = 0; i < 2; i++) storm();
    if (may_refuse) CHECK(resident_kib() < 60000);
    CHECK(mappings() < 2000);
    return broken != 0;
}
