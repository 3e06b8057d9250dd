/* many THREADS LIVE OPS
 *
 * A server with many threads: each holds LIVE blocks, log-uniform 16 B - 8 KiB, written whole, and replaces a random one
 * OPS times; every fifth goes to a random other thread to be freed. All hold theirs before the first replaces one,
 * and until the last has.
 */
#include "bench.h"

enum { POST = 1024 };

typedef struct { uint32_t live; uint64_t ops, seed; } Work;

static pthread_barrier_t all;
/* Blocks on their way to whoever looks there next. */
static Slot post[POST];
static pthread_mutex_t locks[POST];

static void fill(Slot *slot, Rng *rng) {
    slot_fill(slot, log_uniform(rng, 16, 8192));
    if (slot->size > 16) memset((char *)slot->block + 8, 1, slot->size - 16);
}

static void exchange(Slot *slot, Rng *rng) {
    uint32_t at = below(rng, POST);
    pthread_mutex_lock(&locks[at]);
    Slot other = post[at];
    post[at] = *slot;
    pthread_mutex_unlock(&locks[at]);
    *slot = other;
}

static void *body(void *context) {
    const Work *w = context;
    Rng rng = rng_of(w->seed);
    Slot *slots = table(w->live * sizeof *slots);
    for (uint32_t i = 0; i < w->live; i++) fill(&slots[i], &rng);
    pthread_barrier_wait(&all);
    for (uint64_t done = 0; done < w->ops; done++) {
        Slot *slot = &slots[below(&rng, w->live)];
        if (done % 5 == 0) exchange(slot, &rng);
        slot_clear(slot);
        fill(slot, &rng);
    }
    pthread_barrier_wait(&all);
    for (uint32_t i = 0; i < w->live; i++) slot_clear(&slots[i]);
    return NULL;
}

int main(int argc, char **argv) {
    uint32_t threads = (uint32_t)number(argc, argv, 1);
    Work *works = table(threads * sizeof *works);
    for (uint32_t i = 0; i < threads; i++)
        works[i] = (Work){(uint32_t)number(argc, argv, 2), number(argc, argv, 3), i + 1};
    for (uint32_t i = 0; i < POST; i++) pthread_mutex_init(&locks[i], NULL);
    pthread_barrier_init(&all, NULL, threads);
    double seconds = run_threads(threads, body, works, sizeof *works);
    report((uint64_t)works[0].ops * threads, seconds);
}
