/* hold BLOCKS ROUNDS KEEP
 *
 * Leak and hold: ROUNDS times, grow by BLOCKS blocks (16-1024 B), then free all but KEEP percent of them at
 * random; the kept ones stay until the end, so that the heap grows through its own holes.
 */
#include "bench.h"

int main(int argc, char **argv) {
    uint32_t blocks = (uint32_t)number(argc, argv, 1), rounds = (uint32_t)number(argc, argv, 2);
    uint32_t keep = (uint32_t)number(argc, argv, 3);
    Slot *slots = table((size_t)blocks * rounds * sizeof *slots);
    Rng rng = rng_of(1);
    double start = now_s();
    for (uint32_t round = 0; round < rounds; round++) {
        Slot *mine = slots + (size_t)round * blocks;
        for (uint32_t i = 0; i < blocks; i++) slot_fill(&mine[i], uniform(&rng, 16, 1024));
        for (uint32_t i = 0; i < blocks; i++)
            if (below(&rng, 100) >= keep) slot_clear(&mine[i]);
    }
    for (size_t i = 0; i < (size_t)blocks * rounds; i++) slot_clear(&slots[i]);
    report((uint64_t)blocks * rounds, now_s() - start);
}
