/* The interface of a workload, the training of a model of one family: it builds a graph, says what
 * a reading must know of it, and concludes. Who predicts asks nothing else about it. */
#pragma once

#include "predict/engine/simulate.h"
#include "predict/reading.h"

struct sc_build_scratch;
struct sc_floor;
struct sc_predict_opts;
struct sc_prediction;
struct sc_request;
struct sc_schedule_play;

/* The setup of one prediction; all is borrowed. */
struct sc_setup {
	const struct sc_request *request;
	const struct sc_predict_opts *opts;
	struct sc_build_scratch *scratch;
	struct sc_graph *graph; /* to be filled; NULL: none is built */
};
/* The functions of a workload; `self` is memory of one thread for one prediction after another. */
struct sc_workload {
	size_t self_bytes; /* zeroed before the first prediction */
	/* Fills the setup's graph, and seals it. */
	int (*build)(void *self, struct sc_err *err);
	/* Says after a run whether the graph must be built and run once more; NULL: never. */
	bool (*again)(void *self, const struct sc_timeline *timeline);
	/* Sets what a reading must know: period, waits, names, last node. Borrows its arguments. */
	void (*fill_reading)(void *self, const struct sc_timeline *timeline,
			     struct sc_reading_input *out);
	bool (*takes)(const struct sc_request *request);
	void (*destroy)(void *self); /* frees what it keeps between predictions; NULL: nothing */
	int (*init)(void *self, const struct sc_setup *setup, struct sc_err *err);
	/* Adds memory, rates and warnings once the iteration is read. */
	void (*conclude)(void *self, struct sc_prediction *out);
	/* Copies the pipeline of a run into the arena; false, or NULL: there is none. */
	bool (*play)(void *self, const struct sc_timeline *timeline, struct sc_arena *arena,
		     struct sc_schedule_play *out);
	/* Bounds the time in place of init and all behind it; NULL: no bound is known. */
	int (*floor)(void *self, const struct sc_setup *setup, struct sc_floor *out,
		     struct sc_err *err);
	void (*release)(void *self); /* undoes init, whole or not; may be NULL */
};
extern const struct sc_workload sc_transformer_workload; /* transformer/transformer_workload.c */
extern const struct sc_workload sc_dlrm_workload;        /* dlrm/dlrm_workload.c */
extern const struct sc_workload sc_layers_workload;      /* layers/layers.c */
