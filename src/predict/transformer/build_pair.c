/* Passes that run beside each other: which do, and their nodes, op by op or as the summary of both. */
#include <string.h>

#include "core/config/config_schedule.h"
#include "predict/op_names.h"
#include "predict/transformer/build_priv.h"
#include "predict/transformer/transformer_priv.h"

enum { FORWARD_PARTIAL = 1, BACKWARD_PARTIAL = 2, N_PARTIAL = 4 };

static size_t pair_at(const struct sc_transformer *tf, uint32_t c, uint32_t forward,
		      uint32_t backward)
{
	return ((c * tf->map.n_chunks + forward) * tf->map.n_chunks + backward) * (size_t)N_PARTIAL;
}

static bool same_steps(const struct sc_block *a, const struct sc_block *b)
{
	for (size_t i = 0; a->steps.n == b->steps.n && i < a->steps.n; i++)
		if (a->steps.at[i].kind != b->steps.at[i].kind)
			return false;
	return a->steps.n == b->steps.n;
}

/* Of the ranks whose steps are the same the fastest. */
static const struct sc_block *order_of(const struct sc_transformer *tf, bool partial, int block,
				       const struct sc_block *own)
{
	const struct sc_block *best = NULL;

	for (size_t v = 0; v < tf->n_variants; v++) {
		const struct sc_block *one = &tf->variant[v]->block[partial][block];

		if (same_steps(one, own) && (!best || one->sum.gpu_us < best->sum.gpu_us))
			best = one;
	}
	return best;
}

static struct sc_pair_side side_of(const struct pass *p, uint32_t *const *costs)
{
	struct sc_pair_side out = {.n_runs = p->n_runs};

	for (int r = 0; r < p->n_runs; r++) {
		int block = p->run[r].block;

		out.run[r].block = &build_variant(p->st)->block[p->partial][block];
		out.run[r].order = order_of(p->st->b->tf, p->partial, block, out.run[r].block);
		out.run[r].n = p->run[r].n;
		out.run[r].costs = costs ? costs[block] : NULL;
	}
	return out;
}

/* ---- which there are ---- */

/* Pairs that were simulated: those of stages with the same layers are alike. */
struct known_pair {
	const struct known_pair *next;
	struct sc_pair_side side[2];
	struct sc_pair pair;
};
struct known_pairs {
	const struct known_pair *first;
	struct sc_build_scratch *scratch;
};

static bool same_side(const struct sc_pair_side *a, const struct sc_pair_side *b)
{
	for (int r = 0; a->n_runs == b->n_runs && r < a->n_runs; r++)
		if (a->run[r].block != b->run[r].block || a->run[r].order != b->run[r].order ||
		    a->run[r].n != b->run[r].n)
			return false;
	return a->n_runs == b->n_runs;
}

static int know_pair(struct known_pairs *known, const struct sc_pair_side side[2],
		     const struct sc_pair **out, struct sc_err *err)
{
	struct known_pair *pair;

	for (const struct known_pair *k = known->first; k; k = k->next)
		if (same_side(&k->side[0], &side[0]) && same_side(&k->side[1], &side[1])) {
			*out = &k->pair;
			return 0;
		}
	pair = sc_arena_calloc(known->scratch->arena, 1, sizeof(*pair));
	pair->next = known->first;
	memcpy(pair->side, side, sizeof(pair->side));
	known->first = pair;
	*out = &pair->pair;
	return sc_pair_summarize(side, known->scratch, known->scratch->arena, &pair->pair, err);
}

static bool file_pairs(const struct sc_transformer *tf)
{
	const struct sc_passes *passes = &tf->file.passes;

	for (uint32_t s = 0; s < tf->map.pp; s++)
		for (uint32_t i = 0; i < passes->n[s]; i++)
			if (sc_passes_of(passes, s)[i].paired)
				return true;
	return false;
}

static bool schedule_pairs(const struct sc_transformer *tf)
{
	const struct sc_config *cfg = &tf->request->config;

	if (cfg->parallel.schedule == SC_SCHED_FILE)
		return !cfg->training.moe_overlap && file_pairs(tf);
	return sc_schedule_pairs(cfg->parallel.schedule);
}

static struct sc_slot slot_of(const struct sc_transformer *tf, uint32_t c, uint32_t chunk,
			      enum sc_pass_kind kind)
{
	uint32_t stage = (uint32_t)tf->placement.classes[c].stage;

	return (struct sc_slot){.virtual_stage = sc_virtual_stage(&tf->map, stage, chunk),
				.chunk = (uint16_t)chunk,
				.kind = (uint8_t)kind};
}

/* Of the class's passes on two chunks. */
static int find_pair(const struct sc_transformer *tf, size_t at, struct known_pairs *known,
		     const struct sc_pair **out, struct sc_err *err)
{
	uint32_t n = tf->map.n_chunks, partial = at % N_PARTIAL,
		 c = (uint32_t)(at / N_PARTIAL / n / n);
	uint32_t chunk[2] = {(uint32_t)(at / N_PARTIAL / n % n), (uint32_t)(at / N_PARTIAL % n)};
	struct builder b = {.tf = tf};
	struct class_state st = {.b = &b, .id = c};
	struct sc_pair_side side[2];

	if (partial && !tf->partial)
		return 0;
	for (int k = 0; k < 2; k++) {
		struct sc_slot slot =
			slot_of(tf, c, chunk[k], k ? SC_PASS_BACKWARD : SC_PASS_FORWARD);
		struct pass p = build_pass_of(&st, &slot, partial >> k & 1);

		side[k] = side_of(&p, NULL);
	}
	return know_pair(known, side, out, err);
}

int sc_transformer_find_pairs(struct sc_transformer *tf, struct sc_build_scratch *scratch,
			      struct sc_err *err)
{
	size_t n = pair_at(tf, (uint32_t)tf->placement.n_classes, 0, 0);
	struct known_pairs known = {.scratch = scratch};
	int rc = 0;

	tf->pairs = NULL;
	if (!schedule_pairs(tf) || !sc_transformer_may_pair(tf->request))
		return 0;
	tf->pairs = sc_arena_calloc(scratch->arena, n, sizeof(*tf->pairs));
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = find_pair(tf, i, &known, &tf->pairs[i], err);
	return rc;
}

/* ---- nodes ---- */

bool build_is_pair(const struct class_state *st, const struct sc_slot *slots)
{
	/* after its last pass a chunk's gradients are reduced, in parts */
	return st->b->tf->pairs && slots[0].paired && slots[0].kind == SC_PASS_FORWARD &&
	       slots[1].kind == SC_PASS_BACKWARD && !slots[1].last;
}

static struct sc_summary summary_of(const struct sc_pair_alone *pass)
{
	struct sc_summary out = {.gpu_us = pass->gpu_us};

	memcpy(out.owner_us, pass->owner_us, sizeof(out.owner_us));
	return out;
}

static void note_beside(struct builder *b, uint32_t cost, const struct sc_pair_alone *pass)
{
	b->built->beside[b->built->n_beside++] = (struct sc_beside){cost, pass};
}

static void find_costs(const struct class_state *st, const struct sc_pair *pair,
		       struct pair_costs *out)
{
	struct sc_summary host = build_host_summary(st), hosts = sc_summary_repeat(&host, 2);
	struct sc_summary sum[2] = {summary_of(&pair->side[0]), summary_of(&pair->side[1])};
	struct pass_costs second;

	sum[0].host_us = pair->host_us;
	sum[0].lead_us = pair->lead_us;
	sum[0] = sc_summary_then(&hosts, &sum[0]);
	out->first = build_costs(st, &sum[0], false);
	second = build_costs(st, &sum[1], false);
	out->second = second.gpu;
	note_beside(st->b, out->first.gpu, &pair->side[0]);
	note_beside(st->b, out->second, &pair->side[1]);
}

static uint32_t op_of(enum sc_op_name name, const struct sc_slot *slot)
{
	return sc_op_pack(name, slot->chunk, slot->micro_batch);
}

static void coarse_pair(struct class_state *st, const struct sc_slot *slots, const uint32_t recv[2],
			uint32_t node[2])
{
	struct builder *b = st->b;
	size_t at = pair_at(b->tf, st->id, slots[0].chunk, slots[1].chunk) +
		    (build_is_partial(b, slots[0].micro_batch) ? FORWARD_PARTIAL : 0) +
		    (build_is_partial(b, slots[1].micro_batch) ? BACKWARD_PARTIAL : 0);
	struct pair_costs *costs = &b->pair_costs[at];
	struct pass_costs second = {.lead = SC_NONE, .late = SC_NONE};
	uint32_t op, launch;

	if (costs->second == SC_NONE)
		find_costs(st, b->tf->pairs[at], costs);
	second.gpu = costs->second;
	op = op_of(SC_NAME_FORWARD_BESIDE, slots);
	launch = build_launch(st, &costs->first, op);
	node[0] = build_kernel(st, &costs->first, op);
	build_begins(st, node[0], launch, recv[0]);
	if (recv[1] != SC_NONE)
		sc_graph_add_dep(b->graph, node[0], recv[1]);
	op = op_of(SC_NAME_BACKWARD_BESIDE, &slots[1]);
	node[1] = build_join_groups(st, build_kernel(st, &second, op));
}

static void full_pair(struct class_state *st, const struct sc_slot *slots, const uint32_t recv[2],
		      uint32_t node[2])
{
	struct builder *b = st->b;
	struct sc_emit emit[2];
	struct sc_pair_side side[2];
	struct sc_node_use join = {b->zero_cost, SC_NAME_JOIN};

	for (int i = 0; i < 2; i++) {
		struct pass p =
			build_pass_of(st, &slots[i], build_is_partial(b, slots[i].micro_batch));

		build_full_begin(&p, recv[i]);
		emit[i] = p.emit;
		emit[i].shared = true;
		side[i] = side_of(&p, st->pair_costs[p.partial]);
	}
	sc_pair_emit(side, emit);
	for (int i = 0; i < 2; i++) {
		node[i] = sc_graph_add_node(b->graph, SC_NODE_EVENT, st->lanes.compute, join);
		for (int k = 0; i == 0 && k < 2; k++)
			sc_graph_add_dep(b->graph, node[i], emit[k].compute_dep);
	}
	st->last_compute = node[1];
}

void build_pair(struct class_state *st, const struct sc_slot *slots, const uint32_t recv[2],
		uint32_t node[2])
{
	if (st->b->full)
		full_pair(st, slots, recv, node);
	else
		coarse_pair(st, slots, recv, node);
}
