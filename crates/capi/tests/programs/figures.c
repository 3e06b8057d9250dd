/* mallinfo2 counts what is there: small blocks to the byte, large ones, free ones; with glibc's sums. */
#include "check.h"
#include <malloc.h>
#include <stdlib.h>

enum { SMALL = 1000, LARGE = 3 };

static void *small[SMALL], *large[LARGE];

static struct mallinfo2 now(void) {
    struct mallinfo2 info = mallinfo2();
    CHECK(info.arena == info.uordblks + info.fordblks);
    CHECK(info.keepcost <= info.fordblks && !info.smblks && !info.fsmblks && !info.usmblks);
    return info;
}

int main(void) {
    /* Its buffer is there before the counting. */
    printf("figures\n");
    struct mallinfo2 start = now();
    size_t bytes = 0;
    for (int i = 0; i < SMALL; i++) bytes += malloc_usable_size(small[i] = malloc(200));
    struct mallinfo2 full = now();
    CHECK(full.uordblks - start.uordblks == bytes && full.hblks == start.hblks);

    for (int i = 0; i < SMALL; i += 2) free(small[i]);
    struct mallinfo2 half = now();
    CHECK(full.uordblks - half.uordblks == bytes / 2);
    CHECK(half.ordblks == full.ordblks + SMALL / 2);
    CHECK(half.fordblks == full.fordblks + bytes / 2 && half.arena == full.arena);

    for (int i = 0; i < LARGE; i++) large[i] = malloc(100000);
    struct mallinfo2 more = now();
    CHECK(more.hblks == half.hblks + LARGE && more.uordblks == half.uordblks);
    size_t held = more.hblkhd - half.hblkhd;
    CHECK(held >= LARGE * 100000 && held < LARGE * 200000);

    struct mallinfo old = mallinfo();
    CHECK(old.arena == (int)more.arena && old.ordblks == (int)more.ordblks && old.smblks == (int)more.smblks);
    CHECK(old.hblks == (int)more.hblks && old.hblkhd == (int)more.hblkhd && old.fsmblks == (int)more.fsmblks);
    CHECK(old.uordblks == (int)more.uordblks && old.fordblks == (int)more.fordblks && old.keepcost == (int)more.keepcost);

    /* Freed, a large block is free units. */
    for (int i = 0; i < LARGE; i++) free(large[i]);
    struct mallinfo2 freed = now();
    CHECK(freed.hblks == half.hblks && freed.hblkhd == half.hblkhd);
    CHECK(freed.keepcost == half.keepcost + held && freed.ordblks > half.ordblks);
    malloc_trim(0);
    CHECK(now().keepcost == 0 && now().uordblks == half.uordblks);
    return broken != 0;
}
