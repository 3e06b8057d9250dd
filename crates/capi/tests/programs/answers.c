/* What calls with bad or extreme arguments answer, as a table: the call, what it must return, and errno afterwards.
 * C11 7.22.3, C23 7.24.3, POSIX 2024 (malloc, posix_memalign, reallocarray), glibc's manual where it goes further. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern void *reallocarray(void *, size_t, size_t);

enum { UNTOUCHED = 1234 };

/* What the last call left in errno: UNTOUCHED when it left it alone. */
static int error_after;
#define ANSWER(call) (errno = UNTOUCHED, answer = (void *)(call), error_after = errno, answer)
#define NULL_WITH(error, call) CHECK(ANSWER(call) == NULL && error_after == (error))
#define BLOCK(call)                                                                                \
    do {                                                                                           \
        CHECK(ANSWER(call) != NULL && error_after == UNTOUCHED);                                   \
        CHECK((uintptr_t)answer % 16 == 0);                                                        \
        errno = UNTOUCHED;                                                                         \
        free(answer);                                                                              \
        CHECK(errno == UNTOUCHED);                                                                 \
    } while (0)

static void *answer;

static int memalign_error(size_t align, size_t size) {
    void *const before = &answer;
    void *block = before;
    errno = UNTOUCHED;
    int error = posix_memalign(&block, align, size);
    /* POSIX leaves errno open; glibc sets it when memory is short, and programs look. */
    CHECK(errno == (error == ENOMEM ? ENOMEM : UNTOUCHED));
    CHECK(error ? block == before : block != NULL && (uintptr_t)block % align == 0);
    if (!error) free(block);
    return error;
}

/* C23: a free that is told the size asked for, and the alignment. The C library does not have it yet. */
static void sized_frees(void) {
    void (*free_sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    void (*free_aligned)(void *, size_t, size_t) =
        (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
    CHECK(free_sized && free_aligned);
    if (!free_sized || !free_aligned) return;
    free_sized(NULL, 5);
    for (size_t size = 0; size < 200000; size += 1 + size / 50) {
        free_sized(malloc(size), size);
        free_sized(calloc(1, size), size);
        /* Resized in either direction, where it lies or not. */
        if (size) free_sized(realloc(malloc(size * 3 / 2), size), size);
        if (size) free_sized(realloc(malloc(size * 2 / 3), size), size);
        for (size_t align = 16; align <= 1 << 17; align *= 4) free_aligned(aligned_alloc(align, size), align, size);
    }
}

int main(void) {
    sized_frees();
    volatile size_t max = SIZE_MAX, half = SIZE_MAX / 2, zero = 0;
    /* Too large, by itself or as a product. */
    for (size_t less = 0; less < 20000; less = less * 3 + 1) {
        NULL_WITH(ENOMEM, malloc(max - less));
        NULL_WITH(ENOMEM, malloc(half + less));
        NULL_WITH(ENOMEM, calloc(1, max - less));
        NULL_WITH(ENOMEM, realloc(NULL, max - less));
        NULL_WITH(ENOMEM, valloc(max - less));
        NULL_WITH(ENOMEM, pvalloc(max - less));
        NULL_WITH(ENOMEM, memalign(64, max - less));
        NULL_WITH(ENOMEM, aligned_alloc(4096, max - less));
        CHECK(memalign_error(64, max - less) == ENOMEM);
    }
    NULL_WITH(ENOMEM, calloc(max, max));
    NULL_WITH(ENOMEM, calloc(half + 1, 2));
    NULL_WITH(ENOMEM, calloc((size_t)1 << 32, (size_t)1 << 32));
    NULL_WITH(ENOMEM, calloc(((size_t)1 << 32) + 1, (size_t)1 << 32));
    NULL_WITH(ENOMEM, reallocarray(NULL, max, 2));
    NULL_WITH(ENOMEM, reallocarray(NULL, ((size_t)1 << 32) + 1, (size_t)1 << 32));
    /* The block stays what it was. */
    char *kept = malloc(100);
    memset(kept, 7, 100);
    NULL_WITH(ENOMEM, realloc(kept, max));
    NULL_WITH(ENOMEM, realloc(kept, half));
    NULL_WITH(ENOMEM, reallocarray(kept, half, 3));
    char *large = malloc(500000);
    memset(large, 7, 500000);
    NULL_WITH(ENOMEM, realloc(large, max - 8192));
    for (int i = 0; i < 100; i++) CHECK(kept[i] == 7);
    for (int i = 0; i < 500000; i++) CHECK(large[i] == 7);
    free(kept);
    free(large);
    /* Nothing at all. */
    BLOCK(malloc(zero));
    BLOCK(calloc(zero, 5));
    BLOCK(calloc(5, zero));
    BLOCK(calloc(zero, max));
    BLOCK(realloc(NULL, zero));
    BLOCK(reallocarray(NULL, zero, max));
    BLOCK(aligned_alloc(64, zero));
    BLOCK(memalign(64, zero));
    BLOCK(valloc(zero));
    BLOCK(pvalloc(zero));
    CHECK(memalign_error(64, zero) == 0);
    CHECK(malloc_usable_size(NULL) == 0);
    NULL_WITH(UNTOUCHED, realloc(malloc(10), zero));
    NULL_WITH(UNTOUCHED, reallocarray(malloc(10), zero, 7));
    /* Alignments. */
    static const size_t no_power[] = {0, 3, 24, 48, 100, 4095, 65537, SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2};
    for (size_t i = 0; i < sizeof no_power / sizeof *no_power; i++) {
        NULL_WITH(EINVAL, aligned_alloc(no_power[i], 64));
        CHECK(memalign_error(no_power[i], 64) == EINVAL);
    }
    static const size_t too_small[] = {1, 2, 4};
    for (size_t i = 0; i < sizeof too_small / sizeof *too_small; i++)
        CHECK(memalign_error(too_small[i], 64) == EINVAL);
    for (size_t align = 1; align <= (size_t)64 << 20; align *= 2) {
        CHECK(ANSWER(aligned_alloc(align, 100)) && (uintptr_t)answer % align == 0);
        free(answer);
        CHECK(ANSWER(memalign(align, 3)) && (uintptr_t)answer % align == 0);
        free(answer);
    }
    NULL_WITH(ENOMEM, aligned_alloc((size_t)1 << 62, 64));
    NULL_WITH(ENOMEM, aligned_alloc((size_t)1 << 63, 64));
    CHECK(memalign_error((size_t)1 << 62, 64) == ENOMEM);
    /* memalign rounds an alignment up that is no power of two. */
    CHECK(ANSWER(memalign(48, 100)) && (uintptr_t)answer % 64 == 0);
    free(answer);
    NULL_WITH(EINVAL, memalign(max, 64));
    /* The heap is as usable as before. */
    BLOCK(malloc(100));
    BLOCK(calloc(1000, 1000));
    return broken != 0;
}
