/* Several configs predicted side by side, the first as the base: ratios with the uncertainty that is left when the
 * errors that all share cancel. */
#ifndef SC_STUDY_COMPARE_H
#define SC_STUDY_COMPARE_H

#include "predict/predict.h"
#include "study/compare/model_error.h"

enum { SC_COMPARE_MAX = 16, SC_COMPARE_DRAWS = 100 };
struct sc_compared {
	const char *name; /* set by the caller, as is `config` */
	const struct sc_config *config;
	struct sc_request request;
	struct sc_prediction prediction;
	/* Time over the first one's: as predicted, the central 80 % of the draws, and the share of draws in which it is
	 * shorter. */
	double ratio, low_ratio, high_ratio, p_faster;
};
struct sc_compare {
	struct sc_compared *at;
	size_t n;
	struct sc_model_error error; /* the widest of all */
};
/* Fails with the first config that cannot be predicted; the error's file is its own. */
int sc_compare_run(struct sc_compare *compare, struct sc_catalog *catalog, struct sc_err *err);

#endif
