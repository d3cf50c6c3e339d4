/* The kernels of a DLRM's step on one rank, as blocks: MLPs, interaction, loss, embedding kernels,
 * optimizer (Naumov et al. 2019, DLRM; Wang et al. 2021, DCNv2). */
#include <math.h>

#include "base/units.h"
#include "predict/dlrm/dlrm_dense_priv.h"

/* A layer's product; the names of its gradients follow: the data's, the weights'. */
void dense_gemm(const struct dense_part *p, enum sc_op_name name, double n, double k)
{
	struct sc_op op = {SC_OP_GEMM, p->dtype, {.gemm = {.batch = 1, .m = p->b, .n = n, .k = k}}};

	sc_block_add_op(p->block, &p->cls->env, (uint16_t)name, &op);
}

/* The gradient of the weights n x k. */
void dense_wgrad(const struct dense_part *p, enum sc_op_name name, double n, double k)
{
	struct sc_op op = {SC_OP_GEMM,
			   p->dtype,
			   {.gemm = {.batch = 1, .m = n, .n = k, .k = p->b, .sums_rows = true}}};

	sc_block_add_op(p->block, &p->cls->env, (uint16_t)name, &op);
}

void dense_rowwise(const struct dense_part *p, enum sc_op_name name, double bytes, int n_kernels)
{
	struct sc_op op = {
		SC_OP_ROWWISE,
		p->storage,
		{.rowwise = {.read_bytes = bytes * p->cls->env.software->elementwise_factor,
			     .n_kernels = n_kernels}}};

	sc_block_add_op(p->block, &p->cls->env, (uint16_t)name, &op);
}

/* Tensor cores take widths in eights: frameworks pad odd ones in half precision. */
static double padded(const struct dense_part *p, double width)
{
	return p->e < sc_dtype_bytes(SC_FP32) ? ceil(width / 8) * 8 : width;
}

/* Returns the width of the bottom MLP's output. */
static double bottom_width(const struct sc_request *req)
{
	const struct sc_ints *widths = &req->config.model.bottom_mlp;

	return widths->n ? (double)widths->at[widths->n - 1]
			 : (double)req->config.model.dense_features;
}

/* Returns the width of the input of the top MLP or of the cross layers. */
static double interacted_width(const struct sc_dlrm *dlrm)
{
	const struct sc_model *model = &dlrm->request->config.model;
	double dense = fmax(0, bottom_width(dlrm->request)), n = dlrm->vectors + (dense > 0);
	double stride = model->interact_stride > 0 ? (double)model->interact_stride : 1;

	if (model->hstu.layers > 0)
		return (double)model->hstu.hidden;
	if (model->interaction == SC_INTERACT_DOT)
		return n * (n - 1) / 2 + dense;
	return dlrm->vector_columns / stride + dense;
}

static void count_layer(struct sc_dlrm *dlrm, double n, double k)
{
	double e = sc_dtype_bytes(sc_storage_dtype(dlrm->request->config.training.precision));

	dlrm->dense_params += n * k + n;
	dlrm->model_flop += 3 * 2 * n * k;
	dlrm->kept_bytes += dlrm->batch * 2 * n * e; /* output, and its gradient */
}

static void count_mlp(struct sc_dlrm *dlrm, const struct sc_ints *widths, double input)
{
	for (size_t i = 0; i < widths->n; i++) {
		count_layer(dlrm, (double)widths->at[i], input);
		input = (double)widths->at[i];
	}
}

void sc_dlrm_dense_sizes(struct sc_dlrm *dlrm)
{
	const struct sc_model *model = &dlrm->request->config.model;
	double width, n;
	double e = sc_dtype_bytes(sc_storage_dtype(dlrm->request->config.training.precision));

	dlrm->vectors = dlrm->vector_columns = 0;
	for (size_t i = 0; i < dlrm->tables.n; i++) {
		double outputs = sc_table_outputs(&dlrm->tables.at[i]);

		dlrm->vectors += outputs;
		dlrm->vector_columns += outputs * (double)dlrm->tables.at[i].dim;
	}
	n = dlrm->vectors;
	width = interacted_width(dlrm);
	dlrm->dense_params = dlrm->model_flop = 0;
	dlrm->kept_bytes = dlrm->batch * 2 * (dlrm->vector_columns + width) * e;
	count_mlp(dlrm, &model->bottom_mlp, (double)model->dense_features);
	if (model->hstu.layers > 0)
		sc_hstu_sizes(dlrm);
	if (model->interaction == SC_INTERACT_DCNV2)
		for (int64_t i = 0; i < model->cross_layers; i++) {
			count_layer(dlrm, (double)model->low_rank, width);
			count_layer(dlrm, width, (double)model->low_rank);
		}
	if (model->interaction == SC_INTERACT_DOT && model->hstu.layers < 1)
		dlrm->model_flop += 3 * 2 * (n + 1) * (n + 1) * (double)dlrm->tables.at[0].dim;
	count_mlp(dlrm, &model->top_mlp, width);
	dlrm->exchange.dense_grad_bytes = dlrm->dense_params * sc_grad_bytes(dlrm->request);
}

static void mlp_forward(const struct dense_part *p, const struct sc_ints *widths, double input,
			enum sc_op_name name)
{
	double k = padded(p, input);

	for (size_t i = 0; i < widths->n; i++) {
		double n = (double)widths->at[i];

		dense_gemm(p, name, n, k);
		/* Bias and ReLU of n columns are a kernel in PyTorch and TensorFlow, which reads
		 * and writes. */
		if (!p->habits->fused_mlp)
			dense_rowwise(p, SC_NAME_ACTIVATION, p->b * n * 2 * p->e, 1);
		k = n;
	}
}

/* With `has_input_grad` the gradient of the first layer's input is computed too. */
static void mlp_backward(const struct dense_part *p, const struct sc_ints *widths, double input,
			 enum sc_op_name name, bool has_input_grad)
{
	for (size_t i = widths->n; i-- > 0;) {
		double n = (double)widths->at[i];
		double k = i ? (double)widths->at[i - 1] : padded(p, input);

		/* A kernel passes the gradient through ReLU, and another reduces the bias gradient.
		 */
		if (!p->habits->fused_mlp) {
			dense_rowwise(p, SC_NAME_ACTIVATION_GRAD, p->b * n * 3 * p->e, 1);
			dense_rowwise(p, SC_NAME_ACTIVATION_GRAD, p->b * n * p->e, 1);
		}
		if (i || has_input_grad)
			dense_gemm(p, (enum sc_op_name)(name + 1), k, n);
		dense_wgrad(p, (enum sc_op_name)(name + 2), n, k);
	}
}

/* A cross layer is x' = x0 * (V U x + bias) + x. */
static void cross_forward(const struct dense_part *p, double width)
{
	double rank = (double)p->model->low_rank, bytes = p->b * width * p->e;

	for (int64_t i = 0; i < p->model->cross_layers; i++) {
		dense_gemm(p, SC_NAME_CROSS, rank, width);
		dense_gemm(p, SC_NAME_CROSS, width, rank);
		dense_rowwise(p, SC_NAME_CROSS_COMBINE, (p->habits->fused_mlp ? 4 : 7) * bytes,
			      p->habits->fused_mlp ? 1 : 2);
	}
}

/* Its gradients are dv = dx' * x0; dx0 += dx' * v; dx = dx' + its way through the products. */
static void cross_backward(const struct dense_part *p, double width)
{
	double rank = (double)p->model->low_rank, bytes = p->b * width * p->e;

	for (int64_t i = 0; i < p->model->cross_layers; i++) {
		dense_rowwise(p, SC_NAME_CROSS_COMBINE_GRAD,
			      (p->habits->fused_mlp ? 6 : 10) * bytes,
			      p->habits->fused_mlp ? 1 : 4);
		dense_gemm(p, SC_NAME_CROSS_DGRAD, rank, width);
		dense_wgrad(p, SC_NAME_CROSS_WGRAD, width, rank);
		dense_gemm(p, SC_NAME_CROSS_DGRAD, width, rank);
		dense_wgrad(p, SC_NAME_CROSS_WGRAD, rank, width);
		if (!p->habits->fused_mlp)
			dense_rowwise(p, SC_NAME_CROSS_COMBINE_GRAD, 3 * bytes, 1);
	}
}

static void interact(const struct dense_part *p, double width, bool backward)
{
	double n = p->dlrm->vectors;
	double dense = fmax(0, bottom_width(p->dlrm->request));
	double copied = p->b * (p->dlrm->vector_columns + dense + width) * p->e;

	switch (p->model->interaction) {
	case SC_INTERACT_DOT:
		/* One kernel reads the n vectors once and writes all their pairs. */
		n += dense > 0;
		dense_rowwise(p, backward ? SC_NAME_INTERACTION_GRAD : SC_NAME_INTERACTION,
			      p->b *
				      ((backward ? 2 : 1) * n * (double)p->dlrm->tables.at[0].dim +
				       width) *
				      p->e,
			      1);
		break;
	case SC_INTERACT_CAT:
		dense_rowwise(p, backward ? SC_NAME_INTERACTION_GRAD : SC_NAME_INTERACTION, copied,
			      p->model->interact_stride > 1 ? 2 : 1);
		break;
	case SC_INTERACT_DCNV2:
		if (backward)
			cross_backward(p, width);
		dense_rowwise(p, backward ? SC_NAME_INTERACTION_GRAD : SC_NAME_INTERACTION, copied,
			      1);
		if (!backward)
			cross_forward(p, width);
		break;
	}
}

/* Cuts the vectors of all tables out of what was received and puts them together, one by one. */
static void split_outputs(const struct dense_part *p)
{
	double n = p->dlrm->vectors, us = p->habits->output_us / 2;
	struct sc_step step = {.name = SC_NAME_OUTPUT_LAYOUT,
			       .kind = SC_STEP_KERNEL,
			       .model = SC_OP_ROWWISE,
			       .cost = {.latency_us = sc_quantize_us(n * us * p->cls->slowdown),
					.owner_frac[SC_OWN_MEMORY] = 1}};

	if (us > 0 && p->dlrm->plan.world > 1)
		SC_VEC_PUSH(&p->block->steps, step);
	if (p->dlrm->exchange.ordered_bytes > 0)
		dense_rowwise(p, SC_NAME_OUTPUT_LAYOUT, 2 * p->dlrm->exchange.ordered_bytes, 1);
}

/* Mixes the features of a sample with each other, or a sequence's tokens. */
static void mix_features(const struct dense_part *p, double width, bool backward)
{
	if (p->model->hstu.layers > 0)
		sc_hstu_ops(p, backward);
	else
		interact(p, width, backward);
}

/* Adds interaction, top MLP, loss, and the way back. */
static void dense_block(const struct dense_part *p)
{
	double width = interacted_width(p->dlrm);
	double input = padded(p, width);

	split_outputs(p);
	mix_features(p, input, false);
	mlp_forward(p, &p->model->top_mlp, width, SC_NAME_TOP_MLP);
	dense_rowwise(p, SC_NAME_BCE_LOSS, 6 * p->b * sc_dtype_bytes(SC_FP32), 4);
	mlp_backward(p, &p->model->top_mlp, width, SC_NAME_TOP_MLP, true);
	mix_features(p, input, true);
	split_outputs(p);
}

static void add_embedding(const struct dense_part *p, enum sc_op_name name,
			  const struct sc_embedding_shape *shape)
{
	struct sc_op op = {SC_OP_EMBEDDING, p->storage, {.embedding = *shape}};
	size_t first = p->block->steps.n;
	const bool apart = p->habits->table_us > 0;
	double n = apart ? fmax(1, shape->tables) : 1;
	struct sc_step *step;

	if (!(shape->lookups > 0) && !(shape->host_bytes > 0) && !(shape->ssd_bytes > 0))
		return;
	sc_block_add_op(p->block, &p->cls->env, (uint16_t)name, &op);
	step = &p->block->steps.at[first];
	step->cost.work_us /= p->habits->embedding_eff;
	step->cost.work_us = sc_quantize_us(step->cost.work_us);
	/* A kernel for each table has its own start and drain, and the host's launch. */
	step->cost.latency_us =
		sc_quantize_us(step->cost.latency_us * n +
			       (name == SC_NAME_TABLE_UPDATE ? n * p->habits->table_us : 0));
	step->host_us = sc_quantize_us(step->host_us * n);
}

/* The gradients of hot rows wait for vectors: a block of a thread a column takes one after another,
 * at most 16 blocks an SM, and waits in turn for its place in the list, its id, its row's place and
 * its gradient (frequent_local_reduce). */
static void wait_for_vectors(const struct dense_part *p, const struct sc_embedding_shape *shape)
{
	const struct sc_device *device = p->cls->env.device;
	const double loads = 4, threads = 2048, most = 16;
	const double blocks = fmin(most, threads / (double)p->dlrm->tables.at[0].dim);
	const double us = sc_mhz_cycles_us(shape->lookups * loads * device->embedding.load_cycles /
						   (blocks * (double)device->sm_count),
					   device->boost_mhz) *
			  p->cls->slowdown;
	struct sc_cost *cost = &p->block->steps.at[p->block->steps.n - 1].cost;

	cost->work_us = sc_quantize_us(fmax(cost->work_us, us));
}

static double bottom_samples(const struct sc_dlrm *dlrm)
{
	return sc_dlrm_one_rank_bottom(dlrm->request)
		       ? (double)dlrm->request->config.training.global_batch
		       : dlrm->batch;
}

/* Locates the rows: each rank has the ids of the whole batch and reads for each a random sector of
 * a map, once for what it owns, once more within a node for what it holds a copy of
 * (hybrid_indices.cu: calculate_model_indices, fused_cache_masks; across nodes a mask that is
 * streamed). Ids and results are streamed. */
static void locate_rows(const struct dense_part *p)
{
	const double sector = 32, id = 4, reads = p->dlrm->exchange.pulled_bytes > 0 ? 2 : 1;
	struct sc_embedding_shape shape = {.pass = SC_EMBEDDING_FORWARD, .tables = 1};

	for (size_t i = 0; i < p->dlrm->tables.n; i++) {
		const struct sc_table *t = &p->dlrm->tables.at[i];

		shape.lookups +=
			p->dlrm->batch * p->dlrm->plan.world * (double)t->features * t->pooling;
	}
	shape.hbm_bytes = reads * sector * shape.lookups;
	shape.stream_bytes = 2 * 2 * id * shape.lookups;
	add_embedding(p, SC_NAME_INDEX_LAYOUT, &shape);
}

void sc_dlrm_dense_block(const struct sc_dlrm *dlrm, const struct sc_dlrm_class *cls,
			 enum sc_dlrm_block id, struct sc_block *out)
{
	const struct sc_model *model = &dlrm->request->config.model;
	struct dense_part p = {
		.dlrm = dlrm,
		.cls = cls,
		.model = model,
		.habits = &dlrm->request->software.dlrm,
		.block = out,
		.dtype = sc_precision_dtype(dlrm->request->config.training.precision),
		.storage = sc_storage_dtype(dlrm->request->config.training.precision),
		.b = dlrm->batch};
	const struct sc_dlrm_work *work = &cls->work;

	p.e = sc_dtype_bytes(p.storage);
	sc_block_clear(out);
	switch (id) {
	case SC_DLRM_LOCATE:
		if (sc_dlrm_has_hot(dlrm))
			locate_rows(&p);
		break;
	/* indices are read and written, sorted by table; by rank before they are sent */
	case SC_DLRM_INDEX:
		if (p.habits->index_exchange && work->index_bytes > 0)
			dense_rowwise(&p, SC_NAME_INDEX_LAYOUT,
				      2 * work->index_bytes +
					      dlrm->exchange.bucketed_ids *
						      cls->env.device->embedding.sort_bytes,
				      dlrm->exchange.bucketed_ids > 0 ? 3 : 1);
		break;
	case SC_DLRM_PREFETCH:
		add_embedding(&p, SC_NAME_ROW_PREFETCH, &work->prefetch);
		break;
	case SC_DLRM_LOOKUP:
		add_embedding(&p, SC_NAME_TABLE_LOOKUP, &work->lookup);
		break;
	case SC_DLRM_REPLICA:
		add_embedding(&p, SC_NAME_REPLICA_LOOKUP, &work->replica);
		break;
	case SC_DLRM_BOTTOM:
		if (!cls->bottom)
			break;
		p.b = bottom_samples(dlrm);
		mlp_forward(&p, &model->bottom_mlp, (double)model->dense_features,
			    SC_NAME_BOTTOM_MLP);
		break;
	case SC_DLRM_DENSE:
		dense_block(&p);
		break;
	case SC_DLRM_BOTTOM_GRAD:
		if (!cls->bottom)
			break;
		p.b = bottom_samples(dlrm);
		mlp_backward(&p, &model->bottom_mlp, (double)model->dense_features,
			     SC_NAME_BOTTOM_MLP, false);
		break;
	case SC_DLRM_REPLICA_GRAD:
		add_embedding(&p, SC_NAME_REPLICA_GRAD, &work->replica_grad);
		if (sc_dlrm_has_hot(dlrm))
			wait_for_vectors(&p, &work->replica_grad);
		break;
	case SC_DLRM_UPDATE:
		add_embedding(&p, SC_NAME_TABLE_UPDATE, &work->update);
		break;
	case SC_DLRM_OPTIMIZER:
		sc_block_add_optimizer(out, &cls->env, dlrm->dense_params);
		break;
	case SC_N_DLRM_BLOCKS:
		break;
	}
}
