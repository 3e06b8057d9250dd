// The bare pair loop: what a recorder adds to an event when the program does nothing else.
// pair THREADS PAIRS [stamps|DEPTH]: prints the nanoseconds of an event (half a pair) of the slowest
// thread, and its processor time. With `stamps`, every event reads the time stamp counter: what no recorder can go below.
// With a depth, the loop runs so many calls deep (the thread's first functions are among them): what call stacks cost.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

static long pairs;
static int stamps;
static pthread_barrier_t start;
static double slowest, busiest;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static void loop(void) {
  void *volatile object;
  volatile unsigned long long seen;
  free(malloc(40));
  pthread_barrier_wait(&start);
  double begun = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
  if (stamps) {
    for (long i = 0; i < pairs; i++) {
      object = malloc(40);
      seen = __rdtsc();
      seen = __rdtsc();
      free(object);
    }
  } else {
    for (long i = 0; i < pairs; i++) {
      object = malloc(40);
      free(object);
    }
  }
  double taken = seconds(CLOCK_MONOTONIC) - begun;
  cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
  (void)seen;
  pthread_mutex_lock(&lock);
  if (taken > slowest) slowest = taken;
  if (cpu > busiest) busiest = cpu;
  pthread_mutex_unlock(&lock);
}

// A frame of fixed size, as most are: the unwind tables describe it by the stack pointer.
static int depth;
__attribute__((noinline)) static int down(int left) {
  volatile char room[40];
  room[left % 40] = 0;
  if (left > 0) return down(left - 1) + room[left % 40];
  loop();
  return room[0];
}

// The start of a thread in the C library has two frames, then come this one, `down` and the loop itself.
enum { OTHERS = 4 };
static void *begin(void *unused) {
  (void)unused;
  down(depth > OTHERS ? depth - OTHERS - 1 : 0);
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  stamps = argc > 3 && !strcmp(argv[3], "stamps");
  depth = argc > 3 ? atoi(argv[3]) : 0;
  int threads = atoi(argv[1]);
  pairs = atol(argv[2]);
  pthread_t ids[64];
  if (threads < 1 || threads > 64 || pairs < 1) return 2;
  pthread_barrier_init(&start, 0, threads);
  for (int i = 0; i < threads; i++)
    if (pthread_create(&ids[i], 0, begin, 0)) return 1;
  for (int i = 0; i < threads; i++) pthread_join(ids[i], 0);
  printf("measured %.3f\n", slowest * 1e9 / (2.0 * pairs));
  printf("cpu %.3f\n", busiest * 1e9 / (2.0 * pairs));
  return 0;
}
