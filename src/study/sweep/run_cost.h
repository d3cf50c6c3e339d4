/* The cost of a step and of a run: GPU-hours, US dollars, energy at the GPUs' board power. */
#pragma once

#include "predict/predict.h"

struct sc_gpu_price {
	const char *gpu; /* a device id, once; NULL: any that no other names */
	double usd_per_hour;
};
/* The size of the run; both 0: only the cost of a step is asked. */
struct sc_run_size {
	double tokens, samples;
	const struct sc_gpu_price *prices; /* before cluster.price_usd_gpu_hour */
	size_t n_prices;
};
struct sc_amounts {
	double steps, days, gpu_hours, usd, kwh; /* NAN: no price, no tdp_w of a device */
};
struct sc_run_cost {
	struct sc_amounts step, run; /* run.steps 0: none is asked for */
};
/* The price of a GPU for an hour; below 0: not known. */
double sc_run_price(const struct sc_run_size *size, const char *gpu, double otherwise);
/* SC_EUNSUPPORTED means that tokens are asked of a model without any; SC_EUSAGE that prices are
 * given and none is for these GPUs. */
int sc_run_cost(const struct sc_request *request, const struct sc_prediction *prediction,
		const struct sc_run_size *size, struct sc_run_cost *out, struct sc_err *err);
