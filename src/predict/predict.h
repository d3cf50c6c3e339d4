/* The one pipeline: request -> graphs -> simulate -> critical path -> prediction. */
#ifndef SC_PREDICT_PREDICT_H
#define SC_PREDICT_PREDICT_H

#include "core/config/config.h"
#include "core/graph/cost.h"
#include "core/embedding/shard_plan.h"
#include "models/memory.h"
#include "predict/engine/critical_path.h"
#include "predict/engine/simulate.h"
#include "predict/shard/model_errors.h"

enum sc_detail { SC_DETAIL_COARSE, SC_DETAIL_FULL };
struct sc_predict_opts {
	enum sc_detail detail;
	bool no_jump;    /* coarse: run every micro-batch, do not skip the steady state */
	bool unfolded;   /* every rank its own class: a check of the folding */
	bool keep_graph; /* leave graph and timeline in the predictor for --timeline */
	const struct sc_shard_plan *plan; /* of a DLRM, in place of the request's; NULL = that */
	const struct sc_model_errors
		*errors; /* of a DLRM: what its models are off by; NULL = nothing */
	/* What-if: multiply the speed of a resource class (1 = as is), for --explain. */
	double gemm_speed, hbm_speed, link_speed, nic_speed, host_speed;
};
void sc_predict_opts_init(struct sc_predict_opts *opts);

enum { SC_MAX_CLASSES_SHOWN = 256, SC_MAX_PATH_SHOWN = 64, SC_MAX_CONTRIBUTORS = 64 };
/* A stretch of the critical path on one class, with the transfers in it. */
struct sc_path_step {
	char what[48];     /* "stage 3 passes" */
	uint32_t class_id; /* of its first node */
	double start_ms, ms;
	double owner_ms[SC_N_OWNERS]; /* sums to ms */
	enum sc_owner owner;          /* largest of them */
	uint8_t reason; /* why its first node could not start sooner: enum sc_reason */
};
struct sc_class_info {
	char name[32]; /* "stage 3" */
	uint32_t ranks;
	double busy_ms, idle_ms, comm_ms;
};
struct sc_contributor {
	char what[48]; /* "gemm mlp h->4h forward" */
	double ms;     /* on the critical path, whole iteration */
	double count;
};
struct sc_prediction {
	double iteration_ms, low_ms, high_ms;
	double breakdown_ms[SC_N_OWNERS];
	struct sc_memory memory;
	double mfu, samples_per_s, tokens_per_s, model_flop;
	size_t n_nodes; /* simulated, all levels */
	size_t n_path, n_classes, n_contributors;
	struct sc_path_step path[SC_MAX_PATH_SHOWN];
	struct sc_class_info classes[SC_MAX_CLASSES_SHOWN];
	struct sc_contributor contributors[SC_MAX_CONTRIBUTORS];
	struct sc_warnings warnings;
};

struct sc_predictor; /* scratch of one thread: simulator, graphs, arena */
struct sc_predictor *sc_predictor_create(void);
void sc_predictor_destroy(struct sc_predictor *predictor);
/* SC_EUNSUPPORTED for what no builder can do yet (family, sharding), by name. */
int sc_predict(struct sc_predictor *predictor, const struct sc_request *request,
	       const struct sc_predict_opts *opts, struct sc_prediction *out, struct sc_err *err);
/* After sc_predict with keep_graph: borrowed until the next call. `name(ctx, op id)` gives a node's name. */
const struct sc_graph *sc_predictor_graph(const struct sc_predictor *predictor);
const struct sc_timeline *sc_predictor_timeline(const struct sc_predictor *predictor);
const char *sc_predictor_op_name(const struct sc_predictor *predictor, uint32_t op, char *buf,
				 unsigned n_buf);

#endif
