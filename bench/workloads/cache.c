/* cache MODE THREADS ROUNDS WRITES SIZE
 *
 * False sharing, after Hoard's cache-scratch and cache-thrash. MODE `scratch` (passive): the main thread
 * allocates one block per thread, side by side; each thread frees its own, then ROUNDS times allocates a block,
 * writes every byte of it WRITES times and frees it. MODE `thrash` (active): the same without the gift.
 */
#include "bench.h"

typedef struct { Slot gift; uint64_t rounds, writes; size_t size; } Work;

static void *body(void *context) {
    Work *w = context;
    slot_clear(&w->gift);
    for (uint64_t round = 0; round < w->rounds; round++) {
        volatile unsigned char *block = malloc(w->size);
        if (!block) die("out of memory");
        for (uint64_t n = 0; n < w->writes; n++)
            for (size_t i = 0; i < w->size; i++) block[i] = (unsigned char)(block[i] + n);
        free((void *)block);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2) die("a parameter is missing (see the head of the source)");
    uint32_t threads = (uint32_t)number(argc, argv, 2);
    Work *works = table(threads * sizeof *works);
    for (uint32_t i = 0; i < threads; i++) {
        works[i] = (Work){{0}, number(argc, argv, 3), number(argc, argv, 4), number(argc, argv, 5)};
        if (argv[1][0] == 's') slot_fill(&works[i].gift, works[i].size);
    }
    double seconds = run_threads(threads, body, works, sizeof *works);
    report(works[0].rounds * threads, seconds);
}
