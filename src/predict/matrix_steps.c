/* Optimizers' steps matrix by matrix, each after its paper or code: Muon, Shampoo, K-FAC. */
#include "predict/matrix_steps.h"

#include <math.h>

#include "predict/op_names.h"

/* Muon has five Newton-Schulz steps (Jordan 2024): X X^T, its square, their sum times X. */
enum { NEWTON_SCHULZ_STEPS = 5 };
/* Eigenvalues and vectors of a symmetric matrix take 9 n^3 FLOP (Golub and Van Loan, 8.3). */
#define EIGEN_PRODUCTS 4.5
#define FP32_BYTES 4.0

struct mnk {
	double m, n, k;
};
/* The block that steps are added to, with what they depend on. */
struct stepped {
	double factor_every, inverse_every, block; /* as in struct sc_optimizer_traits */
	const struct sc_block_env *env;
	const struct sc_span *replicas;
	enum sc_dtype update_dtype; /* of products with fp32 matrices */
	struct sc_block *out;
};

/* Adds `n` products, or a share of one. */
static void add_products(const struct stepped *to, enum sc_op_name name, enum sc_dtype dtype,
			 struct mnk size, double n)
{
	struct sc_op op = {
		SC_OP_GEMM, dtype, {.gemm = {.batch = 1, .m = size.m, .n = size.n, .k = size.k}}};

	sc_block_add_pieces(
		to->out, to->env,
		&(struct sc_block_pieces){.name = name, .op = &op, .n = n, .stretch = 1});
}

/* Adds Muon's steps for `count` matrices like this one, all on this rank. */
static void orthogonalise(const struct stepped *to, const struct sc_matrix *a, double count)
{
	double low = fmin(a->m, a->n), high = fmax(a->m, a->n);
	double n = count * NEWTON_SCHULZ_STEPS;

	add_products(to, SC_NAME_ORTHOGONALISE, SC_BF16, (struct mnk){low, low, high}, n);
	add_products(to, SC_NAME_ORTHOGONALISE, SC_BF16, (struct mnk){low, low, low}, n);
	add_products(to, SC_NAME_ORTHOGONALISE, SC_BF16, (struct mnk){low, high, low}, n);
}

static double muon_work(const struct sc_matrix *a)
{
	double low = fmin(a->m, a->n), high = fmax(a->m, a->n);

	return low * low * (2 * high + low);
}

static double elements_of(const struct sc_matrix *a)
{
	return a->m * a->n;
}

/* Returns the busiest rank's work over the mean where whole matrices are dealt to ranks: of the c
 * matrices no smaller than one of them it has c / among, rounded up. */
static double uneven(const struct sc_matrix *a, int n, double (*work)(const struct sc_matrix *),
		     double among)
{
	double all = 0, most = 0;

	for (int i = 0; i < n; i++) {
		double larger = 0;

		for (int k = 0; k < n; k++)
			if (work(&a[k]) >= work(&a[i]))
				larger += a[k].count;
		all += a[i].count * work(&a[i]);
		most = fmax(most, ceil(larger / among) * work(&a[i]));
	}
	return fmax(1, most * among / all);
}

/* Adds a collective of the replicas, `times` often or that share of one. */
static void add_collective(const struct stepped *to, const struct sc_collective_shape *shape,
			   struct sc_span span, double times)
{
	const bool muon = to->env->request->config.training.optimizer == SC_OPT_MUON;
	const struct sc_block_comm comm = {.name = muon ? SC_NAME_MUON_COMM : SC_NAME_KFAC_COMM,
					   .axis = SC_COMM_TP,
					   .shape = *shape};
	struct sc_block_env env = *to->env;
	size_t first = to->out->steps.n;

	env.span[SC_COMM_TP] = span;
	env.axis_fabric[SC_COMM_TP] = NULL;
	env.axis_node_peers[SC_COMM_TP] = span.n_nodes > 1 ? fmax(1, env.node_peers) : 0;
	if (shape->kind == SC_BROADCAST) /* one rank of each group on a node sends */
		env.axis_node_peers[SC_COMM_TP] *=
			(double)to->replicas->max_ranks_per_node / span.max_ranks_per_node;
	sc_block_add_comm(to->out, &env, &comm);
	sc_block_share(to->out, first, times);
}

/* Returns the span of so many of all ranks, neighbours or as far apart as can be. */
static struct sc_span replicas_part(const struct sc_span *all, double ranks, bool neighbours)
{
	int n = (int)ranks, each = all->max_ranks_per_node > 0 ? all->max_ranks_per_node : 1;
	int nodes = neighbours ? (n + each - 1) / each : n < all->n_nodes ? n : all->n_nodes;

	return (struct sc_span){n, nodes, (n + nodes - 1) / nodes};
}

static double ranks_of(const struct sc_matrix *a)
{
	return fmax(1, a->shard.n_ranks);
}

/* Returns how many of these the same ranks share out: experts lie on other ranks than the rest. */
static int dealt_together(const struct sc_matrix *a, int n)
{
	int i = 1;

	while (i < n && a[i].expert == a[0].expert)
		i++;
	return i;
}

/* Returns a collective of `n` matrices, which travel in bf16 (torch.optim.Muon; Moonlight, 2.3). */
static struct sc_collective_shape whole(enum sc_collective kind, const struct sc_matrix *a,
					double n)
{
	return (struct sc_collective_shape){kind, n * elements_of(a) * sc_dtype_bytes(SC_BF16),
					    SC_BF16};
}

/* Deals whole matrices to ranks. Where weights are sharded, a batch of as many matrices as ranks
 * goes to its owners and back by an exchange each (microsoft/dion, muon_update_batch_async); else
 * gradients are scattered and weights gathered, as for any optimizer. */
static void step_owned(const struct stepped *to, const struct sc_matrix *a, int n)
{
	const double ranks = ranks_of(a), most = uneven(a, n, muon_work, ranks);

	for (int i = 0; i < n; i++) {
		double calls = ceil(a[i].count / ranks), each = a[i].count / ranks / calls;
		struct sc_collective_shape batch = whole(SC_ALL_TO_ALL, &a[i], each);

		if (sc_sharding_rule(to->env->request).weights)
			add_collective(to, &batch, a[i].shard, 2 * calls);
		orthogonalise(to, &a[i], a[i].count / ranks * most);
	}
}

/* Steps a rank's contiguous elements: a share of the matrices, and parts of one more, which it
 * gathers from its other holders and steps whole. */
static void step_parts(const struct stepped *to, const struct sc_matrix *a, int n)
{
	const double ranks = ranks_of(a);
	double count = 0;
	int largest = 0;

	for (int i = 0; i < n; i++) {
		count += a[i].count;
		largest = muon_work(&a[i]) > muon_work(&a[largest]) ? i : largest;
		orthogonalise(to, &a[i], a[i].count / ranks);
	}
	/* A rank steps at most all matrices. */
	const double more = fmin(1, count * (1 - 1 / ranks));
	const struct sc_collective_shape one = whole(SC_ALL_GATHER, &a[largest], 1);
	const double holders = fmin(ranks, fmax(2, ceil(ranks / count)));

	orthogonalise(to, &a[largest], more);
	add_collective(to, &one, replicas_part(&a->shard, holders, true), 1);
}

/* Steps matrices that the same ranks hold. */
static void step_muon(const struct stepped *to, const struct sc_matrix *a, int n)
{
	const enum sc_muon_sharding sharding = sc_muon_sharding(to->env->request);

	if (ranks_of(a) > 1 && sharding == SC_MUON_OWNER) {
		step_owned(to, a, n);
		return;
	}
	if (ranks_of(a) > 1 && sharding == SC_MUON_PARTS) {
		step_parts(to, a, n);
		return;
	}
	for (int i = 0; i < n; i++) {
		const double batch = fmax(1, a[i].batch);
		const struct sc_collective_shape one = whole(SC_ALL_GATHER, &a[i], batch);

		if (ranks_of(a) > 1)
			add_collective(to, &one, a[i].shard, a[i].count / batch);
		orthogonalise(to, &a[i], a[i].count);
	}
}

/* Cuts a matrix into blocks of at most `most` rows and columns (arXiv:2309.06497, section 3.3). */
static struct sc_matrix blocks_of(const struct sc_matrix *a, double most)
{
	double rows = ceil(a->m / most), columns = ceil(a->n / most);

	return (struct sc_matrix){.m = a->m / rows,
				  .n = a->n / columns,
				  .count = a->count * rows * columns,
				  .expert = a->expert,
				  .rows = a->rows};
}

/* Shampoo (Gupta, Koren, Singer, ICML 2018, algorithm 1) updates L += G G^T, R += G^T G and takes
 * L^-1/4 G R^-1/4. The roots come from eigenvectors, Q D^-1/4 Q^T. */
static void step_shampoo(const struct stepped *to, const struct sc_matrix *a)
{
	const enum sc_dtype dtype = to->update_dtype;
	const struct sc_matrix b = blocks_of(a, to->block);
	double roots = b.count * (EIGEN_PRODUCTS + 1) / to->inverse_every;
	double factors = b.count / to->factor_every;

	add_products(to, SC_NAME_FACTORS, dtype, (struct mnk){b.m, b.m, b.n}, factors);
	add_products(to, SC_NAME_FACTORS, dtype, (struct mnk){b.n, b.n, b.m}, factors);
	add_products(to, SC_NAME_INVERSES, SC_FP32, (struct mnk){b.m, b.m, b.m}, roots);
	add_products(to, SC_NAME_INVERSES, SC_FP32, (struct mnk){b.n, b.n, b.n}, roots);
	add_products(to, SC_NAME_PRECONDITION, dtype, (struct mnk){b.m, b.n, b.m}, b.count);
	add_products(to, SC_NAME_PRECONDITION, dtype, (struct mnk){b.m, b.n, b.n}, b.count);
}

/* ---- K-FAC, as KAISA divides it (Pauloski et al., SC 2021, sections 2 and 3;
 * gpauloski/kfac-pytorch) ---- */

/* Returns the number of a layer's gradient workers, the ranks that have its eigenvectors, at least
 * one: a column of a grid of all ranks, of which neighbours are a row. */
static double grad_workers(const struct sc_request *request, double replicas)
{
	double frac = request->config.training.grad_worker_frac;

	return frac < 0 ? replicas : fmax(1, round(frac * replicas));
}

static double eigen_work(const struct sc_matrix *a)
{
	return a->m * a->m * a->m + a->n * a->n * a->n;
}

/* An update multiplies by eigenvectors on either side. */
static double update_work(const struct sc_matrix *a)
{
	return a->m * a->n * (a->m + a->n);
}
/* K-FAC has the factors A = a^T a of a layer's inputs and G = g^T g of its outputs' gradients over
 * the replica's rows, as wide as activations are, averaged over all replicas. One rank finds a
 * layer's eigenvectors and the inverse of their values' outer product, which go to its column part
 * by part. The whole column does Q_G (Q_G^T dW Q_A / eigenvalues) Q_A^T, which goes to the
 * neighbours in each row, layer by layer. The busiest rank counts. */
static void step_kfac(const struct stepped *to, const struct sc_matrix *a, int n)
{
	const struct sc_request *req = to->env->request;
	const enum sc_dtype narrow = sc_storage_dtype(req->config.training.precision);
	double all = to->replicas->n_ranks, workers = grad_workers(req, all), factors = 0;
	double columns = fmax(1, round(all / workers));
	double eigen = EIGEN_PRODUCTS * uneven(a, n, eigen_work, all) / all / to->inverse_every;
	double own = 2 * uneven(a, n, update_work, columns) / columns;
	const struct sc_span column = replicas_part(to->replicas, workers, false);
	const struct sc_span row = replicas_part(to->replicas, columns, true);

	for (int i = 0; i < n; i++) {
		double m = a[i].m, k = a[i].n, count = a[i].count;
		double taken = count / to->factor_every;
		const double parts[] = {k * k, m * m, m * k};

		factors += count * (m * m + k * k);
		add_products(to, SC_NAME_FACTORS, narrow, (struct mnk){k, k, a[i].rows}, taken);
		add_products(to, SC_NAME_FACTORS, narrow, (struct mnk){m, m, a[i].rows}, taken);
		add_products(to, SC_NAME_INVERSES, SC_FP32, (struct mnk){k, k, k}, count * eigen);
		add_products(to, SC_NAME_INVERSES, SC_FP32, (struct mnk){m, m, m}, count * eigen);
		add_products(to, SC_NAME_PRECONDITION, to->update_dtype, (struct mnk){m, k, m},
			     count * own);
		add_products(to, SC_NAME_PRECONDITION, to->update_dtype, (struct mnk){m, k, k},
			     count * own);
		for (int p = 0; p < 3; p++)
			add_collective(to,
				       &(struct sc_collective_shape){
					       SC_BROADCAST, FP32_BYTES * parts[p], SC_FP32},
				       column, count / columns / to->inverse_every);
		add_collective(
			to,
			&(struct sc_collective_shape){SC_BROADCAST, FP32_BYTES * m * k, SC_FP32},
			row, count);
	}
	add_collective(to,
		       &(struct sc_collective_shape){SC_ALL_REDUCE, FP32_BYTES * factors, SC_FP32},
		       *to->replicas, 1 / to->factor_every);
}

void sc_matrix_steps(const struct sc_block_env *env, const struct sc_matrix *a, int n,
		     const struct sc_span *replicas, struct sc_block *out)
{
	const struct sc_optimizer_traits *t =
		sc_optimizer_traits_of(env->request->config.training.optimizer);
	const bool tf32 = env->software->allow_tf32 && env->device->peak_tflops[SC_TF32] > 0;
	const struct sc_training *tr = &env->request->config.training;
	struct stepped to = {t->factor_every, t->inverse_every,         t->block, env,
			     replicas,        tf32 ? SC_TF32 : SC_FP32, out};

	if (t->matrices == SC_MATRIX_KFAC && n > 0) {
		if (tr->factor_update_steps > 0)
			to.factor_every = (double)tr->factor_update_steps;
		if (tr->inv_update_steps > 0)
			to.inverse_every = (double)tr->inv_update_steps;
		step_kfac(&to, a, n);
	}
	for (int i = 0; i < n && t->matrices == SC_MATRIX_SHAMPOO; i++)
		step_shampoo(&to, &a[i]);
	for (int i = 0, alike; i < n && t->matrices == SC_MATRIX_MUON; i += alike) {
		alike = dealt_together(a + i, n - i);
		step_muon(&to, a + i, alike);
	}
}

double sc_matrix_owner_excess(const struct sc_matrix *a, int n)
{
	return uneven(a, n, elements_of, ranks_of(a));
}

/* Shampoo keeps L, R and their roots by block. K-FAC keeps both factors, and for layers that the
 * rank is a gradient worker of, eigenvectors and the inverse of the eigenvalues' outer product. */
double sc_matrix_bytes(const struct sc_request *request, const struct sc_matrix *a, double replicas)
{
	const struct sc_optimizer_traits *t =
		sc_optimizer_traits_of(request->config.training.optimizer);
	const bool shampoo = t->matrices == SC_MATRIX_SHAMPOO;
	const struct sc_matrix b = shampoo ? blocks_of(a, t->block) : *a;
	double factors = b.m * b.m + b.n * b.n;
	double own = shampoo ? factors
			     : (factors + b.m * b.n) * grad_workers(request, replicas) / replicas;

	if (!shampoo && t->matrices != SC_MATRIX_KFAC)
		return 0;
	return FP32_BYTES * b.count * (factors + own);
}
