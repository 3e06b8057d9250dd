/* larson THREADS LIVE OPS ROUNDS MIN MAX
 *
 * After Larson and Krishnan (1998): a server whose threads die and leave their live blocks to a
 * successor. THREADS live sets of LIVE blocks; in each of ROUNDS rounds every set is given to a fresh
 * thread, which replaces a random block OPS times (so most frees are of a dead thread's blocks).
 */
#include "bench.h"

typedef struct { Slot *slots; uint32_t live; uint64_t ops; size_t min, max; uint64_t seed; } Work;

static void *body(void *context) {
    Work *w = context;
    Rng rng = rng_of(w->seed++);
    for (uint64_t done = 0; done < w->ops; done++) {
        Slot *slot = &w->slots[below(&rng, w->live)];
        slot_clear(slot);
        slot_fill(slot, uniform(&rng, w->min, w->max));
    }
    return NULL;
}

int main(int argc, char **argv) {
    uint32_t threads = (uint32_t)number(argc, argv, 1), live = (uint32_t)number(argc, argv, 2);
    uint64_t ops = number(argc, argv, 3), rounds = number(argc, argv, 4);
    Work *works = table(threads * sizeof *works);
    for (uint32_t i = 0; i < threads; i++)
        works[i] = (Work){table(live * sizeof(Slot)), live, ops, number(argc, argv, 5), number(argc, argv, 6), 1000 * i + 1};
    double start = now_s();
    for (uint64_t round = 0; round < rounds; round++) {
        run_threads(threads, body, works, sizeof *works);
        Slot *first = works[0].slots; /* every set moves on to the next thread's place */
        for (uint32_t i = 0; i + 1 < threads; i++) works[i].slots = works[i + 1].slots;
        works[threads - 1].slots = first;
    }
    double seconds = now_s() - start;
    for (uint32_t i = 0; i < threads; i++)
        for (uint32_t j = 0; j < live; j++) slot_clear(&works[i].slots[j]);
    report(ops * rounds * threads, seconds);
}
