/* mixed KIND LIVE OPS THREADS
 *
 * Sizes of KIND `log` (log-uniform 16 B - 8 KiB), `medium` (log-uniform 32 - 256 KiB) or `real` (the histogram of
 * sizes.h). Each thread holds LIVE blocks and replaces a random one OPS times.
 */
#include "sizes.h"

typedef struct { char kind; uint32_t live; uint64_t ops; uint64_t seed; } Work;

static size_t size_of(const Work *w, Rng *rng) {
    switch (w->kind) {
    case 'l': return log_uniform(rng, 16, 8192);
    case 'm': return log_uniform(rng, 32 << 10, 256 << 10);
    default: return histogram_size(rng);
    }
}

static void *body(void *context) {
    const Work *w = context;
    Rng rng = rng_of(w->seed);
    Slot *slots = table(w->live * sizeof *slots);
    for (uint64_t done = 0; done < w->ops; done++) {
        Slot *slot = &slots[below(&rng, w->live)];
        slot_clear(slot);
        slot_fill(slot, size_of(w, &rng));
    }
    for (uint32_t i = 0; i < w->live; i++) slot_clear(&slots[i]);
    return NULL;
}

int main(int argc, char **argv) {
    sizes_init();
    uint32_t threads = (uint32_t)number(argc, argv, 4);
    Work *works = table(threads * sizeof *works);
    for (uint32_t i = 0; i < threads; i++)
        works[i] = (Work){argv[1][0], (uint32_t)number(argc, argv, 2), number(argc, argv, 3), i + 1};
    double seconds = run_threads(threads, body, works, sizeof *works);
    report(works[0].ops * threads, seconds);
}
