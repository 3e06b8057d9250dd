/* Blocks that live for a moment, for a second, and until the end. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { COUNT = 300, SIZE = 40000 };

__attribute__((noinline)) static void *asks(size_t size) {
    void *volatile block = malloc(size);
    return block;
}

int main(void) {
    static void *for_a_second[COUNT], *for_good[COUNT];
    for (int i = 0; i < COUNT; i++) {
        void *volatile block = asks(SIZE);
        free(block);
        for_a_second[i] = asks(SIZE);
        for_good[i] = asks(SIZE);
    }
    usleep(1200000);
    for (int i = 0; i < COUNT; i++) free(for_a_second[i]);
    return for_good[0] == NULL;
}
