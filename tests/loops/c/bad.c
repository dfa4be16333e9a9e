/* What ends a process, or does not end: each is refused in one line, or run in a copy of the process first. */
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void any_number(double *a, int n, ...) {
  va_list more;
  va_start(more, n);
  a[0] = va_arg(more, double);
  va_end(more);
}

static void *work(void *p) {
  double *a = p;
  for (int i = 0; i < 10; i++)
    a[i] += 1;
  return 0;
}

void thread(double *a, int n) {
  pthread_t one;
  pthread_create(&one, 0, work, a);
  pthread_join(one, 0);
}

void killed(double *a, int n) { kill(getpid(), SIGKILL); }

void asleep(double *a, int n) { sleep(1000); }

void own_code(double *a, int n) { *(char *)own_code = 0; }

void too_far(double *a, double *b, int n) { memcpy(a, b, (size_t)(n + 1) * sizeof *a); }

void wide(__int128 *a, int n) { a[0] = n; }

typedef double four __attribute__((vector_size(32)));
void aligned(four *a, int n) {
  for (int i = 0; i < n; i++)
    a[i] += a[i];
}

/* A function whose address is taken stays a function of its own, and has loops. */
static double summed(const double *x, int n) {
  double total = 0;
  for (int i = 0; i < n; i++)
    total += x[i];
  return total;
}
double through(const double *x, int n) {
  double (*which)(const double *, int) = n > 3 ? summed : 0;
  return which(x, n);
}

#if defined(__x86_64__)
void forbidden(double *a, int n) { __asm__ volatile("cli"); }
#endif

static long at;
void astray_later(double *a, int n) {
  a[at] = n;
  at += 1L << 40;
}
