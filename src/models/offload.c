/* Rates between a GPU and the places to which training.offload moves its states, while all GPUs of
 * a node copy, and the optimizer's step on the CPU, whose traffic goes over those same links and
 * host memory (ZeRO-Offload, ZeRO-Infinity). */
#include "models/offload.h"

#include <math.h>

#include "base/units.h"

void sc_host_rates(const struct sc_request *request, const struct sc_fabric *fabric,
		   struct sc_host_rates *out)
{
	const struct sc_cluster *cl = &request->config.cluster;
	double gpus = (double)sc_request_node_gpus(request);
	const struct sc_software *sw = &request->software;
	double memory = cl->host_memory_gbps / gpus, own = request->device.host_link_gbps;
	/* The way to host memory is the module's link, or the slot's at copies' rate. */
	double link = cl->host_link_gbps > 0
			      ? cl->host_link_gbps
			      : (own > 0 ? own : request->device.pcie_gbps) * fabric->ramp.pcie_eff;

	link = fmin(link / fmin(fmax(1, (double)cl->host_link_gpus), gpus), memory);

	*out = (struct sc_host_rates){
		.in = {0, link, fmin(link, cl->ssd_read_gbps / gpus)},
		.out = {0, link, fmin(link, cl->ssd_write_gbps / gpus)},
		.step = fmin(sw->cpu_step_frac * memory,
			     sw->cpu_step_gbps > 0 ? sw->cpu_step_gbps : HUGE_VAL),
	};
}

double sc_offload_layers_frac(const struct sc_offload *off, double layers)
{
	if (off->activations <= SC_TIER_NONE || layers <= 0)
		return 0;
	return off->activation_layers < 0 ? 1 : fmin(1, (double)off->activation_layers / layers);
}

static double weight_bytes(const struct sc_request *request)
{
	return sc_dtype_bytes(sc_storage_dtype(request->config.training.precision));
}

/* The time of one step for `params` parameters of this rank: gradients come (unless they are
 * there), states are read, updated and written, weights go back (unless they are kept there). */
static double step_us(const struct sc_request *request, const struct sc_host_rates *rates,
		      double params, double step_bytes)
{
	const struct sc_offload *off = &request->config.training.offload;
	const struct sc_optimizer_traits *t =
		sc_optimizer_traits_of(request->config.training.optimizer);
	double f = sc_dtype_bytes(SC_FP32), us;

	if (params <= 0)
		return 0;
	us = sc_bytes_us(params * step_bytes, rates->step);
	if (off->optimizer == SC_TIER_NVME) {
		double states = params *
				(sc_updated_bytes(request) + t->moments * sc_moment_bytes(request));
		double moved_us = sc_bytes_us(states, rates->in[SC_TIER_NVME]) +
				  sc_bytes_us(states, rates->out[SC_TIER_NVME]);

		us = fmax(us, moved_us); /* tile by tile, read ahead and written behind */
	}
	if (off->gradients <= SC_TIER_NONE)
		us += sc_bytes_us(params * f, rates->out[SC_TIER_CPU]);
	if (off->weights <= SC_TIER_NONE)
		us += sc_bytes_us(params * weight_bytes(request), rates->in[SC_TIER_CPU]);
	return us;
}

double sc_host_step_us(const struct sc_request *request, const struct sc_fabric *fabric,
		       double updated, double step_bytes)
{
	const struct sc_offload *off = &request->config.training.offload;
	double params = sc_offload_states_frac(off) * updated, back = updated - params;
	struct sc_host_rates rates;
	double us;

	sc_host_rates(request, fabric, &rates);
	us = step_us(request, &rates, params, step_bytes);
	return off->weights <= SC_TIER_NONE || back <= 0
		       ? us
		       : us + sc_bytes_us(back * weight_bytes(request), rates.out[off->weights]);
}
