// A program that has had much memory in use and has little now: fills MIB, frees and fills again, then keeps one block in
// eight, says so, rests until it is told to go on, and looks whether what it kept is what it was.
//
// churn MIB NAME   makes NAME.settled; goes on when NAME.go is there; exit status 0 when nothing was lost
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1 << 20 };

static unsigned char *blocks[MOST];
static uint32_t sizes[MOST];
static uint64_t state = 1;

static uint64_t draw(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

static size_t fill(size_t from, size_t bytes) {
  size_t count = from, sum = 0;
  for (size_t i = 0; i < MOST && sum < bytes; i++) {
    if (blocks[i]) continue;
    sizes[i] = draw() % 200 ? 64 + draw() % 4000 : 100000 + draw() % 400000;
    if (!(blocks[i] = malloc(sizes[i]))) exit(3);
    memset(blocks[i], (unsigned char)(i ^ sizes[i]), sizes[i]);
    sum += sizes[i];
    count++;
  }
  return count;
}

static size_t keep(unsigned one_in) {
  size_t freed = 0;
  for (size_t i = 0; i < MOST; i++)
    if (blocks[i] && draw() % one_in) {
      freed += sizes[i];
      free(blocks[i]);
      blocks[i] = NULL;
    }
  return freed;
}

static long resident(void) {
  long all, pages = -1;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2) exit(6);
  fclose(file);
  return pages;
}

// Until what was freed has gone back: nothing has changed for three seconds, however slow the machine.
static void rest(void) {
  long now = resident();
  for (int seconds = 0, still = 0; seconds < 120 && still < 3; seconds++) {
    sleep(1);
    long next = resident();
    still = next == now ? still + 1 : 0;
    now = next;
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  char name[200];
  fill(0, (size_t)atoi(argv[1]) << 20);
  for (int round = 0; round < 2; round++) fill(0, keep(2));
  keep(8);
  rest();
  snprintf(name, sizeof name, "%s.settled", argv[2]);
  fclose(fopen(name, "w"));
  snprintf(name, sizeof name, "%s.go", argv[2]);
  while (access(name, F_OK)) usleep(20000);
  size_t kept = 0;
  for (size_t i = 0; i < MOST; i++) {
    if (!blocks[i]) continue;
    kept++;
    for (size_t at = 0; at < sizes[i]; at++)
      if (blocks[i][at] != (unsigned char)(i ^ sizes[i])) return 4;
  }
  return kept > 1000 ? 0 : 5;
}
