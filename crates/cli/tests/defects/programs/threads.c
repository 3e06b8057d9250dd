/* Threads that end, and leave behind what each had for itself. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static __thread char *scratch;

static char *own_scratch(void) {
  if (!scratch) {
    scratch = malloc(200000); /* the defect */
    memset(scratch, 1, 200000);
  }
  return scratch;
}

static void *work(void *number) {
  for (int i = 0; i < 500; i++) {
    char *piece = malloc(100 + i);
    piece[0] = own_scratch()[i] + (long)number;
    free(piece);
  }
  return NULL;
}

int main(void) {
  char *table = calloc(1000, 100);
  for (long round = 0; round < 40; round++) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)round);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    table[round] = 1;
  }
  free(table);
  return 0;
}
