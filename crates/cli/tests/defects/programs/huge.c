/* A hash table in huge pages, of which each holds one entry. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE (2 << 20)
#define SLOTS 64

static char *slots;

static void make_table(void) {
  size_t bytes = (size_t)SLOTS * HUGE_PAGE;
  if (posix_memalign((void **)&slots, HUGE_PAGE, bytes)) exit(2); /* the defect */
  madvise(slots, bytes, MADV_HUGEPAGE);
}

static void put(unsigned key, const char *value) {
  strcpy(slots + (size_t)(key * 2654435761u % SLOTS) * HUGE_PAGE, value);
}

int main(void) {
  char *line = malloc(100);
  make_table();
  for (unsigned key = 0; key < 3000; key++) {
    snprintf(line, 100, "the value of %u", key);
    put(key, line);
  }
  usleep(100000); /* serves */
  free(line);
  free(slots);
  return 0;
}
