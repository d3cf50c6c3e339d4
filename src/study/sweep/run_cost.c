/* Sums what a step and a run cost, over the kinds of GPU in a cluster. */
#include "study/sweep/run_cost.h"

#include <math.h>
#include <string.h>

#include "base/units.h"

double sc_run_price(const struct sc_run_size *size, const char *gpu, double otherwise)
{
	for (size_t i = 0; i < size->n_prices; i++) {
		const struct sc_gpu_price *p = &size->prices[i];

		if (p->gpu && strcmp(p->gpu, gpu) == 0)
			return p->usd_per_hour;
		if (!p->gpu)
			otherwise = p->usd_per_hour;
	}
	return otherwise;
}

/* The mean price and power of a GPU of the cluster; NAN: they are not known for some kind. */
struct mean {
	double usd_per_hour, watts;
};

static struct mean mean_gpu(const struct sc_request *request, const struct sc_run_size *size,
			    const char **unpriced)
{
	const struct sc_gpu_nodes *nodes = request->config.cluster.nodes.at;
	const double price = request->config.cluster.price_usd_gpu_hour;
	const size_t n_kinds = request->config.cluster.nodes.n;
	struct mean sum = {0, 0};
	double n = 0;

	for (size_t i = 0; i < (n_kinds ? n_kinds : 1); i++) {
		const struct sc_device *device =
			n_kinds ? sc_request_device(request, sc_request_kind_of(request, &nodes[i]))
				: &request->device;
		const double count = n_kinds ? (double)nodes[i].count : 1;
		const double usd = sc_run_price(size, device->id, price);

		*unpriced = usd >= 0 ? *unpriced : device->id;
		sum.usd_per_hour += usd >= 0 ? count * usd : (double)NAN;
		sum.watts += device->tdp_w > 0 ? count * device->tdp_w : (double)NAN;
		n += count;
	}
	return (struct mean){sum.usd_per_hour / n, sum.watts / n};
}

int sc_run_cost(const struct sc_request *request, const struct sc_prediction *p,
		const struct sc_run_size *size, struct sc_run_cost *out, struct sc_err *err)
{
	const struct sc_config *c = &request->config;
	const double gpu_hours = p->iteration_ms * (double)c->gpus / SC_MS_PER_HOUR;
	const char *unpriced = NULL;
	const struct mean gpu = mean_gpu(request, size, &unpriced);
	double samples = size->samples, n;

	if (size->tokens > 0 && !(p->tokens_per_s > 0))
		return sc_err_set(err, SC_EUNSUPPORTED,
				  "--tokens: a %s has no tokens; --samples says how long it is "
				  "trained",
				  sc_family_name(c->model.family));
	if (size->n_prices && unpriced)
		return sc_err_set(err, SC_EUSAGE,
				  "--price: what does a %s cost? --price %s=USD_PER_HOUR", unpriced,
				  unpriced);
	if (size->tokens > 0)
		samples = size->tokens * p->samples_per_s / p->tokens_per_s;
	n = ceil(samples / (double)c->training.global_batch);
	out->step = (struct sc_amounts){1, p->iteration_ms / (24 * SC_MS_PER_HOUR), gpu_hours,
					gpu_hours * gpu.usd_per_hour,
					gpu_hours * gpu.watts / SC_W_PER_KW};
	out->run = (struct sc_amounts){n, n * out->step.days, n * gpu_hours, n * out->step.usd,
				       n * out->step.kwh};
	return 0;
}
