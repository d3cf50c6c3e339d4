/* Tori of GPUs, and what is kept of each GPU for communication (c3.endpoint). */
#include <inttypes.h>
#include <string.h>

#include "core/config/config_priv.h"

static int check_list(const struct sc_resolver *res, const char *path, size_t n, bool may_miss)
{
	const size_t n_dims = res->request->config.cluster.torus.dims.n;

	if (n == 1 || n == n_dims || (n == 0 && may_miss))
		return 0;
	return sc_resolve_fail(
		res, SC_ECONFLICT, n ? path : "cluster.torus.dims",
		"%s has %zu values and cluster.torus.dims %zu; write one for each, or "
		"one for all",
		path, n, n_dims);
}

static int check_size(const struct sc_resolver *res)
{
	const struct sc_config *cfg = &res->request->config;
	int64_t gpus = 1;

	for (size_t d = 0; d < cfg->cluster.torus.dims.n && gpus <= SC_MAX_GPUS; d++)
		gpus *= cfg->cluster.torus.dims.at[d];
	if (gpus == cfg->gpus)
		return 0;
	return sc_resolve_fail(res, SC_ECONFLICT, "cluster.torus.dims",
			       "cluster.torus.dims are %" PRId64 " GPUs, the request has %" PRId64
			       "; make them equal",
			       gpus, cfg->gpus);
}

int sc_config_resolve_torus(const struct sc_resolver *res)
{
	struct sc_config *cfg = &res->request->config;
	struct sc_torus *torus = &cfg->cluster.torus;
	int rc;

	if (!torus->dims.n)
		return 0;
	rc = check_list(res, "cluster.torus.link_gbps", torus->link_gbps.n, false);
	if (rc == 0)
		rc = check_list(res, "cluster.torus.hop_us", torus->hop_us.n, true);
	if (rc == 0)
		rc = check_size(res);
	if (rc == 0 && sc_request_n_kinds(res->request) > 1)
		rc = sc_resolve_fail(res, SC_EUNSUPPORTED, "cluster.nodes",
				     "cluster.nodes: the GPUs of a torus are alike; remove it");
	if (rc == 0)
		rc = sc_config_check_data_parallel(res, "collectives run over all GPUs of a torus");
	if (rc)
		return rc;
	for (size_t d = 0; d < torus->link_gbps.n; d++)
		if (!(torus->link_gbps.at[d] > 0))
			return sc_resolve_fail(res, SC_EVALUE, "cluster.torus.link_gbps",
					       "cluster.torus.link_gbps must be above 0");
	cfg->cluster.gpus_per_node = cfg->cluster.scale_up_gpus = cfg->gpus; /* as one node */
	return 0;
}

/* Taken from the device, and so from every kernel: its SMs, their math, its memory's bandwidth. */
static void take_share(struct sc_request *req, int64_t sms, double memory_gbps)
{
	struct sc_device *dev = &req->device;
	struct sc_device_peaks *peak = &dev->peak_tflops;

	req->kernel_sm_frac = (double)(dev->sm_count - sms) / (double)dev->sm_count;
	dev->sm_count -= sms;
	dev->hbm_gbps -= memory_gbps;
	peak->fp32 *= req->kernel_sm_frac;
	peak->tf32 *= req->kernel_sm_frac;
	peak->fp16 *= req->kernel_sm_frac;
	peak->bf16 *= req->kernel_sm_frac;
	peak->fp8 *= req->kernel_sm_frac;
	peak->fp4 *= req->kernel_sm_frac;
}

int sc_config_take_endpoint(const struct sc_resolver *res)
{
	struct sc_request *req = res->request;
	const struct sc_endpoint *end = &req->config.c3.endpoint;
	const int64_t all = req->device.sm_count, sms = end->sms > 0 ? end->sms : 0;
	const double memory_gbps = end->memory_gbps > 0 ? end->memory_gbps : 0;

	if (!req->config.cluster.torus.dims.n)
		return 0;
	if (end->kind == SC_ENDPOINT_SMS && end->sms == 0)
		return sc_resolve_fail(res, SC_ECONFLICT, "c3.endpoint.sms",
				       "c3.endpoint.sms 0: kernels that communicate need SMs; give "
				       "some, or take kind engine or ideal");
	if (sms >= all)
		return sc_resolve_fail(res, SC_ECONFLICT, "c3.endpoint.sms",
				       "c3.endpoint.sms %" PRId64 ": %.40s has %" PRId64
				       "; leave some to computation",
				       sms, req->device.id, all);
	if (memory_gbps >= req->device.hbm_gbps)
		return sc_resolve_fail(res, SC_ECONFLICT, "c3.endpoint.memory_gbps",
				       "c3.endpoint.memory_gbps %g: %.40s has %g; leave some to "
				       "computation",
				       memory_gbps, req->device.id, req->device.hbm_gbps);
	if (end->kind == SC_ENDPOINT_SMS && (sms == 0 || !(memory_gbps > 0)) &&
	    req->c3[SC_C3_DP].policy != SC_C3_SERIAL)
		sc_warn(&req->warnings,
			"c3.endpoint keeps no SMs or no memory bandwidth for communication: what it "
			"uses is not taken from computation beside it; c3.policy serial takes turns");
	take_share(req, sms, memory_gbps);
	return 0;
}

double sc_request_peak_tflops(const struct sc_request *request)
{
	const enum sc_dtype dtype = sc_precision_dtype(request->config.training.precision);

	return sc_device_peak_tflops(&request->device, dtype) / request->kernel_sm_frac;
}
