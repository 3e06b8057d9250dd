/* Maps a window for each picture that it looks at, and unmaps it only where all went well. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WINDOW 200000

static char *open_window(int picture) {
  char *window = mmap(0, WINDOW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* the defect */
  if (window == MAP_FAILED) exit(2);
  memset(window, picture + 1, WINDOW);
  return window;
}

static int look(int picture) {
  char *title = malloc(100 + picture % 50);
  title[0] = picture;
  char *window = open_window(picture);
  int found = 0;
  for (int round = 0; round < 8; round++)
    for (int i = 0; i < WINDOW; i++) found += window[i] == title[0] + round;
  free(title);
  if (picture % 4 == 0) munmap(window, WINDOW);
  return found;
}

int main(void) {
  int sum = 0;
  for (int picture = 0; picture < 400; picture++) sum += look(picture % 100);
  return sum == 42;
}
