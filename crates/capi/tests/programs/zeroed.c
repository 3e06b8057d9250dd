/* Blocks that shall be zero: recycled ones are not written all over, nor resident but for what was touched. */
#include "check.h"
#include "memory.h"
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 10 };

static const size_t HUGE_SIZE = (size_t)2 << 30, LONG_SIZE = 48 << 20;

static int is_zero(const char *block, size_t len, size_t step) {
    for (size_t at = 0; at < len; at += step)
        if (block[at]) return 0;
    return 1;
}

/* Of a unit each: not written while they are fresh, and zero whenever they are not. */
static void short_ones(void) {
    enum { BLOCKS = 1000, SIZE = 50000 };
    static char *blocks[BLOCKS];
    long before = resident_kib();
    for (int round = 0; round < 3; round++) {
        for (int at = 0; at < BLOCKS; at++) {
            blocks[at] = round == 1 && at % 2 ? malloc(SIZE) : calloc(SIZE, 1);
            if (!(round == 1 && at % 2)) CHECK(is_zero(blocks[at], SIZE, round ? 1 : SIZE));
            if (!round) blocks[at][at] = 1;
        }
        if (!round) CHECK(resident_kib() - before < 16384);
        for (int at = 0; at < BLOCKS; at++) {
            if (round) memset(blocks[at], 255, SIZE);
            free(blocks[at]);
        }
    }
}

/* Whose pages have moved away leaves zeroes, which nobody writes. */
static void moved_ones(void) {
    int reused = 0;
    for (size_t size = 300000; size < 5 << 20; size += 177777) {
        char *block = malloc(size), *behind = malloc(size);
        memset(block, 255, size);
        char *longer = realloc(block, 2 * size);
        CHECK(longer && longer[0] == -1 && longer[size - 1] == -1);
        char *zeroed = calloc(1, size);
        CHECK(is_zero(zeroed, size, 1));
        reused += zeroed == block;
        free(longer), free(behind), free(zeroed);
    }
    CHECK(reused > 0);
}

int main(void) {
    short_ones();
    moved_ones();
    long before = resident_kib();
    for (int round = 0; round < ROUNDS; round++) {
        char *block = calloc(HUGE_SIZE, 1);
        if (!block) return 77;
        block[0] = block[HUGE_SIZE / 2] = block[HUGE_SIZE - 1] = 1;
        CHECK(resident_kib() - before < 65536);
        free(block);
    }
    /* What was written is zero again, wherever, and however long the next block is. */
    for (int round = 1; round < ROUNDS; round++) {
        char *dirty = malloc(LONG_SIZE);
        memset(dirty, round, LONG_SIZE);
        free(dirty);
        size_t len = LONG_SIZE / round - 4321;
        char *block = calloc(1, len);
        CHECK(is_zero(block, len, 1));
        memset(block, round, len);
        char *aligned = aligned_alloc(1 << 21, 3 << 20);
        memset(aligned, round, 3 << 20);
        free(block), free(aligned);
        for (size_t size = 1 << 19; size < 4 << 20; size += 77777) {
            char *some = calloc(size, 1);
            CHECK(is_zero(some, size, 1));
            memset(some, 1, size);
            free(some);
        }
    }
    return broken != 0;
}
