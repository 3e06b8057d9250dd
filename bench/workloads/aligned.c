/* aligned LIVE OPS
 *
 * Aligned requests: alignments 32 B - 4 KiB (the small ones more often), sizes 1-4 times the alignment up to 16 KiB,
 * by posix_memalign and aligned_alloc in turn; LIVE held, a random one replaced OPS times.
 */
#include "bench.h"

static void *ask(size_t alignment, size_t size, uint64_t turn) {
    void *block = NULL;
    if (turn & 1) return aligned_alloc(alignment, size);
    return posix_memalign(&block, alignment, size) ? NULL : block;
}

int main(int argc, char **argv) {
    uint32_t live = (uint32_t)number(argc, argv, 1);
    uint64_t ops = number(argc, argv, 2);
    Slot *slots = table(live * sizeof *slots);
    Rng rng = rng_of(1);
    double start = now_s();
    for (uint64_t done = 0; done < ops; done++) {
        Slot *slot = &slots[below(&rng, live)];
        slot_clear(slot);
        unsigned order = (unsigned)__builtin_ctzll(next(&rng) | 0x80); /* halves with each step */
        size_t alignment = (size_t)32 << order;
        size_t size = alignment * uniform(&rng, 1, 4);
        void *block = ask(alignment, size, done);
        if ((uintptr_t)block & (alignment - 1)) die("a block is not aligned");
        *slot = (Slot){mark(block, size), size};
    }
    for (uint32_t i = 0; i < live; i++) slot_clear(&slots[i]);
    report(ops, now_s() - start);
}
