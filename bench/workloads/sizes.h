/* Request sizes of a real program: what cc1plus asked for while it compiled programs/compile_me.cpp
 * (counted with histogram.c: bench/README.md has the command). Weights are per
 * thousand requests; a request is uniform between the previous bound (exclusive) and its own.
 */
#ifndef SIZES_H
#define SIZES_H
#include "bench.h"

static const struct { uint16_t weight; uint32_t bound; } HISTOGRAM[] = {
    {16, 8}, {182, 16}, {64, 24}, {37, 32}, {49, 40}, {108, 48}, {54, 56}, {33, 64}, {34, 80}, {22, 96},
    {190, 112}, {8, 128}, {22, 160}, {14, 192}, {46, 224}, {24, 256}, {25, 384}, {10, 512}, {7, 768},
    {11, 1024}, {8, 2048}, {22, 4096}, {13, 8192}, {1, 16384},
};

/* A thousand draws laid out once: one generator step and one look-up per size. */
static uint8_t draw[1000];

static inline void sizes_init(void) {
    unsigned at = 0;
    for (unsigned i = 0; i < sizeof HISTOGRAM / sizeof *HISTOGRAM; i++)
        for (unsigned n = 0; n < HISTOGRAM[i].weight && at < 1000; n++) draw[at++] = (uint8_t)i;
    if (at != 1000) die("the weights of the histogram do not add up");
}

static inline size_t histogram_size(Rng *rng) {
    unsigned i = draw[below(rng, 1000)];
    size_t from = i ? HISTOGRAM[i - 1].bound + 1 : 1;
    return uniform(rng, from, HISTOGRAM[i].bound);
}
#endif
