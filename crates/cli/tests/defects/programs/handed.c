/* One thread makes messages, another one frees them. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define ROOM 1024
static void *_Atomic queue[ROOM];

static void *make_message(int number) {
  int *message = malloc(48 + number % 64); /* the defect */
  *message = number;
  return message;
}

static void *consumer(void *rounds) {
  for (long i = 0; i < (long)rounds; i++) {
    void *message;
    while (!(message = atomic_exchange(&queue[i % ROOM], NULL))) sched_yield();
    free(message);
  }
  return NULL;
}

int main(void) {
  long rounds = 200000;
  pthread_t thread;
  pthread_create(&thread, NULL, consumer, (void *)rounds);
  for (long i = 0; i < rounds; i++) {
    void *message = make_message(i);
    while (atomic_load(&queue[i % ROOM])) sched_yield();
    atomic_store(&queue[i % ROOM], message);
  }
  pthread_join(thread, NULL);
  return 0;
}
