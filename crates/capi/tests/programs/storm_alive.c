/* storm_alive KIND: what threads leave that lived at the same time, twenty thousand or as many as the system lets; or threads
 * that came when a program had taken all pthread keys before its first allocation. */
#include "check.h"
#include "memory.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 20000, FEW = 2000, BLOCKS = 10, STACK = 32 << 10, ALIVE_KIB = 60 << 10, LOST_KIB = 8 << 10 };

static sem_t there, leave;
static pthread_t threads[MOST];
static int waits;

static void *live(void *unused) {
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) memset(blocks[i] = malloc(16 + i * 50), 1, 16 + i * 50);
    sem_post(&there);
    if (waits) sem_wait(&leave);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    return unused;
}

static int start(int number, pthread_attr_t *small) { return pthread_create(&threads[number], small, live, 0); }

int main(int argc, char **argv) {
    int keys = argc == 2 && !strcmp(argv[1], "keys"), count = 0;
    for (pthread_key_t key; keys && !pthread_key_create(&key, 0);) {
    }
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    sem_init(&there, 0, 0), sem_init(&leave, 0, 0);
    if (keys) {
        for (; count < FEW && !start(count, &small); count++) pthread_join(threads[count], 0);
        long early = resident_kib();
        for (count = 0; count < FEW && !start(count, &small); count++) pthread_join(threads[count], 0);
        CHECK(count == FEW && resident_kib() - early < LOST_KIB);
        return broken != 0;
    }
    waits = 1;
    while (count < MOST && !start(count, &small)) count++;
    for (int i = 0; i < count; i++) sem_wait(&there);
    for (int i = 0; i < count; i++) sem_post(&leave);
    for (int i = 0; i < count; i++) pthread_join(threads[i], 0);
    for (int tenth = 0; tenth < 50 && resident_kib() > ALIVE_KIB; tenth++) usleep(100000);
    CHECK(resident_kib() <= ALIVE_KIB);
    return broken ? 1 : count < FEW ? 77 : 0;
}
