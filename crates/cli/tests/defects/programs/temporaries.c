/* Formats each line into a buffer that lives no longer than the line. */
#include <stdlib.h>
#include <string.h>

static int checksum(const char *line, int length) {
  char *upper = malloc(length + 1); /* the defect */
  for (int i = 0; i < length; i++) upper[i] = line[i] ^ 32;
  int sum = upper[length / 2];
  free(upper);
  return sum;
}

int main(void) {
  char *kept[256];
  for (int i = 0; i < 256; i++) kept[i] = strdup("some line of a file that was read");
  int sum = 0;
  for (int round = 0; round < 300000; round++) sum += checksum(kept[round % 256], 30);
  for (int i = 0; i < 256; i++) free(kept[i]);
  return sum == 42;
}
