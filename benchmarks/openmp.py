"""OpenMP in C: predicted times of one thread and of two beside measured ones, of loops with several schedules.

python benchmarks/openmp.py --machine mine.toml        # a machine measured here, shortly before
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np

import rooflab

FLAGS = "-O3 -march=native -fopenmp"
CODE = """
#include <math.h>
#include <omp.h>
void triad(double *restrict a, const double *restrict b, const double *restrict c, double s, long n) {
#pragma omp parallel for
  for (long i = 0; i < n; i++) a[i] = b[i] + s * c[i];
}
double dot(const double *a, const double *b, int n) {
  double s = 0;
#pragma omp parallel for simd reduction(+ : s)
  for (int i = 0; i < n; i++) s += a[i] * b[i];
  return s;
}
void triangle(double *out, const double *a, int n) {
#pragma omp parallel for
  for (int i = 0; i < n; i++) {
    double s = 0;
    for (int j = 0; j <= i; j++) s += a[j];
    out[i] = s;
  }
}
void triangle_dynamic(double *out, const double *a, int n) {
#pragma omp parallel for schedule(dynamic, 16)
  for (int i = 0; i < n; i++) {
    double s = 0;
    for (int j = 0; j <= i; j++) s += a[j];
    out[i] = s;
  }
}
void one_by_one(double *out, const double *a, int n) {
#pragma omp parallel for schedule(dynamic)
  for (int i = 0; i < n; i++) out[8 * i] = a[i] * a[i];
}
void jacobi(double *a, double *b, int n, int steps) {
  for (int k = 0; k < steps; k++) {
#pragma omp parallel for collapse(2)
    for (int i = 1; i < n - 1; i++)
      for (int j = 1; j < n - 1; j++)
        b[i * n + j] = 0.25 * (a[i * n + j - 1] + a[i * n + j + 1] + a[(i - 1) * n + j] + a[(i + 1) * n + j]);
    double *t = a; a = b; b = t;
  }
}
void matmul(const double *restrict a, const double *restrict b, double *restrict c, int n) {
#pragma omp parallel for
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
}
void roots(double *out, const double *a, int n) {
#pragma omp parallel for schedule(guided)
  for (int i = 0; i < n; i++) {
    double x = a[i];
    for (int k = 0; k < 12; k++) x = 0.5 * (x + a[i] / x);
    out[i] = x;
  }
}
void histogram(const unsigned char *x, long *counts, int n, int step) {
#pragma omp parallel
  {
    int me = omp_get_thread_num();
#pragma omp for
    for (int i = 0; i < n; i++) counts[me * step + (x[i] & 3)]++;
  }
}
void in_turns(double *a, int n, int steps) {
  for (int k = 0; k < steps; k++)
#pragma omp parallel for schedule(static, 1)
    for (int i = 0; i < n; i++) a[i] = a[i] * 0.5 + 1.0;
}
"""


def cases() -> dict[str, tuple]:
    """Arguments by function; "histogram padded" is `histogram` with a line for each thread."""
    ones = np.ones
    rng = np.random.default_rng(1)
    picks = rng.integers(0, 4, 1 << 21).astype(np.uint8)
    return {
        "triad": (np.zeros(400_000), ones(400_000), ones(400_000), 3.0, 400_000),
        "dot": (ones(200_000), ones(200_000), 200_000),
        "triangle": (np.zeros(2000), ones(2000), 2000),
        "triangle_dynamic": (np.zeros(2000), ones(2000), 2000),
        "one_by_one": (np.zeros(8 * 20_000), ones(20_000), 20_000),
        "jacobi": (ones(400 * 400), ones(400 * 400), 400, 10),
        "matmul": (ones(250 * 250), ones(250 * 250), np.zeros(250 * 250), 250),
        "roots": (np.zeros(50_000), rng.uniform(1, 9, 50_000), 50_000),
        "histogram": (picks, np.zeros(64, np.int64), len(picks), 4),
        "histogram padded": (picks, np.zeros(64, np.int64), len(picks), 16),
        "in_turns": (ones(4096), 4096, 100),
    }


def main() -> None:
    """Print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", required=True, help="file of this machine")
    parser.add_argument("--only", nargs="*", help="cases")
    options = parser.parse_args()
    machine = rooflab.machine(options.machine)
    errors: dict[int, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "loops.c"
        file.write_text(CODE)
        print(f"{'loop':18} threads  predicted   measured  ratio  most is lost to")
        for name, args in cases().items():
            if options.only and name not in options.only:
                continue
            report = rooflab.loop(
                f"{file}:{name.partition(' ')[0]}", *args, machine=machine, cflags=FLAGS, advise=False
            )
            for each in report.scaling:
                if each.measured_s is None:
                    continue
                ratio = each.measured_s / each.time_s
                errors.setdefault(each.threads, []).append(abs(ratio - 1))
                times = f"{each.time_s * 1e6:8.1f} µs {each.measured_s * 1e6:8.1f} µs"
                print(f"{name:18} {each.threads:7} {times} {ratio:6.2f}  {each.limit}", flush=True)
    for threads, held in errors.items():
        near = sum(each <= 0.3 for each in held)
        print(f"{threads} threads: {near} of {len(held)} within 30 %, median {statistics.median(held):.0%}")


if __name__ == "__main__":
    main()
