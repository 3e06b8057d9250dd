/* Four threads fork at the same time, while two others allocate; the children free what the parent's threads made, start
 * threads, fork again, and give memory back. */
#include "check.h"
#include "memory.h"
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKERS = 4, FORKS = 10, SHARED = 200, BULK = 3000 };

static volatile int stop;
static char *made_before[SHARED];

static void *churn(void *seed) {
    unsigned random = (unsigned)(size_t)seed;
    void *blocks[300] = {0};
    while (!stop) {
        int i = rand_r(&random) % 300;
        free(blocks[i]);
        blocks[i] = malloc(rand_r(&random) % (rand_r(&random) % 40 ? 2000 : 200000));
    }
    for (int i = 0; i < 300; i++) free(blocks[i]);
    return 0;
}

static void *make_before(void *unused) {
    (void)unused;
    for (int i = 0; i < SHARED; i++) memset(made_before[i] = malloc(i * 11 + 1), i, i * 11 + 1);
    return 0;
}

static void *in_child(void *unused) {
    for (int i = 0; i < 500; i++) free(malloc(i * 13 % 4000));
    return unused;
}

static void child(void) {
    for (int i = 0; i < SHARED; i++) {
        for (int j = 0; j < i * 11 + 1; j++)
            if (made_before[i][j] != (char)i) _exit(2);
        free(made_before[i]);
    }
    pthread_t thread;
    if (pthread_create(&thread, 0, in_child, 0)) _exit(3);
    void *bulk[BULK];
    for (int i = 0; i < BULK; i++) memset(bulk[i] = malloc(4000), 1, 4000);
    long full = resident_kib();
    for (int i = 0; i < BULK; i++) free(bulk[i]);
    pthread_join(thread, 0);
    malloc_trim(0);
    if (resident_kib() > full - 8000) _exit(4);
}

/* A child, and a child of that. */
static void child_and_grandchild(void) {
    child();
    make_before(0);
    pid_t pid = fork();
    if (pid == 0) {
        child();
        _exit(0);
    }
    int status = -1;
    if (waitpid(pid, &status, 0) != pid || status != 0) _exit(5);
    _exit(0);
}

static void *forker(void *unused) {
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        if (pid == 0) child_and_grandchild();
        int status = -1;
        CHECK(waitpid(pid, &status, 0) == pid);
        if (status != 0) printf("child: status %x\n", status);
        CHECK(status == 0);
        free(malloc(100 * i));
    }
    return unused;
}

int main(void) {
    pthread_t threads[2 + FORKERS], maker;
    CHECK(!pthread_create(&maker, 0, make_before, 0));
    pthread_join(maker, 0);
    for (size_t i = 0; i < 2; i++) CHECK(!pthread_create(&threads[i], 0, churn, (void *)(i + 1)));
    for (int i = 2; i < 2 + FORKERS; i++) CHECK(!pthread_create(&threads[i], 0, forker, 0));
    for (int i = 2; i < 2 + FORKERS; i++) pthread_join(threads[i], 0);
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < SHARED; i++) free(made_before[i]);
    malloc_trim(0);
    CHECK(resident_kib() < 20000);
    return broken != 0;
}
