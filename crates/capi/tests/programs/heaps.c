/* Heaps of one's own: limits, threads, walks, figures, the end of everything at once; and a fork in between. */
#include "check.h"
#include <errno.h>
#include <freehold.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static freehold_heap *shared;

static void *churn(void *seed) {
    unsigned random = (unsigned)(size_t)seed;
    char *blocks[200] = {0};
    for (int i = 0; i < 20000; i++) {
        char **block = &blocks[rand_r(&random) % 200];
        if (*block) CHECK((*block)[0] == (char)(size_t)seed);
        if (rand_r(&random) % 4) {
            freehold_heap_free(shared, *block);
            *block = freehold_heap_malloc(shared, 1 + rand_r(&random) % (rand_r(&random) % 50 ? 2000 : 200000));
        } else {
            *block = freehold_heap_realloc(shared, *block, 1 + rand_r(&random) % 5000);
        }
        CHECK(*block);
        **block = (char)(size_t)seed;
    }
    for (int i = 0; i < 200; i++) freehold_heap_free(shared, blocks[i]);
    return 0;
}

static void count(void *block, size_t size, void *sum) {
    CHECK(block && size);
    *(size_t *)sum += size;
}

static struct freehold_heap_stats stats_of(freehold_heap *heap) {
    struct freehold_heap_stats stats;
    freehold_heap_get_stats(heap, &stats, sizeof stats);
    return stats;
}

static void limits(void) {
    freehold_heap *heap = freehold_heap_create(8u << 20, "limited");
    CHECK(heap && stats_of(heap).limit == 8u << 20);
    errno = 0;
    CHECK(!freehold_heap_malloc(heap, 9u << 20) && errno == ENOMEM);
    CHECK(!freehold_heap_calloc(heap, (size_t)-1, 2) && errno == ENOMEM);
    CHECK(!freehold_heap_aligned_alloc(heap, 24, 8) && errno == EINVAL);
    CHECK(((size_t)freehold_heap_aligned_alloc(heap, 4096, 10) & 4095) == 0);
    int got = 0;
    while (freehold_heap_malloc(heap, 100000)) got++;
    CHECK(got > 40 && got < 84);
    CHECK(stats_of(heap).held <= 8u << 20);
    CHECK(freehold_heap_bind(heap, 0) == -1 && errno == ENOSYS);
    freehold_heap_destroy(heap);
    freehold_heap_destroy(0);
}

static void walks(void) {
    freehold_heap *heap = freehold_heap_create(0, 0);
    size_t sum = 0;
    char *some[100];
    for (int i = 0; i < 100; i++) some[i] = freehold_heap_malloc(heap, 100 * i);
    for (int i = 0; i < 50; i++) freehold_heap_free(heap, some[i]);
    freehold_heap_walk(heap, count, &sum);
    size_t expected = 0;
    for (int i = 50; i < 100; i++) expected += freehold_heap_usable_size(heap, some[i]);
    CHECK(sum == expected);
    CHECK(stats_of(heap).blocks == 50 && stats_of(heap).in_use == expected);
    /* After a walk the heap goes on. */
    char *zero = freehold_heap_calloc(heap, 1000, 10);
    for (int i = 0; i < 10000; i++) CHECK(zero[i] == 0);
    freehold_heap_destroy(heap);
}

int main(void) {
    limits();
    walks();
    shared = freehold_heap_create(0, "shared");
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) CHECK(!pthread_create(&threads[i], 0, churn, (void *)(i + 1)));
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            char *block = freehold_heap_malloc(shared, 1000);
            freehold_heap_free(shared, block);
            freehold_heap_destroy(shared);
            _exit(block ? 0 : 1);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    CHECK(stats_of(shared).blocks == 0);
    /* Many heaps at once, and as many ends. */
    for (int round = 0; round < 20; round++) {
        freehold_heap *heaps[50];
        for (int i = 0; i < 50; i++) {
            CHECK((heaps[i] = freehold_heap_create(0, "one of many")));
            for (int j = 0; j < 100; j++) CHECK(freehold_heap_malloc(heaps[i], 1000));
        }
        for (int i = 0; i < 50; i++) freehold_heap_destroy(heaps[i]);
    }
    freehold_heap_destroy(shared);
    return broken != 0;
}
