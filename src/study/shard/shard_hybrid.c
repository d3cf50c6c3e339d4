/* HugeCTR's hybrid embedding (HugeCTR/src/embeddings/hybrid_embedding of NVIDIA-Merlin/HugeCTR):
 * rows above a frequency are on every GPU, and all rows are dealt out one by one over all GPUs. The
 * threshold is that of calibration_data.cu: within one node a row is worth a copy where a GPU's
 * samples have it twice with some probability; across nodes where it costs less to reduce its
 * gradient than to send it. The batch's ids stand for those that HugeCTR counts before the run. */
#include <math.h>

#include "models/row_reuse.h"
#include "study/shard/shard.h"

/* The constants are those of its MLPerf recipes (rounds 1.0 and 1.1: dgx_a100.py,
 * HybridEmbeddingParam). */
static const double DUPLICATES = 0.01; /* p_dup_max */
static const double EXCHANGE_OVER_REDUCE =
	1.9e11 / 1.3e11; /* max_all_to_all_ over max_all_reduce_bandwidth */

bool sc_hybrid_takes(const struct sc_table *table)
{
	return table->features == 1 && table->pooling >= 1 && table->pooling <= 1 &&
	       !table->sequence && !table->weighted;
}

int64_t sc_hybrid_hot_rows(const struct sc_hybrid_opts *opts, const struct sc_table *table,
			   double times)
{
	double nodes = ceil((double)opts->gpus / opts->gpus_per_node);
	double samples = opts->batch / opts->gpus, share;

	if (opts->gpus < 2)
		return 0;
	if (nodes > 1)
		share = nodes * nodes / (nodes - 1) * EXCHANGE_OVER_REDUCE / opts->batch;
	else
		share = samples > 1 ? sqrt(2 * DUPLICATES / (samples * (samples - 1))) : 1;
	return (int64_t)sc_reuse_rows_above(&table->reuse, (double)table->rows, times * share);
}

void sc_hybrid_plan(const struct sc_hybrid_opts *opts, const struct sc_table_list *tables,
		    struct sc_arena *arena, struct sc_shard_plan *out)
{
	int32_t *ranks = sc_arena_calloc(arena, opts->gpus, sizeof(*ranks));

	for (uint32_t r = 0; r < opts->gpus; r++)
		ranks[r] = (int32_t)r;
	*out = (struct sc_shard_plan){.world = opts->gpus, .ranks_per_host = opts->gpus_per_node};
	for (size_t t = 0; t < tables->n; t++) {
		struct sc_table_placement *at =
			sc_plan_begin_table(out, &tables->at[t], SC_ROW_WISE);

		at->hot_rows = sc_hybrid_hot_rows(opts, &tables->at[t], 1);
		sc_plan_add_rows(out, ranks, opts->gpus, 0, tables->at[t].dim);
	}
}
