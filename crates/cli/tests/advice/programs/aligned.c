/* Keeps counters, each in a cache line of its own, so that processors do not wait for each other's. */
#include <stdlib.h>

#define COUNTERS 300000

struct counter { struct counter *next; long count; char rest[48]; };

int main(void) {
  struct counter *first = NULL;
  for (int i = 0; i < COUNTERS; i++) {
    struct counter *counter = aligned_alloc(64, sizeof *counter);
    *counter = (struct counter){first, i, {0}};
    first = counter;
  }
  long sum = 0;
  for (int round = 0; round < 60; round++)
    for (struct counter *at = first; at; at = at->next) sum += at->count++;
  return sum == 42;
}
