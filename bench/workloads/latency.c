/* latency OPS LIVE REMOTE LARGEST
 *
 * Ticks of single calls: two threads, log-uniform sizes 16 B - LARGEST, LIVE blocks each, OPS replacements each.
 * REMOTE percent of the blocks are given to the other thread, which frees them. Timed (rdtscp before, rdtscp and
 * lfence after) are the calls alone and, from the same start, malloc and the first writes into the block, to its
 * first and last word: a page fault that an allocator leaves to the program is the program's time all the same. The
 * clock's own cost, the median of an empty pair, is reported and not subtracted; the second figure has it twice.
 */
#include "bench.h"
#include <x86intrin.h>

enum { SUB = 32, BUCKETS = 64 * SUB, INBOX = 4096 };

/* 32 buckets per doubling: a percentile is right to 3 %. */
typedef struct { uint64_t count[BUCKETS], total, max; } Histogram;

static void add(Histogram *h, uint64_t ticks) {
    unsigned bucket = (unsigned)ticks;
    if (ticks >= SUB) {
        unsigned shift = 63 - (unsigned)__builtin_clzll(ticks) - 5;
        bucket = (shift + 1) * SUB + (unsigned)((ticks >> shift) & (SUB - 1));
    }
    h->count[bucket]++;
    h->total++;
    if (ticks > h->max) h->max = ticks;
}

static uint64_t floor_of(unsigned bucket) {
    if (bucket < SUB) return bucket;
    return (uint64_t)(SUB + bucket % SUB) << (bucket / SUB - 1);
}

static uint64_t percentile(const Histogram *h, double share) {
    uint64_t wanted = (uint64_t)(share * (double)h->total), seen = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        if ((seen += h->count[i]) > wanted) return floor_of(i);
    return h->max;
}

static inline uint64_t ticks_start(void) {
    unsigned cpu;
    uint64_t t = __rdtscp(&cpu);
    _mm_lfence();
    return t;
}

static inline uint64_t ticks_end(void) {
    unsigned cpu;
    uint64_t t = __rdtscp(&cpu);
    _mm_lfence();
    return t;
}

/* Blocks on their way to one thread; the other puts, it takes. */
typedef struct {
    _Alignas(128) atomic_uint_fast64_t head;
    _Alignas(128) atomic_uint_fast64_t tail;
    Slot slots[INBOX];
} Inbox;

typedef struct {
    Inbox *mine, *theirs;
    Histogram *mallocs, *touched, *frees;
    uint64_t ops, seed;
    uint32_t live, remote;
    size_t largest;
} Work;

static void timed_free(Work *w, Slot *slot) {
    if (!slot->block) return;
    check(slot->block, slot->size);
    uint64_t start = ticks_start();
    free(slot->block);
    add(w->frees, ticks_end() - start);
    slot->block = NULL;
}

static void timed_malloc(Work *w, Slot *slot, size_t size) {
    uint64_t start = ticks_start();
    void *block = malloc(size);
    uint64_t called = ticks_end();
    *slot = (Slot){mark(block, size), size};
    uint64_t touched = ticks_end();
    add(w->mallocs, called - start);
    add(w->touched, touched - start);
}

static int give(Inbox *to, Slot *slot) {
    uint64_t head = atomic_load_explicit(&to->head, memory_order_relaxed);
    if (!slot->block || head - atomic_load_explicit(&to->tail, memory_order_acquire) == INBOX) return 0;
    to->slots[head % INBOX] = *slot;
    atomic_store_explicit(&to->head, head + 1, memory_order_release);
    return 1;
}

static void empty_inbox(Work *w) {
    uint64_t tail = atomic_load_explicit(&w->mine->tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&w->mine->head, memory_order_acquire);
    for (; tail != head; tail++) timed_free(w, &w->mine->slots[tail % INBOX]);
    atomic_store_explicit(&w->mine->tail, tail, memory_order_release);
}

static void *body(void *context) {
    Work *w = context;
    Slot *slots = table(w->live * sizeof *slots);
    Rng rng = rng_of(w->seed);
    for (uint64_t done = 0; done < w->ops; done++) {
        Slot *slot = &slots[below(&rng, w->live)];
        if (below(&rng, 100) >= w->remote || !give(w->theirs, slot)) timed_free(w, slot);
        timed_malloc(w, slot, log_uniform(&rng, 16, w->largest));
        if (done % 16 == 0) empty_inbox(w);
    }
    return NULL;
}

static double ticks_per_ns(void) {
    double start = now_s();
    uint64_t from = ticks_start();
    while (now_s() - start < 0.05) {}
    return (double)(ticks_start() - from) / ((now_s() - start) * 1e9);
}

static void print(const char *name, const Histogram *h, double rate) {
    printf("\"%s\":{\"calls\":%llu,\"p50\":%.1f,\"p99\":%.1f,\"p99.9\":%.1f,\"p99.99\":%.1f,\"max\":%.1f},", name,
           (unsigned long long)h->total, (double)percentile(h, 0.50) / rate, (double)percentile(h, 0.99) / rate,
           (double)percentile(h, 0.999) / rate, (double)percentile(h, 0.9999) / rate, (double)h->max / rate);
}

static void merge(Histogram *into, const Histogram *from) {
    for (unsigned i = 0; i < BUCKETS; i++) into->count[i] += from->count[i];
    into->total += from->total;
    if (from->max > into->max) into->max = from->max;
}

int main(int argc, char **argv) {
    double rate = ticks_per_ns();
    Histogram *all = table(7 * sizeof *all); /* three of each thread; the clock */
    Inbox *inboxes = table(2 * sizeof *inboxes);
    Work works[2];
    for (unsigned i = 0; i < 2; i++)
        works[i] = (Work){&inboxes[i], &inboxes[1 - i], &all[i], &all[2 + i], &all[4 + i], number(argc, argv, 1), i + 1,
                          (uint32_t)number(argc, argv, 2), (uint32_t)number(argc, argv, 3), number(argc, argv, 4)};
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t start = ticks_start();
        add(&all[6], ticks_end() - start);
    }
    double seconds = run_threads(2, body, works, sizeof *works);
    for (unsigned i = 0; i < 6; i += 2) merge(&all[i], &all[i + 1]);
    printf("{");
    print("malloc", &all[0], rate);
    print("malloc_and_touch", &all[2], rate);
    print("free", &all[4], rate);
    printf("\"clock_ns\":%.1f,\"ticks_per_ns\":%.4f,\"seconds\":%.6f}\n", (double)percentile(&all[6], 0.5) / rate, rate, seconds);
}
