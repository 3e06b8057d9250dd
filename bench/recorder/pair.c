// The bare pair loop: what a recorder adds to an event when the program does nothing else.
// pair THREADS PAIRS: prints the nanoseconds of an event (half a pair) of the slowest thread.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long pairs;
static pthread_barrier_t start;
static double slowest;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static void *loop(void *unused) {
  (void)unused;
  void *volatile object;
  free(malloc(40));
  pthread_barrier_wait(&start);
  double begun = seconds();
  for (long i = 0; i < pairs; i++) {
    object = malloc(40);
    free(object);
  }
  double taken = seconds() - begun;
  pthread_mutex_lock(&lock);
  if (taken > slowest) slowest = taken;
  pthread_mutex_unlock(&lock);
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  int threads = atoi(argv[1]);
  pairs = atol(argv[2]);
  pthread_t ids[64];
  if (threads < 1 || threads > 64 || pairs < 1) return 2;
  pthread_barrier_init(&start, 0, threads);
  for (int i = 0; i < threads; i++)
    if (pthread_create(&ids[i], 0, loop, 0)) return 1;
  for (int i = 0; i < threads; i++) pthread_join(ids[i], 0);
  printf("measured %.3f\n", slowest * 1e9 / (2.0 * pairs));
  return 0;
}
