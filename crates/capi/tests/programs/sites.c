/* Three sites of known weight; one keeps a part of what it allocates, one has a single block at a time. */
#include <freehold.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALL = 100000, LARGE = 400, REUSED = 60000 };

__attribute__((noinline)) void *keeps_small(int size) { return malloc(size); }
__attribute__((noinline)) void *drops_large(int size) { return malloc(size); }
__attribute__((noinline)) void *reuses(int size) { return malloc(size); }

static void *kept[SMALL];

static void *work(void *first) {
    for (size_t i = (size_t)first; i < SMALL; i += 2) kept[i] = keeps_small(200);
    for (int i = 0; i < LARGE / 2; i++) {
        void *volatile block = drops_large(50000);
        free(block);
    }
    return 0;
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (size_t i = 0; i < 2; i++) pthread_join(threads[i], 0);
    /* Half of what was kept goes: 10 MB stay of 20 MB, and nothing of the other site's 20 MB. */
    for (int i = 0; i < SMALL; i += 2) free(kept[i]);
    /* 18 MB that no refill of a stack tells of. */
    for (int i = 0; i < REUSED; i++) {
        void *volatile block = reuses(300);
        free(block);
    }
    if (argc > 1) return freehold_profile_write(argv[1]) == 0 ? 0 : 1;
    return 0;
}
