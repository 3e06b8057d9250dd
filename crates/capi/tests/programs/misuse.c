/* One program error each; the allocator has to notice it. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *free_it(void *block) {
    free(block);
    return 0;
}

static void churn(void) {
    static void *blocks[5000];
    for (int i = 0; i < 5000; i++) blocks[i] = malloc(40);
    for (int i = 0; i < 5000; i++) free(blocks[i]);
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    char on_the_stack[64];
    char *volatile stack = on_the_stack;
    char *small = malloc(40), *large = malloc(100000);
    if (!strcmp(kind, "double")) {
        free(small);
        free(small);
    } else if (!strcmp(kind, "double-other-thread")) {
        pthread_t thread;
        free(small);
        pthread_create(&thread, 0, free_it, small);
        pthread_join(thread, 0);
    } else if (!strcmp(kind, "double-purged")) {
        churn();
        free(small);
        churn();
        malloc_trim(0);
        free(small);
        churn();
    } else if (!strcmp(kind, "stack")) {
        free(stack);
    } else if (!strcmp(kind, "null-page")) {
        free((void *)0x1230);
    } else if (!strcmp(kind, "large-twice")) {
        free(large);
        free(large);
    } else if (!strcmp(kind, "large-interior")) {
        free(large + 16);
    } else if (!strcmp(kind, "large-later-unit")) {
        free(large + 65536);
    } else if (!strcmp(kind, "interior")) {
        free(small + 8);
        churn();
        malloc_trim(0); /* at the latest when it leaves the thread's hands */
    }
    puts("went unnoticed");
    return 0;
}
