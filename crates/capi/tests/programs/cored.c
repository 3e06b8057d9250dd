/* Fills blocks of every kind with what their number says, after a storm of frees, purges and reallocs; tells where they
 * are, what is resident and how many mappings there are; and waits for its core to be taken.
 * With "sparse": one small block in sixteen stays, so that most pages of most banks went back. */
#include "memory.h"
#include <freehold.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { SMALL = 40000, LARGE = 40, SPARSE = 20000, MAX = SMALL + 4 * LARGE + 1000 };

static struct {
    void *block;
    size_t size;
} kept[MAX];
static size_t count;

/* Writes all of a block: word i is its number in the high half and i in the low one. */
static void keep(void *block, size_t size) {
    if (!block) abort();
    uint64_t number = count;
    for (uint64_t i = 0; i < size / 8; i++) ((uint64_t *)block)[i] = number << 32 | i;
    kept[count].block = block;
    kept[count++].size = size;
}

static void smalls(size_t blocks, size_t size, size_t every) {
    void **all = malloc(blocks * sizeof *all);
    for (size_t i = 0; i < blocks; i++) memset(all[i] = malloc(size), 1, size);
    for (size_t i = 0; i < blocks; i++)
        if (i % every) free(all[i]);
    malloc_trim(0);
    for (size_t i = 0; i < blocks; i += every) keep(all[i], size);
    free(all);
}

static void larges(void) {
    void *gone[LARGE];
    for (size_t i = 0; i < LARGE; i++) {
        size_t size = 40000 + i * i * 700;
        memset(gone[i] = malloc(size), 1, size);
        /* Three of four stay. */
        for (int i = 0; i < 3; i++) keep(malloc(size), size);
    }
    for (size_t i = 0; i < LARGE; i++) free(gone[i]);
    malloc_trim(0);
    /* What went back is taken again, and grows by moving its pages. */
    for (size_t i = 0; i < LARGE; i++) {
        char *block = malloc(100000);
        memset(block, 1, 100000);
        keep(realloc(block, 300000), 300000);
    }
}

static void aligned(void) {
    for (size_t align = 16; align <= 8 << 20; align *= 2) keep(aligned_alloc(align, 5000), 5000);
    keep(aligned_alloc(64 << 20, 3 << 20), 3 << 20);
}

static void *of_a_thread(void *unused) {
    (void)unused;
    for (size_t i = 1; i < 400; i++) keep(malloc(i * 50), i * 50);
    return 0;
}

static void own_heap(void) {
    freehold_heap *heap = freehold_heap_create(0, "cored");
    void *gone = freehold_heap_malloc(heap, 50 << 20);
    memset(gone, 1, 50 << 20);
    for (size_t i = 1; i < 400; i++) keep(freehold_heap_malloc(heap, i * 100), i * 100);
    keep(freehold_heap_malloc(heap, 5 << 20), 5 << 20);
    freehold_heap_free(heap, gone);
    malloc_trim(0);
}

/* A peak that is over: at the top, and as a hole below what stays. */
static void peak(void) {
    size_t size = 200 << 20;
    void *hole = malloc(size), *stays = malloc(6 << 20), *top = malloc(size);
    memset(hole, 1, size);
    memset(top, 1, size);
    keep(stays, 6 << 20);
    free(hole);
    free(top);
    malloc_trim(0);
}

int main(int argc, char **argv) {
    /* What started the tests may ignore it: a shell does, for what runs in its background. Before anything is said: the
     * signal comes as soon as the last line is read. */
    signal(SIGQUIT, SIG_DFL);
    struct rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
    if (argc > 1 && !strcmp(argv[1], "sparse")) {
        smalls(SPARSE, 8192, 16);
    } else {
        peak();
        smalls(SMALL, 720, 2);
        larges();
        aligned();
        pthread_t thread;
        pthread_attr_t small_stack;
        pthread_attr_init(&small_stack);
        pthread_attr_setstacksize(&small_stack, 256 << 10);
        pthread_create(&thread, &small_stack, of_a_thread, 0);
        pthread_join(thread, 0);
        own_heap();
    }
    malloc_trim(0);
    for (size_t i = 0; i < count; i++) printf("%zu %zx %zu\n", i, (size_t)kept[i].block, kept[i].size);
    printf("resident %ld mappings %d\n", resident_kib(), mappings());
    fflush(stdout);
    for (;;) pause();
}
