/* Sizes, alignments, overflow and errno, as C11, C23, POSIX and glibc promise them. */
#include "check.h"
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int aligned(void *p, size_t to) { return p && (uintptr_t)p % to == 0; }

int main(void) {
    for (size_t size = 0; size < 70000; size = size * 5 / 4 + 1) {
        char *p = malloc(size);
        CHECK(aligned(p, 16) && malloc_usable_size(p) >= size);
        memset(p, 0xA5, size);
        free(p);
        char *z = calloc(size, 1);
        size_t sum = 0;
        for (size_t i = 0; i < size; i++) sum += (unsigned char)z[i];
        CHECK(z && sum == 0);
        free(z);
    }
    volatile size_t huge = SIZE_MAX;
    errno = 0;
    CHECK(!malloc(huge) && errno == ENOMEM);
    errno = 0;
    CHECK(!malloc(PTRDIFF_MAX) && errno == ENOMEM);
    errno = 0;
    CHECK(!calloc(huge / 2, 3) && errno == ENOMEM);
    errno = 0;
    CHECK(!reallocarray(NULL, huge / 2, 3) && errno == ENOMEM);
    errno = 0;
    CHECK(!pvalloc(huge) && errno == ENOMEM);
    errno = 0;
    CHECK(!aligned_alloc(24, 48) && errno == EINVAL);
    void *q = &q;
    CHECK(posix_memalign(&q, 24, 1) == EINVAL && q == &q);
    CHECK(posix_memalign(&q, 4, 1) == EINVAL && q == &q);
    CHECK(posix_memalign(&q, 64, huge - 64) == ENOMEM && q == &q);
    for (size_t to = 8; to <= 8u << 20; to *= 2) {
        for (size_t size = 1; size < 200000; size = size * 7 + 1) {
            CHECK(posix_memalign(&q, to, size) == 0 && aligned(q, to));
            memset(q, 1, size);
            free(q);
            q = memalign(to, size);
            CHECK(aligned(q, to));
            free(q);
        }
    }
    q = valloc(1);
    CHECK(aligned(q, 4096));
    free(q);
    errno = 77;
    char *large = malloc(3 << 20);
    memset(large, 1, 3 << 20);
    free(large);
    free(NULL);
    CHECK(errno == 77);
    char *grown = malloc(1);
    grown[0] = 'x';
    for (size_t size = 1; size < 40u << 20; size = size * 3 / 2 + 1) {
        char *moved = realloc(grown, size);
        CHECK(moved && moved[0] == 'x' && moved[size > 1 ? size * 2 / 3 - 1 : 0] == 'x');
        grown = moved;
        memset(grown, 'x', size);
    }
    for (size_t size = 40u << 20; size > 1; size /= 2) {
        char *moved = realloc(grown, size);
        CHECK(moved && moved[0] == 'x');
        grown = moved;
    }
    errno = 0;
    CHECK(!realloc(grown, PTRDIFF_MAX) && errno == ENOMEM && grown[0] == 'x');
    CHECK(realloc(grown, 0) == NULL);
    struct mallinfo2 info = mallinfo2();
    CHECK(info.arena > 0);
    int trimmed = malloc_trim(0);
    CHECK(trimmed == 0 || trimmed == 1);
    CHECK(mallopt(M_MMAP_THRESHOLD, 1) == 1);
    CHECK(malloc_info(1, stdout) == -1);
    return broken != 0;
}
