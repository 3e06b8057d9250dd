/* Counts words by a table that is sized once; strings live as long as the table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 65536

struct entry { char *word; unsigned count; };

int main(void) {
  struct entry *table = calloc(SLOTS, sizeof *table);
  unsigned state = 1, sum = 0;
  for (int i = 0; i < 60000000; i++) {
    state = state * 1664525u + 1013904223u;
    unsigned number = (state >> 12) % 20000, at = number * 2654435761u % SLOTS;
    struct entry *entry = &table[at];
    if (!entry->word) {
      char text[32];
      snprintf(text, sizeof text, "word number %u", number);
      entry->word = strdup(text);
    }
    entry->count++;
    sum += entry->count;
  }
  for (int i = 0; i < SLOTS; i++) free(table[i].word);
  free(table);
  return sum == 42;
}
