/* Ten thousand threads, five at a time, that free each other's blocks: nothing piles up. */
#include "check.h"
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *live(void *inherited) {
    void *blocks[100];
    free(inherited);
    for (int i = 0; i < 100; i++) memset(blocks[i] = malloc(i * 37), 1, i * 37);
    for (int i = 0; i < 99; i++) free(blocks[i]);
    return blocks[99];
}

int main(void) {
    void *left[5] = {0};
    for (int round = 0; round < 2000; round++) {
        pthread_t threads[5];
        for (int i = 0; i < 5; i++) CHECK(!pthread_create(&threads[i], 0, live, left[i]));
        for (int i = 0; i < 5; i++) pthread_join(threads[i], &left[i]);
    }
    struct mallinfo2 info = mallinfo2();
    CHECK(info.arena + info.hblkhd < 16u << 20);
    return broken != 0;
}
