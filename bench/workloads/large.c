/* large MIN MAX LIVE OPS KIND
 *
 * Large blocks, log-uniform from MIN to MAX: LIVE are held, a random one is replaced OPS times. KIND
 * `touch` writes every page of every block, `calloc` asks for zeroed memory and reads every page, `edge` marks
 * the ends only, `zeros` those of zeroed memory.
 */
#include "bench.h"

enum { PAGE = 4096 };

static void touch(char *block, size_t size) {
    for (size_t at = 0; at < size; at += PAGE) block[at] = 1;
}

static void check_zero(const char *block, size_t size) {
    for (size_t at = 0; at < size; at += PAGE)
        if (block[at]) die("calloc's memory is not zero");
}

static void fill(Slot *slot, size_t size, char kind) {
    slot->block = kind == 'c' || kind == 'z' ? calloc(1, size) : malloc(size);
    slot->size = size;
    if (!slot->block) die("out of memory");
    if (kind == 'c') check_zero(slot->block, size);
    if (kind == 't') touch(slot->block, size);
    mark(slot->block, size);
}

int main(int argc, char **argv) {
    size_t min = number(argc, argv, 1), max = number(argc, argv, 2);
    uint32_t live = (uint32_t)number(argc, argv, 3);
    uint64_t ops = number(argc, argv, 4);
    if (argc < 6) die("a parameter is missing (see the head of the source)");
    Slot *slots = table(live * sizeof *slots);
    Rng rng = rng_of(1);
    double start = now_s();
    for (uint64_t done = 0; done < ops; done++) {
        Slot *slot = &slots[below(&rng, live)];
        slot_clear(slot);
        fill(slot, log_uniform(&rng, min, max), argv[5][0]);
    }
    for (uint32_t i = 0; i < live; i++) slot_clear(&slots[i]);
    report(ops, now_s() - start);
}
