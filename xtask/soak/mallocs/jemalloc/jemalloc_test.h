/* What jemalloc's integration tests of the standard interface expect of its test library. Its own controls are answered as a
 * malloc without them can: purging is malloc_trim, the largest class ends where PTRDIFF_MAX does. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#undef assert
#define assert(it) ((it) ? (void)0 : test_fail("not so: %s", #it))
#define SIZE_T_MAX SIZE_MAX
#define LG_SIZEOF_PTR 3
#define BUFERROR_BUF 64
#define ZU(n) ((size_t)(n))
#define TEST_MALLOC_SIZE(p) malloc_usable_size(p)
#define JEMALLOC_DIAGNOSTIC_PUSH
#define JEMALLOC_DIAGNOSTIC_POP
#define JEMALLOC_DIAGNOSTIC_IGNORE_ALLOC_SIZE_LARGER_THAN

static int test_failures;
__attribute__((format(printf, 1, 2), unused)) static void test_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    puts("");
    test_failures++;
}

#define SHIM_EXPECT(it, ...) ((it) ? (void)0 : (printf("%s:%d: ", __FILE__, __LINE__), test_fail("" __VA_ARGS__)))
#define expect_true(it, ...) SHIM_EXPECT(it, __VA_ARGS__)
#define expect_false(it, ...) SHIM_EXPECT(!(it), __VA_ARGS__)
#define expect_d_eq(a, b, ...) SHIM_EXPECT((a) == (b), __VA_ARGS__)
#define expect_d_ne(a, b, ...) SHIM_EXPECT((a) != (b), __VA_ARGS__)
#define expect_zu_eq(a, b, ...) SHIM_EXPECT((a) == (b), __VA_ARGS__)
#define expect_ptr_null(p, ...) SHIM_EXPECT((p) == NULL, __VA_ARGS__)
#define expect_ptr_not_null(p, ...) SHIM_EXPECT((p) != NULL, __VA_ARGS__)
#define expect_ptr_eq(a, b, ...) SHIM_EXPECT((a) == (b), __VA_ARGS__)
#define expect_ptr_ne(a, b, ...) SHIM_EXPECT((a) != (b), __VA_ARGS__)

#define TEST_BEGIN(name) static void name(void) {
#define TEST_END }
typedef void shim_test(void);
#define test(...) ({ shim_test *shim_tests[] = {__VA_ARGS__, NULL}; shim_all(shim_tests); })
#define test_no_reentrancy(...) test(__VA_ARGS__)
__attribute__((unused)) static int shim_all(shim_test **tests) {
    for (; *tests; tests++) (*tests)();
    return test_failures != 0;
}

__attribute__((unused)) static void set_errno(int number) { errno = number; }
__attribute__((unused)) static int get_errno(void) { return errno; }
__attribute__((unused)) static int buferror(int number, char *into, size_t len) { return snprintf(into, len, "error %d", number) < 0; }

__attribute__((unused)) static int mallctl(const char *name, void *old, size_t *len, void *now, size_t now_len) {
    (void)len, (void)now, (void)now_len;
    if (strstr(name, "purge")) return malloc_trim(0), 0;
    if (strcmp(name, "arenas.nlextents")) return ENOENT;
    *(unsigned *)old = 1;
    return 0;
}
__attribute__((unused)) static int mallctlnametomib(const char *name, size_t *mib, size_t *len) {
    (void)name;
    for (size_t i = 0; i < *len; i++) mib[i] = 0;
    return 0;
}
__attribute__((unused)) static int mallctlbymib(const size_t *mib, size_t len, void *old, size_t *old_len, void *now, size_t now_len) {
    (void)mib, (void)len, (void)old_len, (void)now, (void)now_len;
    *(size_t *)old = PTRDIFF_MAX;
    return 0;
}
