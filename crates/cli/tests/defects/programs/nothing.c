/* Nothing is wrong: buffers are kept, tables are sized once, everything is freed. */
#include <stdlib.h>
#include <string.h>

static double *table(int length) {
  double *values = malloc(length * sizeof *values);
  for (int i = 0; i < length; i++) values[i] = i;
  return values;
}

int main(void) {
  double *values = table(200000), sum = 0;
  for (int round = 0; round < 200; round++) {
    double *row = malloc(1000 * sizeof *row);
    double *other = malloc(1000 * sizeof *other);
    for (int i = 0; i < 1000; i++) row[i] = other[i] = values[(i * round) % 200000];
    for (int i = 0; i < 200000; i++) sum += values[i] * row[i % 1000];
    free(row);
    free(other);
  }
  free(values);
  return sum == 42;
}
