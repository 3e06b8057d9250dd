/* A periodic task with a deadline allocates; another thread frees what it was handed.
 *
 *   cc -pthread periodic.c $(pkg-config --cflags --libs freehold) -o periodic && ./periodic 1000 1000
 *
 * The heap is strict and as long as its proof wants, so no allocation can fail in whatever order blocks come back. */
#include <freehold.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LONGEST = 4096, SMALLEST = 64, RING = 64 };

/* Messages on their way: one producer, one consumer. */
static struct message {
    unsigned char *bytes;
    size_t length;
} ring[RING];
static atomic_size_t written, read_so_far;
static atomic_int over;
static freehold_strict *heap;

static void nap(long nanoseconds) {
    struct timespec time = {0, nanoseconds};
    nanosleep(&time, NULL);
}

/* Reads every message and sends its block back; the sum of all bytes. */
static void *consume(void *sum) {
    for (;;) {
        size_t at = atomic_load_explicit(&read_so_far, memory_order_relaxed);
        if (at == atomic_load_explicit(&written, memory_order_acquire)) {
            if (atomic_load(&over) && at == atomic_load(&written))
                return NULL;
            nap(20000);
            continue;
        }
        struct message one = ring[at % RING];
        for (size_t i = 0; i < one.length; i++)
            *(unsigned long *)sum += one.bytes[i];
        if (freehold_strict_send(heap, one.bytes) != FREEHOLD_DONE)
            abort();
        atomic_store_explicit(&read_so_far, at + 1, memory_order_release);
    }
}

int main(int argc, char **argv) {
    size_t periods = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    long period = (argc > 2 ? strtol(argv[2], NULL, 10) : 1000) * 1000;
    size_t length = freehold_strict_enough((RING + 2) * LONGEST, LONGEST, SMALLEST);
    void *memory = freehold_reserve(length, 1);
    if (!memory)
        memory = freehold_reserve(length, 0); /* not allowed to lock */
    heap = memory ? freehold_strict_create(memory, length, SMALLEST) : NULL;
    if (!heap) {
        fprintf(stderr, "no heap of %zu bytes\n", length);
        return 1;
    }
    unsigned long sum = 0;
    pthread_t consumer;
    if (pthread_create(&consumer, NULL, consume, &sum))
        return 1;
    for (size_t number = 0; number < periods; number++) {
        while (number - atomic_load_explicit(&read_so_far, memory_order_acquire) >= RING)
            nap(20000);
        size_t size = 1 + number * 37 % LONGEST;
        unsigned char *bytes = freehold_strict_malloc(heap, size);
        if (!bytes) {
            fprintf(stderr, "message %zu: no room, against the proof\n", number);
            return 1;
        }
        memset(bytes, (unsigned char)number, size);
        ring[number % RING] = (struct message){bytes, size};
        atomic_store_explicit(&written, number + 1, memory_order_release);
        nap(period);
    }
    atomic_store(&over, 1);
    pthread_join(consumer, NULL);
    while (freehold_strict_take_in(heap)) {
    }
    printf("%zu messages, sum of their bytes %lu, check %d\n", periods, sum, freehold_strict_check(heap));
    return freehold_strict_check(heap);
}
