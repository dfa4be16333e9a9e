/* Loops of C as people write them, beside those of examples/c_loops.c: python benchmarks/loop_files.py
   benchmarks/c_kernels.py examples/c_loops.py. What each works on: c_kernels.py. */
#include <complex.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Two arrays that may overlap, for all that the compiler knows: checked before the vector loop. */
void saxpy(float *y, const float *x, float a, size_t n) {
  for (size_t i = 0; i < n; i++)
    y[i] += a * x[i];
}

double dot(const double *x, const double *y, long n) {
  double total = 0;
  for (long i = 0; i < n; i++)
    total += x[i] * y[i];
  return total;
}

/* Five points of a grid, a few sweeps from one array to the other. */
void jacobi(double *restrict a, double *restrict b, int n, int sweeps) {
  for (int t = 0; t < sweeps; t++) {
    for (int i = 1; i < n - 1; i++)
      for (int j = 1; j < n - 1; j++)
        b[i * n + j] = 0.2 * (a[i * n + j] + a[i * n + j - 1] + a[i * n + j + 1] + a[(i - 1) * n + j] + a[(i + 1) * n + j]);
    double *swap = a;
    a = b;
    b = swap;
  }
}

void histogram(const unsigned char *x, unsigned *count, long n) {
  for (long i = 0; i < n; i++)
    count[x[i]]++;
}

void prefix(const double *x, double *sum, long n) {
  double total = 0;
  for (long i = 0; i < n; i++) {
    total += x[i];
    sum[i] = total;
  }
}

/* One transform of 2^m complex numbers, in place, in bit-reversed order: butterflies by decimation in frequency. */
void fft(double *re, double *im, const double *wr, const double *wi, int n) {
  for (int half = n / 2, step = 1; half >= 1; half /= 2, step *= 2)
    for (int start = 0; start < n; start += 2 * half)
      for (int k = 0; k < half; k++) {
        int p = start + k, q = p + half;
        double r = re[p] - re[q], i = im[p] - im[q];
        re[p] += re[q];
        im[p] += im[q];
        re[q] = r * wr[k * step] - i * wi[k * step];
        im[q] = r * wi[k * step] + i * wr[k * step];
      }
}

/* Forces between n bodies whose coordinates lie in arrays of their own. */
void nbody(const float *x, const float *y, const float *z, const float *m, float *ax, float *ay, float *az, int n) {
  for (int i = 0; i < n; i++) {
    float sx = 0, sy = 0, sz = 0;
    for (int j = 0; j < n; j++) {
      float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
      float r2 = dx * dx + dy * dy + dz * dz + 1e-4f;
      float f = m[j] / (r2 * sqrtf(r2));
      sx += f * dx;
      sy += f * dy;
      sz += f * dz;
    }
    ax[i] = sx;
    ay[i] = sy;
    az[i] = sz;
  }
}

/* How often a word stands in a text. */
long find(const char *text, const char *word, long n, long m) {
  long found = 0;
  for (long i = 0; i + m <= n; i++) {
    long j = 0;
    while (j < m && text[i + j] == word[j])
      j++;
    found += j == m;
  }
  return found;
}

/* Lines of a matrix times a vector; the vector stays in a cache. */
void gemv(const double *a, const double *x, double *restrict y, int n) {
  for (int i = 0; i < n; i++) {
    double total = 0;
    for (int j = 0; j < n; j++)
      total += a[(size_t)i * n + j] * x[j];
    y[i] = total;
  }
}

void transpose(const double *restrict a, double *restrict b, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      b[(size_t)j * n + i] = a[(size_t)i * n + j];
}

/* A tridiagonal system: each step divides by what the last one made. */
void thomas(const double *a, const double *b, double *c, double *d, int n) {
  c[0] /= b[0];
  d[0] /= b[0];
  for (int i = 1; i < n; i++) {
    double w = 1.0 / (b[i] - a[i] * c[i - 1]);
    c[i] *= w;
    d[i] = (d[i] - a[i] * d[i - 1]) * w;
  }
  for (int i = n - 2; i >= 0; i--)
    d[i] -= c[i] * d[i + 1];
}


/* A list by places in an array: each step waits for the load before it. */
double chase(const int32_t *next, const double *value, int steps) {
  double total = 0;
  int at = 0;
  for (int i = 0; i < steps; i++) {
    total += value[at];
    at = next[at];
  }
  return total;
}

void softmax(const double *x, double *y, int rows, int n) {
  for (int i = 0; i < rows; i++) {
    double most = x[i * n], total = 0;
    for (int j = 1; j < n; j++)
      most = x[i * n + j] > most ? x[i * n + j] : most;
    for (int j = 0; j < n; j++) {
      y[i * n + j] = exp(x[i * n + j] - most);
      total += y[i * n + j];
    }
    for (int j = 0; j < n; j++)
      y[i * n + j] /= total;
  }
}

void sort(double *x, int n) {
  for (int i = 1; i < n; i++) {
    double key = x[i];
    int j = i - 1;
    while (j >= 0 && x[j] > key) {
      x[j + 1] = x[j];
      j--;
    }
    x[j + 1] = key;
  }
}

long sieve(unsigned char *composite, long n) {
  long primes = 0;
  memset(composite, 0, n);
  for (long i = 2; i < n; i++) {
    if (composite[i])
      continue;
    primes++;
    for (long j = i * i; j < n; j += i)
      composite[j] = 1;
  }
  return primes;
}

/* A checksum, a byte at a time. */
uint32_t adler(const uint8_t *data, long n) {
  uint32_t a = 1, b = 0;
  for (long i = 0; i < n; i++) {
    a = (a + data[i]) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

/* All shortest ways between n places. */
void floyd(float *d, int n) {
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) {
        float way = d[i * n + k] + d[k * n + j];
        if (way < d[i * n + j])
          d[i * n + j] = way;
      }
}

void mandelbrot(int *steps, int n, int most) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double cr = -2 + 3.0 * j / n, ci = -1.5 + 3.0 * i / n, zr = 0, zi = 0;
      int k = 0;
      while (k < most && zr * zr + zi * zi < 4) {
        double t = zr * zr - zi * zi + cr;
        zi = 2 * zr * zi + ci;
        zr = t;
        k++;
      }
      steps[i * n + j] = k;
    }
}

/* Lennard-Jones forces over a list of neighbours, structure of arrays. */
void lj(const double *restrict x, const double *restrict y, const double *restrict z, double *restrict fx,
        double *restrict fy, double *restrict fz, const int *restrict neighbour, int n, int each, double cut2) {
  for (int i = 0; i < n; i++) {
    double ax = 0, ay = 0, az = 0;
    for (int k = 0; k < each; k++) {
      int j = neighbour[i * each + k];
      double dx = x[i] - x[j], dy = y[i] - y[j], dz = z[i] - z[j];
      double r2 = dx * dx + dy * dy + dz * dz;
      if (r2 < cut2) {
        double inv = 1.0 / r2, s6 = inv * inv * inv;
        double f = 48.0 * s6 * (s6 - 0.5) * inv;
        ax += f * dx;
        ay += f * dy;
        az += f * dz;
      }
    }
    fx[i] = ax;
    fy[i] = ay;
    fz[i] = az;
  }
}

/* An image of bytes blurred by nine points, rounded. */
void blur(const uint8_t *restrict in, uint8_t *restrict out, int w, int h) {
  for (int y = 1; y < h - 1; y++)
    for (int x = 1; x < w - 1; x++) {
      const uint8_t *p = in + (size_t)y * w + x;
      int sum = p[-w - 1] + 2 * p[-w] + p[-w + 1] + 2 * p[-1] + 4 * p[0] + 2 * p[1] + p[w - 1] + 2 * p[w] + p[w + 1];
      out[(size_t)y * w + x] = (uint8_t)((sum + 8) >> 4);
    }
}

/* A symmetric matrix, of which the lower triangle is read, times a vector: arrays whose sizes are arguments. */
void symv(int n, double a[n][n], const double x[n], double y[n]) {
  for (int i = 0; i < n; i++) {
    double t = 0;
    for (int j = 0; j < i; j++) {
      t += a[i][j] * x[j];
      y[j] += a[i][j] * x[i];
    }
    y[i] += t + a[i][i] * x[i];
  }
}

/* Spectra multiplied, the second one's conjugate, and added up. */
void cmac(double _Complex *restrict acc, const double _Complex *a, const double _Complex *b, long n) {
  for (long i = 0; i < n; i++)
    acc[i] += a[i] * conj(b[i]);
}

/* How many bits differ between rows of bit vectors. */
void hamming(const uint64_t *restrict codes, const uint64_t *restrict query, int32_t *restrict out, int rows, int words) {
  for (int i = 0; i < rows; i++) {
    int d = 0;
    for (int w = 0; w < words; w++)
      d += __builtin_popcountll(codes[(size_t)i * words + w] ^ query[w]);
    out[i] = d;
  }
}

/* A step of upwind advection whose slopes are limited: choices, no branches. */
static inline double minmod(double a, double b) {
  return a * b <= 0 ? 0.0 : fabs(a) < fabs(b) ? a : b;
}
void advect(const double *restrict u, double *restrict out, double c, int n) {
  for (int i = 2; i < n - 2; i++) {
    double sl = minmod(u[i] - u[i - 1], u[i + 1] - u[i]), sm = minmod(u[i - 1] - u[i - 2], u[i] - u[i - 1]);
    double right = u[i] + 0.5 * (1 - c) * sl, left = u[i - 1] + 0.5 * (1 - c) * sm;
    out[i] = u[i] - c * (right - left);
  }
}
