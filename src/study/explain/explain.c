/* One prediction per resource. The scratch prediction is large, so it lives on the heap. */
#include "study/explain/explain.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

struct what_if_row {
	const char *resource, *meaning;
	size_t offset; /* of its speed in sc_predict_opts */
};
static const struct what_if_row ROWS[SC_N_WHAT_IFS] = {
	{"gemm", "faster GEMMs and attention", offsetof(struct sc_predict_opts, gemm_speed)},
	{"hbm", "more memory bandwidth", offsetof(struct sc_predict_opts, hbm_speed)},
	{"link", "faster links inside the node", offsetof(struct sc_predict_opts, link_speed)},
	{"nic", "faster network between nodes", offsetof(struct sc_predict_opts, nic_speed)},
	{"host", "a faster host", offsetof(struct sc_predict_opts, host_speed)},
};

int sc_explain(struct sc_predictor *predictor, const struct sc_request *request,
	       const struct sc_predict_opts *opts, const struct sc_prediction *base,
	       struct sc_explanation *out, struct sc_err *err)
{
	struct sc_prediction *faster = sc_xmalloc(sizeof(*faster));
	struct sc_explanation result = {.speed = 1.1, .twice_the_nics_ms = (double)NAN};
	int rc = 0;

	for (size_t i = 0; i < SC_N_WHAT_IFS && rc == 0; i++) {
		struct sc_predict_opts changed = *opts;
		double *speed = (double *)(void *)((unsigned char *)&changed + ROWS[i].offset);

		changed.keep_graph = false;
		*speed *= result.speed;
		rc = sc_predict(predictor, request, &changed, faster, err);
		result.what_if[i] = (struct sc_what_if){
			.resource = ROWS[i].resource,
			.meaning = ROWS[i].meaning,
			.iteration_ms = faster->iteration_ms,
			.gain_pct = 100.0 * (1.0 - faster->iteration_ms / base->iteration_ms),
		};
	}
	if (rc == 0 && request->config.gpus > request->config.cluster.gpus_per_node) {
		struct sc_request *more = sc_xmalloc(sizeof(*more));

		*more = *request;
		more->config.cluster.nics_per_node *= 2;
		rc = sc_predict(predictor, more, opts, faster, err);
		result.twice_the_nics_ms = faster->iteration_ms;
		free(more);
	}
	if (rc == 0)
		*out = result;
	free(faster);
	return rc;
}
