// Loops of C++ as people write them: templates, std::vector and its algorithms, a matrix as a class. See c_kernels.py.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

template <typename T, int R> static T taps(const T *x, const T *w) {
  T s = 0;
  for (int k = -R; k <= R; k++)
    s += w[k + R] * x[k];
  return s;
}
// FIR filter with a compile-time radius.
extern "C" void fir(const float *__restrict x, const float *__restrict w, float *__restrict y, int n) {
  for (int i = 8; i < n - 8; i++)
    y[i] = taps<float, 8>(x + i, w);
}

// std::vector temporaries, iterators and algorithms.
extern "C" double variance(const double *x, int n) {
  std::vector<double> v(x, x + n);
  double mean = std::accumulate(v.begin(), v.end(), 0.0) / n;
  std::transform(v.begin(), v.end(), v.begin(), [mean](double a) { return (a - mean) * (a - mean); });
  return std::accumulate(v.begin(), v.end(), 0.0) / n;
}

// OpenMP simd reduction (max and sum).
extern "C" double residual(const double *__restrict a, const double *__restrict b, int n) {
  double s = 0, m = 0;
#pragma omp simd reduction(+ : s) reduction(max : m)
  for (int i = 0; i < n; i++) {
    double d = std::fabs(a[i] - b[i]);
    s += d * d;
    m = d > m ? d : m;
  }
  return std::sqrt(s) + m;
}

struct Matrix {
  double *data;
  int n;
  double &operator()(int i, int j) { return data[i * n + j]; }
};
// LU without pivoting through a small matrix class.
extern "C" void ludec(double *a, int n) {
  Matrix m{a, n};
  for (int k = 0; k < n; k++)
    for (int i = k + 1; i < n; i++) {
      m(i, k) /= m(k, k);
      for (int j = k + 1; j < n; j++)
        m(i, j) -= m(i, k) * m(k, j);
    }
}

// Radix-sort pass: counts, prefix, scatter.
extern "C" void radix(const uint32_t *in, uint32_t *out, int n, int shift) {
  std::array<int, 256> count{};
  for (int i = 0; i < n; i++)
    count[(in[i] >> shift) & 255]++;
  int at = 0;
  for (auto &c : count) {
    int t = c;
    c = at;
    at += t;
  }
  for (int i = 0; i < n; i++)
    out[count[(in[i] >> shift) & 255]++] = in[i];
}

// xorshift Monte Carlo.
extern "C" double pi_mc(int n, uint64_t seed) {
  uint64_t s = seed;
  long in = 0;
  for (int i = 0; i < n; i++) {
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    double x = (double)(s >> 40) * (1.0 / 16777216.0), y = (double)((s >> 16) & 0xffffff) * (1.0 / 16777216.0);
    in += x * x + y * y < 1.0;
  }
  return 4.0 * in / n;
}
