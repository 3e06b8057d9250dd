/* mstress THREADS ROUNDS ITEMS
 *
 * After mimalloc's test-stress: in each of ROUNDS rounds THREADS fresh threads build random structures of ITEMS
 * blocks (mostly small, some to 64 KiB), keep some beyond their own life and exchange others through
 * shared places, so that blocks are freed by whoever finds them.
 */
#include "bench.h"

enum { PLACES = 1024 };
static _Atomic(uint64_t *) places[PLACES];

typedef struct { uint32_t items; uint64_t seed; } Work;

static size_t size_of(Rng *rng) {
    uint32_t kind = below(rng, 1000);
    if (kind < 900) return 8 * uniform(rng, 2, 32);
    if (kind < 999) return uniform(rng, 256, 4096);
    return uniform(rng, 4096, 65536);
}

/* The first word holds the number of words, the last its complement. */
static uint64_t *make(Rng *rng) {
    size_t words = size_of(rng) / 8;
    uint64_t *block = malloc(words * 8);
    if (!block) die("out of memory");
    block[0] = words;
    block[words - 1] = ~(uint64_t)words;
    return block;
}

static void drop(uint64_t *block) {
    if (!block) return;
    if (block[block[0] - 1] != ~block[0]) die("a block was overwritten while in use");
    free(block);
}

static void *body(void *context) {
    Work *w = context;
    Rng rng = rng_of(w->seed);
    uint64_t **mine = calloc(w->items, sizeof *mine);
    if (!mine) die("out of memory");
    uint32_t held = 0;
    for (uint32_t i = 0; i < w->items; i++) {
        mine[held++] = make(&rng);
        if (below(&rng, 100) < 50) { /* free one of mine */
            uint32_t victim = below(&rng, held);
            drop(mine[victim]);
            mine[victim] = mine[--held];
        }
        if (held && below(&rng, 100) < 25) /* exchange one with whoever else is there */
            mine[held - 1] = atomic_exchange(&places[below(&rng, PLACES)], mine[held - 1]);
        if (held && !mine[held - 1]) held--;
    }
    while (held) drop(mine[--held]);
    free(mine);
    return NULL;
}

int main(int argc, char **argv) {
    uint32_t threads = (uint32_t)number(argc, argv, 1), items = (uint32_t)number(argc, argv, 3);
    uint64_t rounds = number(argc, argv, 2);
    Work *works = table(threads * sizeof *works);
    double start = now_s();
    for (uint64_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < threads; i++) works[i] = (Work){items, round * threads + i + 1};
        run_threads(threads, body, works, sizeof *works);
        if (round % 8 == 7) /* now and then everything that is left goes */
            for (uint32_t i = 0; i < PLACES; i++) drop(atomic_exchange(&places[i], NULL));
    }
    for (uint32_t i = 0; i < PLACES; i++) drop(atomic_exchange(&places[i], NULL));
    report((uint64_t)items * rounds * threads, now_s() - start);
}
