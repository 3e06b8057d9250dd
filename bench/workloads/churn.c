/* churn THREADS GENERATIONS BLOCKS
 *
 * Threads that come and go: GENERATIONS times, THREADS threads start, allocate BLOCKS blocks of the real
 * histogram, free every second one and leave the rest to the generation after them, which frees it.
 */
#include "sizes.h"

typedef struct { Slot *mine, *before; uint32_t blocks; uint64_t seed; } Work;

static void *body(void *context) {
    Work *w = context;
    Rng rng = rng_of(w->seed);
    for (uint32_t i = 0; i < w->blocks; i++) slot_fill(&w->mine[i], histogram_size(&rng));
    for (uint32_t i = 0; i < w->blocks; i += 2) slot_clear(&w->mine[i]);
    for (uint32_t i = 1; i < w->blocks; i += 2) slot_clear(&w->before[i]);
    return NULL;
}

int main(int argc, char **argv) {
    sizes_init();
    uint32_t threads = (uint32_t)number(argc, argv, 1), blocks = (uint32_t)number(argc, argv, 3);
    uint64_t generations = number(argc, argv, 2);
    Work *works = table(threads * sizeof *works);
    for (uint32_t i = 0; i < threads; i++)
        works[i] = (Work){table(blocks * sizeof(Slot)), table(blocks * sizeof(Slot)), blocks, 0};
    double start = now_s();
    for (uint64_t generation = 0; generation < generations; generation++) {
        for (uint32_t i = 0; i < threads; i++) {
            Slot *mine = works[i].mine;
            works[i] = (Work){works[i].before, mine, blocks, generation * threads + i + 1};
        }
        run_threads(threads, body, works, sizeof *works);
    }
    double seconds = now_s() - start;
    report((uint64_t)blocks * generations * threads, seconds);
}
