/* Many cases over one base config: a table (or a grid) predicted row by row, on several threads,
 * with results in the order of the rows. A case that fails does not stop the others. */
#pragma once

#include <signal.h>

#include "base/csv.h"
#include "base/intern.h"
#include "base/progress.h"
#include "base/ranks.h"
#include "predict/predict.h"
#include "study/sweep/run_cost.h"

/* The outcome of one case. If code is not SC_OK the numbers are 0 and `error` says why. */
struct sc_outcome {
	enum sc_errc code;
	const char *error; /* "" if none; begins with "file:line:col: " if in another file */
	double iteration_ms, low_ms, high_ms;
	const struct sc_band *band; /* the catalog's; of another rank NULL */
	double breakdown_ms[SC_N_OWNERS];
	double memory_tensors_gib; /* of memory_total_gib, less what the allocator holds beside */
	double memory_total_gib, capacity_gib, mfu, samples_per_s, tokens_per_s;
	bool fits;               /* in the memory of GPUs and hosts */
	bool memory_is_least;    /* of floors, as sc_floor says */
	struct sc_run_cost cost; /* with sc_sweep.size */
	double network_gbps;     /* on a torus: what a GPU sends while any collective runs */
	/* These are for `take` only, and last until it returns. */
	const struct sc_warnings *warnings;
	size_t n_warnings;
	size_t same_as; /* 1 + the first row with the very same prediction; 0: none before it */
	uint64_t print; /* of what same_as compares */
};
struct sc_sweep {
	const struct sc_config *base; /* paths in the table are looked up beside its file */
	const struct sc_csv *cases;
	const size_t *rows; /* indices of the rows to predict; NULL = all, n_rows ignored */
	size_t n_rows;
	unsigned n_jobs;
	const struct sc_predict_opts *opts;
	const struct sc_run_size *size; /* NULL: no costs */
	struct sc_catalog *catalog;     /* NULL: one of its own */
	bool floors; /* of each row iteration_ms is its floor (sc_predict_floor), memory as
			predicted, all else 0 */
	struct sc_progress *progress; /* may be NULL */
	/* If it is not NULL, it gets the outcomes in the order of the rows, one at a time, each as
	 * soon as all before it are known. Its failure ends the sweep. */
	int (*take)(void *ctx, size_t index, const struct sc_outcome *outcome, struct sc_err *err);
	void *ctx;
	const volatile sig_atomic_t *stop; /* may be NULL; once it is not 0, no row is begun */
	void **workers; /* NULL, or n_jobs that keep their state from sweep to sweep */
	/* NULL, or processes that make the same sweeps: all get all outcomes, rank 0 takes. */
	struct sc_ranks *ranks;
};
/* `out` has an element for each row asked for. Error texts live in the arena. The sweep fails if
 * the header is wrong, `take` fails, it was stopped, or a rank is lost while rows are taken. */
int sc_sweep_run(const struct sc_sweep *sweep, struct sc_arena *arena, struct sc_outcome *out,
		 struct sc_err *err);
/* Finds rows that are alike: the first row of the same bytes, from 1; 0: none before this one, the
 * next after all that were asked for. A zeroed struct is empty. */
struct sc_likes {
	struct sc_intern bytes;
	SC_VEC(size_t) rows; /* by id */
};
static inline size_t sc_likes_first(struct sc_likes *likes, const void *bytes, size_t n, size_t row)
{
	const uint32_t id = sc_intern_add_n(&likes->bytes, bytes, n);

	if (id < likes->rows.n)
		return likes->rows.at[id] + 1;
	SC_VEC_PUSH(&likes->rows, row);
	return 0;
}
static inline void sc_likes_release(struct sc_likes *likes)
{
	sc_intern_release(&likes->bytes);
	SC_VEC_RELEASE(&likes->rows);
}

/* A hash of all that a sweep's results follow from: the program, the base, the models and clusters
 * that rows name, what other files named by any of these hold, all profiles, the cases, the prices
 * and the length of the run. */
uint64_t sc_sweep_fingerprint(const struct sc_sweep *sweep);
void **sc_sweep_workers_create(unsigned n, struct sc_catalog *catalog);
void sc_sweep_workers_destroy(void **workers, unsigned n);

/* An axis is a key and the values that it takes. */
struct sc_axis {
	const char *option, *path; /* option: that gave it, for messages */
	const char **values;
	size_t n;
};
/* Parses "path=a,b,c" of an option. Commas inside [...] do not separate. A path is a key that a
 * prediction reads, or `model` or `cluster` with files. Without "=" n is 0, which some allow. */
int sc_axis_parse(const char *option, const char *text, struct sc_arena *arena, struct sc_axis *out,
		  struct sc_err *err);

/* Makes the cartesian product of "path=a,b,c" texts a table, the last varying fastest. */
int sc_grid_build(const char *const *texts, size_t n_axes, struct sc_arena *arena,
		  struct sc_csv *out, struct sc_err *err);
