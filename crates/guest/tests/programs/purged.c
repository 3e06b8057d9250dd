// Whether what was given back stays given back although huge pages are always wanted and khugepaged is in a hurry.
//
// Fills blocks, frees all but one in sixty-four, rests until the pages are gone, and rests again while khugepaged makes
// rounds; as long as that takes, for the guest may be slow. Lines: resident bytes when full, after the first rest, after the
// second; then khugepaged's rounds meanwhile.
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

// Rests until a quarter is gone and nothing has changed for three seconds.
static size_t rest(size_t full) {
  size_t now = full;
  for (int seconds = 0, still = 0; seconds < 120 && (still < 3 || now > full / 4 * 3); seconds++) {
    sleep(1);
    size_t next = resident();
    still = next == now ? still + 1 : 0;
    now = next;
  }
  return now;
}

int main(void) {
  for (int i = 0; i < BLOCKS; i++) {
    CHECK(blocks[i] = malloc(SIZE));
    memset(blocks[i], 1, SIZE);
  }
  size_t full = resident();
  for (int i = 0; i < BLOCKS; i++)
    if (i % 64) free(blocks[i]);
  size_t rested = rest(full);
  long before = rounds();
  for (int seconds = 0; seconds < 12 || (rounds() < before + 2 && seconds < 300); seconds++) sleep(1);
  printf("%zu %zu %zu %ld\n", full, rested, resident(), rounds() - before);
  for (int i = 0; i < BLOCKS; i += 64) CHECK(blocks[i][SIZE - 1] == 1);
  return 0;
}
