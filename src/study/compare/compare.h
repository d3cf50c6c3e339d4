/* Compares configs that are predicted and recordings that are replayed, the first as the base:
 * ratios have the uncertainty that is left when the errors that all share cancel. */
#pragma once

#include "study/compare/model_error.h"
#include "study/evaluate/evaluate.h"
#include "trace/replay/replay.h"

enum { SC_COMPARE_MAX = 16, SC_COMPARE_DRAWS = 100 };
struct sc_compared {
	/* The caller sets these: */
	const char *name;
	const char *label; /* the end of `name` that no other has, for people to read */
	const struct sc_config *config; /* NULL: a recording, at the path `name` */
	struct sc_evaluator *by;        /* of a config: its request and prediction */
	struct sc_replay_result recording;
	const struct sc_reading
		*reading; /* of the prediction, or of the recorded iteration of median time */
	double ms;        /* of an iteration: predicted, or the mean of the measured */
	/* The time over the first one's: as predicted, the central confidence_pct of the draws, and
	 * the share of draws in which it is shorter; NAN where it or the first is a recording of
	 * one iteration. */
	double ratio, low_ratio, high_ratio, p_faster;
};
struct sc_compare {
	struct sc_compared *at;
	size_t n, n_recordings;
	struct sc_arena *arena;      /* of what the results hold */
	int confidence_pct;          /* of bands */
	unsigned n_jobs;             /* threads of replays; 0 = 1 */
	struct sc_model_error error; /* the widest of all; 0 of recordings */
	/* All models are of one family and size; times of unlike ones say little of splits. */
	bool like_models;
};
/* Fails with the first config that cannot be predicted, or recording that cannot be replayed; the
 * error's file is its own. A draw has the speeds of kernels, links and hosts for configs, and for a
 * recording as many of its iterations as it has, drawn with replacement. */
int sc_compare_run(struct sc_compare *compare, struct sc_catalog *catalog, struct sc_err *err);
/* Releases all that a run made, whether or not it failed. */
void sc_compare_release(struct sc_compare *compare);
