/* Sessions and cursors stay among messages that go. Then the program itself counts, from /proc/self/pagemap, the pages that are in memory for
   either, and prints "function live pages" of each. Counting allocates nothing. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SESSIONS 6000
#define CURSORS 1500
#define MESSAGES 240000
#define PAGE 4096

static char *sessions[SESSIONS], *cursors[CURSORS], *messages[MESSAGES];

static char *open_session(void) {
  return memset(malloc(112), 1, 112); /* the sessions */
}

static char *new_cursor(void) {
  return memset(malloc(300), 2, 300); /* the cursors */
}

static char *receive(int length) {
  return memset(malloc(length), 3, length);
}

/* Bytes of one block on one page. */
struct piece {
  uintptr_t page;
  int bytes, of;
};

static struct piece pieces[2 * (SESSIONS + CURSORS)];
static int count;

static int in_order(const void *a, const void *b) {
  uintptr_t left = ((const struct piece *)a)->page, right = ((const struct piece *)b)->page;
  return (left > right) - (left < right);
}

static void add(char *block, int bytes, int of) {
  uintptr_t from = (uintptr_t)block, to = from + bytes;
  while (from < to) {
    uintptr_t end = (from / PAGE + 1) * PAGE;
    if (end > to) end = to;
    pieces[count++] = (struct piece){from / PAGE, (int)(end - from), of};
    from = end;
  }
}

static int is_present(int map, uintptr_t page) {
  uint64_t word = 0;
  if (pread(map, &word, 8, page * 8) != 8) abort();
  return word >> 63;
}

static void count_pages(void) {
  double live[2] = {0, 0}, pages[2] = {0, 0};
  int map = open("/proc/self/pagemap", O_RDONLY);
  for (int i = 0; i < SESSIONS; i++) add(sessions[i], 112, 0);
  for (int i = 0; i < CURSORS; i++) add(cursors[i], 300, 1);
  /* In place: qsort would call malloc. */
  for (int gap = count / 2; gap > 0; gap /= 2)
    for (int i = gap; i < count; i++)
      for (int j = i - gap; j >= 0 && in_order(&pieces[j], &pieces[j + gap]) > 0; j -= gap) {
        struct piece other = pieces[j];
        pieces[j] = pieces[j + gap];
        pieces[j + gap] = other;
      }
  for (int from = 0, to = 0; from < count; from = to) {
    int used = 0;
    for (; to < count && pieces[to].page == pieces[from].page; to++) used += pieces[to].bytes;
    if (used * 4 > PAGE || !is_present(map, pieces[from].page)) continue;
    for (int i = from; i < to; i++) {
      live[pieces[i].of] += pieces[i].bytes;
      pages[pieces[i].of] += (double)PAGE * pieces[i].bytes / used;
    }
  }
  close(map);
  char text[200];
  int length = snprintf(text, sizeof text, "open_session %.0f %.0f\nnew_cursor %.0f %.0f\n", live[0], pages[0],
                        live[1], pages[1]);
  if (write(1, text, length) != length) abort();
}

int main(void) {
  int session = 0, cursor = 0;
  for (int i = 0; i < MESSAGES; i++) {
    if (i % (MESSAGES / SESSIONS) == 0) sessions[session++] = open_session();
    if (i % (MESSAGES / CURSORS) == 0) cursors[cursor++] = new_cursor();
    messages[i] = receive(i % 5 == 0 ? 300 : 112);
  }
  for (int i = 0; i < MESSAGES; i++) free(messages[i]);
  count_pages();
  free(receive(1000)); /* the rest of the day */
  for (int i = 0; i < SESSIONS; i++) free(sessions[i]);
  for (int i = 0; i < CURSORS; i++) free(cursors[i]);
  return 0;
}
