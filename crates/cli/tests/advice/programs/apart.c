/* Reads texts, keeps a mark of each, frees the texts, and then makes longer fields. With FOLLOWED, marks lie in an array of their own. */
#include <stdlib.h>
#include <string.h>

#define TEXTS 9000
#define FIELDS 700

struct mark { struct mark *next; int number, weight; };

#ifdef FOLLOWED
static struct mark array[TEXTS];
static struct mark *new_mark(int number) { return &array[number]; }
#else
static struct mark *new_mark(int number) {
  (void)number;
  return malloc(sizeof(struct mark));
}
#endif

static struct mark *marks;
static char *texts[TEXTS], *fields[FIELDS];

int main(void) {
  for (int i = 0; i < TEXTS; i++) {
    texts[i] = malloc(3900);
    memset(texts[i], i, 3900);
    struct mark *mark = new_mark(i);
    *mark = (struct mark){marks, i, texts[i][i % 3900]};
    marks = mark;
  }
  for (int i = 0; i < TEXTS; i++) free(texts[i]);
  long sum = 0;
  for (int i = 0; i < FIELDS; i++) {
    fields[i] = malloc(43000);
    memset(fields[i], i, 43000);
  }
  for (int round = 0; round < 8; round++)
    for (int i = 0; i < FIELDS; i++)
      for (int at = 0; at < 43000; at++) sum += fields[i][at] * round;
  for (struct mark *mark = marks; mark; mark = mark->next) sum += mark->weight;
  return sum == 42;
}
