/* Prepares a table of layers for building: kernels costed, gradients put into buckets. */
#include "predict/layers/layers.h"

#include <math.h>
#include <string.h>

#include "base/units.h"
#include "models/collective_files.h"
#include "predict/op_names.h"
#include "predict/predict.h"

const struct sc_layer_row *sc_layers_row(const struct sc_layers *layers, size_t row)
{
	return (const struct sc_layer_row *)layers->request->config.model.rows.at + row;
}

static double or_default(double given, double def)
{
	return given > 0 ? given : def;
}

struct sc_op sc_layers_op(const struct sc_layers *layers, size_t row, bool backward)
{
	const struct sc_training *tr = &layers->request->config.training;
	const struct sc_layer_row *r = sc_layers_row(layers, row);
	const double samples = (double)tr->micro_batch;
	const double weights = r->params * sc_dtype_bytes(sc_storage_dtype(tr->precision));
	struct sc_op op = {.kind = SC_OP_LAYER, .dtype = sc_precision_dtype(tr->precision)};

	op.u.layer = (struct sc_layer_shape){samples * r->flop, samples * r->bytes + weights};
	if (backward) /* weights are read, and their gradients written */
		op.u.layer = (struct sc_layer_shape){
			samples * or_default(r->grad_flop, 2 * r->flop),
			samples * or_default(r->grad_bytes, 2 * r->bytes) + 2 * weights};
	return op;
}

static void add_row(struct sc_layers *l, size_t row, bool backward, struct sc_block *out)
{
	const struct sc_op op = sc_layers_op(l, row, backward);

	sc_block_add_op(out, &l->env, backward ? SC_NAME_LAYER_BACKWARD : SC_NAME_LAYER_FORWARD,
			&op);
	l->flop += op.u.layer.flop / (double)l->request->config.training.micro_batch;
}

/* Whole gradients at once where nothing is to overlap. */
static double bucket_bytes(const struct sc_layers *l)
{
	const struct sc_software *sw = &l->request->software;

	return sw->grad_sync == SC_GRAD_OVERLAP && sw->bucket_mib > 0
		       ? sw->bucket_mib * SC_BYTES_PER_MIB
		       : HUGE_VAL;
}

static void fill_buckets(struct sc_layers *l)
{
	const size_t n = l->request->config.model.rows.n;
	const enum sc_dtype dtype = sc_storage_dtype(l->request->config.training.precision);
	struct sc_layer_bucket *b = NULL;

	l->buckets = sc_arena_calloc(l->arena, n, sizeof(*l->buckets));
	for (size_t row = n; row-- > 0;) {
		if (!b || b->shape.bytes >= bucket_bytes(l)) {
			b = &l->buckets[l->n_buckets++];
			b->last_row = row;
			b->shape = (struct sc_collective_shape){SC_ALL_REDUCE, 0, dtype};
		}
		add_row(l, row, true, &b->backward);
		b->n_rows++;
		b->shape.bytes += sc_layers_row(l, row)->params * sc_grad_bytes(l->request);
	}
}

static void add_optimizer(struct sc_layers *l, double params, struct sc_block *out)
{
	const double moved =
		params * sc_optimizer_step_bytes(l->request->config.training.optimizer);
	const struct sc_op op = {
		SC_OP_OPTIMIZER, SC_FP32, {.rowwise = {.read_bytes = moved, .n_kernels = 1}}};

	if (moved > 0)
		sc_block_add_op(out, &l->env, SC_NAME_OPTIMIZER, &op);
}

static void fill_forward(struct sc_layers *l)
{
	for (size_t i = l->n_buckets; i-- > 0;) {
		struct sc_layer_bucket *b = &l->buckets[i];
		double params = 0;

		for (size_t row = b->last_row + 1 - b->n_rows; row <= b->last_row; row++) {
			add_row(l, row, false, &b->forward);
			params += sc_layers_row(l, row)->params;
		}
		l->params += params;
		if (l->request->software.layer_updates)
			add_optimizer(l, params, &b->update);
	}
	if (!l->request->software.layer_updates)
		add_optimizer(l, l->params, &l->optimizer);
}

void sc_layers_memory(const struct sc_request *request, struct sc_memory *out)
{
	const struct sc_layer_row *rows = request->config.model.rows.at;
	double params = 0, kept_bytes = 0;

	for (size_t i = 0; i < request->config.model.rows.n; i++) {
		params += rows[i].params;
		kept_bytes += or_default(rows[i].kept_bytes, rows[i].bytes / 2);
	}
	sc_memory_replica(request, params,
			  kept_bytes * (double)request->config.training.micro_batch, out);
}

static void set_env(struct sc_layers *l, const struct sc_predict_opts *o)
{
	l->env = (struct sc_block_env){
		.request = l->request,
		.device = &l->request->device,
		.software = &l->request->software,
		.fabric = &l->fabric,
		.slowdown = 1,
		.cuda_graphs = l->request->config.training.cuda_graphs,
		.attention_eff = 1,
		.gemm_speed = o->gemm_speed,
		.hbm_speed = o->hbm_speed,
		.link_speed = o->link_speed,
		.nic_speed = o->nic_speed,
		.host_speed = o->host_speed,
	};
}

#define LARGE_BYTES 6.4e7 /* of a collective: takes all channels that it likes */

/* What c3.policy keeps free of kernels. */
static void reserve(struct sc_layers *l)
{
	const struct sc_c3_choice *dp = &l->request->c3[SC_C3_DP];
	const struct sc_collective_shape shape = {SC_ALL_REDUCE, LARGE_BYTES, SC_FP32};
	const double all = (double)l->env.device->sm_count;
	double sms = dp->n;
	struct sc_cost cost;

	if (dp->policy != SC_C3_RESERVE || l->span.n_ranks < 2)
		return;
	if (!(sms > 0)) {
		sc_block_comm_by(&l->env, SC_C3_DP, &shape, &l->span, &cost);
		sms = cost.demand[SC_RES_SM] * all;
	}
	l->env.kernel_sms = fmax(1, all - sc_device_whole_sms(l->env.device, sms));
}

int sc_layers_init(struct sc_layers *layers, const struct sc_setup *setup, struct sc_err *err)
{
	const struct sc_request *req = setup->request;
	const int world = (int)req->config.gpus;
	int node, rc;

	*layers = (struct sc_layers){.request = req, .arena = setup->scratch->arena};
	rc = sc_fabric_from_request(req, &layers->fabric, err);
	if (rc == 0)
		rc = sc_collective_files_load(req, layers->arena, &layers->fabric, err);
	if (rc)
		return rc;
	node = layers->fabric.gpus_per_node;
	layers->span =
		(struct sc_span){world, (world + node - 1) / node, world < node ? world : node};
	set_env(layers, setup->opts);
	reserve(layers);
	fill_buckets(layers);
	fill_forward(layers);
	return 0;
}

void sc_layers_release(struct sc_layers *layers)
{
	sc_block_release(&layers->optimizer);
	for (size_t i = 0; i < layers->n_buckets; i++) {
		sc_block_release(&layers->buckets[i].forward);
		sc_block_release(&layers->buckets[i].backward);
		sc_block_release(&layers->buckets[i].update);
	}
}
