/* returns PATTERN BYTES IDLE_MS
 *
 * What a program's memory does after a storm of frees. BYTES of blocks of 16-1024 B are allocated and written whole;
 * then PATTERN is freed: `random` nine tenths of them at random, `sparse` all but one block per 64 KiB of addresses,
 * `all` of them. Then IDLE_MS without any call; then the heap is filled to BYTES again.
 * Resident memory is smaps_rollup's Rss (pages given back lazily count until the kernel takes them), less this
 * program's own table. `base` is the resident set before the first block.
 */
#include "bench.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

static char *const *blocks_base;

typedef struct { char **block; uint16_t *size; size_t count, resident; uint64_t live; } Heap;

/* Resident bytes of this process, read without allocating. */
static uint64_t rss(const Heap *h) {
    char text[4096];
    int file = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (length <= 0) die("cannot read /proc/self/smaps_rollup");
    close(file);
    text[length] = 0;
    const char *line = strstr(text, "\nRss:");
    if (!line) die("smaps_rollup has no Rss");
    return strtoull(line + 5, NULL, 10) * 1024 - h->resident;
}

static struct rusage usage(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u;
}

static double cpu_s(void) {
    struct rusage u = usage();
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void fill_to(Heap *h, Rng *rng, uint64_t bytes) {
    for (size_t i = 0; h->live < bytes; i++) {
        if (i < h->count && h->block[i]) continue;
        size_t size = uniform(rng, 16, 1024);
        char *block = malloc(size);
        if (!block) die("out of memory");
        memset(block, (int)(size & 0xFF), size);
        h->block[i] = block;
        h->size[i] = (uint16_t)size;
        h->live += size;
        if (i >= h->count) h->count = i + 1;
    }
}

static void drop(Heap *h, size_t i) {
    char *block = h->block[i];
    size_t size = h->size[i];
    if (block[0] != (char)size || block[size - 1] != (char)size) die("a block was overwritten while in use");
    free(block);
    h->block[i] = NULL;
    h->live -= size;
}

static int by_address(const void *a, const void *b) {
    uintptr_t left = (uintptr_t)blocks_base[*(const uint32_t *)a], right = (uintptr_t)blocks_base[*(const uint32_t *)b];
    return (left > right) - (left < right);
}

/* Heap sort of places by address: qsort may call malloc, which this program must not do here. */
static void sift(uint32_t *order, size_t at, size_t count) {
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && by_address(&order[child], &order[child + 1]) < 0) child++;
        if (by_address(&order[at], &order[child]) >= 0) return;
        uint32_t swap = order[at];
        order[at] = order[child];
        order[child] = swap;
    }
}

static void sort(uint32_t *order, size_t count) {
    for (size_t at = count / 2; at-- > 0;) sift(order, at, count);
    for (size_t end = count; end-- > 1;) {
        uint32_t swap = order[0];
        order[0] = order[end];
        order[end] = swap;
        sift(order, 0, end);
    }
}

static void free_sparse(Heap *h) {
    size_t bytes = h->count * sizeof(uint32_t);
    uint32_t *order = table(bytes);
    for (size_t i = 0; i < h->count; i++) order[i] = (uint32_t)i;
    blocks_base = h->block;
    sort(order, h->count);
    uintptr_t window = 0;
    for (size_t i = 0; i < h->count; i++) {
        uintptr_t here = (uintptr_t)h->block[order[i]] >> 16;
        if (here != window) window = here; else drop(h, order[i]);
    }
    munmap(order, bytes);
}

static void free_random(Heap *h, Rng *rng) {
    for (size_t i = 0; i < h->count; i++)
        if (below(rng, 10)) drop(h, i);
}

static uint64_t touched(size_t bytes) { return (bytes + 4095) & ~(uint64_t)4095; }

int main(int argc, char **argv) {
    if (argc < 2) die("a parameter is missing (see the head of the source)");
    uint64_t bytes = number(argc, argv, 2), idle_ms = number(argc, argv, 3);
    size_t most = bytes / 256;
    Heap heap = {table(most * sizeof(char *)), table(most * sizeof(uint16_t)), 0, 0, 0};
    Rng rng = rng_of(1);
    free(malloc(1));
    uint64_t base = rss(&heap);
    fill_to(&heap, &rng, bytes);
    heap.resident = touched(heap.count * sizeof(char *)) + touched(heap.count * sizeof(uint16_t));
    uint64_t full = rss(&heap);
    switch (argv[1][0]) {
    case 'r': free_random(&heap, &rng); break;
    case 's': free_sparse(&heap); break;
    case 'a': for (size_t i = 0; i < heap.count; i++) drop(&heap, i); break;
    default: die("PATTERN is random, sparse or all");
    }
    uint64_t live = heap.live, after = rss(&heap);
    double idle_cpu = cpu_s();
    struct timespec idle = {(time_t)(idle_ms / 1000), (long)(idle_ms % 1000) * 1000000};
    nanosleep(&idle, NULL);
    idle_cpu = cpu_s() - idle_cpu;
    uint64_t idle_rss = rss(&heap);
    long faults = usage().ru_minflt;
    double start = now_s();
    fill_to(&heap, &rng, bytes);
    double refill = now_s() - start;
    printf("{\"live\":%llu,\"base_rss\":%llu,\"full_rss\":%llu,\"freed_rss\":%llu,\"idle_rss\":%llu,\"idle_cpu_s\":%.6f,"
           "\"refill_faults\":%ld,\"refill_s\":%.6f}\n",
           (unsigned long long)live, (unsigned long long)base, (unsigned long long)full, (unsigned long long)after,
           (unsigned long long)idle_rss, idle_cpu, usage().ru_minflt - faults, refill);
}
