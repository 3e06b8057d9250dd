/* A malloc that never gives memory back, and is broken in the way that BREAK names. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SOUND, OVERLAP, CRASH, HANG, CODE, MISALIGN, DIRTY_CALLOC, FORGETFUL_REALLOC };

static size_t next;
static char *all;
static long calls;

static void *take(size_t align, size_t n) {
    if (!all)
        all = mmap(0, 1ul << 32, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (align < 16) align = 16;
    size_t begin = (__atomic_fetch_add(&next, n + 2 * align + 16, __ATOMIC_SEQ_CST) + 16 + align - 1) & -align;
    if (BREAK == MISALIGN) begin += 8;
    ((size_t *)(all + begin))[-1] = n;
    /* Not before the replay: the loader allocates too. */
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) == 500) {
        if (BREAK == CRASH) { write(2, "heap is on fire\n", 16); *(volatile int *)8 = 1; }
        if (BREAK == HANG) for (;;) pause();
        if (BREAK == CODE) _exit(42);
    }
    if (BREAK == OVERLAP && calls > 500) return all + 64;
    return all + begin;
}

void *malloc(size_t n) { return take(16, n); }
void free(void *p) {}
void *calloc(size_t m, size_t n) {
    void *p = take(16, m * n);
    memset(p, BREAK == DIRTY_CALLOC, m * n);
    return p;
}
void *realloc(void *p, size_t n) {
    void *q = take(16, n);
    size_t old = p ? ((size_t *)p)[-1] : 0;
    if (p && BREAK != FORGETFUL_REALLOC) memcpy(q, p, old < n ? old : n);
    return q;
}
#ifndef NO_MEMALIGN
int posix_memalign(void **to, size_t a, size_t n) { *to = take(a, n); return 0; }
#endif
