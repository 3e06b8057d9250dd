/* launch OUT PRELOAD STDOUT SECONDS PROGRAM ARGS...
 *
 * Runs one program and appends one line of JSON to OUT: wall time from fork to reaping, CPU time, faults and the
 * largest resident set of it and all it waited for. Small on purpose: Linux counts the memory of the process that
 * calls exec towards the new program's peak, so a large runner would hide small programs. PRELOAD (or "-")
 * becomes LD_PRELOAD in the child only, and BENCH_BINDINGS, if set, makes its loader bind every symbol at once and list
 * the bindings in files of that prefix. The child leads a process group that is killed after SECONDS.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile pid_t child;

static void too_long(int signal) {
    (void)signal;
    if (child > 0) kill(-child, SIGKILL);
}

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static _Noreturn void become(char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    int out = open(argv[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (out < 0 || dup2(out, 1) < 0) _exit(126);
    if (strcmp(argv[2], "-")) setenv("LD_PRELOAD", argv[2], 1);
    const char *bindings = getenv("BENCH_BINDINGS");
    if (bindings) {
        setenv("LD_BIND_NOW", "1", 1);
        setenv("LD_DEBUG", "bindings", 1);
        setenv("LD_DEBUG_OUTPUT", bindings, 1);
    }
    execvp(argv[5], argv + 5);
    fprintf(stderr, "launch: %s: %s\n", argv[5], strerror(errno));
    _exit(127);
}

static long long us(struct timeval t) { return t.tv_sec * 1000000ll + t.tv_usec; }

int main(int argc, char **argv) {
    if (argc < 6) {
        fprintf(stderr, "launch: OUT PRELOAD STDOUT SECONDS PROGRAM ARGS...\n");
        return 2;
    }
    signal(SIGALRM, too_long);
    long long start = now_ns();
    child = fork();
    if (child < 0) return perror("launch: fork"), 2;
    if (child == 0) become(argv);
    alarm((unsigned)atoi(argv[4]));
    int status;
    struct rusage usage;
    while (wait4(child, &status, 0, &usage) < 0)
        if (errno != EINTR) return perror("launch: wait4"), 2;
    long long wall = now_ns() - start;
    FILE *report = fopen(argv[1], "a");
    if (!report) return perror(argv[1]), 2;
    fprintf(report,
            "{\"wall_ns\":%lld,\"user_us\":%lld,\"system_us\":%lld,\"minor_faults\":%ld,\"major_faults\":%ld,"
            "\"peak_rss_kib\":%ld,\"exit\":%d,\"signal\":%d}\n",
            wall, us(usage.ru_utime), us(usage.ru_stime), usage.ru_minflt, usage.ru_majflt, usage.ru_maxrss,
            WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return fclose(report) ? 2 : 0;
}
