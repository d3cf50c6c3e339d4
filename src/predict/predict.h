/* The one pipeline: request -> graphs -> simulate -> reading -> prediction. */
#ifndef SC_PREDICT_PREDICT_H
#define SC_PREDICT_PREDICT_H

#include "core/config/config.h"
#include "core/config/likeness.h"
#include "core/embedding/shard_plan.h"
#include "models/collective.h"
#include "models/memory.h"
#include "predict/engine/simulate.h"
#include "predict/reading.h"
#include "predict/schedule/schedule.h"

enum sc_detail { SC_DETAIL_COARSE, SC_DETAIL_FULL };
struct sc_predict_opts {
	enum sc_detail detail;
	bool no_jump;  /* coarse: run every micro-batch, do not skip the steady state */
	bool unfolded; /* every rank its own class: a check of the folding */
	bool brief; /* of the reading only times and the breakdown: no path, no names, no contributors */
	/* Floors: what leaves less of a GPU's memory free than margin_frac is not asked for its time. */
	bool memory_first;
	double margin_frac;
	bool keep_graph; /* leave graph and timeline in the predictor for --timeline */
	const struct sc_shard_plan
		*plan; /* of a DLRM, which needs one (study/shard/shard_choose.h) */
	int confidence_pct; /* of measured times in low_ms..high_ms; SC_CONFIDENCE, from _LEAST to _MOST */
	/* What-if: multiply the speed of a resource class (1 = as is), for --explain. */
	double gemm_speed, hbm_speed, link_speed, nic_speed, host_speed;
};
void sc_predict_opts_init(struct sc_predict_opts *opts);

/* Parameters of a whole model, and those of them that one token meets: of its experts only those that it takes. */
struct sc_model_params {
	double total, active;
};

struct sc_prediction {
	double iteration_ms, low_ms, high_ms;
	int confidence_pct; /* of the band */
	const struct sc_band *band;
	struct sc_reading reading;
	struct sc_memory memory;
	/* Of the FLOPs of a model with all of attention; and without what causal attention leaves out (0: no
	 * attention). */
	double mfu_bf16; /* over the peak of bf16, where the products are narrower; else 0 */
	double mfu, mfu_causal;
	double samples_per_s, tokens_per_s, model_flop;
	/* A GPU's share of model_flop over the time, and the same without what causal attention leaves out (0: as
	 * mfu_causal): what Megatron-LM logs, of late the second. */
	double tflops_gpu, tflops_gpu_causal;
	struct sc_model_params params;
	/* On a torus: what a GPU sends while any collective runs, and its share of all its links; else 0. */
	double network_gbps, network_frac;
	size_t n_nodes; /* simulated, all levels */
	struct sc_warnings warnings;
};

/* What is known without a graph: less than any simulation gives, and the memory. */
struct sc_floor {
	double iteration_ms; /* 0: memory_first says that it is too large */
	bool is_least;       /* too large already with the least memory of any order of passes */
	struct sc_memory memory;
};
/* One more collective of an iteration that was read; of every rank. */
void sc_prediction_add_traffic(struct sc_prediction *prediction, const struct sc_fabric *fabric,
			       const struct sc_collective_shape *shape);

/* Of an iteration that was read: samples_per_s, model_flop and mfu, by the FLOP of a sample and a GPU's peak. */
void sc_prediction_set_rates(struct sc_prediction *prediction, const struct sc_request *request,
			     double flop, double peak_tflops);

/* sc_config_resolve. Where training.micro_batch is not given and there is no pipeline, it is all samples of a
 * replica if they fit the memory, else the largest power of two that divides them and fits, or 1. */
int sc_resolve_request(const struct sc_config *config, struct sc_catalog *catalog, const char *file,
		       struct sc_request *out, struct sc_err *err);

/* Scratch of one thread: simulator, graphs, arena, and what it remembers of requests before: their profiles, which a
 * catalog has, live as long as it does. */
struct sc_predictor;
struct sc_predictor *sc_predictor_create(void);
void sc_predictor_destroy(struct sc_predictor *predictor);
/* SC_EUNSUPPORTED for what no builder can do yet (family, sharding), by name. */
int sc_predict(struct sc_predictor *predictor, const struct sc_request *request,
	       const struct sc_predict_opts *opts, struct sc_prediction *out, struct sc_err *err);
/* After sc_predict, the passes of its pipeline, in ms and GiB of a GPU, copied into the arena; false: it has none. */
bool sc_predictor_play(const struct sc_predictor *predictor, struct sc_arena *arena,
		       struct sc_schedule_play *out);
/* For searches, which pass over what cannot be the best. Transformers only; else SC_EUNSUPPORTED. */
int sc_predict_floor(struct sc_predictor *predictor, const struct sc_request *request,
		     const struct sc_predict_opts *opts, struct sc_floor *out, struct sc_err *err);
/* After sc_predict with keep_graph: borrowed until the next call. */
struct sc_ran sc_predictor_ran(const struct sc_predictor *predictor);

#endif
