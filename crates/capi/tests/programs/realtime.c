/* Heaps in bounded time, as the header promises them: both modes, misuse included. */
#include "check.h"
#include <errno.h>
#include <freehold.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static _Alignas(4096) char memory[1 << 16];

#define MODE(name)                                                                                                     \
    static void name##_keeps_its_word(freehold_##name *heap) {                                                        \
        char *one = freehold_##name##_malloc(heap, 100), *two = freehold_##name##_malloc(heap, 0);                      \
        CHECK(one && two && one != two);                                                                               \
        CHECK((uintptr_t)one % 16 == 0 && freehold_##name##_usable_size(heap, one) >= 100);                             \
        memset(one, 1, 100);                                                                                           \
        errno = 0;                                                                                                     \
        CHECK(!freehold_##name##_malloc(heap, SIZE_MAX) && !freehold_##name##_malloc(heap, SIZE_MAX - 8));               \
        CHECK(errno == 0);                                                                                             \
        CHECK(freehold_##name##_resize(heap, one, SIZE_MAX / 2) == FREEHOLD_NO_ROOM);                                   \
        CHECK(freehold_##name##_free(heap, NULL) == FREEHOLD_FOREIGN);                                                 \
        CHECK(freehold_##name##_free(heap, &errno) == FREEHOLD_FOREIGN);                                               \
        CHECK(freehold_##name##_free(heap, one + 1) == FREEHOLD_FOREIGN);                                              \
        CHECK(freehold_##name##_free(heap, one + 64) == FREEHOLD_NOT_IN_USE);                                          \
        CHECK(freehold_##name##_send(heap, NULL) == FREEHOLD_FOREIGN);                                                 \
        CHECK(freehold_##name##_send(heap, two) == FREEHOLD_DONE);                                                     \
        CHECK(freehold_##name##_send(heap, two) == FREEHOLD_SENT);                                                     \
        CHECK(freehold_##name##_free(heap, two) == FREEHOLD_SENT);                                                     \
        CHECK(freehold_##name##_take_in(heap) == 1 && freehold_##name##_take_in(heap) == 0);                            \
        CHECK(freehold_##name##_free(heap, one) == FREEHOLD_DONE);                                                     \
        CHECK(freehold_##name##_free(heap, one) == FREEHOLD_NOT_IN_USE);                                               \
        CHECK(freehold_##name##_usable_size(heap, one) == 0);                                                          \
        char *aligned = freehold_##name##_aligned_alloc(heap, 256, 40);                                                \
        CHECK(aligned && (uintptr_t)aligned % 256 == 0);                                                               \
        CHECK(!freehold_##name##_aligned_alloc(heap, 48, 40));                                                         \
        CHECK(freehold_##name##_check(heap) == 0);                                                                     \
    }

MODE(fast)
MODE(strict)

int main(void) {
    errno = 0;
    CHECK(!freehold_fast_create(memory, 64) && errno == EINVAL);
    CHECK(!freehold_fast_create(memory + 8, sizeof memory - 8) && errno == EINVAL);
    CHECK(!freehold_fast_create(NULL, 1 << 20));
    CHECK(!freehold_strict_create(memory, sizeof memory, 24) && !freehold_strict_create(memory, 60, 32));
    fast_keeps_its_word(freehold_fast_create(memory, sizeof memory));
    strict_keeps_its_word(freehold_strict_create(memory, sizeof memory, 32));
    CHECK(freehold_strict_enough(1 << 20, 1 << 16, 16) >= 14 << 20);
    CHECK(freehold_strict_enough(SIZE_MAX, 1, 16) == 0);
    void *reserved = freehold_reserve(100000, 0);
    CHECK(reserved && freehold_fast_create(reserved, 100000));
    return broken != 0;
}
