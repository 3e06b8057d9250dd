/* bad_input KIND: one program error, after which a line on standard error and an abort are expected. Prints what it is
 * about to do, so that what went unnoticed is told from what crashed elsewhere. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *free_it(void *block) {
    free(block);
    return 0;
}

static void in_thread(void *block) {
    pthread_t thread;
    if (pthread_create(&thread, 0, free_it, block) == 0) pthread_join(thread, 0);
}

/* Enough calls that whatever was put aside is looked at, but for what a thread keeps for itself: that, malloc_trim sees. */
static void churn(size_t size) {
    static void *blocks[6000];
    for (int i = 0; i < 6000; i++) blocks[i] = malloc(size);
    for (int i = 0; i < 6000; i++) free(blocks[i]);
}

/* Until a block that waits in the quarantine of 4,096 places has left it: but for one run in 10^12. */
static void churn_long(size_t size) {
    for (int i = 0; i < 20; i++) churn(size);
}

static char global[64];

/* C23, which the C library does not have yet. */
static void free_sized(void *block, size_t size) {
    ((void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized"))(block, size);
}

static void free_aligned_sized(void *block, size_t align, size_t size) {
    ((void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized"))(block, align, size);
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    char on_the_stack[64];
    char *volatile stack = on_the_stack;
    char *volatile small = malloc(40), *volatile medium = malloc(9000), *volatile large = malloc(300000);
    memset(small, 1, 40);
    memset(medium, 1, 9000);
#define IF(name) else if (!strcmp(kind, name))
    if (argc != 2) {
        return 2;
    }
    IF("small twice") { free(small); free(small); }
    IF("medium twice") { free(medium); free(medium); }
    IF("large twice") { free(large); free(large); }
    IF("twice with others between") { char *p = malloc(40); free(small); free(p); free(small); }
    IF("twice, the second by another thread") { free(small); in_thread(small); churn(40); }
    IF("twice, the first by another thread") { in_thread(small); churn(40); free(small); churn(40); }
    IF("twice, both by other threads") { in_thread(small); in_thread(small); churn(40); }
    IF("twice, memory given back between") { churn(40); free(small); churn(40); malloc_trim(0); free(small); churn(40); }
    IF("large twice, given back between") { free(large); malloc_trim(0); free(large); }
    IF("realloc of a freed block") { free(small); small = realloc(small, 100); free(small); churn(40); churn(100); }
    IF("realloc of a freed large block") { free(large); large = realloc(large, 400000); }
    IF("stack") { free(stack); }
    IF("global") { free(global + 16); }
    IF("code") { free((void *)main); }
    IF("first page") { free((void *)0x10); }
    IF("end of memory") { free((void *)-16L); }
    IF("not canonical") { free((void *)0x8000000000000000); }
    IF("another mapping") { free(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)); }
    IF("realloc of the stack") { stack = realloc(stack, 100); }
    IF("usable size of the stack") { printf("%zu\n", malloc_usable_size(stack)); }
    IF("inside a large block") { free(large + 16); }
    IF("a later unit of a large block") { free(large + 65536); }
    IF("inside a small block") { free(small + 16); churn(40); malloc_trim(0); }
    IF("inside a medium block") { free(medium + 4096); churn(9000); malloc_trim(0); }
    IF("odd address") { free(small + 1); churn(40); malloc_trim(0); }
    IF("a link overwritten") { char *p = malloc(40); free(p); memset(p, 0x40, 8); p = malloc(40); p = malloc(40); churn_long(40); }
    IF("realloc of a freed block, same size") { free(small); small = realloc(small, 40); }
    IF("realloc inside a small block") { small = realloc(small + 16, 40); }
    IF("a size too large") { free_sized(small, 49); }
    IF("a size too small") { free_sized(medium, 40); }
    IF("a size of a large block") { free_sized(large, 3000); }
    IF("a size with another alignment") { free_aligned_sized(aligned_alloc(64, 200) + 64, 64, 200); }
    IF("far behind a block") { free(large + (64 << 20)); }
    else return 2;
    puts("went unnoticed");
    return 0;
}
