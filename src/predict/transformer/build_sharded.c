/* Passes whose weights are sharded over the data-parallel ranks (ZeRO-3, FSDP): each block's are
 * gathered on demand or while the block before it runs, and backward scatters its gradients,
 * overlapped or not.
 *
 * A pass is built block by block in full detail, where ranks of several classes meet at every
 * block, and where the host waits for each. Any other coarse pass is simulated alone, op by op, its
 * collectives beside its blocks: with the host far ahead, and, where it is slow, with the host
 * arriving when the pass begins. In the iteration's graph it is then a gather, a kernel as long as
 * the blocks took, what its data-parallel lane did before, beside and after them, and a launch as
 * much earlier than the kernel as makes the pass end when it does behind such a host. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/fnv.h"
#include "predict/op_names.h"
#include "predict/transformer/build_priv.h"

/* Equal blocks repeat themselves after a few: a longer run has so many simulated, and one of its
 * middle stands for those that are left out, but where nothing waits for reductions: these fall
 * behind for as long as there are blocks. */
enum { ALONE_BLOCKS = 4, ALONE_STANDS = 2, LONG_BLOCKS = 64 };
#define SLOW_HOST 2e-3 /* a pass waits more for its host than at its start: a share of it */

/* The reading of a pass simulated alone: numbers all, as its memo keeps them, followed by those of
 * its blocks behind an early host, and behind a late one. */
struct alone_pass {
	double gather_us, after_us; /* collectives before and after the blocks */
	double late;                /* a late host keeps more than its first block waiting */
	double late_us;             /* from such a host's arrival to the first block */
};
struct alone_block {
	double us;      /* on the GPU */
	double wait_us; /* before that, for collectives */
	double all_us;  /* since the block before */
	double busy_us; /* collectives in that time */
};
enum {
	N_PASS = sizeof(struct alone_pass) / sizeof(double),
	N_BLOCK = sizeof(struct alone_block) / sizeof(double)
};
/* A pass being simulated alone: the host far ahead, or arriving when the first block's weights are
 * there, or are asked for. */
struct alone {
	struct alone_graph *in;
	uint64_t print; /* of its nodes, but for `late` */
	size_t n;       /* blocks */
	bool gathers, reduces, late;
	double most; /* blocks of a run */
};

/* Says whether this pass gathers sharded weights. */
static bool gathers(const struct pass *p)
{
	const struct sc_sharding_rule *rule = &p->st->b->sharding;

	if (p->kind == SC_PASS_BACKWARD_WEIGHT)
		return false;
	return rule->each || (!p->backward && p->slot->micro_batch == 0);
}

static bool scatters(const struct pass *p)
{
	return sc_pass_makes_gradients(p->kind) && (p->slot->last || p->st->b->sharding.each);
}

static bool gathers_ahead(const struct pass *p)
{
	return p->st->b->tf->request->software.gather_ahead;
}

/* Adds a block op by op: beside a collective some ops are much slower than others, and so is the
 * collective. */
static uint32_t add_block_alone(struct pass *p, const struct run *run)
{
	struct class_state *st = p->st;
	struct builder *b = st->b;
	const struct sc_block *block = &build_variant(st)->block[p->partial][run->block];
	uint32_t **costs = &st->costs[p->partial][run->block], first = SC_NONE;
	struct sc_emit emit = {
		.graph = b->graph,
		.lanes = {st->lanes.host, st->lanes.compute, st->lanes.tp},
		.comm_group = sc_block_alone_group,
		.ctx = b->graph,
		.zero_cost = b->zero_cost,
		.compute_dep = st->last_compute,
		.shared = true,
		.early = !b->alone->late,
		.in_flight = SC_NONE,
	};

	const bool is_first = !*costs;

	if (is_first)
		*costs = sc_block_no_costs(block, b->arena);
	if (b->graph->only_costs) {
		if (is_first)
			sc_block_add_costs(block, &emit, *costs);
		return 0;
	}
	for (size_t i = 0; i < block->steps.n; i++) {
		sc_block_emit_step(block, i, &emit, *costs);
		if (first == SC_NONE && block->steps.at[i].kind != SC_STEP_HOST)
			first = (uint32_t)b->graph->nodes.n - 1;
	}
	sc_block_emit_end(&emit);
	st->last_compute = emit.compute_dep;
	if (first == SC_NONE) { /* nothing is on the GPU */
		build_compute_after(st, SC_NONE);
		first = st->last_compute;
	}
	SC_VEC_PUSH(&b->alone->in->nodes, first);
	SC_VEC_PUSH(&b->alone->in->nodes, st->last_compute);
	return st->last_compute;
}

/* Adds all blocks; `gathered` is the first one's weights, or SC_NONE if they are not asked for yet.
 */
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
			/* Software that gathers ahead asks for the next block's weights while the
			 * block before it runs. */
			next = NULL;
			if (gather && gathers_ahead(p) && i + 1 < run->n)
				next = run;
			else if (gather && gathers_ahead(p) && r + 1 < p->n_runs)
				next = run + 1;
			gathered = next ? build_weight_gather(st, next->params, node) : SC_NONE;
			node = st->b->alone ? add_block_alone(p, run) : build_blocks(p, run, 1);
			if (reduces && !build_reduces_later(p, run))
				build_reduce(p, run, 1, node);
		}
	}
}

/* ---- a pass alone ---- */

/* Returns the print of all but costs that decides how a pass runs alone: its nodes and edges follow
 * from it. */
static uint64_t print_of_nodes(const struct pass *p, const struct alone *alone)
{
	const struct sc_transformer *tf = p->st->b->tf;
	const double how[] = {alone->gathers,
			      alone->reduces,
			      gathers_ahead(p),
			      tf->request->software.grad_sync == SC_GRAD_AFTER,
			      tf->request->c3[SC_C3_DP].policy == SC_C3_PLAIN,
			      tf->placement.classes[p->st->id].stage_ranks_per_node};
	uint64_t print = sc_fnv_words(SC_FNV_START, how, sizeof(how) / sizeof(how[0]));

	for (int r = 0; r < p->n_runs; r++) {
		const struct sc_block *block =
			&build_variant(p->st)->block[p->partial][p->run[r].block];
		const double run[] = {p->run[r].n,
				      alone->reduces && build_reduces_later(p, &p->run[r]),
				      (double)block->steps.n};

		print = sc_fnv_words(print, run, sizeof(run) / sizeof(run[0]));
		for (size_t i = 0; i < block->steps.n; i++) {
			const double step = block->steps.at[i].kind + 4 * block->steps.at[i].hidden;

			print = sc_fnv_words(print, &step, 1);
		}
	}
	return print;
}

static void add_class_alone(struct builder *b, struct class_state *st)
{
	struct sc_class one = {
		.multiplicity = 1,
		.ranks_per_domain = b->tf->placement.classes[st->id].stage_ranks_per_node,
		.slowdown = 1,
		.name = SC_NONE,
	};

	sc_graph_add_class(b->graph, one);
	st->lanes.host = sc_graph_add_lane(b->graph, 0, SC_LANE_HOST);
	st->lanes.compute = sc_graph_add_lane(b->graph, 0, SC_LANE_COMPUTE);
	st->lanes.dp = sc_graph_add_lane(b->graph, 0, SC_LANE_COMM);
	st->lanes.tp = sc_graph_add_lane(b->graph, 0, SC_LANE_COMM);
	b->graph->lanes.at[st->lanes.dp].priority =
		b->tf->request->c3[SC_C3_DP].policy != SC_C3_PLAIN;
	b->zero_cost = sc_graph_add_cost(b->graph, &(struct sc_cost){0});
	st->last_compute = st->awaited = st->last[SC_BESIDE_GRAD] = SC_NONE;
	st->ahead_us = -HUGE_VAL;
	st->owed_us = 0;
	st->host_after = SC_NONE;
}

/* Returns the data-parallel lane's work between two times. */
static double busy_us(const struct pass *p, double from_us, double to_us)
{
	const struct sc_timeline *tl = &p->st->b->scratch->timeline;
	const struct sc_graph *g = p->st->b->graph;
	double us = 0;

	for (uint32_t id = g->lane_first[p->st->lanes.dp];
	     id != SC_NONE && tl->start_us[id] < to_us; id = g->lane_next[id])
		us += fmax(0, fmin(tl->end_us[id], to_us) - fmax(tl->start_us[id], from_us));
	return us;
}

/* Lets the host arrive, do its part for the micro-batch and go on to the blocks. */
static void host_arrives_alone(struct class_state *st, uint32_t gathered)
{
	struct sc_graph *graph = st->b->graph;
	struct sc_cost part = {.work_us = build_host_summary(st).host_us};
	struct sc_node_use nothing = {st->b->zero_cost, SC_NAME_JOIN};

	const uint32_t arrives = sc_graph_add_node(graph, SC_NODE_SYNC, st->lanes.host, nothing);

	if (!graph->only_costs)
		st->b->alone->in->arrives = arrives;
	sc_graph_add_dep(graph, arrives, gathered);
	build_compute_after(st, arrives);
	sc_graph_add_node(
		graph, SC_NODE_HOST, st->lanes.host,
		(struct sc_node_use){sc_graph_add_cost(graph, &part), SC_NAME_MICRO_BATCH_HOST});
}

/* Simulates a pass `p` with no more blocks than are simulated. */
static void simulate_alone(const struct pass *p, struct alone *alone, struct alone_block *out)
{
	struct sc_build_scratch *scratch = p->st->b->scratch;
	struct builder b = *p->st->b;
	struct class_state st = *p->st;
	struct pass own = *p;
	uint32_t *costs[2][SC_N_BLOCKS] = {{NULL}}, gathered = SC_NONE;
	int rc;

	alone->in = build_find_alone(p->st->b->tf->store, alone->print * 2 + alone->late,
				     alone->n > LONG_BLOCKS);
	const bool is_known = alone->in->nodes.n > 0;

	b.graph = is_known ? &scratch->graph : &alone->in->graph;
	b.alone = alone;
	b.sync_p2p = false;
	st.b = &b;
	st.costs = costs;
	own.st = &st;
	sc_graph_clear(b.graph);
	b.graph->only_costs = is_known;
	add_class_alone(&b, &st);
	if (alone->gathers && (!alone->late || gathers_ahead(p)))
		gathered = build_weight_gather(&st, p->run[0].params, SC_NONE);
	if (alone->late)
		host_arrives_alone(&st, gathered);
	add_all_blocks(&own, gathered, alone->gathers, alone->reduces);
	b.graph = &alone->in->graph;
	if (is_known)
		sc_graph_take_costs(b.graph, &scratch->graph);
	else
		sc_graph_seal(b.graph);
	rc = sc_simulate(scratch->sim, b.graph, NULL, &scratch->timeline, NULL);
	assert(rc == 0);
	(void)rc;
	const struct sc_timeline *tl = &scratch->timeline;
	const uint32_t *node = alone->in->nodes.at;
	double end_us = tl->start_us[node[0]];

	for (size_t i = 0; i < alone->n; i++, out++) {
		double start_us = tl->start_us[node[2 * i]], before_us = end_us;

		end_us = tl->end_us[node[2 * i + 1]];
		out->us = end_us - start_us;
		out->wait_us = busy_us(&own, before_us, start_us);
		out->all_us = end_us - before_us;
		out->busy_us = out->wait_us + busy_us(&own, start_us, end_us);
	}
}

static void simulate_both(const struct pass *p, struct alone *alone, struct alone_pass *out)
{
	const struct sc_timeline *tl = &p->st->b->scratch->timeline;
	struct alone_block *blocks = (struct alone_block *)(out + 1);

	simulate_alone(p, alone, blocks);
	const uint32_t *node = alone->in->nodes.at;

	out->gather_us = sc_quantize_us(tl->start_us[node[0]]);
	out->after_us = sc_quantize_us(tl->total_us - tl->end_us[node[2 * alone->n - 1]]);
	/* The first block is late behind a host that arrives with the pass; others may be. */
	struct sc_summary host = build_host_summary(p->st), all = build_pass_summary(p);
	struct sc_summary first = build_run_sum(p, p->run[0].block, 1);

	first = sc_summary_then(&host, &first);
	out->late = all.lead_us - first.lead_us > SLOW_HOST * all.gpu_us;
	if (!(out->late > 0))
		return;
	alone->late = true;
	simulate_alone(p, alone, blocks + alone->n);
	out->late_us = tl->start_us[alone->in->nodes.at[0]] - tl->end_us[alone->in->arrives];
}

static void ask_of_cost(struct sc_memo_key *key, const struct sc_cost *cost)
{
	sc_memo_put(key, cost->latency_us);
	sc_memo_put(key, cost->work_us);
	sc_memo_put(key, cost->holds_sm);
	sc_memo_put(key, cost->beside_frac);
	sc_memo_put_all(key, cost->demand, SC_N_RES);
}

static void ask_of_run(struct sc_memo_key *key, const struct pass *p, const struct run *run,
		       const struct alone *alone)
{
	const struct builder *b = p->st->b;
	struct sc_variant *v = b->tf->variant[b->tf->classes[p->st->id].variant];
	const uint64_t print = sc_block_print(&v->block[p->partial][run->block]);
	struct sc_cost cost;

	sc_memo_put_bytes(key, &print, sizeof(print));
	if (alone->gathers) {
		cost = build_gather_cost(p->st, run->params);
		ask_of_cost(key, &cost);
	}
	if (!alone->reduces || build_reduces_later(p, run))
		return;
	cost = build_reduce_cost(p->st, run->params, 1);
	ask_of_cost(key, &cost);
}

/* Finds the times of a pass with no more blocks than are simulated. */
static const double *find_alone(const struct pass *p, struct alone *alone)
{
	struct sc_build_scratch *scratch = p->st->b->scratch;
	const size_t n_numbers = N_PASS + 2 * alone->n * N_BLOCK;
	const double *known;
	double *out;

	/* The key has all that decides how a pass runs alone. */
	struct sc_memo_key *key = sc_memo_begin(scratch->memo);

	alone->print = print_of_nodes(p, alone);
	sc_memo_put_bytes(key, &alone->print, sizeof(alone->print));
	sc_memo_put(key, build_host_summary(p->st).host_us);
	for (int r = 0; r < p->n_runs; r++)
		ask_of_run(key, p, &p->run[r], alone);
	known = sc_memo_find(scratch->memo);
	if (known)
		return known;
	out = sc_arena_calloc(scratch->arena, n_numbers, sizeof(*out));
	simulate_both(p, alone, (struct alone_pass *)out);
	return memcpy(sc_memo_add(scratch->memo, n_numbers), out, n_numbers * sizeof(*out));
}

/* The sums of a pass that ran alone. */
struct reading {
	struct sc_summary sum; /* its kernels */
	double wait_us;        /* waits between them for collectives */
	double all_us;         /* from the start of the first kernel to the end of the last */
	double busy_us;        /* the data-parallel lane's work in that time */
};

static struct reading read_alone(const struct pass *p, double most, const struct alone_block *block)
{
	struct reading out = {.wait_us = 0};

	for (int r = 0; r < p->n_runs; r++) {
		struct sc_summary one = build_run_sum(p, p->run[r].block, 1);

		for (int i = 0; i < fmin(p->run[r].n, most); i++) {
			bool stands = i == ALONE_STANDS && p->run[r].n > most;

			/* This block stands for `n` that ran so. */
			const struct alone_block *ran = block++;
			const double n = stands ? 1 + p->run[r].n - most : 1;
			for (int o = 0; o < SC_N_OWNERS && one.gpu_us > 0; o++)
				out.sum.owner_us[o] += n * ran->us * one.owner_us[o] / one.gpu_us;
			out.sum.flop += n * one.flop;
			out.sum.hidden_us += n * one.hidden_us;
			out.sum.host_us += n * one.host_us;
			out.sum.gpu_us += n * ran->us;
			out.wait_us += n * ran->wait_us;
			out.all_us += n * ran->all_us;
			out.busy_us += n * ran->busy_us;
		}
	}
	return out;
}

/* The times of a pass, as the iteration's graph has them. */
struct sharded_times {
	struct sc_summary sum; /* the blocks; the GPU's part without waiting */
	double wait_us;        /* waits between blocks for collectives */
	double late_wait_us;   /* the same behind a host that arrives with the pass */
	double gather_us, beside_us, after_us; /* collectives before, beside and after the blocks */
};

static struct sharded_times times_of(const struct pass *p, bool gather, bool reduces)
{
	struct alone how = {.gathers = gather,
			    .reduces = reduces,
			    .most = gather || !reduces ? ALONE_BLOCKS : HUGE_VAL};
	struct sharded_times out = {.sum = build_host_summary(p->st)};
	const struct alone_pass *alone;
	const struct alone_block *blocks;
	struct pass few = *p;
	struct reading early, late;

	if (p->n_runs == 0)
		return out;
	for (int i = 0; i < few.n_runs; i++)
		how.n += (size_t)(few.run[i].n = fmin(few.run[i].n, how.most));
	alone = (const struct alone_pass *)find_alone(&few, &how);
	blocks = (const struct alone_block *)(alone + 1);
	early = read_alone(p, how.most, blocks);
	late = read_alone(p, how.most, blocks + how.n);
	early.sum.host_us += out.sum.host_us;
	out.sum = early.sum;
	out.sum.gpu_us = sc_quantize_us(early.sum.gpu_us);
	out.wait_us = sc_quantize_us(fmax(0, early.all_us - early.sum.gpu_us));
	out.gather_us = alone->gather_us;
	out.beside_us = sc_quantize_us(fmax(0, early.busy_us - out.wait_us));
	out.after_us = alone->after_us;
	if (alone->late > 0) { /* it takes longer than its kernels from when its host arrives */
		out.sum.lead_us =
			sc_quantize_us(fmax(0, alone->late_us + late.all_us - out.sum.gpu_us));
		out.late_wait_us = fmin(out.wait_us, sc_quantize_us(late.wait_us));
		return out;
	}
	out.late_wait_us = out.wait_us;
	out.sum.lead_us = build_pass_summary(p).lead_us;
	if (!gathers_ahead(p))
		out.sum.lead_us = fmax(out.sum.lead_us, alone->gather_us);
	out.sum.lead_us += out.wait_us;
	return out;
}

/* ---- nodes in the iteration ---- */

/* Adds the cost of a wait for collectives, for `host_us` of which the pass waits for its host, too.
 */
static uint32_t add_comm_cost(struct builder *b, double us, double host_us)
{
	struct sc_cost cost = {.latency_us = host_us,
			       .work_us = us - host_us,
			       .gap = host_us > 0 ? SC_GAP_HOST : SC_GAP_NONE,
			       .owner_frac[SC_OWN_COMM] = 1};

	return us > 0 ? sc_graph_add_cost(b->graph, &cost) : SC_NONE;
}

static struct sharded_costs *find_costs(struct pass *p, bool gather, bool reduces)
{
	struct builder *b = p->st->b;
	uint32_t chunk = p->st->id * b->tf->map.n_chunks + p->slot->chunk;
	uint32_t at = (chunk * SC_N_PASS_KINDS + (uint32_t)p->kind) * 2 + p->partial;
	struct sharded_costs *costs = &b->sharded_costs[(at * 2 + gather) * 2 + reduces];

	if (costs->pass.gpu != SC_NONE)
		return costs;
	build_pass_runs(p);
	struct sharded_times alone = times_of(p, gather, reduces);

	if (b->sync_p2p) /* the host arrives with what the pass waits for */
		alone.sum.lead_us = fmax(0, alone.sum.lead_us - alone.wait_us -
						    (gathers_ahead(p) ? 0 : alone.gather_us));
	*costs = (struct sharded_costs){
		.pass = build_costs(p->st, &alone.sum, false),
		.gather = add_comm_cost(b, alone.gather_us, 0),
		.wait = add_comm_cost(b, alone.wait_us, 0),
		.late_wait = add_comm_cost(b, alone.wait_us, alone.wait_us - alone.late_wait_us),
		.beside = add_comm_cost(b, alone.beside_us, 0),
		.after = add_comm_cost(b, alone.after_us, 0),
	};
	return costs;
}

/* Adds work on the data-parallel lane, after what compute did last. */
static uint32_t add_comm(struct class_state *st, uint32_t cost, enum sc_op_name name)
{
	struct sc_graph *graph = st->b->graph;
	uint32_t node = sc_graph_add_node(graph, SC_NODE_KERNEL, st->lanes.dp,
					  (struct sc_node_use){cost, name});

	sc_graph_add_dep(graph, node, st->last_compute);
	return node;
}

/* Gathers the first block's weights: if they are not asked for ahead, once the host and the pass's
 * input are there. */
static uint32_t gather_first(struct class_state *st, uint32_t gather, uint32_t recv, bool ahead)
{
	struct pass_costs arrival = {.lead = st->b->zero_cost, .late = SC_NONE, .gpu = SC_NONE};

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
	struct sharded_costs *costs = find_costs(p, gather, reduces);
	uint32_t op = sc_op_pack(build_pass_name(p->kind), p->slot->chunk, p->slot->micro_batch);
	struct class_state *st = p->st;
	uint32_t dp = SC_NONE, wait = SC_NONE, launch;

	build_compute_after(st, gather_first(st, costs->gather, recv, gathers_ahead(p)));
	launch = build_launch(st, &costs->pass, op);
	build_begins(st, st->last_compute, SC_NONE, recv);
	if (costs->wait != SC_NONE) {
		bool late = launch != SC_NONE || st->b->sync_p2p;

		dp = wait =
			add_comm(st, late ? costs->late_wait : costs->wait, SC_NAME_PARAM_GATHER);
	}
	if (costs->beside != SC_NONE) {
		/* Collectives beside the blocks begin with the first. */
		uint32_t node = add_comm(st, costs->beside, SC_NAME_PARAM_GATHER);

		sc_graph_add_dep(st->b->graph, node, launch);
		dp = node;
	}
	build_begins(st, build_kernel(st, &costs->pass, op), launch, wait);
	build_join_groups(st, st->last_compute);
	if (costs->after != SC_NONE)
		dp = add_comm(st, costs->after, SC_NAME_GRAD_REDUCE);
	if (!reduces || dp == SC_NONE)
		return st->last_compute;
	st->last[SC_BESIDE_GRAD] = dp;
	if (st->b->tf->request->software.grad_sync == SC_GRAD_AFTER)
		build_compute_after(st, dp);
	return st->last_compute;
}

uint32_t build_sharded_pass(struct class_state *st, const struct sc_slot *slot, bool partial,
			    uint32_t recv)
{
	const struct builder *b = st->b;
	struct pass p = build_pass_begun(st, slot, partial);
	bool gather = gathers(&p), reduces = scatters(&p);

	if (b->full || build_variant(st)->env.host_waits ||
	    b->tf->placement.classes[st->id].group[SC_AXIS_DP].n_members > 1) {
		build_pass_runs(&p);
		uint32_t gathered = SC_NONE;

		if (gather && gathers_ahead(&p) && p.n_runs)
			gathered = build_weight_gather(p.st, p.run[0].params, p.st->last_compute);
		build_begin_parts(&p, recv);
		add_all_blocks(&p, gathered, gather, reduces);
		return p.st->last_compute;
	}
	if (!gather && !reduces)
		return build_plain_pass(st, slot, partial, recv);
	return coarse_pass(&p, recv, gather, reduces);
}
