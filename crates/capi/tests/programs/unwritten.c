/* A program copies memory that it never wrote: by realloc, which may. Whatever free blocks once held there, a block in use must
 * not look free because of it. */
#include "check.h"
#include <malloc.h>
#include <stdlib.h>

enum { SLOTS = 200, CALLS = 400000, TRIM = 2000 };

static unsigned long state = 88172645463325252UL;

static unsigned below(unsigned end) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (unsigned)(state >> 33) % end;
}

/* Mostly where large blocks and slabs of few blocks take turns on the same addresses. */
static size_t size(void) { return below(4) ? 8000 + below(25000) : 8000 + below(200000); }

int main(void) {
    static void *blocks[SLOTS];
    for (int call = 0; call < CALLS; call++) {
        unsigned at = below(SLOTS);
        if (below(3)) {
            CHECK((blocks[at] = realloc(blocks[at], size())));
        } else {
            free(blocks[at]);
            blocks[at] = below(2) ? malloc(size()) : 0;
        }
        if (call % TRIM == 0) malloc_trim(0);
    }
    for (int at = 0; at < SLOTS; at++) free(blocks[at]);
    return broken != 0;
}
