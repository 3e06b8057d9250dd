/* Multiplies matrices: a few long blocks, and much computing. */
#include <stdlib.h>

#define N 420

static double *matrix(int seed) {
  double *all = malloc(N * N * sizeof *all);
  for (int i = 0; i < N * N; i++) all[i] = (i * 31 + seed) % 17;
  return all;
}

static double *multiply(const double *a, const double *b) {
  double *c = matrix(0);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      double sum = 0;
      for (int k = 0; k < N; k++) sum += a[i * N + k] * b[k * N + j];
      c[i * N + j] = sum;
    }
  return c;
}

int main(void) {
  double *a = matrix(1), *b = matrix(2), sum = 0;
  for (int round = 0; round < 6; round++) {
    double *c = multiply(a, b);
    sum += c[round];
    free(a);
    a = c;
  }
  free(a);
  free(b);
  return sum == 42;
}
