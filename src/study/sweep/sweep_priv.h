/* What the parts of a sweep share: the rows of one process, and those of others. */
#ifndef SC_STUDY_SWEEP_PRIV_H
#define SC_STUDY_SWEEP_PRIV_H

#include <pthread.h>

#include "base/threads.h"
#include "core/config/config_table.h"
#include "study/sweep/sweep.h"

/* What one thread needs. */
struct sc_sweep_worker {
	struct sc_predictor *predictor;
	struct sc_arena scratch; /* of one row */
	struct sc_arena keep;    /* error texts */
	struct sc_prediction prediction;
	struct sc_request request;
};
/* What waits for its turn. */
struct sc_sweep_order {
	pthread_mutex_t lock;
	size_t n, next;                /* rows; the first that is not taken */
	struct sc_warnings **warnings; /* of each row that is done and not taken */
	size_t *first_like, n_slots; /* 1 + row, by hash of the prediction; n_slots a power of 2 */
};
struct sc_sweep_run {
	const struct sc_sweep *sweep;
	const struct sc_config_table *table;
	struct sc_catalog *catalog;
	struct sc_outcome *out;
	size_t n_rows;
	struct sc_sweep_order order;
	struct sc_sweep_worker *spare; /* of the thread that speaks with other ranks */
	unsigned *holder;   /* of each row: the rank that has it, or one of below; NULL: no ranks */
	struct sc_err lost; /* set if a rank is lost */
};
#define SC_SWEEP_DONE ((unsigned)-1)

/* sweep.c. The row at the index is predicted and put in its turn; or was by another rank. */
int sc_sweep_row(struct sc_sweep_run *run, struct sc_sweep_worker *worker, size_t index,
		 struct sc_err *err);
int sc_sweep_put(struct sc_sweep_run *run, size_t index, const struct sc_warnings *warnings,
		 struct sc_err *err);

/* sweep_ranks.c: for sc_work.beside, of rank 0 and of the helpers. */
void sc_sweep_lead(struct sc_pool *pool, void *run);
void sc_sweep_tick(struct sc_pool *pool, void *run);
void sc_sweep_list_missing(const struct sc_sweep_run *run);

#endif
