/* What the Linux Test Project's tests of malloc expect of its library: a structure that names the test, results that are
 * counted, and `main`. */
#ifndef SOAK_TST_TEST_H
#define SOAK_TST_TEST_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

enum { TPASS = 0, TFAIL = 1, TBROK = 2, TWARN = 4, TINFO = 16, TCONF = 32, TTYPE_MASK = 63, TERRNO = 256 };
struct tst_option { const char *optstr; char **arg; const char *help; };
struct tst_test {
    void (*setup)(void), (*cleanup)(void), (*test_all)(void), (*test)(unsigned int);
    unsigned int tcnt;
    int needs_tmpdir, needs_root, forks_child, timeout, runtime, max_runtime;
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

#ifndef SOAK_NO_MAIN
static struct tst_test test;
int main(void) {
    if (test.setup) test.setup();
    if (test.test_all) test.test_all();
    for (unsigned int i = 0; test.test && i < test.tcnt; i++) test.test(i);
    if (test.cleanup) test.cleanup();
    return shim_failures || !shim_passes;
}
#endif
#endif
