/* A program that moves its own blocks to fuller slabs, as freehold.h says, gets its memory back. */
#include "check.h"
#include "freehold.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 60000, LONGEST = 3000 };

typedef struct { unsigned char *bytes; size_t size; } Item;
static Item items[BLOCKS];

static unsigned random_below(unsigned most) {
    static unsigned long long state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % most;
}

/* What a program does that may move what it has: how many it moved. */
static int pack(void) {
    int moved = 0;
    for (int at = 0; at < BLOCKS; at++) {
        struct freehold_utilization found;
        if (!items[at].bytes) continue;
        CHECK(freehold_utilization(items[at].bytes, &found, sizeof found) == 0);
        CHECK(found.size >= items[at].size && found.used >= 1 && found.used <= found.blocks);
        if (found.target < found.used) continue;
        unsigned char *fresh = freehold_malloc_packed(items[at].size);
        memcpy(fresh, items[at].bytes, items[at].size);
        freehold_free_packed(items[at].bytes);
        items[at].bytes = fresh;
        moved++;
    }
    return moved;
}

int main(int argc, char **argv) {
    int stays = argc > 1 && argv[1][0] == 's';
    size_t live = 0;
    for (int at = 0; at < BLOCKS; at++) {
        items[at].size = 16 + random_below(LONGEST);
        items[at].bytes = malloc(items[at].size);
        memset(items[at].bytes, at % 251, items[at].size);
    }
    for (int at = 0; at < BLOCKS; at++) {
        if (random_below(10) < 8) {
            free(items[at].bytes);
            items[at].bytes = 0;
        } else {
            live += items[at].size;
        }
    }
    malloc_trim(0);
    size_t before = resident_kib(), rounds = 0;
    while (pack()) CHECK(++rounds < 100);
    malloc_trim(0);
    size_t after = resident_kib();
    printf("%zu KiB live, %zu KiB resident before, %zu after %zu rounds\n", live / 1024, before, after, rounds);
    if (stays) {
        CHECK(rounds == 0);
    } else {
        CHECK(before > live / 1024 * 17 / 10);
        CHECK(after < live / 1024 * 13 / 10 + 4096);
    }
    for (int at = 0; at < BLOCKS; at++)
        for (size_t i = 0; items[at].bytes && i < items[at].size; i++)
            if (items[at].bytes[i] != at % 251) {
                CHECK(!"a moved block reads otherwise");
                return 1;
            }
    struct freehold_utilization large;
    char *block = malloc(1 << 20);
    CHECK(freehold_utilization(block, &large, sizeof large) == 0 && large.size >= 1 << 20 && large.target == 0);
    CHECK(freehold_utilization(0, &large, sizeof large) == -1);
    freehold_free_packed(block);
    freehold_free_packed(freehold_malloc_packed(1 << 20));
    freehold_free_packed(0);
    return broken != 0;
}
