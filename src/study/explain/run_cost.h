/* What a step and a run cost: GPU-hours, US dollars at cluster.price_usd_gpu_hour, energy at the GPUs' board power. */
#ifndef SC_STUDY_RUN_COST_H
#define SC_STUDY_RUN_COST_H

#include "predict/predict.h"

/* What the run has to go through; both 0: nothing is asked. */
struct sc_run_size {
	double tokens, samples;
	double usd_per_hour; /* of a GPU; below 0: cluster.price_usd_gpu_hour */
};
struct sc_run_cost {
	double days, gpu_hours, usd, kwh; /* of a step; NAN: no price, no tdp_w of a device */
	double steps;                     /* of the run, 0: none is asked for */
};
/* SC_EUNSUPPORTED where tokens are asked of a model without any. */
int sc_run_cost(const struct sc_request *request, const struct sc_prediction *prediction,
		const struct sc_run_size *size, struct sc_run_cost *out, struct sc_err *err);

#endif
