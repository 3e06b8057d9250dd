// A node that is nearly full, and a demand for more than it has left.
//
// full NODE DEMAND FREE...   leaves FREE MiB on each node, then asks for DEMAND MiB in blocks of 4,000 bytes and some of
//                            a MiB on NODE, and says where they lie, in the order in which they were asked for
//
// Lines: "node N FREE CAPACITY LOW" in bytes, before the demand (LOW: the kernel's low watermark); "run N MIB" for every stretch of MiB that lie on one node;
// "refused MIB" when malloc said no.
#include "numa.h"
#include <linux/mempolicy.h>

enum { MIB = 1 << 20, SMALL = 4000, PER_MIB = MIB / SMALL };

// Takes memory of a node until only so much is left.
static void fill(int node, size_t left) {
  size_t free = meminfo(node, "MemFree:");
  if (free <= left) return;
  size_t len = (free - left) / PAGE * PAGE;
  unsigned long mask = 1ul << node;
  char *ballast = map(len);
  madvise(ballast, len, MADV_NOHUGEPAGE);
  CHECK(syscall(SYS_mbind, ballast, len, MPOL_BIND, &mask, 64L, 0L) == 0);
  memset(ballast, 1, len);
}

// Allocates a MiB, in one piece or in small ones, and says where most of it lies; -1 when refused.
static int mib(int number) {
  size_t where[MAX_NODES + 1] = {0};
  if (number % 8 == 7) {
    char *block = malloc(MIB);
    if (!block) return -1;
    memset(block, 1, MIB);
    add_where(block, MIB, where);
  } else {
    char *blocks[PER_MIB];
    for (int i = 0; i < PER_MIB; i++) {
      if (!(blocks[i] = malloc(SMALL))) return -1;
      memset(blocks[i], 1, SMALL);
    }
    for (int i = 0; i < PER_MIB; i++) add_where(blocks[i], SMALL, where);
  }
  int most = 0;
  for (int node = 1; node <= MAX_NODES; node++)
    if (where[node] > where[most]) most = node;
  return most;
}

// What the kernel keeps of a node: the low watermarks of its zones.
static size_t low(int node) {
  FILE *file = fopen("/proc/zoneinfo", "r");
  CHECK(file);
  char line[200];
  int in = -1;
  size_t pages = 0, value;
  while (fgets(line, sizeof line, file)) {
    sscanf(line, "Node %d,", &in);
    if (in == node && sscanf(line, " low %zu", &value) == 1) pages += value;
  }
  fclose(file);
  return pages * PAGE;
}

int main(int argc, char **argv) {
  CHECK(argc > 3);
  const int here = atoi(argv[1]), demand = atoi(argv[2]), nodes = argc - 3;
  stay_on(here);
  for (int node = 0; node < nodes; node++) fill(node, (size_t)atoi(argv[3 + node]) * MIB);
  for (int node = 0; node < nodes; node++)
    printf("node %d %zu %zu %zu\n", node, meminfo(node, "MemFree:") + meminfo(node, "Inactive(file):"), meminfo(node, "MemTotal:"), low(node));
  int last = -2, length = 0;
  for (int done = 0; done <= demand; done++) {
    int node = done < demand ? mib(done) : -2;
    if (node != last && length) printf("run %d %d\n", last, length);
    if (node == -1) {
      printf("refused %d\n", done);
      return 0;
    }
    length = node == last ? length + 1 : 1;
    last = node;
  }
  return 0;
}
