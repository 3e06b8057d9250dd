/* A small interpreter: its values lie in a heap of its own, which is never collected. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PUSH, ADD, MAKE_PAIR, KEEP, JUMP, HALT };

struct value { long number; struct value *first, *rest; };

#define HEAP (256 << 20)
static char *heap, *top, *usable;

static void begin_heap(void) {
  heap = top = usable = mmap(0, HEAP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); /* the defect */
  if (heap == MAP_FAILED) exit(2);
}

static struct value *new_value(void) {
  if (top + sizeof(struct value) > usable) {
    if (usable == heap + HEAP || mprotect(usable, 1 << 20, PROT_READ | PROT_WRITE)) exit(3);
    usable += 1 << 20;
  }
  struct value *value = (struct value *)top;
  top += sizeof *value;
  return value;
}

static struct value *stack[16], *kept;

static long run(const int *code, int rounds) {
  struct value **sp = stack;
  for (const int *pc = code;; pc++) {
    switch (*pc) {
      case PUSH: (*sp++ = new_value())->number = *++pc; break;
      case ADD: sp--; sp[-1]->number += sp[0]->number; break;
      case MAKE_PAIR: {
        struct value *pair = new_value();
        sp--;
        *pair = (struct value){sp[-1]->number, sp[-1], sp[0]};
        sp[-1] = pair;
        break;
      }
      case KEEP: (*--sp)->rest = kept; kept = *sp; break;
      case JUMP: if (rounds--) { pc = code - 1; break; } /* falls through */
      case HALT: return kept->number;
    }
  }
}

int main(void) {
  static const int code[] = {PUSH, 1, PUSH, 2, ADD, PUSH, 3, MAKE_PAIR, KEEP, JUMP, HALT};
  begin_heap();
  long last = 0;
  for (int line = 0; line < 600; line++) {
    char *text = malloc(64);
    last += run(code, 1000);
    snprintf(text, 64, "%ld", last);
    free(text);
    usleep(1000); /* the next line */
  }
  return last == 42;
}
