/* DLRM requests of a few tables, and plans of them, for tests. */
#pragma once

#include "predict/dlrm/dlrm.h"
#include "predict/transformer/build_transformer.h"
#include "request_fixture.h"
#include "runner.h"
#include "study/shard/shard_choose.h"

#define BATCH 4096.0
enum { FIX_DIM = 64 };

static struct sc_chosen_plan chosen; /* the last one that was */

static void set_up(void)
{
	requests_begin();
}

static void tear_down(void)
{
	sc_chosen_plan_release(&chosen);
	requests_end();
}

/* A table of that many rows, whose rows are all as likely. */
static inline struct sc_table make_table(const char *name, int64_t rows, double pooling)
{
	return (struct sc_table){
		.name = name,
		.rows = rows,
		.dim = FIX_DIM,
		.count = 1,
		.features = 1,
		.pooling = pooling,
		.reuse = {.kind = SC_REUSE_UNIFORM},
	};
}

/* Over 4 A100 on one node and TorchRec in fp32; "key=value key=value ..." */
static inline struct sc_request *make_request(struct sc_table *tables, size_t n,
					      const char *overrides)
{
	struct sc_config cfg;

	sc_config_init(&cfg);
	set_all(&cfg,
		"gpus=4 cluster.gpu=a100-sxm-80gb cluster.gpus_per_node=4 cluster.nics_per_node=4 "
		"cluster.nic_gbit_s=200 model.family=dlrm model.dense_features=13 "
		"model.bottom_mlp=128,64 model.top_mlp=256,128,1 model.interaction=cat "
		"training.global_batch=4096 training.precision=fp32 training.optimizer=sgd "
		"training.software=torchrec sharding.planner=memory_balanced");
	set_all(&cfg, overrides);
	cfg.model.tables = (struct sc_structs){.at = tables, .n = n};
	return resolve_config(&cfg);
}

/* An empty plan for the request's ranks. */
static inline void plan_init(struct sc_shard_plan *plan, const struct sc_request *req)
{
	int64_t node = req->config.cluster.gpus_per_node, gpus = req->config.gpus;

	*plan = (struct sc_shard_plan){.world = (uint32_t)gpus,
				       .ranks_per_host = (uint32_t)(node < gpus ? node : gpus)};
}

/* The next table, cut in n alike: by columns, or by rows for row-wise types; slice i on first + i.
 */
static inline struct sc_table_placement *place(struct sc_shard_plan *plan, const struct sc_table *t,
					       enum sc_shard_type type, int n, int first)
{
	struct sc_table_placement p = {.name = t->name,
				       .rows = t->rows,
				       .dim = t->dim,
				       .type = type,
				       .first_shard = (uint32_t)plan->shards.n,
				       .n_shards = (uint32_t)n};
	bool by_rows = type == SC_ROW_WISE || type == SC_TABLE_ROW_WISE;
	bool whole = type == SC_DATA_PARALLEL;

	for (int i = 0; i < n; i++) {
		struct sc_shard s = {.table = (uint32_t)plan->tables.n,
				     .rank = first + i,
				     .rows = by_rows ? t->rows / n : t->rows,
				     .cols = by_rows || whole ? t->dim : t->dim / n};

		s.row_offset = by_rows ? i * s.rows : 0;
		s.col_offset = by_rows || whole ? 0 : i * s.cols;
		SC_VEC_PUSH(&plan->shards, s);
	}
	SC_VEC_PUSH(&plan->tables, p);
	return &plan->tables.at[plan->tables.n - 1];
}

/* The request as it would be built, under `plan` or, NULL, the request's planner. */
static inline void init_dlrm(struct sc_dlrm *dlrm, const struct sc_request *req,
			     const struct sc_shard_plan *plan)
{
	struct sc_predict_opts *opts = sc_arena_calloc(&arena, 1, sizeof(*opts));
	struct sc_build_scratch scratch;
	struct sc_err err = {0};

	sc_predict_opts_init(opts);
	if (!plan) {
		sc_chosen_plan_release(&chosen);
		ck_assert_msg(sc_chosen_plan_init(&chosen, req, &err) == 0, "%s", err.text);
		plan = &chosen.made.plan;
	}
	opts->plan = plan;
	sc_build_scratch_init(&scratch, &arena);
	ck_assert_msg(sc_dlrm_init(dlrm, &(struct sc_setup){req, opts, &scratch, NULL}, &err) == 0,
		      "%s", err.text);
	sc_build_scratch_release(&scratch);
}

static inline const struct sc_dlrm_class *class_of(const struct sc_dlrm *dlrm, uint32_t rank)
{
	const struct sc_dlrm_class *found = NULL;

	for (size_t c = 0; c < dlrm->n_classes; c++)
		if (dlrm->classes[c].representative == rank)
			found = &dlrm->classes[c];
	ck_assert_ptr_nonnull(found);
	return found;
}

static inline struct sc_prediction *run_opts(const struct sc_request *req,
					     const struct sc_predict_opts *opts)
{
	struct sc_prediction *out = sc_arena_calloc(&arena, 1, sizeof(*out));
	struct sc_err err = {0};

	ck_assert_msg(predict_chosen(req, opts, out, &err) == 0, "%s", err.text);
	return out;
}

static inline struct sc_prediction *run_plan(const struct sc_request *req,
					     const struct sc_shard_plan *plan)
{
	struct sc_predict_opts opts;

	sc_predict_opts_init(&opts);
	opts.plan = plan;
	return run_opts(req, &opts);
}
