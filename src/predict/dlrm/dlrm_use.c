/* Tells what lookups come to: the use that a rank makes of a shard or of its copies of hot rows,
 * and which bytes are exchanged. Kernels and the sharding objectives go by it. */
#include "predict/dlrm/dlrm.h"

#include <math.h>

#include "models/row_reuse.h"

#define NO_SHARE 1e-9 /* a share of lookups as good as none */

/* Vectors are in fp16 where they are kept in less than fp32; a sequence's are as its tables are
 * (DlrmHSTU, which casts its layers alone). */
double sc_dlrm_output_elem_bytes(const struct sc_request *req)
{
	const enum sc_dtype kept = sc_storage_dtype(req->config.training.precision);

	if (req->config.model.hstu.layers > 0)
		return sc_dtype_bytes(SC_FP32);
	return sc_dtype_bytes(sc_dtype_bytes(kept) < sc_dtype_bytes(SC_FP32) ? SC_FP16 : SC_FP32);
}

double sc_table_outputs(const struct sc_table *table)
{
	double features = (double)table->features;

	return table->sequence ? features * table->pooling : features;
}

void sc_dlrm_tables(const struct sc_request *req, struct sc_arena *arena, struct sc_table_list *out)
{
	const struct sc_model *model = &req->config.model;

	sc_tables_expand(model->tables.at, model->tables.n, arena, out);
	out->world = (uint32_t)req->config.gpus;
	for (size_t i = 0; i < out->n; i++)
		out->at[i].dtype =
			out->at[i].storage ? (enum sc_dtype)(out->at[i].storage - 1) : SC_FP32;
}

/* Rows are stepped by plain SGD, or not at all, under any other optimizer. */
static const enum sc_row_optimizer ROW_OPTIMIZERS[SC_OPT_KFAC + 1] = {
	[SC_OPT_ADAM] = SC_ROW_ADAM,
	[SC_OPT_ADAGRAD] = SC_ROW_ADAGRAD,
	[SC_OPT_ROWWISE_ADAGRAD] = SC_ROW_ROWWISE_ADAGRAD,
	[SC_OPT_ATOMIC_SGD] = SC_ROW_ATOMIC_SGD,
};

enum sc_row_optimizer sc_dlrm_row_optimizer(const struct sc_request *request)
{
	return ROW_OPTIMIZERS[request->config.training.optimizer];
}

double sc_dlrm_lookups(const struct sc_table *table, double samples)
{
	return samples * (double)table->features * table->pooling;
}

static double samples_of_rank(const struct sc_request *request)
{
	return ceil((double)request->config.training.global_batch /
		    (double)request->config.parallel.dp);
}

static double hot_fact(const struct sc_table *table, const struct sc_table_placement *p,
		       struct sc_row_memo *memo, enum sc_row_fact fact, double lookups)
{
	const struct sc_row_question q = {fact, (double)table->rows, lookups, (double)p->hot_rows};

	return sc_row_fact(memo, &table->reuse, &q);
}

/* Returns the share of bags that contain any of the rows with so large a share of the lookups. */
static double bag_frac(const struct sc_table *table, double share)
{
	if (table->sequence || table->pooling <= 1)
		return share;
	return -expm1(table->pooling * log1p(-fmin(share, 1 - 1e-12)));
}

/* HugeCTR's hybrid embedding has no other step than SGD, by atomic additions
 * (frequent_embedding.cu). */
static enum sc_row_optimizer hot_optimizer(const struct sc_request *request)
{
	const enum sc_row_optimizer own = sc_dlrm_row_optimizer(request);

	return own == SC_ROW_SGD ? SC_ROW_ATOMIC_SGD : own;
}

/* Leaves a shard the rows that are not hot, where every rank has the hot ones: fewer lookups, of
 * rows that are dealt out by their frequency, so that no slice has more than others. */
static void leave_out_hot(struct sc_embedding_use *use, const struct sc_request *request,
			  const struct sc_table_placement *p)
{
	const struct sc_table *table = use->table;
	double lookups = sc_dlrm_lookups(table, use->samples), cold;
	const struct sc_row_question all = {SC_ROWS_UNIQUE, (double)table->rows, lookups, 0};

	if (!(lookups > 0))
		return;
	cold = 1 - hot_fact(table, p, use->memo, SC_ROWS_TOP_SHARE, 0);
	if (cold < NO_SHARE) {
		use->samples = 0;
		return;
	}
	use->skew = cold;
	use->output_frac = bag_frac(table, cold * use->row_frac);
	use->unique_rows = sc_row_fact(use->memo, &table->reuse, &all) -
			   hot_fact(table, p, use->memo, SC_ROWS_TOP_UNIQUE, lookups);
	use->unique_rows = fmax(use->unique_rows * use->row_frac, NO_SHARE);
	use->longest_run = fmax(1, lookups * hot_fact(table, p, use->memo, SC_ROWS_TOP_NEXT, 0));
	use->optimizer = hot_optimizer(request);
}

struct sc_embedding_use sc_dlrm_hot_use(const struct sc_request *request,
					const struct sc_table *table,
					const struct sc_table_placement *placement,
					struct sc_row_memo *memo)
{
	const double samples = samples_of_rank(request), lookups = sc_dlrm_lookups(table, samples);
	const double share = hot_fact(table, placement, memo, SC_ROWS_TOP_SHARE, 0);

	return (struct sc_embedding_use){
		.table = table,
		.samples = samples,
		.cols = (double)table->dim,
		.row_frac = 1,
		.skew = share,
		.output_frac = bag_frac(table, share),
		.unique_rows = hot_fact(table, placement, memo, SC_ROWS_TOP_UNIQUE, lookups),
		.tier = SC_TIER_HBM,
		.dtype = table->dtype,
		.output_bytes = sc_dlrm_output_elem_bytes(request),
		.optimizer = hot_optimizer(request),
		.kernel = request->software.dlrm.embedding_kernel,
		.memo = memo,
	};
}

struct sc_dlrm_hot_bytes sc_dlrm_hot_bytes_of(const struct sc_request *request,
					      const struct sc_table *table,
					      const struct sc_table_placement *placement,
					      struct sc_row_memo *memo)
{
	const double row_bytes = (double)table->dim * sc_dlrm_output_elem_bytes(request);
	const double lookups = sc_dlrm_lookups(table, samples_of_rank(request));

	if (!placement->hot_rows)
		return (struct sc_dlrm_hot_bytes){0};
	if (request->config.gpus > sc_node_gpus_of(request))
		return (struct sc_dlrm_hot_bytes){.reduced =
							  (double)placement->hot_rows * row_bytes};
	return (struct sc_dlrm_hot_bytes){
		.pulled =
			row_bytes * hot_fact(table, placement, memo, SC_ROWS_TOP_UNIQUE, lookups)};
}

double sc_dlrm_sent_frac(const struct sc_table *table, const struct sc_table_placement *placement,
			 double row_frac, struct sc_row_memo *memo)
{
	if (!placement->hot_rows)
		return 1;
	return bag_frac(table,
			row_frac * (1 - hot_fact(table, placement, memo, SC_ROWS_TOP_SHARE, 0)));
}

struct sc_embedding_use sc_dlrm_shard_use(const struct sc_request *request,
					  const struct sc_table *table,
					  const struct sc_table_placement *placement,
					  const struct sc_shard *shard, struct sc_row_memo *memo)
{
	double row_frac = (double)shard->rows / (double)table->rows;

	struct sc_embedding_use out = {
		.table = table,
		.memo = memo,
		.samples = (double)request->config.training.global_batch,
		.cols = (double)shard->cols,
		.row_frac = row_frac,
		.skew = 1,
		.tier = placement->tier,
		.cache_frac = placement->cache_frac,
		.dtype = table->dtype,
		.output_bytes = sc_dlrm_output_elem_bytes(request),
		.optimizer = sc_dlrm_row_optimizer(request),
		.kernel = request->software.dlrm.embedding_kernel,
	};
	if (placement->type == SC_DATA_PARALLEL)
		out.samples = samples_of_rank(request);
	else if (shard->rows == 0) /* there are more slices than rows: this one has none */
		out.samples = 0;
	else if (placement->hot_rows)
		leave_out_hot(&out, request, placement);
	/* By convention the most popular row is in the first slice. */
	else if (shard->rows < table->rows && shard->row_offset == 0)
		out.skew = sc_reuse_row_skew(&table->reuse, (double)table->rows, 1 / row_frac);
	return out;
}

/* A slice of rows sends whole vectors where software sums what it receives; else rows of one host
 * add up their parts first. Each lookup of a sequence is a vector of its own, which one slice has
 * and sends, and nothing is added up (TorchRec's RwSequenceEmbeddingDist). */
struct sc_dlrm_sends sc_dlrm_sends_of(const struct sc_table *table, enum sc_shard_type type,
				      bool partial_sums, uint32_t ranks_per_host)
{
	const bool by_host = type == SC_TABLE_ROW_WISE || type == SC_GRID;

	if (type == SC_DATA_PARALLEL)
		return (struct sc_dlrm_sends){0};
	if (partial_sums || !(by_host || type == SC_ROW_WISE))
		return (struct sc_dlrm_sends){.to_all = 1};
	if (table->sequence)
		return (struct sc_dlrm_sends){.to_all = 1, .lookups = true};
	if (!by_host)
		return (struct sc_dlrm_sends){.all_sum = 1};
	return (struct sc_dlrm_sends){.to_all = 1 / (double)ranks_per_host, .host_sum = 1};
}

double sc_dlrm_all_vector_bytes(const struct sc_request *req, const struct sc_table *table,
				double cols)
{
	return (double)req->config.training.global_batch * sc_table_outputs(table) * cols *
	       sc_dlrm_output_elem_bytes(req);
}

double sc_dlrm_vector_bytes(const struct sc_request *req,
			    const struct sc_table_placement *placement,
			    const struct sc_embedding_use *use)
{
	const struct sc_dlrm_sends sends =
		sc_dlrm_sends_of(use->table, placement->type, req->software.dlrm.partial_sums, 1);

	return sc_dlrm_all_vector_bytes(req, use->table, use->cols) *
	       (sends.lookups ? use->row_frac * use->skew
			      : sc_dlrm_sent_frac(use->table, placement, use->row_frac, use->memo));
}

uint32_t sc_dlrm_ranks_together(const struct sc_request *request)
{
	int64_t gpus = request->config.gpus, node = sc_node_gpus_of(request);

	if (!request->software.dlrm.partial_sums || (gpus > node && gpus % node))
		node = request->config.cluster.gpus_per_node;
	return (uint32_t)(node < gpus ? node : gpus);
}
