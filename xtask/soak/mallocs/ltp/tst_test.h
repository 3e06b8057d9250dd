/* What the Linux Test Project's tests of malloc expect of its library: a structure that names the test, results that are
 * counted, and `main`. */
#ifndef SOAK_TST_TEST_H
#define SOAK_TST_TEST_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

enum { TPASS = 0, TFAIL = 1, TBROK = 2, TWARN = 4, TINFO = 16, TCONF = 32, TTYPE_MASK = 63, TERRNO = 256 };
struct tst_option { const char *optstr; char **arg; const char *help; };
struct tst_test {
    void (*setup)(void), (*cleanup)(void), (*test_all)(void), (*test)(unsigned int);
    unsigned int tcnt;
    int needs_checkpoints, needs_tmpdir, needs_root, forks_child, timeout, runtime, max_runtime;
    struct tst_option *options;
};

static int shim_failures, shim_passes;
__attribute__((format(printf, 2, 3), unused)) static void tst_res(int kind, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    puts("");
    kind &= TTYPE_MASK;
    if (kind == TPASS) shim_passes++;
    if (kind == TFAIL || kind == TBROK || kind == TWARN) shim_failures++;
    if (kind == TCONF) puts("unsupported"), exit(0);
}
#define tst_brk(kind, ...) (tst_res(kind, __VA_ARGS__), exit(1))
#define TST_TEST_TCONF(why) int main(void) { return puts("unsupported: " why), 0; }

__attribute__((unused)) static void *shim_must(void *made, const char *what) {
    if (!made) tst_brk(TBROK, "no memory from %s", what);
    return made;
}
/* The compiler must not drop what is only stored. */
#define LTP_VAR_USED(variable) __asm__ volatile("" : : "m"(variable)); variable
#define SAFE_MALLOC(size) shim_must(malloc(size), "malloc")
#define SAFE_CALLOC(n, size) shim_must(calloc(n, size), "calloc")
#define SAFE_REALLOC(p, size) shim_must(realloc(p, size), "realloc")
#define SAFE_MEMALIGN(alignment, size) shim_must(memalign(alignment, size), "memalign")

/* A checkpoint: threads wait there until so many do. */
static pthread_mutex_t shim_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t shim_change = PTHREAD_COND_INITIALIZER;
static int shim_waiting, shim_open;
__attribute__((unused)) static void shim_wait(void) {
    pthread_mutex_lock(&shim_lock);
    shim_waiting++;
    pthread_cond_broadcast(&shim_change);
    while (!shim_open) pthread_cond_wait(&shim_change, &shim_lock);
    pthread_mutex_unlock(&shim_lock);
}
__attribute__((unused)) static void shim_wake(int count) {
    pthread_mutex_lock(&shim_lock);
    while (shim_waiting < count) pthread_cond_wait(&shim_change, &shim_lock);
    shim_open = 1;
    pthread_cond_broadcast(&shim_change);
    pthread_mutex_unlock(&shim_lock);
}
#define TST_CHECKPOINT_WAIT(id) shim_wait()
#define TST_CHECKPOINT_WAKE2(id, count) shim_wake(count)
#define SAFE_PTHREAD_CREATE(...) (pthread_create(__VA_ARGS__) ? tst_brk(TBROK, "no thread") : (void)0)
#define SAFE_PTHREAD_JOIN(...) (pthread_join(__VA_ARGS__) ? tst_brk(TBROK, "no end of a thread") : (void)0)

/* A test that ends by itself only after minutes is given twenty seconds. */
static time_t shim_began;
__attribute__((unused)) static int tst_remaining_runtime(void) { return time(0) - shim_began < 20; }

#ifndef SOAK_NO_MAIN
static struct tst_test test;
int main(void) {
    shim_began = time(0);
    if (test.setup) test.setup();
    if (test.test_all) test.test_all();
    for (unsigned int i = 0; test.test && i < test.tcnt; i++) test.test(i);
    if (test.cleanup) test.cleanup();
    return shim_failures || !shim_passes;
}
#endif
#endif
