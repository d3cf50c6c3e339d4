/* Warnings of a Transformer's sizes: those at which kernels are much slower than at their
 * neighbours, by the key that makes them, and modules to run again that no layer has. */
#include <math.h>
#include <stdio.h>

#include "base/units.h"
#include "models/op_model.h"
#include "predict/transformer/summarize.h"
#include "predict/transformer/transformer_priv.h"

#define WORTH_TELLING 1.15 /* times as long, at which a user is told */

/* The elements of a row in memory, along which matrix products read. */
struct rows {
	const char *key;
	double elements;
	enum sc_dtype dtype;
	/* other side of attention's batched products, whose kernel is their own; else 0 */
	double across;
};

static double attn_bmm_us(const struct dims *x, const struct sc_device *device, double n, double k)
{
	const struct sc_op op = {
		SC_OP_GEMM,
		x->storage,
		{.gemm = {.batch = x->b * x->heads, .m = x->s, .n = n, .k = k, .bmm = true}}};
	struct sc_op_time time;

	sc_op_model_get(SC_OP_GEMM)->time(device, &op, &time);
	return time.total_us;
}

/* Returns how much slower these rows are than rows of the next whole multiple, on the GPU where
 * that is most. */
static double rows_factor(const struct dims *x, const struct rows *rows, double *unit_bytes)
{
	double most = 1, factor, unit;

	for (size_t k = 0; k < sc_request_n_kinds(x->req) && rows->elements > 0; k++) {
		const struct sc_device *device = sc_request_device(x->req, k);

		factor = sc_gemm_rows_factor(device, rows->dtype, rows->elements, &unit);
		if (rows->across > 0) {
			const double step = unit / sc_dtype_bytes(rows->dtype);
			const double across = ceil(rows->across / step) * step;

			factor = attn_bmm_us(x, device, rows->elements, across) /
				 attn_bmm_us(x, device, ceil(rows->elements / step) * step, across);
		}
		if (factor > most) {
			most = factor;
			*unit_bytes = unit;
		}
	}
	return most;
}

/* Warns of experts' products that the GPU does faster than the host launches them one by one. */
static void warn_of_launches(const struct dims *x, struct sc_warnings *out)
{
	const struct sc_config *cfg = &x->req->config;
	const struct sc_model *m = x->model;
	double host_us = (double)m->experts / (double)cfg->parallel.ep * x->sw->host_expert_us *
			 x->req->device.host.slowdown;
	double flop = 2 * x->tokens * x->etp / x->tp * (double)m->top_k * x->gates * x->expert_h *
		      (double)m->expert_ffn_hidden / x->etp;
	double peak = x->req->device.peak_tflops[x->dtype];
	double gpu_us = peak > 0 ? sc_flop_us(flop, peak * x->req->device.gemm.eff_max) : host_us;

	if (cfg->training.cuda_graphs != 1 && !(cfg->training.cuda_graphs & SC_GRAPH_MOE) &&
	    host_us > gpu_us)
		sc_warn(out,
			"training.micro_batch leaves experts products of %.0f us, which the host takes "
			"%.0f us to launch: it sets their pace",
			gpu_us, host_us);
}

static void warn_of_rows(const struct dims *x, const struct rows *rows, struct sc_warnings *out)
{
	double unit_bytes = 0, factor = rows_factor(x, rows, &unit_bytes);

	if (factor >= WORTH_TELLING)
		sc_warn(out,
			"%s leaves a GPU rows of %g elements, no multiple of %g (%g bytes): %s "
			"products along them take %.1f times as long",
			rows->key, rows->elements, unit_bytes / sc_dtype_bytes(rows->dtype),
			unit_bytes, rows->across > 0 ? "attention's" : "matrix", factor);
}

/* Returns the columns of a mixer's first product, of several kinds, which no key says. */
static double mixer_columns(const struct layer *l)
{
	for (const struct part *p = l->at; p < l->at + l->n; p++)
		if (p->kind == SC_PART_LINEAR)
			return p->n;
	return 0;
}

/* Warns of modules to run again that no layer has. Attention's core runs again in its backward. */
static void warn_of_modules(const struct dims *x, const struct sc_layer_counts *layers,
			    struct sc_warnings *out)
{
	int left = x->req->config.training.recompute;

	for (int kind = 0; kind < SC_N_LAYER_KINDS && left >= SC_FLAG; kind++) {
		struct layer l;

		if (!(layers->of[kind] > 0))
			continue;
		l = layer_of(x, kind);
		for (int i = 0; i < l.n; i++)
			left &= ~l.at[i].again;
		if (sc_model_has_attention(x->model, kind))
			left &= ~SC_RECOMPUTE_CORE_ATTN;
	}
	for (const struct sc_name *one = sc_recompute_names; one->name; one++)
		if (left >= SC_FLAG && one->value >= SC_FLAG && (left & one->value))
			sc_warn(out,
				"training.recompute %s has no effect: no layer of the model has what "
				"it names",
				one->name);
}

void sc_transformer_warn(const struct sc_request *request, struct sc_warnings *out)
{
	const struct sc_model *m = &request->config.model;
	bool moe = sc_model_is_moe(m),
	     unfused = request->config.training.attention == SC_ATT_UNFUSED;
	const struct dims x =
		dims_of(request, NULL, (double)request->config.training.micro_batch, NULL);
	const struct sc_layer_counts layers = sc_model_count(m, 0, m->layers);
	double dense = 0;

	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++)
		dense += sc_model_kind(m, kind).feed == SC_FEED_MLP ? layers.of[kind] : 0;
	const struct rows all[] = {
		{"model.hidden", x.h, x.dtype, 0},
		{"model.ffn_hidden", moe && dense <= 0 ? 0 : x.ffn, x.dtype, 0},
		{"model.expert_ffn_hidden", moe ? (double)m->expert_ffn_hidden / x.tp : 0, x.dtype,
		 0},
		{"model.heads times head_dim", x.ctx, x.dtype, 0},
		{"model.vocab", x.vocab, x.storage, 0},
		{"model.head_dim (hidden over heads)", unfused ? x.d : 0, x.storage, x.s_all},
		{"model.seq", unfused ? x.s_all : 0, x.storage, x.d},
	};

	for (const struct rows *rows = all; rows < all + sizeof(all) / sizeof(all[0]); rows++)
		warn_of_rows(&x, rows, out);
	for (int kind = 0; kind < SC_N_LAYER_KINDS; kind++) {
		if (layers.of[kind] > 0 && sc_model_kind(m, kind).mixer >= SC_MIX_FIRST_LINEAR) {
			const struct layer l = layer_of(&x, kind);
			char key[64];
			const struct rows rows = {key, mixer_columns(&l), x.dtype, 0};

			snprintf(key, sizeof(key), "model.%s",
				 sc_mixer_name(sc_model_kind(m, kind).mixer));
			warn_of_rows(&x, &rows, out);
		}
	}
	warn_of_modules(&x, &layers, out);
	if (moe)
		warn_of_launches(&x, out);
	if (unfused && x.sw->fused_chains && !softmax_is_fused(&x))
		sc_warn(out,
			"training.micro_batch leaves a GPU %g heads at once, no multiple of 4: the "
			"fused softmax of %s does not take them",
			x.b * x.heads, x.sw->id);
}
