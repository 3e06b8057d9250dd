/* forks_shared FORKS: a process forks while nine threads fill and empty stacks of blocks that all of them share; in the child no
 * block is handed out that somebody has. */
#include "check.h"
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 9, EACH = 60, CHILD = 4000 };

static volatile int stop;

static size_t size_of(size_t at) { return 1024 + at * 997 % 6000; }

static void *churn(void *number) {
    size_t at = (size_t)number * 1000;
    while (!stop) {
        void *blocks[EACH];
        for (int i = 0; i < EACH; i++) memset(blocks[i] = malloc(size_of(at)), 0xEE, 64);
        for (int i = 0; i < EACH; i++) free(blocks[i]);
        at++;
    }
    return 0;
}

static void child(void) {
    static uintptr_t *blocks[CHILD];
    for (uintptr_t i = 0; i < CHILD; i++) {
        if (!(blocks[i] = malloc(size_of(i)))) _exit(2);
        blocks[i][0] = blocks[i][16] = i;
    }
    for (uintptr_t i = 0; i < CHILD; i++)
        if (blocks[i][0] != i || blocks[i][16] != i) _exit(3);
    for (int i = 0; i < CHILD; i++) free(blocks[i]);
    _exit(0);
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    int forks = argc > 1 ? atoi(argv[1]) : 100;
    for (size_t i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], 0, churn, (void *)(i + 1)));
    for (int i = 0; i < forks && !broken; i++) {
        usleep(300);
        pid_t pid = fork();
        if (pid == 0) child();
        int status = -1;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    return broken != 0;
}
