/* What glibc's tests of malloc expect of the library that glibc builds them with: checks that are counted, calls that end the
 * test when they fail, barriers and threads, temporary files. Written for these tests alone; driver.h has `main`.
 * All headers of that library that they name lead here. */
#ifndef SOAK_SHIM_H
#define SOAK_SHIM_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHIM __attribute__((unused)) static

/* Failures are counted where a forked child can count, too. */
SHIM int *shim_failures(void) {
    static int *shared;
    if (!shared) {
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED) abort();
    }
    return shared;
}

SHIM void shim_record(const char *file, int line, const char *why) {
    printf("%s:%d: %s\n", file, line, why);
    __atomic_fetch_add(shim_failures(), 1, __ATOMIC_RELAXED);
}

__attribute__((format(printf, 4, 5))) SHIM void shim_fail(int status, const char *file, int line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("%s:%d: ", file, line);
    vprintf(format, arguments);
    puts("");
    va_end(arguments);
    if (status >= 0) exit(status);
    __atomic_fetch_add(shim_failures(), 1, __ATOMIC_RELAXED);
}

#define FAIL(...) shim_fail(-1, __FILE__, __LINE__, __VA_ARGS__)
#define FAIL_RET(...) return shim_fail(-1, __FILE__, __LINE__, __VA_ARGS__), 1
#define FAIL_EXIT(status, ...) shim_fail(status, __FILE__, __LINE__, __VA_ARGS__)
#define FAIL_EXIT1(...) shim_fail(1, __FILE__, __LINE__, __VA_ARGS__)
#define FAIL_UNSUPPORTED(...) shim_fail(77, __FILE__, __LINE__, __VA_ARGS__)
#define TEST_VERIFY(it) ((it) ? (void)0 : shim_record(__FILE__, __LINE__, "not so: " #it))
#define TEST_VERIFY_EXIT(it) ((it) ? (void)0 : shim_fail(1, __FILE__, __LINE__, "not so: %s", #it))
#define TEST_COMPARE(left, right) \
    ((left) == (right) ? (void)0 : shim_record(__FILE__, __LINE__, "not the same: " #left " and " #right))

#define SHIM_MUST(ok, what) ((ok) ? (void)0 : shim_fail(1, __FILE__, __LINE__, "%s: %s", what, strerror(errno)))
#define SHIM_MUST_ZERO(call) do { int shim_code = (call); errno = shim_code; SHIM_MUST(shim_code == 0, #call); } while (0)

SHIM void oom_error(const char *function, size_t size) { shim_fail(1, function, 0, "no %zu bytes", size); }
SHIM void *xmalloc(size_t size) { void *p = malloc(size); SHIM_MUST(p, "malloc"); return p; }
SHIM void *xcalloc(size_t n, size_t size) { void *p = calloc(n, size); SHIM_MUST(p, "calloc"); return p; }
SHIM void *xrealloc(void *old, size_t size) { void *p = realloc(old, size); SHIM_MUST(p || !size, "realloc"); return p; }
SHIM char *xstrdup(const char *text) { char *p = strdup(text); SHIM_MUST(p, "strdup"); return p; }
SHIM pid_t xfork(void) { pid_t child = fork(); SHIM_MUST(child >= 0, "fork"); return child; }
SHIM int xopen(const char *path, int flags, mode_t mode) { int fd = open(path, flags, mode); SHIM_MUST(fd >= 0, path); return fd; }
SHIM void xclose(int fd) { SHIM_MUST(close(fd) == 0, "close"); }
SHIM long xsysconf(int name) { errno = 0; long value = sysconf(name); SHIM_MUST(value != -1 || !errno, "sysconf"); return value; }
SHIM void xwaitpid(pid_t pid, int *status, int flags) { SHIM_MUST(waitpid(pid, status, flags) >= 0, "waitpid"); }
SHIM void *xmmap(void *at, size_t len, int protection, int flags, int fd) {
    void *p = mmap(at, len, protection, flags, fd, 0);
    SHIM_MUST(p != MAP_FAILED, "mmap");
    return p;
}
SHIM void xmunmap(void *at, size_t len) { SHIM_MUST(munmap(at, len) == 0, "munmap"); }
SHIM void xmprotect(void *at, size_t len, int protection) { SHIM_MUST(mprotect(at, len, protection) == 0, "mprotect"); }
SHIM __sighandler_t xsignal(int number, __sighandler_t handler) {
    __sighandler_t old = signal(number, handler);
    SHIM_MUST(old != SIG_ERR, "signal");
    return old;
}
SHIM void xsigaction(int number, const struct sigaction *now, struct sigaction *old) { SHIM_MUST(!sigaction(number, now, old), "sigaction"); }
SHIM void xraise(int number) { SHIM_MUST(!raise(number), "raise"); }

SHIM pthread_t xpthread_create(pthread_attr_t *how, void *(*what)(void *), void *argument) {
    pthread_t thread;
    SHIM_MUST_ZERO(pthread_create(&thread, how, what, argument));
    return thread;
}
SHIM void *xpthread_join(pthread_t thread) { void *result; SHIM_MUST_ZERO(pthread_join(thread, &result)); return result; }
SHIM void xpthread_kill(pthread_t thread, int number) { SHIM_MUST_ZERO(pthread_kill(thread, number)); }
SHIM void xpthread_cancel(pthread_t thread) { SHIM_MUST_ZERO(pthread_cancel(thread)); }
SHIM void xpthread_detach(pthread_t thread) { SHIM_MUST_ZERO(pthread_detach(thread)); }
SHIM void xpthread_sigmask(int how, const sigset_t *now, sigset_t *old) { SHIM_MUST_ZERO(pthread_sigmask(how, now, old)); }
SHIM void xpthread_mutex_lock(pthread_mutex_t *lock) { SHIM_MUST_ZERO(pthread_mutex_lock(lock)); }
SHIM void xpthread_mutex_unlock(pthread_mutex_t *lock) { SHIM_MUST_ZERO(pthread_mutex_unlock(lock)); }
SHIM void xpthread_barrier_init(pthread_barrier_t *barrier, pthread_barrierattr_t *how, unsigned count) {
    SHIM_MUST_ZERO(pthread_barrier_init(barrier, how, count));
}
SHIM void xpthread_barrier_destroy(pthread_barrier_t *barrier) { SHIM_MUST_ZERO(pthread_barrier_destroy(barrier)); }
SHIM void xpthread_barrierattr_init(pthread_barrierattr_t *how) { SHIM_MUST_ZERO(pthread_barrierattr_init(how)); }
SHIM void xpthread_barrierattr_destroy(pthread_barrierattr_t *how) { SHIM_MUST_ZERO(pthread_barrierattr_destroy(how)); }
SHIM void xpthread_barrierattr_setpshared(pthread_barrierattr_t *how, int shared) {
    SHIM_MUST_ZERO(pthread_barrierattr_setpshared(how, shared));
}
/* True for the one thread that is told to go first. */
SHIM int xpthread_barrier_wait(pthread_barrier_t *barrier) {
    int code = pthread_barrier_wait(barrier);
    SHIM_MUST(code == 0 || code == PTHREAD_BARRIER_SERIAL_THREAD, "pthread_barrier_wait");
    return code != 0;
}

/* Memory that a forked child shares. */
SHIM void *support_shared_allocate(size_t size) { return xmmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1); }
SHIM void support_shared_free(void *memory) { (void)memory; /* ends with the test */ }

SHIM int create_temp_file(const char *base, char **name) {
    char *path;
    SHIM_MUST(asprintf(&path, "%s-XXXXXX", base) > 0, "asprintf");
    int fd = mkstemp(path);
    SHIM_MUST(fd >= 0, path);
    if (name) *name = path; /* lies in the folder of the case, which goes with it */
    return fd;
}
SHIM void add_temp_file(const char *name) { (void)name; }
/* What a malloc that ends the program says, unsaid. */
SHIM void ignore_stderr(void) {
    int nowhere = open("/dev/null", O_WRONLY);
    SHIM_MUST(nowhere >= 0 && dup2(nowhere, STDERR_FILENO) >= 0, "standard error");
}
SHIM void write_message(const char *text) { if (write(STDOUT_FILENO, text, strlen(text)) < 0) abort(); }

#define DEFAULT_TIMEOUT 60
#define array_length(array) (sizeof(array) / sizeof *(array))
#define verbose_printf(...) printf(__VA_ARGS__)
SHIM int test_verbose;

/* Warnings are off as a whole. */
#define DIAG_PUSH_NEEDS_COMMENT
#define DIAG_POP_NEEDS_COMMENT
#define DIAG_IGNORE_NEEDS_COMMENT(version, option)
#define DIAG_IGNORE_Os_NEEDS_COMMENT(version, option)
#define DIAG_IGNORE_O_NEEDS_COMMENT(version, option)

/* What malloc promises on x86-64. */
#define MALLOC_ALIGNMENT 16
#define MALLOC_ALIGN_MASK (MALLOC_ALIGNMENT - 1)
#define INTERNAL_SIZE_T size_t
#define SIZE_SZ sizeof(size_t)
#endif
