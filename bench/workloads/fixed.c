/* fixed SIZE LIVE OPS ORDER THREADS
 *
 * One size. Each thread holds LIVE blocks and replaces one OPS times: the oldest (ORDER fifo), the
 * newest of a stack that breathes by LIVE (lifo), or any (random). Or it takes LIVE blocks and frees all of them, again and
 * again: in random order (batch), or as a binary tree frees itself that was made from its root, children before their
 * parent (tree).
 */
#include "bench.h"

typedef struct { size_t size; uint32_t live; uint64_t ops; char order; uint64_t seed; } Work;

static void breathe(const Work *w, Slot *slots) {
    for (uint64_t done = 0; done < w->ops; done += w->live) {
        for (uint32_t i = 0; i < w->live; i++) slot_fill(&slots[i], w->size);
        for (uint32_t i = w->live; i-- > 0;) slot_clear(&slots[i]);
    }
}

static void shuffle(const Work *w, uint32_t *order) {
    Rng rng = rng_of(w->seed);
    for (uint32_t i = 0; i < w->live; i++) {
        uint32_t j = below(&rng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

static uint32_t *children_first(uint32_t *order, uint32_t root, uint32_t nodes) {
    if (nodes == 0) return order;
    uint32_t left = (nodes - 1) / 2;
    order = children_first(order, root + 1, left);
    order = children_first(order, root + 1 + left, nodes - 1 - left);
    *order = root;
    return order + 1;
}

static void batches(const Work *w, Slot *slots) {
    uint32_t *order = table(w->live * sizeof *order);
    if (w->order == 't') children_first(order, 0, w->live);
    else shuffle(w, order);
    for (uint64_t done = 0; done < w->ops; done += w->live) {
        for (uint32_t i = 0; i < w->live; i++) slot_fill(&slots[i], w->size);
        for (uint32_t i = 0; i < w->live; i++) slot_clear(&slots[order[i]]);
    }
}

static void replace(const Work *w, Slot *slots) {
    Rng rng = rng_of(w->seed);
    uint32_t oldest = 0;
    for (uint64_t done = 0; done < w->ops; done++) {
        uint32_t i = w->order == 'r' ? below(&rng, w->live) : oldest++;
        if (oldest == w->live) oldest = 0;
        slot_clear(&slots[i]);
        slot_fill(&slots[i], w->size);
    }
    for (uint32_t i = 0; i < w->live; i++) slot_clear(&slots[i]);
}

static void *body(void *context) {
    const Work *w = context;
    Slot *slots = table(w->live * sizeof *slots);
    switch (w->order) {
    case 'l': breathe(w, slots); break;
    case 'b':
    case 't': batches(w, slots); break;
    default: replace(w, slots);
    }
    return NULL;
}

int main(int argc, char **argv) {
    uint32_t threads = (uint32_t)number(argc, argv, 5);
    Work *works = table(threads * sizeof *works);
    for (uint32_t i = 0; i < threads; i++)
        works[i] = (Work){number(argc, argv, 1), (uint32_t)number(argc, argv, 2), number(argc, argv, 3), argv[4][0], i + 1};
    double seconds = run_threads(threads, body, works, sizeof *works);
    report(works[0].ops * threads, seconds);
}
