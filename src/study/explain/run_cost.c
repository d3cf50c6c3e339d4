/* See the header. */
#include "study/explain/run_cost.h"

#include <math.h>

#include "base/units.h"

static double mean_watts(const struct sc_request *request)
{
	const struct sc_gpu_nodes *nodes = request->config.cluster.nodes.at;
	double sum = 0, n = 0;

	if (request->config.cluster.nodes.n == 0)
		return request->device.tdp_w;
	for (size_t i = 0; i < request->config.cluster.nodes.n; i++) {
		const struct sc_device *device =
			sc_request_device(request, sc_request_kind_of(request, &nodes[i]));

		if (!(device->tdp_w > 0))
			return 0;
		sum += (double)nodes[i].count * device->tdp_w;
		n += (double)nodes[i].count;
	}
	return sum / n;
}

int sc_run_cost(const struct sc_request *request, const struct sc_prediction *p,
		const struct sc_run_size *size, struct sc_run_cost *out, struct sc_err *err)
{
	const struct sc_config *c = &request->config;
	double watts = mean_watts(request);
	double price = size->usd_per_hour >= 0 ? size->usd_per_hour : c->cluster.price_usd_gpu_hour;
	double samples = size->samples;

	if (size->tokens > 0 && !(p->tokens_per_s > 0))
		return sc_err_set(err, SC_EUNSUPPORTED,
				  "--tokens: a %s has no tokens; --samples says how long it is "
				  "trained",
				  sc_family_name(c->model.family));
	if (size->tokens > 0)
		samples = size->tokens * p->samples_per_s / p->tokens_per_s;
	out->days = p->iteration_ms / (24 * SC_MS_PER_HOUR);
	out->gpu_hours = p->iteration_ms * (double)c->gpus / SC_MS_PER_HOUR;
	out->usd = price >= 0 ? price * out->gpu_hours : (double)NAN;
	out->kwh = watts > 0 ? watts / SC_W_PER_KW * out->gpu_hours : (double)NAN;
	out->steps = ceil(samples / (double)c->training.global_batch);
	return 0;
}
