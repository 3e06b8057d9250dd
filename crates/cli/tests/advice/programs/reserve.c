/* Makes a list of values longer by a little whenever it is full. With FOLLOWED, it has room for all from the beginning. */
#include <stdlib.h>
#include <string.h>

#define VALUES 6000000
#define STEP 100000

static double *values;
static int room;

static void add(int count, double value) {
  if (count == room) {
#ifdef FOLLOWED
    int more = VALUES;
#else
    int more = STEP;
#endif
    double *longer = malloc((room + more) * sizeof *longer);
    if (values) memcpy(longer, values, room * sizeof *longer);
    free(values);
    values = longer;
    room += more;
  }
  values[count] = value;
}

int main(void) {
  for (int i = 0; i < VALUES; i++) add(i, i * 0.5);
  double sum = 0;
  for (int i = 0; i < VALUES; i++) sum += values[i];
  free(values);
  return sum == 42;
}
