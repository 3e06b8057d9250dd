/* prodcons PAIRS OPS RING MIN MAX
 *
 * PAIRS of threads with a ring of RING places between them: one allocates OPS blocks and puts them in,
 * the other takes them out, checks and frees them. Every free is of another thread's block. A full or
 * empty ring yields the processor.
 */
#include "bench.h"

typedef struct {
    _Alignas(128) atomic_uint_fast64_t head;
    _Alignas(128) atomic_uint_fast64_t tail;
    _Alignas(128) Slot *slots;
    uint64_t mask, ops, seed;
    size_t min, max;
} Ring;

static void *produce(void *context) {
    Ring *r = context;
    Rng rng = rng_of(r->seed);
    for (uint64_t i = 0; i < r->ops; i++) {
        Slot slot;
        slot_fill(&slot, uniform(&rng, r->min, r->max));
        while (i - atomic_load_explicit(&r->tail, memory_order_acquire) > r->mask) sched_yield();
        r->slots[i & r->mask] = slot;
        atomic_store_explicit(&r->head, i + 1, memory_order_release);
    }
    return NULL;
}

static void *consume(void *context) {
    Ring *r = context;
    for (uint64_t i = 0; i < r->ops; i++) {
        while (atomic_load_explicit(&r->head, memory_order_acquire) == i) sched_yield();
        Slot slot = r->slots[i & r->mask];
        atomic_store_explicit(&r->tail, i + 1, memory_order_release);
        slot_clear(&slot);
    }
    return NULL;
}

typedef struct { void *(*role)(void *); Ring *ring; } Work;

static void *body(void *context) {
    Work *w = context;
    return w->role(w->ring);
}

int main(int argc, char **argv) {
    uint32_t pairs = (uint32_t)number(argc, argv, 1);
    uint64_t ops = number(argc, argv, 2), places = number(argc, argv, 3);
    if (places & (places - 1)) die("RING is not a power of two");
    Ring *rings = table(pairs * sizeof *rings);
    Work *works = table(2 * pairs * sizeof *works);
    for (uint32_t i = 0; i < pairs; i++) {
        Ring *r = &rings[i];
        r->slots = table(places * sizeof *r->slots);
        r->mask = places - 1, r->ops = ops, r->seed = i + 1;
        r->min = number(argc, argv, 4), r->max = number(argc, argv, 5);
        works[2 * i] = (Work){produce, r};
        works[2 * i + 1] = (Work){consume, r};
    }
    double seconds = run_threads(2 * pairs, body, works, sizeof *works);
    report(ops * pairs, seconds);
}
