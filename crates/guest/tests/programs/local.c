// Where the blocks of pinned threads lie: fresh, after others have freed half of them and they were replaced, and those
// of the threads that come after them, each on another node than its predecessor.
//
// One line a round and thread: round, node, bytes of live blocks that lie there, bytes that lie elsewhere.
#include "numa.h"

enum { PER_NODE = 2, BLOCKS = 12000, LARGE = 8 };

struct worker {
  pthread_t thread;
  int node, number;
  size_t sizes[BLOCKS];
  char *blocks[BLOCKS];
};

static struct worker *workers;
static int count;
static pthread_barrier_t barrier;

static size_t size_of(int i, uint64_t *random) {
  if (i < LARGE) return 100000 + draw(random) % 1000000;
  uint64_t kind = draw(random) % 100;
  return 16 + draw(random) % (kind < 80 ? 500 : kind < 97 ? 4000 : 30000);
}

static void allocate(struct worker *w, int i, uint64_t *random) {
  w->sizes[i] = size_of(i, random);
  w->blocks[i] = malloc(w->sizes[i]);
  CHECK(w->blocks[i]);
  memset(w->blocks[i], i, w->sizes[i]);
}

static void report(const char *round, struct worker *w) {
  size_t bytes[MAX_NODES + 1] = {0}, all = 0;
  for (int i = 0; i < BLOCKS; i++) {
    CHECK((unsigned char)w->blocks[i][w->sizes[i] - 1] == (unsigned char)i);
    add_where(w->blocks[i], w->sizes[i], bytes);
  }
  for (int i = 0; i <= MAX_NODES; i++) all += bytes[i];
  char line[120];
  int len = snprintf(line, sizeof line, "%s %d %zu %zu\n", round, w->node, bytes[w->node], all - bytes[w->node]);
  CHECK(write(1, line, len) == len);
}

static void *first_life(void *arg) {
  struct worker *w = arg;
  uint64_t random = w->number + 1;
  stay_on(w->node);
  for (int i = 0; i < BLOCKS; i++) allocate(w, i, &random);
  report("fresh", w);
  pthread_barrier_wait(&barrier);
  struct worker *other = &workers[(w->number + PER_NODE) % count];
  for (int i = 0; i < BLOCKS; i += 2) free(other->blocks[i]);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < BLOCKS; i += 2) allocate(w, i, &random);
  report("crossed", w);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < BLOCKS; i++) free(other->blocks[i]);
  return NULL;
}

static void *second_life(void *arg) {
  struct worker *w = arg;
  uint64_t random = w->number + 1000;
  stay_on(w->node);
  for (int i = 0; i < BLOCKS; i++) allocate(w, i, &random);
  report("succeeded", w);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < BLOCKS; i++) free(w->blocks[i]);
  return NULL;
}

static void live(void *(*life)(void *), int shift, int nodes) {
  for (int i = 0; i < count; i++) {
    workers[i].node = (i / PER_NODE + shift) % nodes;
    workers[i].number = i;
    CHECK(pthread_create(&workers[i].thread, NULL, life, &workers[i]) == 0);
  }
  for (int i = 0; i < count; i++) CHECK(pthread_join(workers[i].thread, NULL) == 0);
}

int main(void) {
  cpu_set_t set;
  int nodes = 0;
  while (processors(nodes, &set) > 0) nodes++;
  count = nodes * PER_NODE;
  workers = map(sizeof *workers * count);
  pthread_barrier_init(&barrier, NULL, count);
  live(first_life, 0, nodes);
  live(second_life, 1, nodes);
  return 0;
}
