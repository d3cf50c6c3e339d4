/* Sharding for the predicted iteration: candidates come from a proxy that adds up, then whole steps
 * are simulated. */
#pragma once

#include "predict/predict.h"
#include "study/shard/shard.h"

/* The share of a cached table's rows that HBM holds. */
#define SC_UVM_CACHE_FRAC 0.2

/* Lists the proxy costs of each table's options, ms: the time of its embedding kernels, forward and
 * backward, and its share of the exchanges, by the request's device, network and software. Kernel
 * start-up is left out: it is the same for any number of tables. `out` is empty but for
 * constraints, which stay: a memory that one names is offered to its table though GPUs have room
 * for all. */
int sc_iteration_problem(const struct sc_request *request, struct sc_arena *arena,
			 struct sc_shard_problem *out, struct sc_err *err);
/* GPU memory for tables, bytes: sharding.hbm_gib, or what hbm_reserve_frac (0.1) and the software
 * leave. */
double sc_shard_table_budget(const struct sc_request *request, const struct sc_device *device);
/* The request whose step ranks plans: itself, or one whose host takes no time where the host's
 * input is that of the software's example script, which would hide how the plans differ. */
const struct sc_request *sc_ranking_request(const struct sc_request *request,
					    struct sc_arena *arena);
/* Predicts the whole step under a plan. */
int sc_iteration_rate(struct sc_predictor *predictor, const struct sc_request *request,
		      const struct sc_shard_plan *plan, struct sc_prediction *out,
		      struct sc_err *err);
