/* phases BLOCKS PHASES THREADS
 *
 * A program whose work changes: in each phase a thread takes BLOCKS blocks of 16 to 32 bytes, and frees them in random
 * order; in the next phase they are twice as long, to 512 to 1,024 bytes, and then short again.
 */
#include "bench.h"

enum { SIZES = 6 };

typedef struct { Slot *slots; uint32_t blocks, phases; uint64_t seed; } Work;

static void *body(void *context) {
    Work *w = context;
    Rng rng = rng_of(w->seed);
    for (uint32_t phase = 0; phase < w->phases; phase++) {
        size_t least = (size_t)16 << (phase % SIZES);
        for (uint32_t i = 0; i < w->blocks; i++) slot_fill(&w->slots[i], uniform(&rng, least, 2 * least));
        for (uint32_t left = w->blocks; left > 0; left--) {
            Slot *any = &w->slots[below(&rng, left)];
            slot_clear(any);
            *any = w->slots[left - 1];
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    uint32_t blocks = (uint32_t)number(argc, argv, 1), phases = (uint32_t)number(argc, argv, 2);
    unsigned threads = (unsigned)number(argc, argv, 3);
    Work *works = table(threads * sizeof *works);
    for (unsigned i = 0; i < threads; i++)
        works[i] = (Work){table(blocks * sizeof(Slot)), blocks, phases, i + 1};
    double seconds = run_threads(threads, body, works, sizeof *works);
    report((uint64_t)blocks * phases * threads, seconds);
}
