// Whether what was given back stays given back although huge pages are always wanted and khugepaged is in a hurry.
//
// Fills blocks, frees all but one in sixty-four, rests until the pages are gone, and rests again while khugepaged makes
// rounds. Lines: resident bytes when full, after the first rest, after the second; then khugepaged's rounds meanwhile.
#include "numa.h"

enum { BLOCKS = 200000, SIZE = 500 };

static char *blocks[BLOCKS];

static size_t resident(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  size_t all, pages;
  CHECK(file && fscanf(file, "%zu %zu", &all, &pages) == 2);
  fclose(file);
  return pages * PAGE;
}

static long rounds(void) {
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/khugepaged/full_scans", "r");
  long count;
  CHECK(file && fscanf(file, "%ld", &count) == 1);
  fclose(file);
  return count;
}

int main(void) {
  for (int i = 0; i < BLOCKS; i++) {
    CHECK(blocks[i] = malloc(SIZE));
    memset(blocks[i], 1, SIZE);
  }
  size_t full = resident();
  for (int i = 0; i < BLOCKS; i++)
    if (i % 64) free(blocks[i]);
  sleep(6);
  size_t rested = resident();
  long before = rounds();
  sleep(12);
  printf("%zu %zu %zu %ld\n", full, rested, resident(), rounds() - before);
  for (int i = 0; i < BLOCKS; i += 64) CHECK(blocks[i][SIZE - 1] == 1);
  return 0;
}
