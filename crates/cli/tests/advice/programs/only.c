/* Builds lists at one site, and frees nearly all of each. The site keeps pages of which it uses little; but apart from what should it be? All
   that the program has is made there. */
#include <stdlib.h>
#include <unistd.h>

struct node { struct node *next; unsigned long value; char text[48]; };

int main(void) {
  enum { ROUNDS = 4, NODES = 200000, KEPT = 128 };
  for (int round = 0; round < ROUNDS; round++) {
    struct node *first = NULL;
    for (int i = 0; i < NODES; i++) {
      struct node *node = malloc(sizeof *node);
      node->value = i;
      node->next = first;
      first = node;
    }
    struct node **at = &first;
    for (int i = 0; *at; i++) {
      struct node *node = *at;
      if (i % KEPT == 0) at = &node->next;
      else { *at = node->next; free(node); }
    }
    usleep(200000);
    while (first) {
      struct node *next = first->next;
      free(first);
      first = next;
    }
  }
  return 0;
}
