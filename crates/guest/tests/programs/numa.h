// What the programs need of Linux's nodes, by bare system calls: no library, so that nothing else allocates.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_NODES 16
#define PAGE 4096

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, strerror(errno)); \
      _exit(2);                                                                 \
    }                                                                           \
  } while (0)

// Memory that no malloc knows.
static void *map(size_t len) {
  void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(at != MAP_FAILED);
  return at;
}

// The processors of a node; their number, 0 for a node without.
static inline int processors(int node, cpu_set_t *set) {
  char path[80], text[256];
  snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
  FILE *file = fopen(path, "r");
  CPU_ZERO(set);
  if (!file) return 0;
  int first, last;
  if (fgets(text, sizeof text, file))
    for (char *part = strtok(text, ","); part; part = strtok(NULL, ",")) {
      int fields = sscanf(part, "%d-%d", &first, &last);
      for (int cpu = first; fields > 0 && cpu <= (fields == 2 ? last : first); cpu++) CPU_SET(cpu, set);
    }
  fclose(file);
  return CPU_COUNT(set);
}

// Keeps the calling thread on a node, and waits until it is there.
static inline void stay_on(int node) {
  cpu_set_t set;
  CHECK(processors(node, &set) > 0);
  CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
  unsigned at;
  do {
    sched_yield();
    CHECK(syscall(SYS_getcpu, NULL, &at, NULL) == 0);
  } while ((int)at != node);
}

// A number of a node's meminfo, in bytes.
static inline size_t meminfo(int node, const char *key) {
  char path[80], line[160];
  snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", node);
  FILE *file = fopen(path, "r");
  CHECK(file);
  size_t kib = 0;
  while (fgets(line, sizeof line, file)) {
    char *found = strstr(line, key);
    if (found) kib = strtoul(found + strlen(key), NULL, 10);
  }
  fclose(file);
  return kib * 1024;
}

// The nodes of pages, as the kernel has it. One that the kernel is just moving is nowhere for a moment: ask again.
static inline void ask_where(long count, void **pages, int *nodes) {
  int nowhere = 1;
  for (int times = 0; nowhere && times < 3; times++) {
    CHECK(syscall(SYS_move_pages, 0, count, pages, NULL, nodes, 0) == 0);
    nowhere = 0;
    for (long i = 0; i < count; i++) nowhere |= nodes[i] == -ENOENT;
    if (nowhere) usleep(1000);
  }
}

// Adds to `bytes`, by node, what of [at, at + len) lies there; what lies nowhere goes to the last entry.
static inline void add_where(const void *at, size_t len, size_t bytes[MAX_NODES + 1]) {
  uintptr_t start = (uintptr_t)at, end = start + len;
  for (uintptr_t page = start & ~(uintptr_t)(PAGE - 1); page < end;) {
    void *pages[512];
    int nodes[512], count = 0;
    for (uintptr_t p = page; p < end && count < 512; p += PAGE) pages[count++] = (void *)p;
    ask_where(count, pages, nodes);
    for (int i = 0; i < count; i++, page += PAGE) {
      uintptr_t from = page > start ? page : start, to = page + PAGE < end ? page + PAGE : end;
      bytes[nodes[i] >= 0 && nodes[i] < MAX_NODES ? nodes[i] : MAX_NODES] += to - from;
    }
  }
}

// A small generator of numbers, the same every time.
static inline uint64_t draw(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}
