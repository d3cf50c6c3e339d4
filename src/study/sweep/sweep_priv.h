/* One run of a sweep: its workers, the order of its rows, and how processes share them. */
#pragma once

#include <pthread.h>

#include "base/arena.h"
#include "core/config/config_table.h"
#include "study/evaluate/evaluate.h"
#include "study/sweep/sweep.h"

/* Each thread has its own worker. */
struct worker {
	struct sc_evaluator *evaluator;
	struct sc_arena scratch; /* of one row */
	struct sc_arena keep;    /* error texts */
};
/* An outcome waits here for its turn. */
struct order {
	pthread_mutex_t lock;
	size_t n, next;                /* rows; the first that is not taken */
	struct sc_warnings **warnings; /* of each row that is done and not taken */
	struct sc_likes likes;
};
struct run {
	const struct sc_sweep *sweep;
	const struct sc_config_table *table;
	struct sc_catalog *catalog;
	struct sc_outcome *out;
	size_t n_rows;
	struct order order;
	struct sc_arena *arena;
	void **workers;
	size_t begin;            /* the row that is the threads' first */
	bool *is_done;           /* of each row; NULL: no other process has any */
	struct sc_strbuf packed; /* own rows of a round, then those of all */
};

/* Threads predict n rows from `begin`. */
int sc_sweep_run_some(struct run *run, size_t begin, size_t n, struct sc_err *err);
/* Marks a row done, and takes those whose turn it is. */
int sc_sweep_put_row(struct run *run, size_t index, const struct sc_warnings *warnings,
		     struct sc_err *err);
/* Predicts all rows, of which other ranks predict some. */
int sc_sweep_run_shared(struct run *run, struct sc_err *err);
void sc_sweep_pack_row(struct run *run, size_t index, const struct sc_warnings *warnings);
