// A program at work, a node of which is left meanwhile: one thread a node that builds and changes lists of blocks, and
// knows at the end what they must hold.
//
// Lines of name and numbers, bytes unless said otherwise: what lies on the node, in heaps and in all, at several moments;
// what was moved, by the library's and by the kernel's word.
#include "numa.h"
#include <freehold.h>
#include <stdatomic.h>
#include <time.h>

enum { NODES = 4, LEFT = 1, BLOCKS = 3000, LARGE = 12, ROUNDS = 3, STEP = 8 << 20, OWN = 20 << 20 };

#pragma weak freehold_vacate
#pragma weak freehold_readmit
#pragma weak freehold_heap_create
#pragma weak freehold_heap_malloc
#pragma weak freehold_heap_bind

struct worker {
  pthread_t thread;
  int node;
  size_t sizes[BLOCKS];
  unsigned char *blocks[BLOCKS];
};

static struct worker *workers;
static unsigned char *own;  // a mapping that no heap knows
static pthread_barrier_t barrier;
static atomic_int go_on = 1, wrong;

static void make(struct worker *w, int i, uint64_t *random) {
  w->sizes[i] = i < LARGE ? 500000 + draw(random) % 3000000 : 16 + draw(random) % 6000;
  CHECK(w->blocks[i] = malloc(w->sizes[i]));
  memset(w->blocks[i], (unsigned char)(w->sizes[i] + i), w->sizes[i]);
}

static void look(struct worker *w, int i) {
  unsigned char all = (unsigned char)(w->sizes[i] + i);
  for (size_t at = 0; at < w->sizes[i]; at += 1021)
    if (w->blocks[i][at] != all) atomic_store(&wrong, 1);
  if (w->blocks[i][w->sizes[i] - 1] != all) atomic_store(&wrong, 1);
}

static void *work(void *arg) {
  struct worker *w = arg;
  uint64_t random = w->node + 1;
  stay_on(w->node);
  for (int i = 0; i < BLOCKS; i++) make(w, i, &random);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  // Writes all the time, so that a page that were copied and not moved would show; frees and allocates some.
  for (int round = 0; atomic_load(&go_on) || round < ROUNDS; round++, usleep(2000)) {
    for (int i = round % 7; i < BLOCKS; i += 7) {
      look(w, i);
      if (draw(&random) % (i < LARGE ? 500 : 50) == 0) {
        free(w->blocks[i]);
        make(w, i, &random);
      }
    }
  }
  for (int i = 0; i < BLOCKS; i++) look(w, i);
  return NULL;
}

// Bytes that the process has on the node; `heaps` only: those with a policy, which only the library sets.
static size_t lying(int node, int heaps) {
  FILE *file = fopen("/proc/self/numa_maps", "r");
  CHECK(file);
  static char line[1 << 16];
  char key[8];
  size_t sum = 0;
  int len = snprintf(key, sizeof key, " N%d=", node);
  while (fgets(line, sizeof line, file)) {
    char *found = strstr(line, key), *policy = strchr(line, ' ');
    if (!found || (heaps && strncmp(policy, " prefer", 7))) continue;
    sum += strtoul(found + len, NULL, 10);
  }
  fclose(file);
  return sum * PAGE;
}

static size_t moved_by_kernel(void) {
  FILE *file = fopen("/proc/vmstat", "r");
  char name[64];
  size_t count, found = 0;
  CHECK(file);
  while (fscanf(file, "%63s %zu", name, &count) == 2)
    if (!strcmp(name, "pgmigrate_success")) found = count;
  fclose(file);
  return found * PAGE;
}

static double seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

// In calls of a limited length, as a program would that has other things to do.
static void leave(int node) {
  struct freehold_vacated part, sum = {0};
  size_t before = lying(node, 1), all = lying(node, 0), kernel = moved_by_kernel();
  int calls = 0, more;
  printf("parts");
  do {
    double start = seconds();
    more = freehold_vacate(node, 400 << 20, STEP, &part);
    double took = seconds() - start;
    CHECK(more >= 0 && part.moved < STEP + (4 << 20));
    CHECK(took >= part.moved / (double)(400 << 20));
    sum.moved += part.moved;
    printf(" %zu", (size_t)part.moved);
    calls++;
  } while (more && calls < 100);
  printf("\nbefore %zu %zu\nmoved %zu %zu %zu\ncalls %d %d\n", before, all, (size_t)sum.moved, moved_by_kernel() - kernel,
         (size_t)part.left, calls, more);
  printf("after %zu %zu\n", lying(node, 1), lying(node, 0));
}

static void bound_heap(void) {
  enum { COUNT = 4000, SIZE = 3000 };
  static char *blocks[COUNT];
  freehold_heap *heap = freehold_heap_create(0, "bound");
  CHECK(heap);
  size_t where[MAX_NODES + 1];
  for (int node = 2; node < NODES; node++) {
    CHECK(freehold_heap_bind(heap, node) == 0);
    if (node == 2)
      for (int i = 0; i < COUNT; i++) memset(blocks[i] = freehold_heap_malloc(heap, SIZE), i, SIZE);
    memset(where, 0, sizeof where);
    for (int i = 0; i < COUNT; i++) {
      CHECK(blocks[i][SIZE - 1] == (char)i);
      add_where(blocks[i], SIZE, where);
    }
    CHECK(where[node] == (size_t)COUNT * SIZE);
  }
  CHECK(freehold_heap_bind(heap, NODES) == -1 && errno == EINVAL);
  CHECK(freehold_heap_bind(heap, -1) == 0);
  puts("bound 1");
  // Bound to none, it gives everyone memory of his own node.
  memset(where, 0, sizeof where);
  size_t own = 0;
  for (int i = 0; i < COUNT; i++) {
    if (i % (COUNT / NODES) == 0) stay_on(i / (COUNT / NODES));
    char *block = freehold_heap_malloc(heap, SIZE);
    memset(block, 1, SIZE);
    size_t before = where[i / (COUNT / NODES)];
    add_where(block, SIZE, where);
    own += where[i / (COUNT / NODES)] - before;
  }
  printf("followed %zu %d\n", own, COUNT * SIZE);
  stay_on(0);
}

int main(void) {
  CHECK(freehold_vacate);
  own = map(OWN);
  stay_on(LEFT);
  memset(own, 77, OWN);
  stay_on(0);
  bound_heap();
  workers = map(sizeof *workers * NODES);
  pthread_barrier_init(&barrier, NULL, NODES + 1);
  for (int i = 0; i < NODES; i++) {
    workers[i].node = i;
    CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
  }
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  leave(LEFT);
  usleep(300000);
  printf("later %zu\n", lying(LEFT, 1));
  for (int i = 0; i < OWN; i++)
    if (own[i] != 77) atomic_store(&wrong, 1);
  atomic_store(&go_on, 0);
  for (int i = 0; i < NODES; i++) CHECK(pthread_join(workers[i].thread, NULL) == 0);
  CHECK(freehold_vacate(NODES, 0, 0, NULL) == -1 && errno == EINVAL);
  CHECK(freehold_readmit(LEFT) == 0);
  stay_on(LEFT);
  size_t where[MAX_NODES + 1] = {0};
  for (int i = 0; i < 400; i++) {
    char *block = malloc(100000);
    memset(block, 1, 100000);
    add_where(block, 100000, where);
  }
  printf("readmitted %zu %d\nwrong %d\n", where[LEFT], 400 * 100000, atomic_load(&wrong));
  return 0;
}
