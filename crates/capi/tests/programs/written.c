/* Writes where it must not; a hardened heap has to notice, each in its way. */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void churn(void) {
    for (int i = 0; i < 200000; i++) free(malloc(48));
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    char *volatile small = malloc(40);
    char *volatile large = malloc(100000);
    if (!strcmp(kind, "after-free")) {
        free(small);
        small[20] = 1;
        churn();
    } else if (!strcmp(kind, "mark")) {
        free(small);
        memset(small, 0, 16);
        churn();
    } else if (!strcmp(kind, "behind-large")) {
        /* Up to the end of its last page a block may be written to; the next page is the fence. */
        memset(large, 1, 102400);
        puts("so far");
        fflush(stdout);
        large[102400] = 1;
    } else if (!strcmp(kind, "canary")) {
        small[malloc_usable_size(small)] = 0;
        free(small);
    } else if (!strcmp(kind, "late-double-written")) {
        free(small);
        memset(small, 1, 40);
        free(small);
    } else if (!strcmp(kind, "list")) {
        /* Free blocks that nobody had yet lie in a row, each linked to the one behind it by its address xor the key. Who has read
         * a link makes the next one lead to a block in use. */
        char *volatile second = malloc(40);
        size_t step = second - small;
        volatile uintptr_t *link = (uintptr_t *)(second + step);
        *link ^= (uintptr_t)(second + 2 * step) ^ (uintptr_t)small;
        for (int i = 0; i < 3; i++)
            if (malloc(40) == small) puts("a block in use was handed out");
    } else if (!strcmp(kind, "interior")) {
        free(small + 16);
    } else if (!strcmp(kind, "late-double")) {
        free(small);
        for (int i = 0; i < 20; i++) free(malloc(40));
        free(small);
    } else if (!strcmp(kind, "reuse")) {
        /* Not an error: a block just freed is not the next one to come. */
        int same = 0;
        for (int i = 0; i < 1000; i++) {
            char *one = malloc(64);
            free(one);
            char *two = malloc(64);
            same += one == two;
            free(two);
        }
        return same > 50;
    } else if (!strcmp(kind, "zero")) {
        /* Not an error: what was written is gone when the block is free. */
        memset(small, 7, 40);
        free(small);
        for (int i = 16; i < 40; i++)
            if (small[i]) return 1;
        return 0;
    }
    puts("went unnoticed");
    return 0;
}
