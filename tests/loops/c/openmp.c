/* Loops as OpenMP spreads them, for test_openmp.py. */
#include <omp.h>
#include <stdlib.h>

void triad(double *restrict a, const double *restrict b, const double *restrict c, double s, long n) {
#pragma omp parallel for
  for (long i = 0; i < n; i++)
    a[i] = b[i] + s * c[i];
}

double dot(const double *a, const double *b, int n) {
  double s = 0;
#pragma omp parallel for reduction(+ : s)
  for (int i = 0; i < n; i++)
    s += a[i] * b[i];
  return s;
}

#define TRIANGLE(name, how)                            \
  void name(double *out, const double *a, int n) {     \
    _Pragma(how) for (int i = 0; i < n; i++) {         \
      double s = 0;                                    \
      for (int j = 0; j <= i; j++)                     \
        s += a[j];                                     \
      out[i] = s;                                      \
    }                                                  \
  }
TRIANGLE(in_blocks, "omp parallel for schedule(static)")
TRIANGLE(in_turns, "omp parallel for schedule(static, 1)")
TRIANGLE(on_demand, "omp parallel for schedule(dynamic, 4)")
TRIANGLE(shrinking, "omp parallel for schedule(guided)")

void down(double *out, int n) {
#pragma omp parallel for schedule(static, 3)
  for (unsigned char k = 200; k > 10; k -= 3)
    out[k % n] += k;
}

void plane(double *a, int n, int m) {
#pragma omp parallel for collapse(2)
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++)
      a[i * m + j] = 100 * i + j;
}

void phases(double *a, double *sums, int n) {
#pragma omp parallel
  {
    int me = omp_get_thread_num(), all = omp_get_num_threads();
    double own = 0;
    for (int i = me; i < n; i += all)
      a[i] = i;
#pragma omp barrier
#pragma omp for nowait
    for (int i = 0; i < n; i++)
      own += a[n - 1 - i];
#pragma omp critical
    sums[0] += own;
#pragma omp atomic
    sums[1] += 1;
#pragma omp single
    sums[2] += 1;
#pragma omp master
    sums[3] += 1;
#pragma omp sections
    {
#pragma omp section
      sums[4] += 1;
#pragma omp section
      sums[5] += 1;
    }
  }
}

void twice(double *a, int n) {
  for (int k = 0; k < 3; k++) {
#pragma omp parallel for num_threads(3)
    for (int i = 0; i < n; i++)
      a[i] += 1;
  }
}

void inner(double *a, int n) {
#pragma omp parallel for
  for (int i = 0; i < n; i++) {
    double *t = malloc(n * sizeof *t);
#pragma omp parallel for
    for (int j = 0; j < n; j++)
      t[j] = i + j;
    a[i] = t[n - 1];
    free(t);
  }
}

double simd(const double *a, int n) {
  double s = 0;
#pragma omp simd reduction(+ : s)
  for (int i = 0; i < n; i++)
    s += a[i];
  return s;
}

void tasks(double *a, int n) {
#pragma omp parallel
#pragma omp single
  for (int i = 0; i < n; i++)
#pragma omp task firstprivate(i)
    a[i] = i;
}

void in_order(double *a, int n) {
#pragma omp parallel for ordered
  for (int i = 0; i < n; i++) {
#pragma omp ordered
    a[i] = i;
  }
}

void waits(volatile int *flag) {
#pragma omp parallel
  while (omp_get_thread_num() == 1 && flag[0] == 0) {
  }
}

void histogram(const unsigned char *x, long *counts, int n, int step) {
#pragma omp parallel
  {
    int me = omp_get_thread_num();
#pragma omp for
    for (int i = 0; i < n; i++)
      counts[me * step + (x[i] & 3)]++;
  }
}
