/* What OpenMP's functions look like, for compilers that bring no header of it: they are searched for theirs first. */
#ifndef ROOFLAB_OMP_H
#define ROOFLAB_OMP_H
#ifdef __cplusplus
extern "C" {
#endif
typedef enum omp_sched_t { omp_sched_static = 1, omp_sched_dynamic = 2, omp_sched_guided = 3, omp_sched_auto = 4 } omp_sched_t;
typedef enum omp_proc_bind_t {
  omp_proc_bind_false = 0, omp_proc_bind_true = 1, omp_proc_bind_primary = 2, omp_proc_bind_master = 2,
  omp_proc_bind_close = 3, omp_proc_bind_spread = 4
} omp_proc_bind_t;
typedef struct omp_lock_t { void *rooflab_word; } omp_lock_t;
typedef struct omp_nest_lock_t { void *rooflab_word; } omp_nest_lock_t;
extern int omp_get_thread_num(void);
extern int omp_get_num_threads(void);
extern int omp_get_max_threads(void);
extern int omp_get_num_procs(void);
extern int omp_get_thread_limit(void);
extern int omp_in_parallel(void);
extern int omp_get_level(void);
extern int omp_get_active_level(void);
extern int omp_get_ancestor_thread_num(int level);
extern int omp_get_team_size(int level);
extern int omp_get_dynamic(void);
extern int omp_get_nested(void);
extern int omp_get_max_active_levels(void);
extern int omp_in_final(void);
extern int omp_get_cancellation(void);
extern omp_proc_bind_t omp_get_proc_bind(void);
extern int omp_get_num_devices(void);
extern int omp_is_initial_device(void);
extern void omp_set_num_threads(int threads);
extern void omp_set_dynamic(int on);
extern void omp_set_nested(int on);
extern void omp_set_max_active_levels(int levels);
extern void omp_set_schedule(omp_sched_t kind, int chunk);
extern void omp_get_schedule(omp_sched_t *kind, int *chunk);
extern double omp_get_wtime(void);
extern double omp_get_wtick(void);
extern void omp_init_lock(omp_lock_t *lock);
extern void omp_destroy_lock(omp_lock_t *lock);
extern void omp_set_lock(omp_lock_t *lock);
extern void omp_unset_lock(omp_lock_t *lock);
extern int omp_test_lock(omp_lock_t *lock);
extern void omp_init_nest_lock(omp_nest_lock_t *lock);
extern void omp_destroy_nest_lock(omp_nest_lock_t *lock);
extern void omp_set_nest_lock(omp_nest_lock_t *lock);
extern void omp_unset_nest_lock(omp_nest_lock_t *lock);
extern int omp_test_nest_lock(omp_nest_lock_t *lock);
#ifdef __cplusplus
}
#endif
#endif
