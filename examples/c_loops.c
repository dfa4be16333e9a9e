/* Nine loops of C to take apart: rooflab loop examples/c_loops.c:stencil --args examples/c_loops.py --n 128
   The same in Python, and what each works on: c_loops.py. */
#include <stddef.h>

/* STREAM: two to three arrays, no reuse. */
void copy(double *restrict a, const double *restrict b, long n) {
  for (long i = 0; i < n; i++)
    a[i] = b[i];
}

void scale(double *restrict a, const double *restrict b, double s, long n) {
  for (long i = 0; i < n; i++)
    a[i] = s * b[i];
}

void add(double *restrict a, const double *restrict b, const double *restrict c, long n) {
  for (long i = 0; i < n; i++)
    a[i] = b[i] + c[i];
}

void triad(double *restrict a, const double *restrict b, const double *restrict c, double s, long n) {
  for (long i = 0; i < n; i++)
    a[i] = b[i] + s * c[i];
}

/* Seven points of a grid: whether three planes fit in a cache decides what it must reload. */
void stencil(double *restrict b, const double *restrict a, double s, long n) {
  for (long i = 1; i < n - 1; i++)
    for (long j = 1; j < n - 1; j++)
      for (long k = 1; k < n - 1; k++) {
        long at = (i * n + j) * n + k;
        b[at] = s * a[at] + a[at - 1] + a[at + 1] + a[at - n] + a[at + n] + a[at - n * n] + a[at + n * n];
      }
}

/* A sparse matrix (CSR) times a vector: where x is read, the matrix decides. */
void spmv(const int *start, const int *column, const double *value, const double *x, double *restrict y, int n) {
  for (int i = 0; i < n; i++) {
    double total = 0.0;
    for (int k = start[i], end = start[i + 1]; k < end; k++)
      total += value[k] * x[column[k]];
    y[i] = total;
  }
}

/* Products of blocks of t × t, added up. */
void matmul(const double *restrict a, const double *restrict b, double *restrict c, long n, long t) {
  for (long ii = 0; ii < n; ii += t)
    for (long kk = 0; kk < n; kk += t)
      for (long jj = 0; jj < n; jj += t)
        for (long i = ii; i < ii + t; i++)
          for (long k = kk; k < kk + t; k++) {
            double x = a[i * n + k];
            for (long j = jj; j < jj + t; j++)
              c[i * n + j] = c[i * n + j] + x * b[k * n + j];
          }
}

/* The place of each wanted number among sorted ones: every step waits for the comparison before it. */
void search(const double *sorted, const double *wanted, long *place, long n, long m) {
  for (long i = 0; i < m; i++) {
    long low = 0, high = n;
    double x = wanted[i];
    while (low < high) {
      long middle = (low + high) / 2;
      if (sorted[middle] < x)
        low = middle + 1;
      else
        high = middle;
    }
    place[i] = low;
  }
}

/* A polynomial at each x: a chain of multiply-adds. */
void horner(const double *restrict x, double *restrict y, const double *restrict coefficient, long n, long m) {
  for (long i = 0; i < n; i++) {
    double value = coefficient[0];
    for (long k = 1; k < m; k++)
      value = value * x[i] + coefficient[k];
    y[i] = value;
  }
}
