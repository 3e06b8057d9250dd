/* What valkey's active defragmentation asks of its allocator, answered by Freehold: built into valkey-server by flags alone. */
#include "freehold.h"
#include <malloc.h>

/* Whether a block is worth moving (valkey's src/defrag.c asks for each). */
int je_get_defrag_hint(void *block) {
    struct freehold_utilization found;
    return freehold_utilization(block, &found, sizeof found) == 0 && found.target >= found.used;
}

/* What is allocated, held and fragmented; 1 when known. Replaces the one for allocators that do not say. */
int __wrap_zmalloc_get_allocator_info(size_t *allocated, size_t *active, size_t *resident, size_t *retained,
                                      size_t *muzzy, size_t *fragmented) {
    struct mallinfo2 now = mallinfo2();
    *allocated = now.uordblks + now.hblkhd;
    *active = *resident = now.arena + now.hblkhd;
    if (retained) *retained = 0;
    if (muzzy) *muzzy = now.keepcost;
    *fragmented = now.fordblks - now.keepcost;
    return 1;
}
