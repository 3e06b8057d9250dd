/* zeroed MIN MAX LIVE OPS
 *
 * calloc-heavy: LIVE blocks, log-uniform MIN to MAX, a random one replaced OPS times. Both ends and the middle
 * must be zero, then all three are written, so that memory used before shows.
 */
#include "bench.h"

int main(int argc, char **argv) {
    size_t min = number(argc, argv, 1), max = number(argc, argv, 2);
    uint32_t live = (uint32_t)number(argc, argv, 3);
    uint64_t ops = number(argc, argv, 4);
    Slot *slots = table(live * sizeof *slots);
    Rng rng = rng_of(1);
    double start = now_s();
    for (uint64_t done = 0; done < ops; done++) {
        Slot *slot = &slots[below(&rng, live)];
        slot_clear(slot);
        size_t size = log_uniform(&rng, min, max);
        unsigned char *block = calloc(size / 8 + 1, 8);
        if (!block) die("out of memory");
        if (block[0] | block[size / 2] | block[size - 1]) die("calloc's memory is not zero");
        block[size / 2] = 0xA5;
        *slot = (Slot){mark(block, size), size};
    }
    for (uint32_t i = 0; i < live; i++) slot_clear(&slots[i]);
    report(ops, now_s() - start);
}
