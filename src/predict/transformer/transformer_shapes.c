/* Sizes at which kernels are much slower than at their neighbours: told by the key that makes them. */
#include <math.h>

#include "base/units.h"
#include "predict/transformer/transformer_priv.h"

#define WORTH_TELLING 1.15 /* times as long */

/* Elements that lie one after another in memory, of which matrix products read rows. */
struct rows {
	const char *key;
	double elements;
	enum sc_dtype dtype;
};

/* The most on any kind of GPU. */
static double rows_factor(const struct sc_request *req, const struct rows *rows, double *unit_bytes)
{
	double most = 1, factor, unit;

	for (size_t k = 0; k < sc_request_n_kinds(req) && rows->elements > 0; k++) {
		factor = sc_gemm_rows_factor(sc_request_device(req, k), rows->dtype, rows->elements,
					     &unit);
		if (factor > most) {
			most = factor;
			*unit_bytes = unit;
		}
	}
	return most;
}

static void warn_of_rows(const struct dims *x, const struct rows *rows, struct sc_warnings *out)
{
	double unit_bytes = 0, factor = rows_factor(x->req, rows, &unit_bytes);

	if (factor >= WORTH_TELLING)
		sc_warn(out,
			"%s leaves a GPU rows of %g elements, no multiple of %g bytes: matrix "
			"products along them take %.1f times as long",
			rows->key, rows->elements, unit_bytes, factor);
}

/* Experts' products that the GPU does faster than the host launches them one by one. */
static void warn_of_launches(const struct dims *x, struct sc_warnings *out)
{
	const struct sc_config *cfg = &x->req->config;
	const struct sc_model *m = x->model;
	double host_us = (double)m->experts / (double)cfg->parallel.ep * x->sw->host_expert_us *
			 x->req->device.host.slowdown;
	double flop = 2 * x->tokens * x->etp / x->tp * (double)m->top_k * x->gates * x->h *
		      (double)m->expert_ffn_hidden / x->etp;
	double peak = sc_device_peak_tflops(&x->req->device, x->dtype);
	double gpu_us = peak > 0 ? sc_flop_us(flop, peak * x->req->device.gemm.eff_max) : host_us;

	if (cfg->training.cuda_graphs != 1 && !(cfg->training.cuda_graphs & SC_GRAPH_MOE) &&
	    host_us > gpu_us)
		sc_warn(out,
			"training.micro_batch leaves experts products of %.0f us, which the host takes "
			"%.0f us to launch: it sets their pace",
			gpu_us, host_us);
}

void sc_transformer_warn_shapes(const struct sc_request *request, struct sc_warnings *out)
{
	const struct sc_model *m = &request->config.model;
	bool moe = sc_model_is_moe(m),
	     unfused = request->config.training.attention == SC_ATT_UNFUSED;
	struct dims x;

	x = dims_of(request, NULL, (double)request->config.training.micro_batch, NULL);
	const struct rows all[] = {
		{"model.hidden", x.h, x.dtype},
		{"model.ffn_hidden", moe && sc_model_dense_layers(m, 0, m->layers) == 0 ? 0 : x.ffn,
		 x.dtype},
		{"model.expert_ffn_hidden", moe ? (double)m->expert_ffn_hidden / x.tp : 0, x.dtype},
		{"model.head_dim", x.ctx, x.dtype},
		{"model.vocab", x.vocab, x.storage},
		{"model.seq", unfused ? x.s_all : 0, x.storage},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		warn_of_rows(&x, &all[i], out);
	if (moe)
		warn_of_launches(&x, out);
	if (unfused && x.sw->fused_chains && !softmax_is_fused(&x))
		sc_warn(out,
			"training.micro_batch leaves a GPU %g heads at once, no multiple of 4: the "
			"fused softmax of %s does not take them",
			x.b * x.heads, x.sw->id);
}
