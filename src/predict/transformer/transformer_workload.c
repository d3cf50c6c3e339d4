/* A Transformer as a workload: its iteration over as few micro-batches as prove the steady state,
 * or all; a floor below any simulation of it; and the play of its pipeline. */
#include <math.h>
#include <string.h>

#include "base/memo.h"
#include "base/units.h"
#include "predict/transformer/build_priv.h"
#include "predict/transformer/summarize.h"
#include "predict/transformer/transformer_memory.h"
#include "predict/workload.h"

struct self {
	struct sc_transformer tf;
	struct sc_build_scratch *scratch;
	struct sc_graph *graph;
	struct sc_built built;
	struct sc_run run;
	struct sc_arena_mark mark; /* the arena before the graph */
	struct sc_memo *peaks;     /* a stage's, by all that decides an order of passes */
	unsigned attempt;
};

/* A bound lies below every simulation of an iteration. The compute lane of a GPU runs its passes
 * one after another, and what else runs beside them only makes them longer; its first pass waits
 * for a forward through the virtual stages before its own, and after its last backward the same
 * stages run theirs, where backward is one pass. */

/* Sums of passes are made in another order than the simulation's. */
#define ROUNDING 1e-9

/* The times of a chunk's passes: all chunks of as many layers and the same ends have them. */
struct chunk_passes {
	uint32_t variant;
	bool embed, head;
	struct sc_layer_counts layers;
	double us[2][SC_N_PASS_KINDS]; /* [1]: of the partial micro-batch */
};
struct bound {
	const struct sc_transformer *tf;
	double whole, partial;            /* micro-batches that a chunk sees at least */
	bool splits;                      /* gradients of weights in passes of their own */
	struct chunk_passes *made;        /* those that differ */
	uint32_t n_made, *passes;         /* by [class][chunk]: which of them */
	double *forward_us, *backward_us; /* by virtual stage, the least of any class */
};

static const struct chunk_passes *passes_of(const struct bound *b, uint32_t c, uint32_t chunk)
{
	return &b->made[b->passes[c * b->tf->map.n_chunks + chunk]];
}

/* Finds the passes of a chunk among those that are made, or makes them. */
static uint32_t find_passes(struct bound *b, uint32_t c, uint32_t chunk)
{
	const struct sc_transformer *tf = b->tf;
	const uint32_t stage = (uint32_t)tf->placement.classes[c].stage;
	struct chunk_passes *now = &b->made[b->n_made];
	uint32_t i = 0;

	now->variant = tf->classes[c].variant;
	now->layers = tf->stage_layers[sc_virtual_stage(&tf->map, stage, chunk)];
	sc_transformer_ends(tf, stage, chunk, &now->embed, &now->head);
	while (i < b->n_made &&
	       !(b->made[i].variant == now->variant && b->made[i].embed == now->embed &&
		 b->made[i].head == now->head &&
		 memcmp(&b->made[i].layers, &now->layers, sizeof(now->layers)) == 0))
		i++;
	if (i < b->n_made)
		return i;
	for (int kind = 0; kind < SC_N_PASS_KINDS; kind++) {
		const struct sc_slot slot = build_slot_of(tf, c, chunk, (enum sc_pass_kind)kind);

		for (int partial = 0; partial < (b->partial > 0 ? 2 : 1); partial++)
			now->us[partial][kind] = kind > SC_PASS_BACKWARD && !b->splits
							 ? 0
							 : build_pass_us(tf, c, &slot, partial);
	}
	return b->n_made++;
}

static double pass_us(const struct bound *b, uint32_t c, uint32_t chunk, enum sc_pass_kind kind)
{
	const struct chunk_passes *p = passes_of(b, c, chunk);
	double us = b->whole * p->us[0][kind];

	return b->partial > 0 ? us + p->us[1][kind] : us;
}

/* Returns the time of all passes of a class. A schedule that can split a backward pass need not do
 * so each time. */
static double work_us(const struct bound *b, uint32_t c)
{
	double us = 0;

	for (uint32_t k = 0; k < b->tf->map.n_chunks; k++) {
		double whole_us = pass_us(b, c, k, SC_PASS_BACKWARD);
		double parts_us = b->splits ? pass_us(b, c, k, SC_PASS_BACKWARD_INPUT) +
						      pass_us(b, c, k, SC_PASS_BACKWARD_WEIGHT)
					    : whole_us;

		us += pass_us(b, c, k, SC_PASS_FORWARD) + fmin(whole_us, parts_us);
	}
	return us;
}

/* Finds each virtual stage's shortest pass, one micro-batch: the first or last may be partial. */
static void find_shortest(struct bound *b, struct sc_arena *arena)
{
	const struct sc_transformer *tf = b->tf;
	enum sc_pass_kind back = b->splits ? SC_PASS_BACKWARD_INPUT : SC_PASS_BACKWARD;
	uint32_t depth = tf->map.depth, n_chunks = tf->map.n_chunks;
	size_t n = tf->placement.n_classes * n_chunks;

	b->made = sc_arena_alloc(arena, (n + 1) * sizeof(*b->made));
	b->passes = sc_arena_alloc(arena, n * sizeof(*b->passes));
	b->forward_us = sc_arena_calloc(arena, depth, sizeof(double));
	b->backward_us = sc_arena_calloc(arena, depth, sizeof(double));
	for (uint32_t vs = 0; vs < depth; vs++)
		b->forward_us[vs] = b->backward_us[vs] = HUGE_VAL;
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t c = i / n_chunks, k = i % n_chunks;
		const uint32_t stage = (uint32_t)tf->placement.classes[c].stage;
		const uint32_t vs = sc_virtual_stage(&tf->map, stage, k);

		b->passes[i] = find_passes(b, c, k);
		for (int partial = 0; partial < (b->partial > 0 ? 2 : 1); partial++) {
			const double *us = b->made[b->passes[i]].us[partial];

			b->forward_us[vs] = fmin(b->forward_us[vs], us[SC_PASS_FORWARD]);
			b->backward_us[vs] = fmin(b->backward_us[vs], us[back]);
		}
	}
}

/* Returns a stage's idle time before its first pass and after its last. */
static double idle_us(const struct bound *b, uint32_t stage)
{
	uint32_t first = b->tf->map.depth;
	double us = 0;

	if (b->tf->map.replicas > 1 || b->tf->schedule == SC_SCHED_PIPEDREAM_2BW)
		return 0;
	for (uint32_t k = 0; k < b->tf->map.n_chunks; k++) {
		uint32_t vs = sc_virtual_stage(&b->tf->map, stage, k);

		first = vs < first ? vs : first;
	}
	for (uint32_t vs = 0; vs < first; vs++)
		us += b->forward_us[vs] + (b->splits ? 0 : b->backward_us[vs]);
	return us;
}

static double floor_us(const struct sc_transformer *tf, struct sc_arena *arena)
{
	const struct sc_request *request = tf->request;
	double m = floor((double)request->n_micro_batches / tf->map.replicas), most_us = 0;
	struct bound b = {.tf = tf,
			  .partial = tf->partial && tf->map.replicas == 1,
			  .splits = sc_schedule_traits(request->config.parallel.schedule).splits};

	b.whole = m - (tf->partial ? 1 : 0);
	find_shortest(&b, arena);
	for (uint32_t c = 0; c < tf->placement.n_classes; c++) {
		double us = work_us(&b, c) + idle_us(&b, (uint32_t)tf->placement.classes[c].stage);

		most_us = fmax(most_us, us);
	}
	return most_us * (1 - ROUNDING);
}

/* ---- the passes of an iteration's pipeline as they ran, to be drawn ---- */

static void copy_passes(const struct sc_run *run, struct sc_arena *arena,
			struct sc_schedule_play *out)
{
	const struct sc_passes *from = &run->built->passes;
	struct sc_passes *passes = sc_arena_calloc(arena, 1, sizeof(*passes));
	struct sc_stage_map *map = sc_arena_calloc(arena, 1, sizeof(*map));
	size_t n = (size_t)from->map->pp * from->stride;

	*map = *from->map;
	map->virtual_stage = NULL; /* slots have it */
	map->place = NULL;
	*passes = *from;
	passes->map = map;
	passes->n = sc_arena_alloc(arena, map->pp * sizeof(*passes->n));
	memcpy(passes->n, from->n, map->pp * sizeof(*passes->n));
	passes->slots = sc_arena_alloc(arena, n * sizeof(*passes->slots));
	memcpy(passes->slots, from->slots, n * sizeof(*passes->slots));
	out->passes = passes;
}

/* Returns the start of a slot's first node that computes; they lie behind the last slot's. */
static double start_us(const struct sc_run *run, size_t at, uint32_t i)
{
	const uint32_t *node = run->built->slot_node + at;
	const struct sc_timeline *tl = run->timeline;
	uint32_t lane = run->graph->nodes.at[node[i]].lane;
	uint32_t id = i > 0 ? node[i - 1] + 1 : run->graph->lane_first[lane];

	while (id < node[i] &&
	       (run->graph->nodes.at[id].lane != lane || tl->end_us[id] <= tl->start_us[id]))
		id++;
	return tl->start_us[id];
}

static void copy_times(const struct sc_run *run, uint32_t c, struct sc_schedule_play *out)
{
	uint32_t stage = (uint32_t)run->tf->placement.classes[c].stage;
	size_t stride = out->passes->stride, from = c * stride, to = stage * stride;

	for (uint32_t i = 0; i < out->passes->n[stage]; i++) {
		out->start[to + i] = start_us(run, from, i) / SC_US_PER_MS;
		out->end[to + i] =
			run->timeline->end_us[run->built->slot_node[from + i]] / SC_US_PER_MS;
	}
}

/* Returns what a stage holds: a micro-batch's activations are what it adds in flight. */
static struct sc_stage_held held_by(const struct sc_run *run, uint32_t c,
				    const struct sc_memory *peak)
{
	int stage = run->tf->placement.classes[c].stage;
	struct sc_stage_parts parts = sc_transformer_stage(run->tf, stage);
	double n = sc_micro_batches_in_flight(run, stage) * run->tf->map.n_chunks;
	struct sc_memory empty;

	sc_memory_of_class(run, c, 0, &empty);
	return (struct sc_stage_held){
		.before = empty.total_gib,
		.each = n > 0 ? (peak->total_gib - empty.total_gib) / n : 0,
		.kept = sc_weight_inputs_frac(run->tf->request, run->tf->layer_bytes,
					      &parts.layers),
	};
}

static bool takes(const struct sc_request *request)
{
	return sc_model_is_transformer(&request->config.model);
}

static void destroy(void *p)
{
	struct self *self = p;

	sc_transformer_release(&self->tf);
	sc_memo_destroy(self->peaks);
}

static void transformer_workload_begin(struct self *self, const struct sc_setup *setup)
{
	if (!self->tf.store)
		self->tf.store = sc_graph_store_create();
	self->scratch = setup->scratch;
	self->graph = setup->graph;
	self->attempt = 0;
	self->run = (struct sc_run){.tf = &self->tf, .graph = self->graph, .built = &self->built};
}

static int transformer_workload_init(void *p, const struct sc_setup *setup, struct sc_err *err)
{
	struct self *self = p;

	transformer_workload_begin(self, setup);
	return sc_transformer_init(&self->tf, setup, err);
}

enum { NODES_A_PASS = 8, NODES_A_LAYER = 90, PEAKS = 1 << 16 };
#define MAX_NODES                                                                      \
	3e7 /* some 3 GB; full detail of a trillion parameters on 3,072 GPUs needs 8e6 \
	     */

/* Refuses a graph of too many nodes, by an upper estimate, before memory runs out. */
static int check_size(const struct sc_transformer *tf, double micro_batches, struct sc_err *err)
{
	const struct sc_parallel *par = &tf->request->config.parallel;
	double passes =
		2 * micro_batches * (double)par->virtual_stages * (double)tf->placement.n_classes;
	double layers = 2 * micro_batches * (double)tf->request->config.model.layers *
			(double)tf->placement.n_classes / (double)par->pp;
	double nodes = passes * NODES_A_PASS;

	if (tf->opts->detail == SC_DETAIL_FULL)
		nodes += layers * NODES_A_LAYER;
	if (nodes <= MAX_NODES)
		return 0;
	return sc_err_set(
		err, SC_ELIMIT,
		"some %.1e graph nodes for %g micro-batches on %zu kinds of ranks; use coarse "
		"detail, a 1f1b schedule, a larger micro_batch or fewer stages",
		nodes, micro_batches, tf->placement.n_classes);
}

/* Returns the micro-batches of this attempt. */
static uint32_t choose_micro_batches(const struct self *self)
{
	const struct sc_predict_opts *opts = self->tf.opts;
	const uint32_t all = sc_transformer_micro_batches(&self->tf);
	const struct sc_schedule_shape shape = sc_transformer_shape(&self->tf, all);

	if (opts->detail != SC_DETAIL_COARSE || opts->no_jump || opts->keep_graph)
		return all;
	/* An attempt takes the fewest micro-batches that may prove the steady state, congruent to
	 * all of them modulo the period; or all where skipping cannot pay. */
	const uint32_t period = sc_schedule_period(&shape);
	const uint32_t n_to_check = sc_steady_n_to_check(&shape);
	uint64_t want = (uint64_t)(sc_schedule_warmup(&shape) +
				   (n_to_check + (n_to_check > 1 ? 2 : 1)) * period + 2)
			<< self->attempt;

	if (period == 0 || want + period >= all ||
	    (shape.kind == SC_SCHED_INTERLEAVED && all % period)) /* groups differ */
		return all;
	return (uint32_t)want + (all - (uint32_t)want) % period;
}

static int transformer_workload_build(void *p, struct sc_err *err)
{
	struct self *self = p;
	const uint32_t n = choose_micro_batches(self);
	int rc = check_size(&self->tf, n, err);

	if (rc)
		return rc;
	self->mark = sc_arena_mark(self->scratch->arena);
	self->built.shape = sc_transformer_shape(&self->tf, n);
	sc_transformer_build(&self->tf, self->scratch, self->graph, &self->built);
	return 0;
}

static bool again(void *p, const struct sc_timeline *timeline)
{
	struct self *self = p;
	struct sc_run *run = &self->run;
	const uint32_t all = sc_transformer_micro_batches(&self->tf);
	const uint32_t left = all - self->built.shape.micro_batches;
	struct sc_steady_run shown;

	if (left == 0)
		return false;
	run->timeline = timeline;
	shown = (struct sc_steady_run){run, (double)left / sc_schedule_period(&self->built.shape),
				       self->scratch->arena};
	if (sc_steady_detect(&shown, &run->steady))
		return false;
	self->attempt++;
	sc_arena_rewind(self->scratch->arena, self->mark);
	return true;
}

/* Returns the micro-batches that a stage holds at its peak, of as many as the steady state needs.
 * Neighbours of a search have the same order of passes, which is then not made again. */
static double peak_of(struct self *self, uint32_t stage)
{
	const struct sc_transformer *tf = &self->tf;
	const struct sc_schedule_shape *shape = &self->built.shape;
	const struct sc_schedule_traits traits = sc_schedule_traits(shape->kind);
	const struct sc_stage_parts parts = sc_transformer_stage(tf, (int)stage);
	const bool is_known = !traits.is_timed && !shape->file;
	const double kept = traits.splits ? sc_transformer_left(tf, &parts.layers) : 1;
	const double all[] = {shape->kind,          shape->pp,       shape->virtual_stages,
			      shape->micro_batches, shape->left_out, shape->replicas,
			      shape->delay,         stage,           kept};
	const double *known = NULL;
	double peak;

	if (!self->peaks)
		self->peaks = sc_memo_create(PEAKS);
	sc_memo_put_all(sc_memo_begin(self->peaks), all, sizeof(all) / sizeof(all[0]));
	if (is_known && (known = sc_memo_find(self->peaks)))
		return *known;
	if (!self->built.passes.slots)
		sc_passes_build(shape, &tf->map, self->scratch->arena, &self->built.passes);
	peak = sc_passes_peak(&self->built.passes, stage, kept);
	if (is_known)
		*sc_memo_add(self->peaks, 1) = peak;
	return peak;
}

/* Finds what is in flight: without an order, a stage runs at least a chunk of one micro-batch. */
static void find_in_flight(struct self *self, bool least)
{
	const struct sc_stage_map *map = &self->tf.map;
	double *in_flight = sc_arena_calloc(self->scratch->arena, map->pp, sizeof(*in_flight));

	self->built.shape = sc_transformer_shape(&self->tf, choose_micro_batches(self));
	self->built.passes.slots = NULL;
	for (uint32_t s = 0; s < map->pp; s++)
		in_flight[s] = (least ? 1 : peak_of(self, s)) / map->n_chunks;
	self->run.in_flight = in_flight;
}

static bool is_too_large(const struct self *self, struct sc_floor *out)
{
	const struct sc_predict_opts *opts = self->tf.opts;

	sc_fullest_memory(&self->run, &out->memory);
	return opts->memory_first && !sc_memory_leaves(&out->memory, opts->margin_frac);
}

/* Finds the floor, memory first, which asks for no time unless the order of passes needs it. */
static int floor_of(void *p, const struct sc_setup *setup, struct sc_floor *out, struct sc_err *err)
{
	struct self *self = p;
	struct sc_predict_opts opts = *setup->opts;
	const struct sc_setup own = {setup->request, &opts, setup->scratch, setup->graph};
	const bool timed = sc_schedule_traits(setup->request->config.parallel.schedule).is_timed;
	int rc;

	transformer_workload_begin(self, &own);
	opts.brief = true; /* a floor is made of sums */
	*out = (struct sc_floor){.is_least = timed};
	rc = sc_transformer_init_ranks(&self->tf, &own, err);
	if (rc)
		return rc;
	find_in_flight(self, timed);
	if (is_too_large(self, out))
		return 0;
	out->is_least = timed && opts.memory_least;
	rc = timed && !opts.memory_least ? sc_transformer_init_times(&self->tf, &own, err)
					 : sc_transformer_init_passes(&self->tf, true, err);
	if (rc)
		return rc;
	if (timed && !opts.memory_least) {
		find_in_flight(self, false);
		if (is_too_large(self, out))
			return 0;
	}
	out->iteration_ms = floor_us(&self->tf, self->scratch->arena) / SC_US_PER_MS;
	return 0;
}

/* Leaves out the drain: a pipeline that never drains (PipeDream-2BW: Narayanan et al., ICML 2021,
 * section 3.1) ran two batches. An iteration is as many periods of the first stage, where it is
 * slowest, as it has micro-batches, the last of them the one with its last forward pass, and its
 * step, without what is drained between. */
static void leave_out_drain(const struct self *self, struct sc_reading_input *out)
{
	const struct sc_built *built = &self->built;
	const double *end_us = self->run.timeline->end_us;
	const uint32_t *node = built->slot_node, n = built->passes.n[0];
	const struct sc_slot *slots = sc_passes_of(&built->passes, 0);
	const struct sc_repeat *own = out->account.own;
	struct sc_period *period = &out->account.period;
	size_t n_classes = self->tf.placement.n_classes;
	struct sc_repeat *to =
		sc_arena_calloc(self->scratch->arena, 2 * (n_classes + 1), sizeof(*to));
	double left = (double)self->tf.request->n_micro_batches, from_us;
	uint32_t last = 0, i = n;

	for (uint32_t c = 0; c < n_classes; c++) {
		const uint32_t *of = built->slot_node + (size_t)c * built->passes.stride;

		if (self->tf.placement.classes[c].stage == 0 &&
		    end_us[of[n - 1]] > end_us[node[n - 1]]) {
			node = of;
			last = c;
		}
	}
	if (period->n_repeats)
		to[0] = period->repeats[0];
	to[1] = (struct sc_repeat){.to_us = end_us[node[n - 1]], .n = -1};
	while (slots[--i].kind != SC_PASS_FORWARD)
		to[1].from_us = end_us[node[i]];
	for (from_us = to[1].from_us; left > 0 && from_us > to[0].from_us; i--)
		if (slots[i].kind != SC_PASS_FORWARD) {
			from_us = end_us[node[i]];
			left--;
		}
	to[0].n = left;
	for (uint32_t c = 0; own && c < n_classes; c++) {
		to[2 * c + 2] = (struct sc_repeat){own[c].from_us, own[c].to_us, left};
		to[2 * c + 3] = to[1];
	}
	out->account.own = own ? to + 2 : NULL;
	out->last = built->last[last];
	out->n_steps = 2;
	*period = (struct sc_period){from_us, end_us[out->last], to, 2, true};
}

static void fill_reading(void *p, const struct sc_timeline *timeline, struct sc_reading_input *out)
{
	struct self *self = p;

	self->run.timeline = timeline;
	sc_run_op_info(&self->run, out);
	if (self->tf.schedule == SC_SCHED_PIPEDREAM_2BW)
		leave_out_drain(self, out);
}

static void release(void *p)
{
	struct self *self = p;

	sc_graph_store_give_back(self->tf.store, self->graph);
}

static void conclude(void *p, struct sc_prediction *out)
{
	sc_run_conclude(&((struct self *)p)->run, out);
}

static bool play(void *p, const struct sc_timeline *timeline, struct sc_arena *arena,
		 struct sc_schedule_play *out)
{
	struct self *self = p;

	self->run.timeline = timeline;
	if (self->built.shape.pp < 2)
		return false;
	/* Passes and holdings of a stage are those of its class that is nearest to its GPU's
	 * capacity, in ms and GiB. */
	const struct sc_placement *placement = &self->run.tf->placement;
	uint32_t pp = self->run.tf->map.pp;
	size_t stride = self->run.built->passes.stride, n = pp * stride;
	struct sc_memory *fullest = sc_arena_calloc(arena, pp, sizeof(*fullest)), now;

	*out = (struct sc_schedule_play){
		.start = sc_arena_calloc(arena, n, sizeof(double)),
		.end = sc_arena_calloc(arena, n, sizeof(double)),
		.held = sc_arena_calloc(arena, pp, sizeof(*out->held)),
		.time_unit = " ms",
		.held_unit = "GiB",
	};
	copy_passes(&self->run, arena, out);
	for (uint32_t c = 0; c < placement->n_classes; c++) {
		int stage = placement->classes[c].stage;

		sc_memory_of_class(&self->run, c, sc_micro_batches_in_flight(&self->run, stage),
				   &now);
		if (fullest[stage].capacity_gib > 0 &&
		    sc_memory_fullness(&now) <= sc_memory_fullness(&fullest[stage]))
			continue;
		fullest[stage] = now;
		copy_times(&self->run, c, out);
		out->held[stage] = held_by(&self->run, c, &now);
	}
	/* A pipeline that never drains is shown until its first stage has gone forward. */
	if (self->tf.schedule == SC_SCHED_PIPEDREAM_2BW) {
		const struct sc_slot *slots = sc_passes_of(out->passes, 0);
		uint32_t last = out->passes->n[0];

		while (slots[--last].kind != SC_PASS_FORWARD)
			;
		for (uint32_t s = 0; s < pp; s++)
			while (out->start[s * stride + out->passes->n[s] - 1] >= out->end[last])
				out->passes->n[s]--;
	}
	sc_schedule_measure(out, arena);
	return true;
}

const struct sc_workload sc_transformer_workload = {
	.takes = takes,
	.self_bytes = sizeof(struct self),
	.destroy = destroy,
	.init = transformer_workload_init,
	.build = transformer_workload_build,
	.again = again,
	.fill_reading = fill_reading,
	.conclude = conclude,
	.floor = floor_of,
	.release = release,
	.play = play,
};
