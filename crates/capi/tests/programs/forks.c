/* A process forks while its threads allocate; the children allocate, with threads of their own. */
#include "check.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;

static void *churn(void *seed) {
    unsigned random = (unsigned)(size_t)seed;
    void *blocks[500] = {0};
    while (!stop) {
        int i = rand_r(&random) % 500;
        free(blocks[i]);
        blocks[i] = malloc(rand_r(&random) % (rand_r(&random) % 50 ? 3000 : 300000));
    }
    for (int i = 0; i < 500; i++) free(blocks[i]);
    return 0;
}

static void child(void) {
    for (int i = 0; i < 3000; i++) free(malloc(i * 7 % 5000));
    pthread_t thread;
    if (pthread_create(&thread, 0, churn, (void *)9)) _exit(1);
    usleep(300);
    stop = 1;
    pthread_join(thread, 0);
    _exit(0);
}

int main(void) {
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++) CHECK(!pthread_create(&threads[i], 0, churn, (void *)(i + 1)));
    for (int i = 0; i < 100; i++) {
        pid_t pid = fork();
        if (pid == 0) child();
        int status = -1;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    return broken != 0;
}
