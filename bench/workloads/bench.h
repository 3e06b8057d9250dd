/* What every micro workload shares: a clock, a small generator, marked blocks and the result line.
 *
 * A block is marked in its first and last words when it is handed out and checked before it goes back,
 * so an allocator that hands out overlapping, unaligned or trampled memory ends the run with a message.
 * Workloads link nothing but libc and libpthread: LD_PRELOAD decides which malloc they measure.
 */
#ifndef BENCH_H
#define BENCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* Ends the run: the workload found memory that is not what it wrote, or could not get any. */
_Noreturn static inline void die(const char *why) {
    fprintf(stderr, "workload: %s\n", why);
    exit(3);
}

static inline double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The one result line, read by the runner. */
static inline void report(uint64_t ops, double seconds) {
    printf("{\"ops\":%llu,\"seconds\":%.6f}\n", (unsigned long long)ops, seconds);
}

/* The index-th argument as a number, with an optional K, M or G; an absent one is an error. */
static inline uint64_t number(int argc, char **argv, int index) {
    if (index >= argc) die("a parameter is missing (see the head of the source)");
    char *end;
    uint64_t value = strtoull(argv[index], &end, 10);
    switch (*end) {
    case 'G': value <<= 10; /* fall through */
    case 'M': value <<= 10; /* fall through */
    case 'K': value <<= 10; break;
    case 0: break;
    default: die("a parameter is not a number");
    }
    return value;
}

/* xorshift64*, seeded per thread: runs are the same every time. */
typedef struct { uint64_t state; } Rng;

static inline Rng rng_of(uint64_t seed) { return (Rng){seed * 0x9E3779B97F4A7C15u + 0x1234567u}; }

static inline uint64_t next(Rng *rng) {
    uint64_t x = rng->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    rng->state = x;
    return x * 0x2545F4914F6CDD1Du;
}

/* Below `limit` (< 2^32), without a division. */
static inline uint32_t below(Rng *rng, uint32_t limit) {
    return (uint32_t)(((next(rng) >> 32) * limit) >> 32);
}

static inline size_t uniform(Rng *rng, size_t min, size_t max) {
    return min + below(rng, (uint32_t)(max - min + 1));
}

/* Log-uniform from `min` (a power of two) up to `max`: a doubling, then a place inside it. */
static inline size_t log_uniform(Rng *rng, size_t min, size_t max) {
    unsigned low = 63 - (unsigned)__builtin_clzll(min), high = 63 - (unsigned)__builtin_clzll(max);
    size_t size = (size_t)1 << (low + below(rng, high - low));
    return size + below(rng, (uint32_t)size) + 1;
}

/* Marks the ends of a block; `size` is at least 1. */
static inline void *mark(void *block, size_t size) {
    if (!block) die("out of memory");
    if (((uintptr_t)block & (size >= 16 ? 15 : 7)) != 0) die("a block is not aligned");
    if (size >= 16) {
        *(uint64_t *)block = (uint64_t)(uintptr_t)block ^ size;
        memcpy((char *)block + size - 8, &size, 8);
    } else {
        *(unsigned char *)block = (unsigned char)size;
    }
    return block;
}

static inline void check(const void *block, size_t size) {
    if (size >= 16) {
        size_t tail;
        memcpy(&tail, (const char *)block + size - 8, 8);
        if (*(const uint64_t *)block != ((uint64_t)(uintptr_t)block ^ size) || tail != size)
            die("a block was overwritten while in use");
    } else if (*(const unsigned char *)block != (unsigned char)size) {
        die("a block was overwritten while in use");
    }
}

/* A block and the size it was asked for. */
typedef struct { void *block; size_t size; } Slot;

static inline void slot_fill(Slot *slot, size_t size) {
    slot->block = mark(malloc(size), size);
    slot->size = size;
}

static inline void slot_clear(Slot *slot) {
    if (!slot->block) return;
    check(slot->block, slot->size);
    free(slot->block);
    slot->block = NULL;
}

/* Zeroed memory that is not the tested allocator's: tables of pointers, rings, histograms. */
static inline void *table(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("no memory for the workload's own table");
    return memory;
}

/* Runs `body` on `threads` threads, each with its element of `contexts`; returns the seconds. One thread is
 * the main thread itself: a program without threads, as libc sees it. */
static inline double run_threads(unsigned threads, void *(*body)(void *), void *contexts, size_t stride) {
    pthread_t *ids = table(threads * sizeof *ids);
    double start = now_s();
    if (threads == 1) {
        body(contexts);
        return now_s() - start;
    }
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, body, (char *)contexts + i * stride)) die("pthread_create");
    for (unsigned i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    return now_s() - start;
}

#endif
