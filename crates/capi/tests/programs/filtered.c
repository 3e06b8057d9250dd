/* filtered CALL...: allocates, resizes, frees and rests under a filter that kills whoever makes another system call than those
 * named, and than what this program itself makes. 77: this system has no filters. */
#define _GNU_SOURCE
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 16000, MOST = 64, SKIPPED = 77 };

static const struct { const char *name; int number; } known[] = {
#define CALL(name) {#name, SYS_##name}
    CALL(mmap), CALL(munmap), CALL(mprotect), CALL(madvise), CALL(mremap), CALL(futex), CALL(getrandom), CALL(getrusage),
    CALL(write), CALL(clone), CALL(rt_sigprocmask), CALL(capset), CALL(prctl), CALL(seccomp), CALL(exit), CALL(getpid),
    CALL(gettid), CALL(tgkill), CALL(mbind), CALL(get_mempolicy), CALL(move_pages), CALL(getcpu), CALL(openat), CALL(read),
    CALL(close),
};

/* What the C library makes for this program: its threads, its sleep, its end. */
static const int own[] = {SYS_clone3, SYS_set_robust_list, SYS_rseq, SYS_exit, SYS_clock_nanosleep, SYS_exit_group,
                          SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_mprotect, SYS_mmap, SYS_munmap, SYS_madvise, SYS_futex};

static struct sock_filter code[4 * MOST];
static int length;

static void add(struct sock_filter one) { code[length++] = one; }

static void allow(int number) {
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1));
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

static int number_of(const char *name) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) return known[i].number;
    fprintf(stderr, "no such call is known here: %s\n", name);
    exit(2);
}

static char *blocks[BLOCKS];

static void use(size_t size) {
    for (int i = 0; i < BLOCKS; i++) memset(blocks[i] = malloc(size), 1, size);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
}

static void *thread(void *argument) {
    for (int i = 0; i < 2000; i++) free(malloc((size_t)i * 50));
    return argument;
}

static void rest(void) {
    struct timespec time = {2, 500000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

int main(int argc, char **argv) {
    if (argc > MOST - (int)(sizeof own / sizeof *own)) return 2;
    add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) allow(own[i]);
    for (int i = 1; i < argc; i++) allow(number_of(argv[i]));
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    struct sock_fprog program = {(unsigned short)length, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) return SKIPPED;

    use(100), use(4000);
    for (size_t size = 1 << 16; size < 64 << 20; size *= 3) {
        char *block = calloc(size, 1);
        CHECK(block && !block[size - 1]);
        memset(block, 1, size);
        block = realloc(block, size * 2);
        CHECK(block && block[size - 1] == 1);
        free(realloc(block, size / 2));
        free(aligned_alloc(1 << 21, size / 4096 * 4096));
    }
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) CHECK(pthread_create(&threads[i], NULL, thread, NULL) == 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    rest();
    use(4000), malloc_trim(0), use(20000);
    rest();
    use(100);
    _exit(broken ? 1 : 0);
}
