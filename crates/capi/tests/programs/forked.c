/* forked KIND: a program forks in a way that has hung allocators: ours (a783520), and others. Each kind ends by itself, or by
 * the alarm. */
#define _GNU_SOURCE
#include "check.h"
#include "memory.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { PATIENCE = 120, FORKS = 150, LINE = 100000, BULK = 16000, BULK_SIZE = 4000 };

static volatile int stop;

static void mixed(unsigned *seed, int calls) {
    void *blocks[64] = {0};
    for (int i = 0; i < calls; i++) {
        int at = rand_r(seed) % 64;
        free(blocks[at]);
        blocks[at] = malloc(rand_r(seed) % (rand_r(seed) % 30 ? 3000 : 300000));
    }
    for (int at = 0; at < 64; at++) free(blocks[at]);
}

static void *churn(void *number) {
    unsigned seed = (unsigned)(size_t)number;
    while (!stop) mixed(&seed, 500);
    return 0;
}

static void wait_for(pid_t pid) {
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
}

/* Handlers that were registered before the first allocation of the program run first in the child, and last before a fork. */
static void starts_one(void);
static void handler(void) { free(malloc(100)), free(malloc(100000)); }

__attribute__((constructor)) static void register_early(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "handlers")) pthread_atfork(handler, handler, handler);
    if (argc == 2 && !strcmp(argv[1], "handlers start threads")) pthread_atfork(0, 0, starts_one);
}

/* Allocates on the hot path only: nothing is worth giving back, in a copy either. */
static void *small(void *unused) {
    while (!stop) free(malloc(48));
    return unused;
}

static void forks(void) {
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            unsigned seed = i;
            mixed(&seed, 300);
            _exit(0);
        }
        wait_for(pid);
    }
}

/* Fork waits for the list of streams; who flushes all holds the list and waits for each stream; who reads a line holds its
 * stream and allocates, more than a thread has at hand where the line is long. */
static void *reads_lines(void *unused) {
    FILE *file = tmpfile();
    for (int i = 0; file && i < LINE; i++) fputc('x', file);
    while (file && !stop) {
        char *line = 0;
        size_t len = 0;
        rewind(file);
        CHECK(getline(&line, &len, file) == LINE);
        free(line);
    }
    if (file) fclose(file);
    return unused;
}

static void *flushes(void *unused) {
    while (!stop) {
        char *text = 0;
        size_t len = 0;
        FILE *file = open_memstream(&text, &len);
        for (int i = 0; file && i < 200; i++) fprintf(file, "%*d", i, i), fflush(0);
        if (file) fclose(file);
        free(text);
    }
    return unused;
}

/* A signal handler forks, in the middle of whatever the thread was doing: allocating, or forking itself. */
static volatile sig_atomic_t signals;

static void forks_and_ends(int number) {
    (void)number;
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    if (pid > 0) waitpid(pid, 0, 0);
    signals++;
}

static pid_t main_process;

/* The child goes on where the signal came, and allocates. */
static void forks_and_goes_on(int number) {
    (void)number;
    if (getpid() != main_process) return;
    pid_t pid = fork();
    if (pid > 0) waitpid(pid, 0, 0);
    signals++;
}

static void under_signals(void (*on_signal)(int)) {
    main_process = getpid();
    signal(SIGUSR1, on_signal);
    pid_t sender = fork();
    if (sender == 0) {
        while (getppid() == main_process && kill(main_process, SIGUSR1) == 0) usleep(300);
        _exit(0);
    }
    unsigned seed = 7;
    for (int i = 0; signals < 400; i++) {
        mixed(&seed, 200);
        if (getpid() != main_process) {
            /* A child that a handler made: it has gone on until here. */
            mixed(&seed, 2000);
            _exit(0);
        }
        pid_t pid = i % 8 ? -1 : fork();
        if (pid == 0) mixed(&seed, 200), _exit(0);
        if (pid > 0) waitpid(pid, 0, 0);
    }
    signal(SIGUSR1, SIG_IGN);
    kill(sender, SIGKILL);
    waitpid(sender, 0, 0);
}

/* A copy of which no handler is told: it allocates, and gives memory back as any process does. */
static void copy_gives_back(void) {
    alarm(PATIENCE);
    unsigned seed = 3;
    mixed(&seed, 3000);
    static char *bulk[BULK];
    for (int i = 0; i < BULK; i++) memset(bulk[i] = malloc(BULK_SIZE), 1, BULK_SIZE);
    long full = resident_kib();
    for (int i = 0; i < BULK; i++) free(bulk[i]);
    for (int tenth = 0; tenth < 100 && resident_kib() > full - 40000; tenth++) usleep(100000);
    _exit(resident_kib() > full - 40000 ? 4 : 0);
}

static void raw(void) {
    for (int i = 0; i < 6; i++) {
        long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) copy_gives_back();
        wait_for((pid_t)pid);
    }
}

/* Blocks that another thread has as well do not keep what was written into them. */
static void *keeps(void *number) {
    size_t *blocks[64] = {0}, mark = (size_t)number << 32;
    for (int i = 0; i < 500000; i++) {
        int at = i % 64;
        if (blocks[at]) CHECK(blocks[at][0] == mark + at && blocks[at][5] == mark + at);
        free(blocks[at]);
        blocks[at] = malloc(48);
        blocks[at][0] = blocks[at][5] = mark + at;
    }
    for (int at = 0; at < 64; at++) free(blocks[at]);
    return 0;
}

/* Frees so much that somebody must give it back. */
static void *frees_much(void *unused) {
    static void *blocks[300];
    for (int i = 0; i < 300; i++) blocks[i] = memset(malloc(100000), 1, 100000);
    for (int i = 0; i < 300; i++) free(blocks[i]);
    return unused;
}

/* What a copy that has allocated itself starts: the first thread finds that the process is a copy, the others get
 * caches. */
static void starts_threads(void) {
    pthread_t first, others[6];
    CHECK(!pthread_create(&first, 0, frees_much, 0));
    pthread_join(first, 0);
    for (size_t i = 0; i < 6; i++) CHECK(!pthread_create(&others[i], 0, keeps, (void *)i));
    keeps((void *)6);
    for (int i = 0; i < 6; i++) pthread_join(others[i], 0);
}

static void copy_starts_threads(pid_t pid) {
    if (pid == 0) {
        alarm(PATIENCE);
        free(malloc(48));
        starts_threads();
        _exit(broken != 0);
    }
    wait_for(pid);
}

/* A fork that tells no handler, where the C library has it (from 2.34 on). */
static pid_t fork_untold(void) {
    pid_t (*untold)(void) = (pid_t (*)(void))dlsym(RTLD_DEFAULT, "_Fork");
    return untold ? untold() : fork();
}

static void untold(void) {
    for (int i = 0; i < 20; i++) copy_starts_threads(fork_untold());
}

static void raw_starts_threads(void) {
    for (int i = 0; i < 20; i++) copy_starts_threads((pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

static pthread_t early;

static void starts_one(void) { CHECK(!pthread_create(&early, 0, keeps, (void *)7)); }

static void handlers_start_threads(void) {
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0) pthread_join(early, 0);
        copy_starts_threads(pid);
    }
}

/* A thread that holds the loader's lock most of the time. */
static void *loads(void *unused) {
    while (!stop) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        if (library) dlclose(library);
    }
    return unused;
}

static void calls_while_libraries_load(void) {
    for (int i = 0; i < 300; i++) {
        pid_t pid = fork_untold();
        if (pid == 0) {
            alarm(PATIENCE / 4);
            _exit(prctl(PR_SET_PDEATHSIG, SIGKILL) || unshare(0) || setns(-1, 0) != -1);
        }
        wait_for(pid);
    }
}

static void with_threads(void *(*first)(void *), void *(*second)(void *), void (*work)(void)) {
    pthread_t threads[2];
    CHECK(!pthread_create(&threads[0], 0, first, (void *)1));
    CHECK(!pthread_create(&threads[1], 0, second, (void *)2));
    work();
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
}

int main(int argc, char **argv) {
    const char *kind = argc == 2 ? argv[1] : "";
    alarm(PATIENCE);
    if (!strcmp(kind, "handlers")) {
        with_threads(churn, churn, forks);
    } else if (!strcmp(kind, "streams")) {
        with_threads(reads_lines, flushes, forks);
    } else if (!strcmp(kind, "signals")) {
        under_signals(forks_and_ends);
    } else if (!strcmp(kind, "signals, and goes on")) {
        under_signals(forks_and_goes_on);
    } else if (!strcmp(kind, "raw")) {
        with_threads(churn, churn, raw);
    } else if (!strcmp(kind, "untold")) {
        with_threads(small, small, untold);
    } else if (!strcmp(kind, "raw, and starts threads")) {
        with_threads(small, small, raw_starts_threads);
    } else if (!strcmp(kind, "handlers start threads")) {
        with_threads(small, small, handlers_start_threads);
    } else if (!strcmp(kind, "libraries load")) {
        with_threads(churn, loads, calls_while_libraries_load);
    } else {
        return 2;
    }
    return broken != 0;
}
