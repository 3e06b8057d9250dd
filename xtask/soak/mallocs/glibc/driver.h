/* `main` of a test of glibc's: runs it in a child of its own, with a time limit, and looks at how it ended. A test that says
 * that it cannot run here prints "unsupported". The older tests name an expression, the newer ones a function; mallocs.rs
 * defines SOAK_EXPRESSION for the former. */
#include "shim.h"
#include <sys/prctl.h>

#ifndef TIMEOUT
#define TIMEOUT 60
#endif
#ifndef EXPECTED_STATUS
#define EXPECTED_STATUS 0
#endif
#ifndef EXPECTED_SIGNAL
#define EXPECTED_SIGNAL 0
#endif

static int shim_run(int argc, char **argv) {
    (void)argc, (void)argv;
#ifdef PREPARE
    PREPARE(argc, argv);
#endif
#if defined(TEST_FUNCTION_ARGV)
    return TEST_FUNCTION_ARGV(argc, argv);
#elif defined(TEST_FUNCTION) && defined(SOAK_EXPRESSION)
    return TEST_FUNCTION;
#elif defined(TEST_FUNCTION)
    return TEST_FUNCTION();
#else
    return do_test();
#endif
}

static pid_t shim_child;

static void shim_late(int number) {
    (void)number;
    static const char why[] = "not done in time\n";
    kill(-shim_child, SIGKILL); /* and all its children */
    if (write(STDOUT_FILENO, why, sizeof why - 1) < 0) _exit(3);
    _exit(2);
}

int main(int argc, char **argv) {
    shim_failures();
    setvbuf(stdout, NULL, _IONBF, 0);
    shim_child = fork();
    if (shim_child < 0) return 3;
    if (shim_child == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(shim_run(argc, argv));
    }
    signal(SIGALRM, shim_late);
    alarm(TIMEOUT);
    int status;
    if (waitpid(shim_child, &status, 0) != shim_child) return 3;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return puts("unsupported"), 0;
    if (EXPECTED_SIGNAL && WIFSIGNALED(status) && WTERMSIG(status) == EXPECTED_SIGNAL) return *shim_failures() != 0;
    if (WIFSIGNALED(status)) return printf("signal %d\n", WTERMSIG(status)), 1;
    if (EXPECTED_SIGNAL) return puts("not stopped, as it should be"), 1;
    if (WEXITSTATUS(status) != EXPECTED_STATUS) return 1; /* the test has said why */
    return *shim_failures() != 0;
}
