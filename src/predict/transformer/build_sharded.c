/* Passes whose weights are sharded over the data-parallel ranks (ZeRO-3, FSDP): each block's are gathered on
 * demand or while the block before it runs, and backward scatters its gradients, overlapped or not.
 *
 * Block by block in full detail, where ranks of several classes meet at every block, and in short passes, of which
 * their ends are a share that counts. Any other coarse pass is
 * simulated once alone, the host far ahead, its collectives beside its blocks; in the iteration's graph it is then
 * a gather, a kernel as long as the blocks took, and what else its data-parallel lane did before, beside and after
 * them. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "predict/op_names.h"
#include "predict/transformer/build_priv.h"

/* Equal blocks repeat themselves after a few: of a longer run so many are simulated, and a mean of two of its middle
 * stands for each that is left out. */
enum { ALONE_BLOCKS = 8, ALONE_FROM = 3, ALONE_TO = 5 };

/* What is asked of a pass simulated alone; bytes without a meaning are 0. */
struct alone_key {
	struct sc_replicas spans;
	const struct sc_fabric *fabric;
	struct run run[MAX_RUNS];
	double nic_ranks;
	uint32_t variant;
	uint8_t kind, partial, gathers, reduces;
};
struct alone_pass {
	struct alone_key key;
	struct sc_summary sum;                 /* of its blocks, the GPU's without waiting */
	double wait_us;                        /* of the blocks for collectives between them */
	double gather_us, beside_us, after_us; /* collectives before, beside and after the blocks */
	struct alone_pass *next;
};
/* A pass being simulated alone, and the kernels of its blocks. */
struct alone {
	uint32_t *kernel;
	size_t n;
};

/* Does this pass gather sharded weights? */
static bool gathers(const struct pass *p)
{
	const struct sc_sharding_rule *rule = &p->st->b->sharding;

	if (p->kind == SC_PASS_BACKWARD_WEIGHT)
		return false;
	if (p->backward)
		return rule->gathers_backward;
	return rule->gathers_each || p->slot->micro_batch == 0;
}

static bool scatters(const struct pass *p)
{
	return sc_pass_makes_gradients(p->kind) &&
	       (p->slot->last || p->st->b->sharding.reduces_each);
}

static bool gathers_ahead(const struct pass *p)
{
	return p->st->b->tf->request->software.gather_ahead;
}

/* Where the next gather goes, if the software asks for it ahead: while the block before it runs. */
static const struct run *next_block(const struct pass *p, int run, double i)
{
	if (i + 1 < p->run[run].n)
		return &p->run[run];
	return run + 1 < p->n_runs ? &p->run[run + 1] : NULL;
}

static uint32_t add_kernel_alone(struct pass *p, const struct run *run)
{
	struct alone *alone = p->st->b->alone;
	struct sc_summary sum = build_run_sum(p, run->block, 1);
	struct pass_costs costs = build_costs(p->st, &sum, true);

	alone->kernel[alone->n++] = build_kernel(p->st, &costs, run->name);
	return p->st->last_compute;
}

/* The blocks; `gathered`: the first one's weights, or SC_NONE if they are not asked for yet. */
static void add_all_blocks(struct pass *p, uint32_t gathered, bool gather, bool reduces)
{
	struct class_state *st = p->st;

	for (int r = 0; r < p->n_runs; r++) {
		const struct run *run = &p->run[r], *next;

		for (double i = 0; i < run->n; i++) {
			uint32_t node = st->last_compute;

			if (gather && gathered == SC_NONE)
				gathered = build_weight_gather(st, run->params, node);
			if (gather)
				build_wait_for(p, gathered);
			next = gather && gathers_ahead(p) ? next_block(p, r, i) : NULL;
			gathered = next ? build_weight_gather(st, next->params, node) : SC_NONE;
			node = st->b->alone ? add_kernel_alone(p, run) : build_blocks(p, run, 1);
			if (reduces && !build_reduces_later(p, run))
				build_reduce(p, run, 1, node);
		}
	}
}

static uint32_t pass_by_blocks(struct pass *p, uint32_t recv, bool gather, bool reduces)
{
	uint32_t gathered = SC_NONE;

	if (gather && gathers_ahead(p) && p->n_runs)
		gathered = build_weight_gather(p->st, p->run[0].params, p->st->last_compute);
	build_begin_parts(p, recv);
	add_all_blocks(p, gathered, gather, reduces);
	return p->st->last_compute;
}

/* ---- alone ---- */

static void add_class_alone(struct builder *b, struct class_state *st)
{
	struct sc_class one = {
		.multiplicity = 1,
		.ranks_per_domain = b->tf->placement.classes[st->id].stage_ranks_per_node,
		.slowdown = 1,
		.name = SC_NONE,
	};

	sc_graph_clear(b->graph);
	sc_graph_add_class(b->graph, one);
	st->lanes.compute = sc_graph_add_lane(b->graph, 0, SC_LANE_COMPUTE);
	st->lanes.dp = sc_graph_add_lane(b->graph, 0, SC_LANE_COMM);
	b->graph->lanes.at[st->lanes.dp].priority = 1;
	b->zero_cost = sc_graph_add_cost(b->graph, &(struct sc_cost){0});
	st->last_compute = st->awaited = st->last_grad = SC_NONE;
}

static double busy_us(const struct sc_build_scratch *scratch, uint32_t lane, double from_us,
		      double to_us)
{
	const struct sc_timeline *tl = &scratch->timeline;
	const struct sc_graph *g = &scratch->graph;
	double us = 0;

	for (uint32_t id = g->lane_first[lane]; id != SC_NONE; id = g->lane_next[id])
		us += fmax(0, fmin(tl->end_us[id], to_us) - fmax(tl->start_us[id], from_us));
	return us;
}

/* The reading of a pass that ran alone, block by block. */
struct reader {
	const struct pass *p;
	const struct sc_build_scratch *scratch;
	uint32_t dp;
	double shift_us; /* from the simulation's times to the pass's */
	double host_us;  /* before the block */
	struct alone_pass *out;
};

struct left_out {
	double n, each_us;
};

/* A block that took from start to end, `n` times. */
static void read_block(struct reader *r, const struct sc_summary *sum, uint32_t kernel, double n)
{
	const struct sc_timeline *tl = &r->scratch->timeline;
	double us = n * (tl->end_us[kernel] - tl->start_us[kernel]);
	struct sc_summary *all = &r->out->sum;

	for (int o = 0; o < SC_N_OWNERS && sum->gpu_us > 0; o++)
		all->owner_us[o] += us * sum->owner_us[o] / sum->gpu_us;
	all->flop += n * sum->flop;
}

/* What the host must be ahead for `n` blocks to start when they did, the first with the kernel, each so much later
 * than the one before. */
static void read_launches(struct reader *r, const struct sc_summary *sum, uint32_t kernel,
			  struct left_out left_out)
{
	double start_us = r->scratch->timeline.start_us[kernel] + r->shift_us;
	double first_us = r->host_us + sum->lead_us - start_us;
	double more_us = (left_out.n - 1) * (sum->host_us - left_out.each_us);

	r->out->sum.lead_us = fmax(r->out->sum.lead_us, first_us + fmax(0, more_us));
	r->host_us += left_out.n * sum->host_us;
	r->shift_us += left_out.n * left_out.each_us;
}

/* Those in the middle of a run that were left out. */
static void read_left_out(struct reader *r, const struct sc_summary *sum, const uint32_t *kernel,
			  double n)
{
	const struct sc_timeline *tl = &r->scratch->timeline;
	double from_us = tl->end_us[kernel[ALONE_FROM]], to_us = tl->end_us[kernel[ALONE_TO]];
	double share = 1.0 / (ALONE_TO - ALONE_FROM);

	for (int i = ALONE_FROM + 1; i <= ALONE_TO; i++)
		read_block(r, sum, kernel[i], n * share);
	r->out->beside_us += n * share * busy_us(r->scratch, r->dp, from_us, to_us);
	read_launches(r, sum, kernel[ALONE_TO + 1],
		      (struct left_out){n, (to_us - from_us) * share});
}

static void read_runs(struct reader *r, const struct alone *alone)
{
	const uint32_t *kernel = alone->kernel;

	for (int i = 0; i < r->p->n_runs; i++) {
		struct sc_summary sum = build_run_sum(r->p, r->p->run[i].block, 1);
		double n = fmin(r->p->run[i].n, ALONE_BLOCKS);

		for (int k = 0; k < n; k++) {
			if (k == ALONE_TO + 1 && n < r->p->run[i].n)
				read_left_out(r, &sum, kernel, r->p->run[i].n - n);
			read_block(r, &sum, kernel[k], 1);
			read_launches(r, &sum, kernel[k], (struct left_out){1, 0});
		}
		kernel += (int)n;
	}
}

static void read_alone(const struct pass *p, uint32_t dp, const struct alone *alone,
		       struct alone_pass *out)
{
	const struct sc_build_scratch *scratch = p->st->b->scratch;
	const struct sc_timeline *tl = &scratch->timeline;
	struct reader r = {.p = p, .scratch = scratch, .dp = dp, .out = out};
	double begin_us = tl->start_us[alone->kernel[0]], busy = 0;
	double end_us = tl->end_us[alone->kernel[alone->n - 1]];

	r.shift_us = -begin_us;
	read_runs(&r, alone);
	out->sum.host_us = r.host_us;
	for (int o = 0; o < SC_N_OWNERS; o++)
		busy += out->sum.owner_us[o];
	out->sum.gpu_us = sc_quantize_us(busy);
	out->sum.lead_us = sc_quantize_us(out->sum.lead_us);
	out->wait_us = sc_quantize_us(fmax(0, end_us + r.shift_us - busy));
	out->gather_us = sc_quantize_us(begin_us);
	out->beside_us += busy_us(scratch, dp, begin_us, end_us);
	out->beside_us = sc_quantize_us(fmax(0, out->beside_us - out->wait_us));
	out->after_us = sc_quantize_us(tl->total_us - end_us);
}

static void simulate_alone(const struct pass *p, struct alone_pass *out)
{
	struct sc_build_scratch *scratch = p->st->b->scratch;
	struct builder b = *p->st->b;
	struct class_state st = *p->st;
	struct pass few = *p;
	uint32_t kernel[MAX_RUNS * ALONE_BLOCKS], gathered = SC_NONE;
	struct alone alone = {.kernel = kernel};
	int rc;

	b.graph = &scratch->graph;
	b.alone = &alone;
	st.b = &b;
	few.st = &st;
	for (int i = 0; i < few.n_runs; i++)
		few.run[i].n = fmin(few.run[i].n, ALONE_BLOCKS);
	add_class_alone(&b, &st);
	if (out->key.gathers)
		gathered = build_weight_gather(&st, few.run[0].params, SC_NONE);
	add_all_blocks(&few, gathered, out->key.gathers, out->key.reduces);
	sc_graph_seal(b.graph);
	rc = sc_simulate(scratch->sim, b.graph, NULL, &scratch->timeline, NULL);
	assert(rc == 0);
	(void)rc;
	read_alone(p, st.lanes.dp, &alone, out);
}

static void key_of(const struct pass *p, bool gather, bool reduces, struct alone_key *out)
{
	const struct class_state *st = p->st;
	const struct sc_transformer *tf = st->b->tf;

	memset(out, 0, sizeof(*out));
	sc_transformer_replicas(tf, st->id, &out->spans);
	out->fabric = sc_transformer_fabric(tf, st->id, SC_AXIS_DP);
	out->nic_ranks = tf->placement.classes[st->id].stage_ranks_per_node;
	out->variant = tf->classes[st->id].variant;
	out->kind = (uint8_t)p->kind;
	out->partial = p->partial;
	out->gathers = gather;
	out->reduces = reduces;
	for (int i = 0; i < p->n_runs; i++) {
		out->run[i].block = p->run[i].block;
		out->run[i].n = p->run[i].n;
		out->run[i].params = p->run[i].params;
		out->run[i].name = p->run[i].name;
	}
}

static const struct alone_pass *pass_alone(const struct pass *p, bool gather, bool reduces)
{
	struct builder *b = p->st->b;
	struct alone_key key;
	struct alone_pass *found;

	key_of(p, gather, reduces, &key);
	for (found = b->alone_passes; found; found = found->next)
		if (memcmp(&found->key, &key, sizeof(key)) == 0)
			return found;
	found = sc_arena_calloc(b->arena, 1, sizeof(*found));
	memcpy(&found->key, &key, sizeof(key));
	simulate_alone(p, found);
	found->next = b->alone_passes;
	b->alone_passes = found;
	return found;
}

/* ---- in the iteration ---- */

static uint32_t add_comm_cost(struct builder *b, double us)
{
	struct sc_cost cost = {.work_us = us, .owner_frac[SC_OWN_COMM] = 1};

	return us > 0 ? sc_graph_add_cost(b->graph, &cost) : SC_NONE;
}

static struct sharded_costs costs_of(struct pass *p, bool gather, bool reduces)
{
	struct builder *b = p->st->b;
	const struct alone_pass *alone = pass_alone(p, gather, reduces);
	struct sc_summary sum = build_host_summary(p->st);

	sum = sc_summary_then(&sum, &alone->sum);
	return (struct sharded_costs){
		.pass = build_costs(p->st, &sum, false),
		.gather = add_comm_cost(b, alone->gather_us),
		.wait = add_comm_cost(b, alone->wait_us),
		.beside = add_comm_cost(b, alone->beside_us),
		.after = add_comm_cost(b, alone->after_us),
	};
}

static const struct sharded_costs *find_costs(struct pass *p, bool gather, bool reduces)
{
	struct builder *b = p->st->b;
	uint32_t chunk = p->st->id * b->tf->map.n_chunks + p->slot->chunk;
	uint32_t at = (chunk * SC_N_PASS_KINDS + (uint32_t)p->kind) * 2 + p->partial;
	struct sharded_costs *costs = &b->sharded_costs[(at * 2 + gather) * 2 + reduces];

	if (costs->pass.gpu == SC_NONE)
		*costs = costs_of(p, gather, reduces);
	return costs;
}

/* Something on the data-parallel lane, after what compute did last. */
static uint32_t add_comm(struct class_state *st, uint32_t cost, enum sc_op_name name)
{
	struct sc_graph *graph = st->b->graph;
	uint32_t node = sc_graph_add_node(graph, SC_NODE_KERNEL, st->lanes.dp,
					  (struct sc_node_use){cost, name});

	sc_graph_add_dep(graph, node, st->last_compute);
	return node;
}

/* Weights that are not asked for ahead are when the host and the pass's input are there. */
static uint32_t gather_first(struct class_state *st, uint32_t gather, uint32_t recv, bool ahead)
{
	const struct pass_costs arrival = {st->b->zero_cost, SC_NONE, SC_NONE, 0, 0, 0};

	if (gather == SC_NONE)
		return SC_NONE;
	if (!ahead) {
		build_compute_after(st, recv);
		build_begins(st, st->last_compute, build_launch(st, &arrival, SC_NAME_JOIN),
			     SC_NONE);
	}
	return add_comm(st, gather, SC_NAME_PARAM_GATHER);
}

static uint32_t coarse_pass(struct pass *p, uint32_t recv, bool gather, bool reduces)
{
	const struct sharded_costs *costs = find_costs(p, gather, reduces);
	uint32_t op = sc_op_pack(build_pass_name(p->kind), p->slot->chunk, p->slot->micro_batch);
	struct class_state *st = p->st;
	uint32_t dp = SC_NONE, launch;

	build_compute_after(st, gather_first(st, costs->gather, recv, gathers_ahead(p)));
	launch = build_launch(st, &costs->pass, op);
	build_begins(st, st->last_compute, launch, recv);
	if (costs->wait != SC_NONE) {
		dp = add_comm(st, costs->wait, SC_NAME_PARAM_GATHER);
		build_compute_after(st, dp);
	}
	if (costs->beside != SC_NONE)
		dp = add_comm(st, costs->beside, SC_NAME_PARAM_GATHER);
	build_begins(st, build_kernel(st, &costs->pass, op), launch, SC_NONE);
	build_join_groups(st, st->last_compute);
	if (costs->after != SC_NONE)
		dp = add_comm(st, costs->after, SC_NAME_GRAD_REDUCE);
	if (reduces && dp != SC_NONE)
		st->last_grad = dp;
	return st->last_compute;
}

static double n_blocks(const struct pass *p)
{
	double n = 0;

	for (int r = 0; r < p->n_runs; r++)
		n += p->run[r].n;
	return n;
}

uint32_t build_sharded_pass(struct pass *p, uint32_t recv)
{
	const struct builder *b = p->st->b;
	bool gather = gathers(p), reduces = scatters(p);

	if (b->full || n_blocks(p) < ALONE_BLOCKS ||
	    b->tf->placement.classes[p->st->id].group[SC_AXIS_DP].n_members > 1)
		return pass_by_blocks(p, recv, gather, reduces);
	if (!gather && !reduces)
		return build_plain_pass(p->st, p->slot, p->partial, recv);
	return coarse_pass(p, recv, gather, reduces);
}
