// Memory policies that the user has set, and whether blocks lie where these say.
//
// interleave   the process interleaves its pages among all nodes, set before its first allocation as numactl does
// thread       a thread that has allocated already asks for node 3
// cpuset N     the process may use node N only, whichever processor it runs on
// limited      its cgroup has room for three such demands, less than one node has: one after the other, freed between
#include "numa.h"
#include <linux/mempolicy.h>

enum { BLOCKS = 4000, SIZE = 8000 };

static size_t where[MAX_NODES + 1];
static char *blocks[BLOCKS];

static void allocate(void) {
  memset(where, 0, sizeof where);
  for (int i = 0; i < BLOCKS; i++) {
    CHECK(blocks[i] = malloc(SIZE));
    memset(blocks[i], 1, SIZE);
    add_where(blocks[i], SIZE, where);
  }
}

static void set_policy(int mode, unsigned long nodes) {
  CHECK(syscall(SYS_set_mempolicy, mode, &nodes, 64L) == 0);
}

int main(int argc, char **argv) {
  const char *what = argv[1];
  const size_t all = (size_t)BLOCKS * SIZE;
  if (!strcmp(what, "interleave") && argc == 2) {
    set_policy(MPOL_INTERLEAVE, 0xF);
    CHECK(execl("/proc/self/exe", "policy", "interleave", "again", NULL));
  } else if (!strcmp(what, "interleave")) {
    allocate();
    for (int node = 0; node < 4; node++) CHECK(where[node] > all / 5 && where[node] < all / 3);
  } else if (!strcmp(what, "thread")) {
    stay_on(1);
    allocate();
    CHECK(where[1] > all / 100 * 99);
    set_policy(MPOL_PREFERRED, 1 << 3);
    for (int i = 0; i < 2; i++) allocate(); // it is looked for now and then
    CHECK(where[3] > all / 100 * 99);
  } else if (!strcmp(what, "limited")) {
    stay_on(3);
    for (int round = 0; round < 8; round++) {
      allocate();
      CHECK(where[3] > all / 100 * 99);
      for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    }
  } else if (!strcmp(what, "cpuset")) {
    int node = atoi(argv[2]);
    for (int from = 0; from < 4; from++) {
      stay_on(from);
      allocate();
      CHECK(where[node] == all);
    }
  }
  puts(what);
  return 0;
}
