/* A program frees everything, from several threads, and rests: of 128 MiB next to nothing stays. Counted is anonymous
 * memory above that of the start, so that code which comes into memory meanwhile does not matter; what is left of it is
 * the last stacks of each thread, and stacks of threads. */
#include "check.h"
#include "memory.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 2, BLOCKS = 125000, MOST_KIB = 1000 };

static char *blocks[THREADS][BLOCKS];
static pthread_barrier_t barrier;

static void *body(void *context) {
    char **mine = blocks[(long)context];
    for (int i = 0; i < BLOCKS; i++) memset(mine[i] = malloc(16 + (unsigned)i * 37u % 1009u), 1, 16);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < BLOCKS; i++) free(mine[i]);
    pthread_barrier_wait(&barrier);
    /* The thread is there, and idle, while memory goes back. */
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(void) {
    memset(blocks, 0, sizeof blocks);
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    long start = rolled_up_kib("Anonymous");
    for (long i = 0; i < THREADS; i++) CHECK(!pthread_create(&threads[i], NULL, body, (void *)i));
    pthread_barrier_wait(&barrier);
    long full = rolled_up_kib("Anonymous");
    pthread_barrier_wait(&barrier);
    CHECK(full - start > 100 << 10);
    /* Reading the counts allocates, but a buffer is nothing that keeps a purger awake. */
    for (int tenth = 0; tenth < 600 && rolled_up_kib("Anonymous") - start > MOST_KIB; tenth++) usleep(100000);
    printf("%ld KiB above the start\n", rolled_up_kib("Anonymous") - start);
    CHECK(rolled_up_kib("Anonymous") - start <= MOST_KIB);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++) CHECK(!pthread_join(threads[i], NULL));
    return broken != 0;
}
