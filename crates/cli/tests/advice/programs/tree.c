/* Builds a tree and walks through it. Nothing is to be saved: everything is used until the end. */
#include <stdlib.h>

struct node { struct node *less, *more; unsigned key; char text[40]; };

static struct node *put(struct node *at, unsigned key) {
  if (!at) {
    at = calloc(1, sizeof *at);
    at->key = key;
    return at;
  }
  if (key < at->key) at->less = put(at->less, key);
  if (key > at->key) at->more = put(at->more, key);
  return at;
}

static unsigned long walk(const struct node *at) {
  return at ? walk(at->less) + walk(at->more) + at->key : 0;
}

static void drop(struct node *at) {
  if (!at) return;
  drop(at->less);
  drop(at->more);
  free(at);
}

int main(void) {
  struct node *root = NULL;
  unsigned key = 1;
  unsigned long sum = 0;
  for (int i = 0; i < 100000; i++) root = put(root, key = key * 1664525u + 1013904223u);
  for (int round = 0; round < 150; round++) sum += walk(root);
  drop(root);
  return sum == 42;
}
