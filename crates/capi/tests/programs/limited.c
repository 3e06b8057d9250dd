/* 256 MiB of address space: requests beyond it are refused, and the heap lives on. */
#include "check.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void fill(void) {
    static void *blocks[4000];
    int n = 0;
    while (n < 4000 && (blocks[n] = malloc(100000))) memset(blocks[n++], 1, 100000);
    CHECK(n > 1000 && n < 4000);
    CHECK(!malloc(1 << 30));
    while (n) free(blocks[--n]);
    void *again = malloc(50u << 20);
    CHECK(again);
    free(again);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        fill();
        return broken != 0;
    }
    /* The limit is for the program that comes, before its first allocation. */
    struct rlimit limit = {256u << 20, 256u << 20};
    CHECK(!setrlimit(RLIMIT_AS, &limit));
    execl(argv[0], argv[0], "limited", (char *)0);
    return 1;
}
