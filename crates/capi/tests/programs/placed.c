/* Where malloc and free begin, in a line of 64 bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    void *(*volatile allocates)(size_t) = malloc;
    void (*volatile frees)(void *) = free;
    printf("%d %d", (int)((uintptr_t)allocates % 64), (int)((uintptr_t)frees % 64));
    return 0;
}
