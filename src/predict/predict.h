/* The one pipeline: request -> workload -> graph -> simulate -> reading -> prediction. Callers ask
 * for a prediction, or for a floor below it; a predictor keeps its memory between calls. */
#pragma once

#include "core/config/config.h"
#include "core/config/likeness.h"
#include "core/embedding/shard_plan.h"
#include "models/collective/collective.h"
#include "models/memory.h"
#include "predict/engine/simulate.h"
#include "predict/reading.h"
#include "predict/schedule/schedule.h"

enum sc_detail { SC_DETAIL_COARSE, SC_DETAIL_FULL };
struct sc_predict_opts {
	enum sc_detail detail;
	bool no_jump;  /* coarse runs every micro-batch, without a skip of the steady state */
	bool unfolded; /* every rank is its own class: a check of the folding */
	bool brief;    /* of the reading only times and breakdown: no path, no classes */
	/* A floor does not ask for the time of what leaves less than margin_frac of a GPU's memory
	 * free. */
	bool memory_first;
	double margin_frac;
	bool memory_least; /* a floor makes no order of passes that depends on their times */
	bool keep_graph;   /* leave graph and timeline in the predictor for --timeline */
	const volatile sig_atomic_t *stop; /* as in sc_simulator_stop_by; may be NULL */
	const struct sc_shard_plan *plan;  /* a DLRM needs one (study/shard/shard_choose.h) */
	int confidence_pct; /* chance of low_ms..high_ms; SC_CONFIDENCE, from _LEAST to _MOST */
	/* The what-if factors multiply the speed of a resource class (1 = as is), for --explain. */
	double gemm_speed, hbm_speed, link_speed, nic_speed, host_speed;
};
void sc_predict_opts_init(struct sc_predict_opts *opts);

/* The parameters of a whole model, and those that one token meets: only the experts that it takes.
 */
struct sc_model_params {
	double total, active;
};

struct sc_prediction {
	double iteration_ms, low_ms, high_ms;
	int confidence_pct; /* that the band holds */
	const struct sc_band *band;
	struct sc_reading reading;
	struct sc_memory memory;
	/* mfu counts the FLOPs of a model with all of attention, mfu_causal without what causal
	 * attention leaves out (0: no attention); mfu_bf16 divides by the peak of bf16 where the
	 * products are narrower, else it is 0. */
	double mfu_bf16;
	double mfu, mfu_causal;
	double samples_per_s, tokens_per_s, model_flop;
	/* A GPU's share of model_flop over the time, and the same without what causal attention
	 * leaves out (0: as mfu_causal). Megatron-LM logs the first, of late the second. */
	double tflops_gpu, tflops_gpu_causal;
	struct sc_model_params params;
	/* The rate at which a GPU sends while any collective runs on a torus, and its share of its
	 * links; else 0. */
	double network_gbps, network_frac;
	size_t n_nodes; /* simulated, on all levels */
	struct sc_warnings warnings;
};

/* A floor is known without a graph: a time less than any simulation gives, and the memory. */
struct sc_floor {
	double iteration_ms; /* 0 where memory_first finds it too large */
	bool is_least;       /* the memory is the least of any order of passes */
	struct sc_memory memory;
};
/* Adds one more collective of every rank to the traffic of an iteration that was read. */
void sc_prediction_add_traffic(struct sc_prediction *prediction, const struct sc_fabric *fabric,
			       const struct sc_collective_shape *shape);

/* Sets samples_per_s, model_flop and mfu of an iteration that was read, by the FLOP of a sample. */
void sc_prediction_set_rates(struct sc_prediction *prediction, const struct sc_request *request,
			     double flop, double peak_tflops);

/* Resolves a config (sc_config_resolve). If training.micro_batch is not given and there is no
 * pipeline, it becomes all samples of a replica if they fit the memory, else the largest power of
 * two that divides them and fits, or 1. */
int sc_resolve_request(const struct sc_config *config, struct sc_catalog *catalog, const char *file,
		       struct sc_request *out, struct sc_err *err);

/* Scratch of one thread: simulator, graphs, arena, and what it remembers of earlier requests, whose
 * profiles live as long as their catalog. */
struct sc_predictor;
struct sc_predictor *sc_predictor_create(void);
void sc_predictor_destroy(struct sc_predictor *predictor);
/* Lets another predictor have the room of a predictor's last graph and timeline, of which nothing
 * is left but the prediction. */
void sc_predictor_lend(struct sc_predictor *predictor, struct sc_predictor *to);
/* Returns SC_EUNSUPPORTED for what no builder can do yet (family, sharding), by name. */
int sc_predict(struct sc_predictor *predictor, const struct sc_request *request,
	       const struct sc_predict_opts *opts, struct sc_prediction *out, struct sc_err *err);
/* Copies the passes of the predicted pipeline, in ms and GiB of a GPU, into the arena; false: it
 * has none. */
bool sc_predictor_play(const struct sc_predictor *predictor, struct sc_arena *arena,
		       struct sc_schedule_play *out);
/* Bounds a Transformer's time, for searches; other families are SC_EUNSUPPORTED. */
int sc_predict_floor(struct sc_predictor *predictor, const struct sc_request *request,
		     const struct sc_predict_opts *opts, struct sc_floor *out, struct sc_err *err);
/* Returns what sc_predict ran with keep_graph, borrowed until the next call. */
struct sc_ran sc_predictor_ran(const struct sc_predictor *predictor);
