/* A team of OpenMP's, run in turn on one CPU: what clang's code calls, and what it tells of its accesses.

   Each thread of a team is a coroutine. It runs until it waits at a barrier, asks for the next chunk of a loop, or
   ends; then that thread goes on which has done least. Shares of loops are as LLVM's runtime deals them. Numbers of
   schedules are those of that runtime's interface (kmp.h). */
typedef long i64;
typedef unsigned long u64;
extern int getcontext(void *), swapcontext(void *, const void *);
extern void makecontext(void *, void (*)(void), int, ...);
extern void *calloc(u64, u64);
extern void free(void *);
extern void *memcpy(void *, const void *, u64), *memset(void *, int, u64);
extern void _exit(int);

enum { ENTRIES, TRIPS, CHUNKS, WORK, LONGEST, COLUMNS };
enum { READY, WAITS, DONE };
enum { STATIC_CHUNKED = 33, STATIC = 34, DYNAMIC = 35, GUIDED = 36, BALANCED_CHUNKED = 45, PLAIN = 0x1fffffff };
enum { CONTEXT_BYTES = 8192, LINK = 8, STACK = 16, SIZE = 32, RING = 64, MOST = 64, NOWHERE = 97 };

struct loop { i64 number, next, last, step, chunk, kind, left, threads; };
struct thread { char *context; i64 work; int state; i64 loops, singles, at; struct loop own; };

/* Set from outside. */
i64 rl_threads, rl_low, rl_size, *rl_records, rl_room, *rl_switches, rl_switch_room, *rl_regions, *rl_out;
int *rl_refs;
char *rl_stacks, *rl_heap, *rl_heap_end;
i64 rl_stack_bytes;

static i64 all, noted[MOST], used, switches, work, current, inside, nested, singles;
static struct thread *team;
static struct loop ring[RING];
static char back[CONTEXT_BYTES] __attribute__((aligned(64)));
static void (*body)(int *, int *);
static const void *copied;
static i64 region_now;

void rl_do(i64 amount) { work += amount; }

void rl_note(const void *p, i64 n, i64 operation, i64 ref) {
  u64 at = (u64)p - (u64)rl_low;
  if (!inside || at >= (u64)rl_size)
    return;
  all++;
  if (rl_room && noted[current] < rl_room / rl_threads) { /* of each thread as many */
    noted[current]++;
    rl_records[used] = (i64)(at << 16) | n << 4 | operation;
    rl_refs[used++] = (int)ref;
  }
}

void rl_range(const char *p, i64 n, i64 operation, i64 ref) {
  for (i64 done = 0; done < n; done += 64)
    rl_note(p + done, n - done < 64 ? n - done : 64, operation, ref);
}

/* Who goes on from here: a thread, −1 all after a barrier, −2 the first one alone. */
static void turn(i64 who) {
  if (switches < rl_switch_room) {
    rl_switches[2 * switches] = used;
    rl_switches[2 * switches + 1] = who;
  }
  switches++;
}

void rl_finish(void) { rl_out[0] = used, rl_out[1] = switches, rl_out[2] = all; }

static void begin(int number) {
  int zero = 0;
  body(&number, &zero);
  team[number].state = DONE;
  swapcontext(team[number].context, back);
}

static void give_way(int state) {
  struct thread *me = &team[current];
  me->state = state;
  swapcontext(me->context, back);
}

static void run(i64 *told) {
  for (;;) {
    i64 chosen = -1, waiting = 0, longest = 0, sum = 0;
    for (i64 t = 0; t < rl_threads; t++) {
      waiting += team[t].state == WAITS;
      if (team[t].state == READY && (chosen < 0 || team[t].work < team[chosen].work))
        chosen = t;
    }
    if (chosen >= 0) {
      i64 before = work;
      turn(current = chosen);
      swapcontext(back, team[chosen].context);
      team[chosen].work += work - before;
      continue;
    }
    for (i64 t = 0; t < rl_threads; t++) {
      longest = team[t].work > longest ? team[t].work : longest;
      sum += team[t].work;
      team[t].work = 0;
      team[t].state = team[t].state == WAITS ? READY : team[t].state;
    }
    told[WORK] += sum, told[LONGEST] += longest;
    turn(-1);
    if (!waiting)
      return;
  }
}

void rl_fork(i64 region, void (*go)(int *, int *)) {
  int zero = 0;
  i64 *told = rl_regions + region * COLUMNS;
  if (inside) {
    nested++;
    go(&zero, &zero);
    nested--;
    return;
  }
  told[ENTRIES]++, region_now = region;
  inside = 1, body = go, singles = 0;
  team = calloc(rl_threads, sizeof *team);
  memset(ring, 0, sizeof ring);
  char *contexts = calloc(rl_threads, CONTEXT_BYTES);
  for (i64 t = 0; t < rl_threads; t++) {
    char *at = team[t].context = contexts + t * CONTEXT_BYTES;
    getcontext(at);
    *(void **)(at + LINK) = back;
    *(char **)(at + STACK) = rl_stacks + t * rl_stack_bytes;
    *(u64 *)(at + SIZE) = rl_stack_bytes;
    makecontext(at, (void (*)(void))begin, 1, (int)t);
  }
  turn(-1);
  run(told);
  free(contexts), free(team);
  current = 0, inside = 0;
  turn(-2);
}

static i64 members(void) { return inside && !nested ? rl_threads : 1; }
static i64 number(void) { return nested ? 0 : current; }

static void barrier(void) {
  if (members() > 1)
    give_way(WAITS);
}

static i64 trips_of(i64 low, i64 high, i64 step) {
  if (step > 0 ? high < low : low < high)
    return 0;
  return step > 0 ? (high - low) / step + 1 : (low - high) / -step + 1;
}

static void told_trips(i64 trips) {
  if (inside && !nested && current == 0)
    rl_regions[region_now * COLUMNS + TRIPS] += trips;
}

/* The first share of a thread of a loop from `low` to `high`, and how far it is to the next. */
static void dealt(i64 kind, int *last, i64 *low, i64 *high, i64 *stride, i64 step, i64 chunk) {
  i64 trips = trips_of(*low, *high, step), n = members(), me = number(), first = *low, end = *high;
  told_trips(trips);
  kind &= PLAIN;
  if (!trips || n == 1) {
    *stride = step > 0 ? end - first + 1 : -(first - end + 1);
    *last = trips > 0;
    return;
  }
  if (kind == STATIC_CHUNKED) {
    chunk = chunk < 1 ? 1 : chunk;
    *stride = chunk * step * n;
    *low = first + me * chunk * step;
    *high = *low + (chunk - 1) * step;
    *last = me == (trips - 1) / chunk % n;
    return;
  }
  i64 share = (trips + n - 1) / n;
  if (kind == BALANCED_CHUNKED && chunk > 0)
    share = (share + chunk - 1) / chunk * chunk;
  *stride = trips * step;
  *low = first + me * share * step;
  *high = *low + (share - 1) * step;
  *last = me == (trips - 1) / share;
  if (me * share >= trips)
    *low = end + step, *high = end; /* nothing is left */
  else if (step > 0 ? *high > end : *high < end)
    *high = end;
}

#define DEALT(name, type)                                                                                          \
  void name(void *where, int me, int kind, int *last, type *low, type *high, type *stride, type step, type chunk) { \
    i64 l = *low, h = *high, s = *stride;                                                                          \
    dealt(kind, last, &l, &h, &s, (i64)step, (i64)chunk);                                                          \
    *low = (type)l, *high = (type)h, *stride = (type)s;                                                            \
  }
DEALT(__kmpc_for_static_init_4, int)
DEALT(__kmpc_for_static_init_8, i64)
#define DEALT_U(name, type, step_type)                                                                             \
  void name(void *where, int me, int kind, int *last, type *low, type *high, step_type *stride, step_type step,    \
            step_type chunk) {                                                                                     \
    i64 l = (i64)*low, h = (i64)*high, s = *stride;                                                                \
    dealt(kind, last, &l, &h, &s, step, chunk);                                                                    \
    *low = (type)l, *high = (type)h, *stride = (step_type)s;                                                       \
  }
DEALT_U(__kmpc_for_static_init_4u, unsigned, int)
DEALT_U(__kmpc_for_static_init_8u, u64, i64)
void __kmpc_for_static_fini(void *where, int me) {}

static struct loop *loop_of(struct thread *me) {
  return members() == 1 ? &me->own : &ring[me->at % RING];
}
static struct thread alone;
static struct thread *self(void) { return inside ? &team[current] : &alone; }

static void opened(i64 kind, i64 low, i64 high, i64 step, i64 chunk) {
  struct thread *me = self();
  i64 n = members();
  me->at = ++me->loops;
  struct loop *loop = loop_of(me);
  told_trips(trips_of(low, high, step));
  if (n > 1 && loop->number == me->at)
    return;
  loop->number = me->at, loop->next = low, loop->last = high, loop->step = step;
  loop->kind = kind & PLAIN, loop->left = trips_of(low, high, step), loop->threads = n;
  if (loop->kind != DYNAMIC && loop->kind != GUIDED)
    chunk = chunk > 0 && loop->kind == STATIC_CHUNKED ? chunk : (loop->left + n - 1) / n;
  loop->chunk = chunk < 1 ? 1 : chunk;
}

static int next(int *last, i64 *low, i64 *high, i64 *stride) {
  if (members() > 1)
    give_way(READY);
  struct loop *loop = loop_of(self());
  if (loop->left <= 0)
    return 0;
  i64 count = loop->chunk;
  if (loop->kind == GUIDED) {
    i64 part = loop->left / (2 * loop->threads);
    count = part > count ? part : count;
  }
  count = count > loop->left ? loop->left : count;
  *low = loop->next, *high = loop->next + (count - 1) * loop->step, *stride = loop->step;
  if (members() > 1)
    rl_regions[region_now * COLUMNS + CHUNKS]++;
  loop->next += count * loop->step, loop->left -= count;
  if (last)
    *last = loop->left == 0;
  return 1;
}

#define NEXT(suffix, type, step_type)                                                                              \
  void __kmpc_dispatch_init_##suffix(void *where, int me, int kind, type low, type high, step_type step,           \
                                     step_type chunk) {                                                            \
    opened(kind, (i64)low, (i64)high, step, chunk);                                                                \
  }                                                                                                                \
  int __kmpc_dispatch_next_##suffix(void *where, int me, int *last, type *low, type *high, step_type *stride) {     \
    i64 l, h, s;                                                                                                   \
    if (!next(last, &l, &h, &s))                                                                                   \
      return 0;                                                                                                    \
    *low = (type)l, *high = (type)h, *stride = (step_type)s;                                                       \
    return 1;                                                                                                      \
  }                                                                                                                \
  void __kmpc_dispatch_fini_##suffix(void *where, int me) {}
NEXT(4, int, int)
NEXT(8, i64, i64)
NEXT(4u, unsigned, int)
NEXT(8u, u64, i64)
void __kmpc_dispatch_deinit(void *where, int me) {}

int __kmpc_global_thread_num(void *where) { return (int)number(); }
void __kmpc_push_num_threads(void *where, int me, int threads) {}
void __kmpc_push_proc_bind(void *where, int me, int how) {}
void __kmpc_serialized_parallel(void *where, int me) { nested++; }
void __kmpc_end_serialized_parallel(void *where, int me) { nested--; }
void __kmpc_barrier(void *where, int me) { barrier(); }
int __kmpc_cancel_barrier(void *where, int me) { return barrier(), 0; }
void __kmpc_flush(void *where) {}
int __kmpc_master(void *where, int me) { return number() == 0; }
void __kmpc_end_master(void *where, int me) {}
int __kmpc_masked(void *where, int me, int filter) { return number() == filter; }
void __kmpc_end_masked(void *where, int me) {}
void __kmpc_critical(void *where, int me, void *name) {}
void __kmpc_critical_with_hint(void *where, int me, void *name, unsigned hint) {}
void __kmpc_end_critical(void *where, int me, void *name) {}
int __kmpc_single(void *where, int me) {
  if (members() == 1)
    return 1;
  if (++self()->singles <= singles)
    return 0;
  return singles++, 1;
}
void __kmpc_end_single(void *where, int me) {}
void __kmpc_copyprivate(void *where, int me, u64 size, void *data, void (*copy)(void *, void *), int did) {
  if (did)
    copied = data;
  barrier();
  if (!did)
    copy(data, (void *)copied);
  barrier();
}
int __kmpc_reduce(void *where, int me, int n, u64 size, void *data, void (*add)(void *, void *), void *lock) {
  return 1;
}
void __kmpc_end_reduce(void *where, int me, void *lock) { barrier(); }
int __kmpc_reduce_nowait(void *where, int me, int n, u64 size, void *data, void (*add)(void *, void *),
                         void *lock) {
  return 1;
}
void __kmpc_end_reduce_nowait(void *where, int me, void *lock) {}

int omp_get_thread_num(void) { return (int)number(); }
int omp_get_num_threads(void) { return (int)members(); }
int omp_get_max_threads(void) { return (int)rl_threads; }
int omp_get_num_procs(void) { return (int)rl_threads; }
int omp_get_thread_limit(void) { return (int)rl_threads; }
int omp_in_parallel(void) { return inside && rl_threads > 1; }
int omp_get_level(void) { return (int)(inside + nested); }
int omp_get_active_level(void) { return (int)inside; }
int omp_get_ancestor_thread_num(int level) { return level == 1 ? (int)current : 0; }
int omp_get_team_size(int level) { return level == 1 ? (int)rl_threads : 1; }
int omp_get_dynamic(void) { return 0; }
int omp_get_nested(void) { return 0; }
int omp_get_max_active_levels(void) { return 1; }
int omp_in_final(void) { return 0; }
int omp_get_cancellation(void) { return 0; }
int omp_get_proc_bind(void) { return 0; }
int omp_get_num_devices(void) { return 0; }
int omp_is_initial_device(void) { return 1; }
void omp_set_num_threads(int threads) {}
void omp_set_dynamic(int on) {}
void omp_set_nested(int on) {}
void omp_set_max_active_levels(int levels) {}
void omp_set_schedule(int kind, int chunk) {}
double omp_get_wtime(void) { return 0; }
double omp_get_wtick(void) { return 1e-9; }
void omp_init_lock(void *lock) {}
void omp_destroy_lock(void *lock) {}
void omp_set_lock(void *lock) {}
void omp_unset_lock(void *lock) {}
int omp_test_lock(void *lock) { return 1; }
void omp_init_nest_lock(void *lock) {}
void omp_destroy_nest_lock(void *lock) {}
void omp_set_nest_lock(void *lock) {}
void omp_unset_nest_lock(void *lock) {}
int omp_test_nest_lock(void *lock) { return 1; }

/* The heap: blocks on lines of their own, one behind the other, with their size before them; nothing is used again. */
void *rl_malloc(u64 n) {
  u64 room = (n + 63) / 64 * 64 + 64;
  if (n > 1UL << 40 || rl_heap + room > rl_heap_end)
    _exit(NOWHERE);
  *(u64 *)rl_heap = n;
  rl_heap += room;
  return rl_heap - room + 64;
}
void *rl_calloc(u64 n, u64 each) { return rl_malloc(n * each); }
void *rl_aligned_alloc(u64 align, u64 n) { return rl_malloc(n); }
void *rl_realloc(void *old, u64 n) {
  char *made = rl_malloc(n);
  if (old) {
    u64 had = *(u64 *)((char *)old - 64);
    memcpy(made, old, had < n ? had : n);
  }
  return made;
}
int rl_posix_memalign(void **at, u64 align, u64 n) { return *at = rl_malloc(n), 0; }
void *rl__Znwm(u64 n) { return rl_malloc(n); }
void *rl__Znam(u64 n) { return rl_malloc(n); }
void *rl__ZnwmRKSt9nothrow_t(u64 n, void *how) { return rl_malloc(n); }
void *rl__ZnamRKSt9nothrow_t(u64 n, void *how) { return rl_malloc(n); }
void *rl__ZnwmSt11align_val_t(u64 n, u64 align) { return rl_malloc(n); }
void *rl__ZnamSt11align_val_t(u64 n, u64 align) { return rl_malloc(n); }
void rl_free(void *p) {}
void rl__ZdlPv(void *p) {}
void rl__ZdaPv(void *p) {}
void rl__ZdlPvm(void *p, u64 n) {}
void rl__ZdaPvm(void *p, u64 n) {}
void rl__ZdlPvSt11align_val_t(void *p, u64 align) {}
void rl__ZdaPvSt11align_val_t(void *p, u64 align) {}
void rl__ZdlPvmSt11align_val_t(void *p, u64 n, u64 align) {}
void rl__ZdaPvmSt11align_val_t(void *p, u64 n, u64 align) {}
