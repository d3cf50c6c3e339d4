/* The costs of an iteration's graph in a variant, in place: gaps and durations as measured or
 * typical, then the changes that were asked for. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "trace/graph/job.h"
#include "trace/graph/kernel_family.h"
#include "trace/graph/trace_order.h"
#include "trace/replay/replay_study.h"

#define LEAST_CHANGE 1e-9 /* of a time, beside rounding */

struct setting {
	const struct replay_study *study;
	const struct replay_variant *variant;
	const struct replay_follow *follow; /* NULL: begins as recorded */
	size_t iteration, rank_idx;
	const struct sc_trace_rank *rank;
	struct lane_left *lanes;
	bool *changed; /* by group: a change names a member */
};
/* A lane's rest: what was left to run of the iteration before, up to here. */
struct lane_left {
	double us;    /* until when it is busy */
	uint32_t act; /* the last, or SC_NONE */
};

/* ---- collectives by model ---- */

/* By the model of the cluster; NAN without one, or where the trace does not say what was sent. */
static double model_us(const struct replay_study *study, const struct sc_merge_call *c, int n_ranks)
{
	const struct sc_collective_time *network = &study->opts->network;
	struct sc_collective_shape shape = {.bytes = (double)c->bytes};

	if (!network->us || c->kind < 0 || c->bytes < 0)
		return NAN;
	shape.kind = (enum sc_collective)c->kind;
	return network->us(network->network, &shape, n_ranks);
}

/* Bytes that a rank sends in a ring, as a part of the message: what the time of large ones follows.
 * One rank sends nothing. */
static double ring_share(int kind, double n)
{
	if (n <= 1)
		return 0;
	if (kind == SC_SEND_RECV || kind == SC_BROADCAST)
		return 1;
	return kind == SC_ALL_REDUCE ? 2 * (n - 1) / n : (n - 1) / n;
}

static int64_t gcd(int64_t a, int64_t b)
{
	return b ? gcd(b, a % b) : a;
}

/* The distance of ranks, where they fill the job: workers are all of its replicas and stages. */
int64_t sc_replay_mates(const struct sc_trace_run *run)
{
	int64_t unit = 0, lowest = INT64_MAX, highest = 0;

	for (size_t r = 0; r < run->ranks.n; r++) {
		const int64_t rank = run->ranks.at[r].rank;

		lowest = rank < lowest ? rank : lowest;
		highest = rank > highest ? rank : highest;
	}
	for (size_t r = 0; r < run->ranks.n; r++)
		unit = gcd(unit, run->ranks.at[r].rank - lowest);
	return unit > 0 && highest - lowest < unit * (int64_t)run->ranks.n ? unit : 1;
}

/* How much longer the transfer is with another number of GPUs: only of groups of all ranks, of a
 * job of all replicas, since those are the ones that grow. */
static double resize_factor(const struct replay_study *study, const struct sc_merge_call *c,
			    int n_ranks)
{
	const struct sc_trace_run *run = &study->run;
	const int64_t gpus = study->opts->gpus;
	const int world = run->world > 0 ? (int)run->world : n_ranks;
	double now, then;

	if (gpus == 0 || (run->n_replicas ? !c->of_replicas : n_ranks != world))
		return 1;
	if (run->n_replicas) {
		now = ring_share(c->kind, run->n_replicas);
		then = (double)gpus / (double)(sc_replay_mates(run) * run->n_stages);
		return now > 0 ? ring_share(c->kind, then) / now : 1;
	}
	now = model_us(study, c, n_ranks);
	then = model_us(study, c, (int)gpus);
	if (now > 0 && then > 0)
		return then / now;
	now = ring_share(c->kind, n_ranks);
	return now > 0 ? ring_share(c->kind, (double)gpus) / now : 1;
}

/* ---- changes ---- */

static enum sc_replay_kind act_replay_kind(const struct setting *s, const struct sc_act *act)
{
	if (act->kind == SC_ACT_COLLECTIVE)
		return s->rank->collectives.at[act->merge_call].kind == SC_SEND_RECV
			       ? SC_REPLAY_P2P
			       : SC_REPLAY_COLLECTIVE;
	if (s->study->run.owner.at[act->name] == SC_OWN_HOST) /* what a job's timeline has of it */
		return SC_REPLAY_HOST;
	return act->kind == SC_ACT_KERNEL ? SC_REPLAY_KERNEL : SC_REPLAY_COPY;
}

static struct sc_replay_subject subject_of(const struct setting *s, enum sc_replay_kind kind,
					   const char *name, const char *family)
{
	return (struct sc_replay_subject){
		.kind = kind,
		.name = name,
		.family = family,
		.rank = s->rank->rank,
		.dp_rank = s->rank->dp_rank,
		.stage = s->rank->stage,
		.step = s->rank->iterations.at[s->iteration].step,
		.run = &s->study->run,
	};
}

static struct sc_replay_subject act_subject(const struct setting *s, const struct sc_act *act)
{
	const enum sc_kernel_family family =
		(enum sc_kernel_family)s->study->run.family.at[act->name];

	struct sc_replay_subject subject =
		subject_of(s, act_replay_kind(s, act), sc_trace_run_name(&s->study->run, act->name),
			   s->study->run.n_replicas ? NULL : sc_kernel_family_name(family));

	subject.range = act->launch == SC_NONE ? 0 : s->rank->calls.at[act->launch].range;
	return subject;
}

static double scale_of(const struct setting *s, const struct sc_replay_subject *subject)
{
	const struct sc_replay_opts *opts = s->study->opts;
	double factor = 1;

	for (size_t i = 0; s->variant->pick == PICK_CHANGED && i < opts->n_changes; i++)
		if (opts->changes[i].action == SC_REPLAY_SCALE &&
		    sc_selector_match(&opts->changes[i].selector, subject))
			factor *= opts->changes[i].factor;
	return factor;
}

/* A host's work before a call, each piece of it by the range that it was in. */
static double scale_of_work(const struct setting *s, struct sc_replay_subject subject,
			    const struct sc_call *call)
{
	double us = 0, scaled_us = 0;

	for (uint32_t p = 0; s->variant->pick == PICK_CHANGED && p < call->n_pieces; p++) {
		const struct sc_host_piece *piece = &s->rank->pieces.at[call->first_piece + p];

		subject.range = piece->range;
		us += (double)piece->us;
		scaled_us += (double)piece->us * scale_of(s, &subject);
	}
	return us > 0 ? scaled_us / us : scale_of(s, &subject);
}

/* Without sizes the shortest may be of a smaller one: then nothing is known of waiting. */
static double waiting_us(const struct replay_study *study, size_t rank, const struct sc_act *act,
			 double us)
{
	const struct sc_merge_call *c = &study->run.ranks.at[rank].collectives.at[act->merge_call];
	const bool known = c->group_size > 0 || study->run.world > 0;
	const int n_ranks = sc_trace_ranks_of(&study->run, c);
	const int n_recorded =
		c->instance < 0 ? 1 : (int)study->run.merge.n_members.at[c->instance];

	if (c->bytes < 0 || n_recorded >= (known ? n_ranks : 2))
		return 0;
	return us - fmin(us, c->bound_us);
}

double sc_replay_rank_waiting_us(const struct replay_study *study, size_t rank, int64_t *n_unknown)
{
	const struct sc_trace_rank *rec = &study->run.ranks.at[rank];
	double us = 0;

	for (size_t i = 0; i < study->run.n_iterations; i++)
		for (uint32_t a = rec->iterations.at[i].first_act;
		     a < rec->iterations.at[i].end_act; a++) {
			const struct sc_act *act = &rec->acts.at[a];

			if (act->kind != SC_ACT_COLLECTIVE || act->launch == SC_NONE ||
			    act->launch < rec->iterations.at[i].begin ||
			    act->launch > rec->iterations.at[i].end)
				continue;
			us += waiting_us(study, rank, act,
					 sc_trace_act_work_us(&study->run, rec, act));
			*n_unknown += rec->collectives.at[act->merge_call].bytes < 0;
		}
	return us;
}

/* A collective of which several ranks were recorded has a transfer that is told from waiting. */
static bool is_split(const struct setting *s, const struct sc_act *act)
{
	const int32_t instance = s->rank->collectives.at[act->merge_call].instance;

	return instance >= 0 && !isnan(s->study->run.transfer_us.at[instance]);
}

/* The transfer within `us`: of a collective that only one recorded rank has, the rest is waiting,
 * which no change of the network makes shorter. */
static double change_transfer(const struct setting *s, const struct sc_act *act, double us)
{
	const struct sc_replay_opts *opts = s->study->opts;
	const struct sc_merge_call *c = &s->rank->collectives.at[act->merge_call];
	const int n_ranks = sc_trace_ranks_of(&s->study->run, c);
	const struct sc_replay_subject subject = act_subject(s, act);
	double waiting = is_split(s, act) ? 0 : us - fmin(us, c->bound_us);
	double transfer = us - waiting;

	if (opts->missing == SC_MISSING_SYMMETRIC) {
		waiting = 0;
		transfer = us - waiting_us(s->study, s->rank_idx, act, us);
	}

	for (size_t i = 0; i < opts->n_changes; i++) {
		if (!sc_selector_match(&opts->changes[i].selector, &subject))
			continue;
		if (opts->changes[i].action == SC_REPLAY_MEAN)
			transfer = fmin(s->study->mean_us[act->name], c->bound_us);
		if (opts->changes[i].action == SC_REPLAY_MODEL) {
			const double model = model_us(s->study, c, n_ranks);

			transfer = isnan(model) ? transfer : model;
		}
	}
	return waiting + transfer * scale_of(s, &subject) * resize_factor(s->study, c, n_ranks);
}

/* The factor of a time where the rank is to be no slower than the others. */
static double as_others(const struct setting *s, const double *slowness)
{
	const bool asked = s->variant->pick == PICK_WITHOUT
				   ? s->variant->which == s->rank_idx
				   : s->variant->pick == PICK_CHANGED &&
					     s->study->opts->without_rank == s->rank->rank;

	return asked && slowness[s->rank_idx] > 1 ? 1 / slowness[s->rank_idx] : 1;
}

static double change_work(const struct setting *s, const struct sc_act *act, double us)
{
	const struct sc_replay_opts *opts = s->study->opts;
	const struct sc_replay_subject subject = act_subject(s, act);
	const bool waits = act->kind == SC_ACT_COLLECTIVE && !is_split(s, act);

	if (s->variant->pick == PICK_TRANSFERS && act->kind == SC_ACT_COLLECTIVE)
		us -= waits ? fmin(us, s->rank->collectives.at[act->merge_call].bound_us) : us;
	if (s->variant->pick == PICK_COPIES && subject.kind == SC_REPLAY_COPY)
		us = 0;
	if (s->variant->pick == PICK_MEMORY && subject.kind == SC_REPLAY_KERNEL &&
	    s->study->run.owner.at[act->name] == SC_OWN_MEMORY)
		us /= 2;
	if (sc_replay_computes(&s->study->run, act))
		us *= as_others(s, s->study->slowness);
	if (s->variant->pick != PICK_CHANGED)
		return us;
	if (act->kind == SC_ACT_COLLECTIVE)
		return change_transfer(s, act, us);
	for (size_t i = 0; i < opts->n_changes; i++)
		if (opts->changes[i].action == SC_REPLAY_MEAN &&
		    sc_selector_match(&opts->changes[i].selector, &subject))
			us = s->study->mean_us[act->name];
	return us * scale_of(s, &subject);
}

/* Sends and receives of a direction are one operation of a job. */
static bool is_picked(const struct setting *s, const struct sc_act *act)
{
	const bool is_recv = act->name == SC_JOB_FORWARD_RECV || act->name == SC_JOB_BACKWARD_RECV;

	if (s->variant->pick == PICK_DP)
		return (uint32_t)s->rank->dp_rank == s->variant->which;
	if (s->variant->pick == PICK_STAGE)
		return (uint32_t)s->rank->stage == s->variant->which;
	return s->variant->pick == PICK_OP && act->name - is_recv == s->variant->which;
}

static bool is_changed(const struct setting *s, const struct sc_act *act)
{
	const struct sc_replay_opts *opts = s->study->opts;
	struct sc_replay_subject subject;

	if (s->variant->pick != PICK_CHANGED)
		return is_picked(s, act);
	subject = act_subject(s, act);
	for (size_t i = 0; i < opts->n_changes; i++)
		if (sc_selector_match(&opts->changes[i].selector, &subject))
			return true;
	return false;
}

/* ---- nodes ---- */

/* A latency may be the host's; a wait that nothing explains is not. A job's timeline has the host's
 * work in gaps. */
static bool is_host_latency(const struct setting *s, double us)
{
	return us <= sc_ns_us(SC_TRACE_LATENCY_NS) || s->study->run.n_replicas;
}

static void set_call(const struct setting *s, uint32_t c, bool tail, struct sc_cost *cost)
{
	const struct sc_call *call = &s->rank->calls.at[c];
	struct sc_replay_subject subject =
		subject_of(s, SC_REPLAY_HOST, sc_trace_run_name(&s->study->run, call->name), NULL);
	const enum replay_times times = s->variant->gaps;
	const struct replay_pair now =
		times < TIMES_MEASURED ? s->study->medians[s->rank_idx].calls[times][c]
		: times == TIMES_ZERO  ? (struct replay_pair){0, 0}
				       : (struct replay_pair){call->gap_us, call->tail_us};

	/* A host that sees room late loses nothing where it need not wait. */
	if (tail && call->kind == SC_CALL_QUEUED)
		cost->latency_us = s->follow ? 0 : (double)call->tail_us;
	else if (tail)
		cost->latency_us = (double)now.work_us;
	else
		cost->latency_us = (double)now.gap_us * as_others(s, s->study->host_slowness);
	subject.range = call->range;
	if (!tail)
		cost->latency_us *= scale_of_work(s, subject, call);
	else if (is_host_latency(s, cost->latency_us))
		cost->latency_us *= scale_of(s, &subject);
}

static double gap_now(const struct setting *s, uint32_t a)
{
	const struct sc_replay_subject subject = subject_of(s, SC_REPLAY_HOST, "launch", NULL);
	const enum replay_times times = s->variant->gaps;
	const float us = times < TIMES_MEASURED
				 ? s->study->medians[s->rank_idx].acts[times][a].gap_us
				 : s->rank->acts.at[a].gap_us;

	if (times == TIMES_ZERO)
		return 0;
	return is_host_latency(s, (double)us) && !sc_act_in_graph(s->rank, a)
		       ? (double)us * scale_of(s, &subject)
		       : (double)us;
}

static double work_now(const struct setting *s, uint32_t a)
{
	const struct sc_act *act = &s->rank->acts.at[a];
	const double measured = sc_trace_act_work_us(&s->study->run, s->rank, act);
	const enum replay_times times = s->variant->work;

	if (is_picked(s, act))
		return measured;
	return change_work(s, act,
			   times < TIMES_MEASURED
				   ? (double)s->study->medians[s->rank_idx].acts[times][a].work_us
			   : times == TIMES_MEAN ? s->study->mean_us[act->name]
						 : measured);
}

/* Sets what the iteration before left to run: as its replay did; what that does not know as
 * recorded, with the changes. */
static void set_carried(const struct setting *s, uint32_t act, struct lane_left *lane,
			struct sc_cost *cost)
{
	const struct replay_follow *v = s->follow;
	const struct replay_left key = {.rank = (uint32_t)s->rank_idx, .act = act};
	const struct replay_left *left = NULL;

	if (v->left.n)
		left = bsearch(&key, v->left.at, v->left.n, sizeof(key), sc_trace_compare_pair);
	if (left) {
		cost->latency_us = 0;
		cost->work_us = fmax(0, left->us - lane->us);
	} else {
		const struct sc_act *a = &s->rank->acts.at[act];
		const struct sc_trace_rest rest = sc_trace_act_rest(
			s->rank, s->rank->iterations.at[s->iteration].begin, a, lane->act);

		cost->latency_us = v->behind_frac * rest.gap_us;
		cost->work_us = v->behind_frac * change_work(s, a, rest.work_us);
	}
	lane->us += sc_cost_alone_us(cost);
	lane->act = act;
}

/* A collective takes the shortest that a member says; of those that a change names, if any. */
static void set_member(const struct setting *s, uint32_t act, uint32_t group, struct sc_cost *cost)
{
	const bool changed = is_changed(s, &s->rank->acts.at[act]);
	const double us = work_now(s, act);

	if (changed && !s->changed[group])
		cost->work_us = us;
	else if (changed == s->changed[group])
		cost->work_us = fmin(cost->work_us, us);
	s->changed[group] = s->changed[group] || changed;
}

static void set_node_cost(struct setting *s, uint32_t node, struct sc_trace_graph *g)
{
	const struct sc_trace_node *ref = &g->refs.at[node];
	struct sc_cost *cost = &g->graph.costs.at[g->graph.nodes.at[node].cost];
	uint32_t group = g->graph.nodes.at[node].group;

	s->rank_idx = sc_graph_class_of(&g->graph, node);
	s->rank = &s->study->run.ranks.at[s->rank_idx];
	switch (ref->kind) {
	case SC_TRACE_NODE_CALL:
		set_call(s, ref->index, false, cost);
		break;
	case SC_TRACE_NODE_SYNC:
		set_call(s, ref->index, true, cost);
		break;
	case SC_TRACE_NODE_ACT:
		if (s->rank->acts.at[ref->index].launch != SC_NONE)
			cost->latency_us = gap_now(s, ref->index);
		if (group == SC_NONE)
			cost->work_us = work_now(s, ref->index);
		else
			set_member(s, ref->index, group,
				   &g->graph.costs.at[g->graph.groups.at[group].cost]);
		break;
	case SC_TRACE_NODE_CARRIED:
		if (s->follow)
			set_carried(s, ref->index, &s->lanes[g->graph.nodes.at[node].lane], cost);
		break;
	default: /* the begin as it was */
		break;
	}
}

static void set_all(const struct replay_at *at, const struct replay_variant *variant,
		    struct sc_trace_graph *graph)
{
	const struct replay_study *study = at->study;
	struct setting s = {.study = study,
			    .variant = variant,
			    .follow = at->v == V_OTHERS ? NULL : &study->follow[at->v],
			    .iteration = at->iteration};

	for (size_t i = 0; i < graph->graph.groups.n; i++)
		graph->graph.costs.at[graph->graph.groups.at[i].cost].work_us = INFINITY;
	s.lanes = sc_xmalloc((graph->graph.lanes.n + 1) * sizeof(*s.lanes));
	s.changed = sc_xcalloc(graph->graph.groups.n + 1, sizeof(*s.changed));
	for (size_t i = 0; i < graph->graph.lanes.n; i++)
		s.lanes[i] = (struct lane_left){.act = SC_NONE};
	for (uint32_t i = 0; i < graph->graph.nodes.n; i++)
		set_node_cost(&s, i, graph);
	free(s.lanes);
	free(s.changed);
}

/* A wait without a known cause follows what is changed, by its factor; without a change it is none.
 */
static void free_unexplained(struct sc_trace_graph *graph, const struct sc_cost *reference)
{
	struct sc_cost *costs = graph->graph.costs.at;
	double before_us = 0, after_us = 0, factor;

	for (size_t i = 0; i < graph->graph.costs.n; i++) {
		const double was_us = sc_cost_alone_us(&reference[i]);
		const double is_us = sc_cost_alone_us(&costs[i]);

		if (fabs(is_us - was_us) <= LEAST_CHANGE * was_us)
			continue;
		before_us += was_us;
		after_us += is_us;
	}
	factor = before_us > 0 ? after_us / before_us : 0;
	for (size_t i = 0; i < graph->graph.costs.n; i++)
		if (costs[i].gap == SC_GAP_UNEXPLAINED)
			costs[i].latency_us *= factor;
}

void sc_replay_set(const struct replay_at *at, struct sc_trace_graph *graph)
{
	const size_t bytes = graph->graph.costs.n * sizeof(struct sc_cost);
	struct sc_cost *reference;

	if (at->v != V_FREE && at->v != V_EXPLAINED) {
		set_all(at, at->variant, graph);
		return;
	}
	reference = sc_xmalloc(bytes + 1);
	set_all(at, &at->study->variants.at[V_REFERENCE], graph);
	memcpy(reference, graph->graph.costs.at, bytes);
	set_all(at, at->variant, graph);
	if (at->v == V_EXPLAINED)
		memcpy(reference, graph->graph.costs.at, bytes);
	free_unexplained(graph, reference);
	free(reference);
}

unsigned sc_replay_matches(const struct replay_study *study, const struct sc_selector *selector)
{
	unsigned kinds = 0;

	for (size_t r = 0; r < study->run.ranks.n; r++)
		for (size_t i = 0; i < study->run.n_iterations; i++) {
			const struct setting s = {.study = study,
						  .iteration = i,
						  .rank_idx = r,
						  .rank = &study->run.ranks.at[r]};
			const struct sc_trace_iteration *it = &s.rank->iterations.at[i];
			struct sc_replay_subject subject =
				subject_of(&s, SC_REPLAY_HOST, "launch", NULL);

			if (sc_selector_match(selector, &subject))
				kinds |= 1u << SC_REPLAY_HOST;
			for (uint32_t c = it->begin; c <= it->end; c++) {
				const struct sc_call *call = &s.rank->calls.at[c];

				subject.name = sc_trace_run_name(&study->run, call->name);
				subject.range = call->range;
				if (sc_selector_match(selector, &subject))
					kinds |= 1u << SC_REPLAY_HOST;
				for (uint32_t p = 0; p < call->n_pieces; p++) {
					subject.range =
						s.rank->pieces.at[call->first_piece + p].range;
					if (sc_selector_match(selector, &subject))
						kinds |= 1u << SC_REPLAY_HOST;
				}
			}
			for (uint32_t a = it->first_act; a < it->end_act; a++) {
				subject = act_subject(&s, &s.rank->acts.at[a]);
				if (sc_selector_match(selector, &subject))
					kinds |= 1u << subject.kind;
			}
		}
	return kinds;
}
