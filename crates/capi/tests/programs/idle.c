/* A program frees most of its memory and then rests: the pages go back without another call. */
#include "check.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 200000, SIZE = 256 };

static long rest_until_below(long kib) {
    for (int tenth = 0; tenth < 600 && resident_kib() > kib; tenth++) usleep(100000);
    return resident_kib();
}

static char *blocks[BLOCKS];

int main(void) {
    memset(blocks, 0, sizeof blocks);
    for (int i = 0; i < BLOCKS; i++) memset(blocks[i] = malloc(SIZE), 1, SIZE);
    long full = resident_kib();
    /* One block in 256 stays: one in every slab of 64 KiB. */
    for (int i = 0; i < BLOCKS; i++)
        if (i % 256) free(blocks[i]);
    long sparse = rest_until_below(full / 4);
    CHECK(sparse <= full / 4);
    /* What was purged can be used again, and what stayed is whole. */
    for (int i = 0; i < BLOCKS; i++) {
        if (i % 256 == 0) {
            for (int j = 0; j < SIZE; j++) CHECK(blocks[i][j] == 1);
        } else {
            memset(blocks[i] = malloc(SIZE), 2, SIZE);
        }
    }
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    CHECK(rest_until_below(full / 8) <= full / 8);
    return broken != 0;
}
