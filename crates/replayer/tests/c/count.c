/* A malloc that is glibc's, and counts into a file what it is asked for. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MALLOC, CALLOC, REALLOC, FREE, MEMALIGN, ALIVE, MOST_ALIVE, COUNTERS };

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), __libc_free(void *);

static long before_start[COUNTERS];
static long *counts = before_start;

/* Counts from main on: what the loader does before is not the replayer's. */
__attribute__((constructor)) static void start(void) {
    int file = open(COUNTS, O_RDWR | O_CREAT | O_TRUNC, 0600);
    ftruncate(file, sizeof before_start);
    counts = mmap(0, sizeof before_start, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
}

static void count(int what) { __atomic_add_fetch(&counts[what], 1, __ATOMIC_SEQ_CST); }

void *malloc(size_t n) { count(MALLOC); return __libc_malloc(n); }
void *calloc(size_t m, size_t n) { count(CALLOC); return __libc_calloc(m, n); }
void *realloc(void *p, size_t n) { count(REALLOC); return __libc_realloc(p, n); }
void free(void *p) { if (p) count(FREE); __libc_free(p); }
int posix_memalign(void **to, size_t a, size_t n) {
    count(MEMALIGN);
    *to = __libc_memalign(a, n);
    return *to ? 0 : ENOMEM;
}

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x) {
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!next) next = dlsym(RTLD_NEXT, "pthread_create");
    long alive = __atomic_add_fetch(&counts[ALIVE], 1, __ATOMIC_SEQ_CST);
    if (alive > counts[MOST_ALIVE]) counts[MOST_ALIVE] = alive;
    return next(t, a, f, x);
}
int pthread_join(pthread_t t, void **r) {
    static int (*next)(pthread_t, void **);
    if (!next) next = dlsym(RTLD_NEXT, "pthread_join");
    int error = next(t, r);
    __atomic_sub_fetch(&counts[ALIVE], 1, __ATOMIC_SEQ_CST);
    return error;
}
