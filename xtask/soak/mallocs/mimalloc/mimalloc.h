/* mimalloc's interface by that of the C library, for its tests of what both have. A heap of one's own is the heap; what has no
 * standard counterpart answers no, and its check does not count. */
#ifndef SOAK_MIMALLOC_H
#define SOAK_MIMALLOC_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define MI_KiB 1024UL
#define MI_MiB (1024UL * MI_KiB)
#define MI_SMALL_SIZE_MAX 1024
#define MI_MAX_ALIGN_SIZE 16
#define MI_BLOCK_ALIGNMENT_MAX (1UL << 20)
#define MI_ALIGNMENT_MAX MI_BLOCK_ALIGNMENT_MAX
#define mi_option_disable(option) ((void)0)
#define mi_malloc malloc
#define mi_calloc calloc
#define mi_realloc realloc
#define mi_reallocarray reallocarray
#define mi_free free
#define mi_posix_memalign posix_memalign
#define mi_memalign(alignment, size) memalign(size, alignment)
#define mi_usable_size malloc_usable_size
#define mi_realpath realpath

static inline void *mi_malloc_aligned(size_t size, size_t alignment) {
    return alignment <= MI_MAX_ALIGN_SIZE ? malloc(size) : memalign(alignment, size);
}
static inline void *mi_zalloc_aligned(size_t size, size_t alignment) {
    void *made = mi_malloc_aligned(size, alignment);
    return made ? memset(made, 0, size) : NULL;
}
static inline void *mi_rezalloc_aligned(void *old, size_t size, size_t alignment) {
    void *made = mi_zalloc_aligned(size, alignment);
    size_t usable = malloc_usable_size(old);
    if (made) memcpy(made, old, usable < size ? usable : size);
    free(old);
    return made;
}
static inline void *mi_malloc_aligned_at(size_t size, size_t alignment, size_t offset) {
    return offset % alignment ? NULL : mi_malloc_aligned(size, alignment);
}
static inline void *mi_umalloc(size_t size, size_t *usable) {
    void *made = malloc(size);
    *usable = malloc_usable_size(made);
    return made;
}
static inline void *mi_urealloc(void *old, size_t size, size_t *before, size_t *after) {
    *before = malloc_usable_size(old);
    void *made = realloc(old, size);
    *after = malloc_usable_size(made);
    return made;
}
static inline void mi_ufree(void *old, size_t *usable) {
    *usable = malloc_usable_size(old);
    free(old);
}

typedef int mi_heap_t;
static inline mi_heap_t *mi_heap_new(void) {
    static mi_heap_t only;
    return &only;
}
#define mi_heap_malloc_aligned(heap, size, alignment) mi_malloc_aligned(size, alignment)
#define mi_heap_malloc_tp(heap, type) ((type *)malloc(sizeof(type)))
#define mi_heap_contains_block(heap, block) ((void)(heap), (block) != NULL)
#define mi_heap_destroy(heap) ((void)(heap))
#define mi_heap_delete(heap) ((void)(heap))
#endif
