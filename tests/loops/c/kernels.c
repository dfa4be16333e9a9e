#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
struct point { double x, y; int tag; };
static double table[16] = {1, 2, 3};
static int calls;
static double squared(double x) { return x * x; }

double helpers(const double *x, int n) {
  double s = 0;
  for (int i = 0; i < n; i++)
    s += squared(x[i]) + table[i & 15];
  return s;
}

int local(const double *x, int n) {
  double seen[8];
  for (int i = 0; i < 8; i++) seen[i] = 0;
  for (int i = 0; i < n; i++) seen[i & 7] += x[i];
  return seen[3] > 0;
}

double heap(int n) {
  double *made = malloc(n * sizeof(double));
  for (int i = 0; i < n; i++) made[i] = i;
  double last = made[n - 1];
  free(made);
  return last;
}

void points(struct point *p, int n) {
  for (int i = 0; i < n; i++) { p[i].x = p[i].y; p[i].tag = i; }
}

double rows(double **a, int n, int m) {
  double s = 0;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++)
      s += a[i][j];
  return s;
}

float small(const float *x, unsigned char *flag, _Bool on, short by, int n) {
  float s = 0;
  for (int i = 0; i < n; i++)
    if (on && x[i] > 0.5f) { s += sqrtf(x[i]); flag[i] = (unsigned char)by; }
  return s;
}

double vla(int n) {
  double s = 0;
  for (int i = 1; i <= n; i++) {
    double t[i];
    for (int j = 0; j < i; j++) t[j] = 1;
    s += t[i - 1];
  }
  return s;
}

int counter(int *out) { calls += 1; out[0] = calls; return calls; }

double threads(const double *x, int n) {
  double s = 0;
#pragma omp parallel for reduction(+ : s)
  for (int i = 0; i < n; i++) s += x[i];
  return s;
}

void unseen(double *x, int n) { qsort(x, n, sizeof *x, (int (*)(const void *, const void *))strcmp); }
long over(const double *x, int n) { double s = 0; for (int i = 0; i <= n; i++) s += x[i]; return (long)s; }
void heap_over(int n) { double *m = malloc(8 * n); for (int i = 0; i <= n; i++) m[i] = 1; free(m); }
double local_under(int n) { double t[4] = {0}; return t[n - 5]; }
double after(int n) { double *m = malloc(8 * n); free(m); return m[0]; }
void twice(int n) { double *m = malloc(8 * n); free(m); free(m); }
double null(double *x) { return x[0]; }
void copied(double *a, const double *b, int n) { memcpy(a, b, 8 * n); }
double rows_over(double **a, int n) { return a[1][n]; }
int endless(volatile int *flag) { while (flag[0] == 0) {} return 1; }
int silent(int n) { for (;;) n = n * 3 + 1; return n; }
int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
void asserts(int n) { assert(n > 3); }
double by_value(struct point p) { return p.x; }
long double wide(const double *x, int n) { long double s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }
int divided(int n, int by) { return n / by + n % (by + 1); }
static double one(double x) { return x + 1; }
static double (*chosen)(double);
double through(const double *x, int n) {
  double (*f[2])(double) = {one, one}, s = 0;
  for (int i = 0; i < n; i++) s += f[i & 1](x[i]);
  return s;
}
double astray(double x) { return chosen(x); }
double pointed(double (*f)(double), double x) { return f(x); }
