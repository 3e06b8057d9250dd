/* Ten thousand threads, two hundred at a time: each frees what another left, leaves something itself, and is torn down
 * through key destructors that allocate and free once more. Half of them are detached. Nothing piles up. */
#include "check.h"
#include "memory.h"
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { WAVES = 50, WIDTH = 200, LEFT = 256, LINGERING = 20 };

static pthread_key_t key;
static void *left[LEFT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int running;

/* Swaps a block of one's own for somebody else's, which is freed. */
static void exchange(int at, size_t size) {
    char *mine = malloc(size);
    CHECK(mine);
    memset(mine, (int)size, size);
    pthread_mutex_lock(&lock);
    void *theirs = left[at];
    left[at] = mine;
    pthread_mutex_unlock(&lock);
    free(theirs);
}

static void at_exit_of_thread(void *value) {
    size_t round = (size_t)value;
    exchange((int)(round * 7 % LEFT), 40 + round);
    /* Again, in every round that the C library grants: also after the allocator's own destructor. */
    if (round < 4) pthread_setspecific(key, (void *)(round + 1));
}

static void *live(void *argument) {
    size_t seed = (size_t)argument;
    void *blocks[60];
    pthread_setspecific(key, (void *)1);
    for (int i = 0; i < 60; i++) {
        size_t size = (seed * 31 + i * i) % 3000 + (i == 7 ? 90000 : 0);
        blocks[i] = malloc(size);
        CHECK(blocks[i]);
        memset(blocks[i], 1, size);
    }
    exchange((int)(seed % LEFT), seed % 5000);
    for (int i = 0; i < 60; i++) free(blocks[i]);
    __atomic_sub_fetch(&running, 1, __ATOMIC_RELEASE);
    return 0;
}

static void wave(int number) {
    pthread_t threads[WIDTH];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    running = WIDTH;
    for (size_t i = 0; i < WIDTH; i++) {
        CHECK(!pthread_create(&threads[i], &small, live, (void *)(number * WIDTH + i)));
        if (i % 2) pthread_detach(threads[i]);
    }
    for (int i = 0; i < WIDTH; i += 2) pthread_join(threads[i], 0);
    while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) sched_yield();
    /* The C library keeps the stacks of all that were there at once: no more late than early, however loaded the machine. */
    while (threads_alive() > LINGERING) usleep(1000);
}

/* Detached threads may be in their destructors still. Whoever gives memory back in the background may stay. */
static long resident_when_all_have_gone(void) {
    for (int tenth = 0; tenth < 600 && threads_alive() > 2; tenth++) usleep(100000);
    CHECK(threads_alive() <= 2);
    malloc_trim(0);
    return resident_kib();
}

int main(void) {
    CHECK(!pthread_key_create(&key, at_exit_of_thread));
    for (int number = 0; number < WAVES / 5; number++) wave(number);
    long early = resident_when_all_have_gone();
    for (int number = WAVES / 5; number < WAVES; number++) wave(number);
    long late = resident_when_all_have_gone();
    if (late > early + 2048) printf("resident: %ld KiB, then %ld KiB\n", early, late);
    CHECK(late <= early + 2048);
    CHECK(mappings() < 2000);
    for (int i = 0; i < LEFT; i++) free(left[i]);
    return broken != 0;
}
