/* purged KIND: what a program may do while the thread that gives memory back is there; 77: this system does not let it. */
#define _GNU_SOURCE
#include "check.h"
#include "memory.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { BLOCKS = 16000, SIZE = 4000, FULL_KIB = BLOCKS * 4, NOBODY = 65534, SKIPPED = 77 };

static char *blocks[BLOCKS];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Frees 64 MB: from then on there is a purger, for a while. */
static void free_much(void) {
    for (int i = 0; i < BLOCKS; i++) memset(blocks[i] = malloc(SIZE), 1, SIZE);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
}

static int rest_until_back(void) {
    for (int tenth = 0; tenth < 100 && resident_kib() > FULL_KIB / 2; tenth++) usleep(100000);
    return resident_kib() <= FULL_KIB / 2;
}

/* A number in a task's status, in the base given; -1 for none. */
static long field(const char *task, const char *name, int base) {
    char path[64], line[256];
    long value = -1;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':') value = strtol(line + strlen(name) + 1, 0, base);
    if (file) fclose(file);
    return value;
}

/* The purger's number, as text; empty for none. */
static const char *purger(void) {
    static char name[32];
    name[0] = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));)
        if (task->d_name[0] != '.' && atol(task->d_name) != getpid()) snprintf(name, sizeof name, "%s", task->d_name);
    if (tasks) closedir(tasks);
    return name;
}

static void lives_as_long_as_there_is_work(void) {
    CHECK(threads_alive() == 1);
    free_much();
    CHECK(threads_alive() == 2);
    CHECK(rest_until_back());
    double back = now();
    while (threads_alive() > 1 && now() < back + 10) usleep(50000);
    CHECK(now() < back + 2);
    free_much();
    CHECK(threads_alive() == 2 && rest_until_back());
}

static void is_confined(void) {
    free_much();
    usleep(50000);
    const char *task = purger();
    CHECK(task[0]);
    CHECK(field(task, "Seccomp", 10) == 2 && field(task, "NoNewPrivs", 10) == 1);
    CHECK(field(task, "CapEff", 16) == 0 && field(task, "CapPrm", 16) == 0);
    CHECK(field("self", "Seccomp", 10) <= 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
    CHECK(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1);
    CHECK(rest_until_back());
}

static int keeps_no_user(void) {
    if (getuid() != 0) return SKIPPED;
    free_much();
    CHECK(purger()[0]);
    CHECK(setresuid(NOBODY, NOBODY, NOBODY) == 0);
    /* It is gone when the call answers, and who comes later is nobody, too. */
    CHECK(!purger()[0]);
    free_much();
    CHECK(purger()[0] && field(purger(), "Uid", 10) == NOBODY);
    CHECK(rest_until_back());
    return 0;
}

/* A handler of fork that was registered before the first malloc, hence runs before the library's, and makes much to give
 * back: the thread that it starts is known afterwards, too. */
static int early_frees;
static void early_child(void) {
    if (early_frees) free_much();
}
static void register_early(int argc, char **argv, char **environment) {
    (void)argc, (void)argv, (void)environment;
    pthread_atfork(NULL, NULL, early_child);
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = register_early;

static int lets_namespaces_be_left(int early) {
    pid_t pid = fork();
    if (pid == 0) _exit(unshare(CLONE_NEWUSER) != 0);
    int status;
    waitpid(pid, &status, 0);
    if (status != 0) return SKIPPED;
    free(malloc(SIZE)); /* from here on the library has a handler, too */
    early_frees = early;
    /* Often: a thread that has ended is known to the system for a moment, and until then there are two. */
    for (int i = 0; i < 20; i++) {
        if (early && i == 10) free_much();
        pid = fork();
        if (pid == 0) {
            if (!early) free_much();
            _exit(purger()[0] && unshare(CLONE_NEWUSER) == 0 && !purger()[0] ? 0 : 1);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    return 0;
}

/* A filter for all threads that answers an errno to what the purger needs. */
static int lets_all_threads_be_filtered(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    free_much();
    CHECK(purger()[0]);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    free_much();
    long answer = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (answer < 0 && errno == ENOSYS) return SKIPPED;
    CHECK(answer == 0);
    for (int i = 0; i < 3; i++) free_much();
    CHECK(!purger()[0]);
    return 0;
}

/* The first thread ends, by an instruction of its own: so does the process. */
static void ends_with_the_program(void) {
    pid_t pid = fork();
    if (pid == 0) {
        free_much();
        long number = SYS_exit;
        __asm__ volatile("syscall" : "+a"(number) : "D"(0) : "rcx", "r11", "memory");
    }
    double start = now();
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(now() < start + 5);
    /* By name: at once. */
    pid = fork();
    if (pid == 0) free_much(), syscall(SYS_exit, 0);
    start = now();
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(now() < start + 1);
}

/* The test attaches a debugger to this process when it reads the line, and lets it go. */
static void rests_beside_a_debugger(void) {
    free_much();
    printf("there: %s\n", purger());
    fflush(stdout);
    CHECK(rest_until_back());
}

static void is_not_there(void) {
    free_much();
    CHECK(threads_alive() == 1);
}

int main(int argc, char **argv) {
    const char *kind = argc == 2 ? argv[1] : "";
    int answer = 0;
    alarm(100);
    if (!strcmp(kind, "lives as long as there is work")) lives_as_long_as_there_is_work();
    else if (!strcmp(kind, "is confined")) is_confined();
    else if (!strcmp(kind, "keeps no user")) answer = keeps_no_user();
    else if (!strcmp(kind, "lets namespaces be left that an early handler found")) answer = lets_namespaces_be_left(1);
    else if (!strcmp(kind, "lets namespaces be left")) answer = lets_namespaces_be_left(0);
    else if (!strcmp(kind, "lets all threads be filtered")) answer = lets_all_threads_be_filtered();
    else if (!strcmp(kind, "ends with the program")) ends_with_the_program();
    else if (!strcmp(kind, "rests beside a debugger")) rests_beside_a_debugger();
    else if (!strcmp(kind, "is not there")) is_not_there();
    else return 2;
    return broken ? 1 : answer;
}
