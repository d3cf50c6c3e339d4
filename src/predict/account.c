/* The idle time of a class is a list of stretches, which starts as the whole iteration. Each kind of thing a
 * GPU can do takes from it what it explains, the most telling kind first. */
#include "predict/account.h"

#include <math.h>
#include <string.h>

void sc_accountant_release(struct sc_accountant *a)
{
	SC_VEC_RELEASE(&a->lane_start);
	SC_VEC_RELEASE(&a->node);
	SC_VEC_RELEASE(&a->class_start);
	SC_VEC_RELEASE(&a->lane);
	SC_VEC_RELEASE(&a->lane_use);
	SC_VEC_RELEASE(&a->launched_us);
	SC_VEC_RELEASE(&a->idle);
	SC_VEC_RELEASE(&a->left);
	SC_VEC_RELEASE(&a->doing);
	SC_VEC_RELEASE(&a->merged);
	SC_VEC_RELEASE(&a->runs);
}

/* ---- nodes by lane, lanes by class ---- */

/* Turns counts, one place on, into starts. */
static void add_up(uint32_t *start, size_t n)
{
	for (size_t i = 0; i < n; i++)
		start[i + 1] += start[i];
}

static void sort_lanes(struct sc_accountant *a, const struct sc_graph *g)
{
	const size_t n = g->classes.n;
	uint32_t *start;

	SC_VEC_RESERVE(&a->class_start, n + 2);
	SC_VEC_RESERVE(&a->lane, g->lanes.n + 1);
	start = a->class_start.at;
	memset(start, 0, (n + 2) * sizeof(*start));
	for (size_t i = 0; i < g->lanes.n; i++)
		start[g->lanes.at[i].class_id + 2]++;
	add_up(start + 1, n);
	for (uint32_t i = 0; i < g->lanes.n; i++)
		a->lane.at[start[g->lanes.at[i].class_id + 1]++] = i;
}

static void sort_nodes(struct sc_accountant *a, const struct sc_graph *g)
{
	const size_t n = g->lanes.n;
	uint32_t *start;

	SC_VEC_RESERVE(&a->lane_start, n + 2);
	SC_VEC_RESERVE(&a->node, g->nodes.n + 1);
	start = a->lane_start.at;
	memset(start, 0, (n + 2) * sizeof(*start));
	for (size_t i = 0; i < g->nodes.n; i++)
		start[g->nodes.at[i].lane + 2]++;
	add_up(start + 1, n);
	for (uint32_t i = 0; i < g->nodes.n; i++)
		a->node.at[start[g->nodes.at[i].lane + 1]++] = i;
}

/* ---- what a node does when ---- */

struct span {
	double from_us, to_us;
};
struct view {
	const struct sc_account_input *in;
	const struct sc_node *node;
	const struct sc_cost *cost; /* of the node itself */
	uint32_t id;
};

static bool is_member(const struct view *v)
{
	return v->node->group != SC_NONE;
}

/* Members of groups, and collectives of which one rank alone was recorded. */
static bool is_comm(const struct view *v)
{
	return is_member(v) || v->cost->owner_frac[SC_OWN_COMM] >= 1;
}

static double gap_us(const struct view *v)
{
	return v->cost->gap != SC_GAP_NONE ? v->cost->latency_us : 0;
}

static struct span work_of(const struct view *v)
{
	const struct sc_timeline *tl = v->in->timeline;

	return (struct span){tl->start_us[v->id] + (is_member(v) ? 0 : gap_us(v)),
			     tl->end_us[v->id]};
}

static struct span wait_of(const struct view *v, enum sc_wait wait)
{
	const struct sc_timeline *tl = v->in->timeline;
	const double from_us = tl->ready_us[v->id], to_us = tl->start_us[v->id];

	if (!is_member(v) || !(to_us > from_us) || v->in->wait(v->in->ctx, v->id) != wait)
		return (struct span){0, 0};
	return (struct span){from_us, to_us};
}

static struct span kernel(const struct view *v)
{
	return is_comm(v) || v->node->kind == SC_NODE_COPY ? (struct span){0, 0} : work_of(v);
}

static struct span copy(const struct view *v)
{
	return is_comm(v) || v->node->kind != SC_NODE_COPY ? (struct span){0, 0} : work_of(v);
}

static struct span transfer(const struct view *v)
{
	return is_comm(v) ? work_of(v) : (struct span){0, 0};
}

static struct span stage_wait(const struct view *v)
{
	return wait_of(v, SC_WAIT_STAGE);
}

static struct span peer_wait(const struct view *v)
{
	return wait_of(v, SC_WAIT_PEERS);
}

static struct span posted_wait(const struct view *v)
{
	return wait_of(v, SC_WAIT_POSTED);
}

static struct span host_work(const struct view *v)
{
	return (struct span){v->in->timeline->start_us[v->id], v->in->timeline->end_us[v->id]};
}

static struct span gap_of(const struct view *v, bool explained)
{
	const struct sc_timeline *tl = v->in->timeline;
	const double end_us = is_member(v) ? tl->ready_us[v->id] : tl->start_us[v->id] + gap_us(v);

	if ((v->cost->gap != SC_GAP_UNEXPLAINED) != explained)
		return (struct span){0, 0};
	return (struct span){end_us - gap_us(v), end_us};
}

static struct span explained_gap(const struct view *v)
{
	return gap_of(v, true);
}

static struct span unexplained_gap(const struct view *v)
{
	return gap_of(v, false);
}

/* ---- what a class does of one kind, over all its lanes ---- */

typedef struct span (*span_fn)(const struct view *);

static void collect_lane(struct sc_accountant *a, uint32_t lane, span_fn span_of)
{
	const struct sc_graph *g = a->in->graph;
	const size_t first = a->doing.n;

	for (uint32_t i = a->lane_start.at[lane]; i < a->lane_start.at[lane + 1]; i++) {
		const uint32_t id = a->node.at[i];
		const struct sc_node *node = &g->nodes.at[id];
		const struct view v = {a->in, node, &g->costs.at[node->cost], id};
		const struct span span = span_of(&v);
		const struct sc_doing doing = {span.from_us, span.to_us, id};

		if (span.to_us > span.from_us)
			SC_VEC_PUSH(&a->doing, doing);
	}
	if (a->doing.n > first)
		SC_VEC_PUSH(&a->runs, (uint32_t)first);
}

/* Two runs, each in order, become one. */
static void merge_two(const struct sc_accountant *a, const uint32_t bound[3], struct sc_doing *out)
{
	const struct sc_doing *at = a->doing.at;
	uint32_t i = bound[0], k = bound[1];

	while (i < bound[1] || k < bound[2]) {
		if (k == bound[2] || (i < bound[1] && at[i].from_us <= at[k].from_us))
			*out++ = at[i++];
		else
			*out++ = at[k++];
	}
}

static void swap_doing(struct sc_accountant *a)
{
	struct sc_doing *at = a->doing.at;
	const size_t cap = a->doing.cap;

	a->doing.at = a->merged.at;
	a->doing.cap = a->merged.cap;
	a->merged.at = at;
	a->merged.cap = cap;
}

/* Lanes are in order each: pairs of them are merged until one is left. */
static void merge_lanes(struct sc_accountant *a)
{
	SC_VEC_RESERVE(&a->merged, a->doing.n + 1);
	while (a->runs.n > 1) {
		size_t n = 0;

		for (size_t r = 0; r < a->runs.n; r += 2) {
			const uint32_t end = (uint32_t)a->doing.n, from = a->runs.at[r];
			const uint32_t bound[3] = {from,
						   r + 1 < a->runs.n ? a->runs.at[r + 1] : end,
						   r + 2 < a->runs.n ? a->runs.at[r + 2] : end};

			merge_two(a, bound, &a->merged.at[from]);
			a->runs.at[n++] = from;
		}
		a->runs.n = n;
		swap_doing(a);
	}
}

/* Fills a->doing, in the order of starts. */
static void collect(struct sc_accountant *a, uint32_t class_id, span_fn span_of, bool on_host)
{
	a->doing.n = a->runs.n = 0;
	for (uint32_t i = a->class_start.at[class_id]; i < a->class_start.at[class_id + 1]; i++)
		if ((a->in->graph->lanes.at[a->lane.at[i]].kind == SC_LANE_HOST) == on_host)
			collect_lane(a, a->lane.at[i], span_of);
	merge_lanes(a);
}

/* The time of a list that goes beyond what was counted so far. */
static void count_on(const struct sc_period *period, const struct sc_doing *d, double *until_us,
		     double *us)
{
	if (d->to_us <= *until_us)
		return;
	*us += sc_period_us(period, d->from_us > *until_us ? d->from_us : *until_us, d->to_us);
	*until_us = d->to_us;
}

/* What each lane does, added up. */
static void find_lane_use(struct sc_accountant *a, const struct sc_graph *g)
{
	SC_VEC_RESERVE(&a->lane_use, g->lanes.n + 1);
	memset(a->lane_use.at, 0, (g->lanes.n + 1) * sizeof(*a->lane_use.at));
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const struct sc_node *node = &g->nodes.at[i];
		const struct view v = {a->in, node, &g->costs.at[node->cost], i};
		const struct span work = work_of(&v);
		const double us = sc_period_us(&a->in->period, work.from_us, work.to_us);
		struct sc_use *use = &a->lane_use.at[node->lane];

		if (is_comm(&v))
			use->comm_us += us;
		else
			use->busy_us += us;
	}
}

void sc_accountant_begin(struct sc_accountant *a, const struct sc_account_input *in)
{
	a->in = in;
	a->sum_before = (struct sc_use){.busy_us = -1};
	sort_lanes(a, in->graph);
	sort_nodes(a, in->graph);
	find_lane_use(a, in->graph);
}

static void count_together(struct sc_accountant *a, uint32_t class_id, struct sc_use *out)
{
	const struct sc_graph *g = a->in->graph;
	double busy_until_us = 0, comm_until_us = 0, until_us = 0;

	*out = (struct sc_use){.busy_us = 0};
	collect(a, class_id, work_of, false);
	for (size_t i = 0; i < a->doing.n; i++) {
		const struct sc_doing *d = &a->doing.at[i];
		const struct sc_node *node = &g->nodes.at[d->node];
		const struct view v = {a->in, node, &g->costs.at[node->cost], d->node};

		count_on(&a->in->period, d, &until_us, &out->active_us);
		if (is_comm(&v))
			count_on(&a->in->period, d, &comm_until_us, &out->comm_us);
		else
			count_on(&a->in->period, d, &busy_until_us, &out->busy_us);
	}
}

void sc_use_of_class(struct sc_accountant *a, uint32_t class_id, struct sc_use *out)
{
	int n_used = 0;

	*out = (struct sc_use){.busy_us = 0};
	for (uint32_t i = a->class_start.at[class_id]; i < a->class_start.at[class_id + 1]; i++) {
		const struct sc_use *use = &a->lane_use.at[a->lane.at[i]];

		if (a->in->graph->lanes.at[a->lane.at[i]].kind == SC_LANE_HOST ||
		    !(use->busy_us + use->comm_us > 0))
			continue;
		out->comm_us += use->comm_us;
		out->busy_us += use->busy_us;
		n_used++;
	}
	out->active_us = out->busy_us + out->comm_us;
	if (n_used < 2)
		return;
	if (out->busy_us != a->sum_before.busy_us || out->comm_us != a->sum_before.comm_us) {
		a->sum_before = *out;
		count_together(a, class_id, &a->use_before);
	}
	*out = a->use_before;
}

/* ---- taking ---- */

enum claim { OF_PART, OF_COST, OF_GAP };
/* A kind of thing that explains idle time. */
struct explanation {
	span_fn span;
	enum sc_part part;
	enum claim claim;
	enum sc_owner owner; /* OF_PART */
	bool computes;       /* what is idle before it waits for it */
	bool on_host;        /* takes only time before what comes next is launched */
};
/* In this order. */
static const struct explanation EXPLANATIONS[] = {
	{.span = kernel, .part = SC_PART_COMPUTE, .claim = OF_COST, .computes = true},
	{.span = copy, .part = SC_PART_MEMORY, .claim = OF_COST, .computes = true},
	{.span = transfer, .part = SC_PART_COMM, .claim = OF_COST},
	{.span = stage_wait, .part = SC_PART_PIPELINE, .owner = SC_OWN_BUBBLE},
	{.span = peer_wait, .part = SC_PART_PEERS, .owner = SC_OWN_PEER},
	{.span = explained_gap, .part = SC_PART_HOST, .claim = OF_GAP},
	{.span = host_work, .part = SC_PART_HOST, .owner = SC_OWN_HOST, .on_host = true},
	{.span = posted_wait, .part = SC_PART_PIPELINE, .owner = SC_OWN_BUBBLE},
	{.span = unexplained_gap, .part = SC_PART_HOST, .claim = OF_GAP},
};
enum { N_EXPLANATIONS = sizeof(EXPLANATIONS) / sizeof(EXPLANATIONS[0]) };

struct taking {
	struct sc_accountant *a;
	const struct explanation *by;
	struct sc_account *out;
	size_t at; /* in a->idle */
};

static void own_cost(const struct sc_cost *cost, double us, double *owner_us)
{
	double rest = 1;

	for (int o = 0; o < SC_N_OWNERS; o++) {
		owner_us[o] += us * cost->owner_frac[o];
		rest -= cost->owner_frac[o];
	}
	owner_us[SC_OWN_OTHER] += us * rest;
}

static void own(const struct taking *t, const struct view *v, double us)
{
	const struct sc_graph *g = v->in->graph;
	const bool of_host = t->by->claim == OF_COST && v->cost->owner_frac[SC_OWN_HOST] >= 1;

	t->out->part_us[of_host ? SC_PART_HOST : t->by->part] += us;
	if (t->by->claim == OF_PART)
		t->out->owner_us[t->by->owner] += us;
	else if (t->by->claim == OF_GAP)
		t->out->owner_us[sc_gap_owner((enum sc_gap)v->cost->gap)] += us;
	else
		own_cost(is_member(v) ? &g->costs.at[g->groups.at[v->node->group].cost] : v->cost,
			 us, t->out->owner_us);
}

static void keep(struct sc_accountant *a, double from_us, double to_us, uint32_t next)
{
	const struct sc_idle idle = {from_us, to_us, next};

	if (to_us > from_us)
		SC_VEC_PUSH(&a->left, idle);
}

static bool is_launched(const struct sc_accountant *a, const struct sc_idle *idle)
{
	return idle->next == SC_NONE || a->launched_us.at[idle->next] < idle->to_us;
}

static void own_doing(const struct taking *t, const struct sc_doing *doing, double us)
{
	const struct sc_graph *g = t->a->in->graph;
	const struct sc_node *node = &g->nodes.at[doing->node];
	const struct view v = {t->a->in, node, &g->costs.at[node->cost], doing->node};

	own(t, &v, us);
}

/* What is done and the idle stretches come in the order of time. */
static void take(struct taking *t, const struct sc_doing *doing)
{
	struct sc_accountant *a = t->a;

	for (; t->at < a->idle.n; t->at++) {
		struct sc_idle *idle = &a->idle.at[t->at];
		const double from_us = fmax(doing->from_us, idle->from_us);
		const double to_us = fmin(doing->to_us, idle->to_us);
		const bool takes = to_us > from_us && !(t->by->on_host && is_launched(a, idle));

		if (idle->from_us >= doing->to_us)
			return;
		if (takes) {
			keep(a, idle->from_us, from_us, t->by->computes ? doing->node : idle->next);
			own_doing(t, doing, sc_period_us(&a->in->period, from_us, to_us));
			idle->from_us = to_us;
		}
		if (idle->to_us > doing->to_us)
			return;
		if (!takes)
			keep(a, idle->from_us, idle->to_us, idle->next);
	}
}

static void swap_idle(struct sc_accountant *a)
{
	struct sc_idle *at = a->idle.at;
	const size_t cap = a->idle.cap;

	a->idle.at = a->left.at;
	a->idle.n = a->left.n;
	a->idle.cap = a->left.cap;
	a->left.at = at;
	a->left.cap = cap;
	a->left.n = 0;
}

/* Takes from the idle time of a class what is done of a kind. */
static void take_kind(struct sc_accountant *a, uint32_t class_id, const struct explanation *by,
		      struct sc_account *out)
{
	struct taking t = {a, by, out, 0};

	if (!a->idle.n)
		return;
	collect(a, class_id, by->span, by->on_host);
	if (!a->doing.n)
		return;
	for (size_t i = 0; i < a->doing.n && t.at < a->idle.n; i++)
		take(&t, &a->doing.at[i]);
	for (; t.at < a->idle.n; t.at++)
		keep(a, a->idle.at[t.at].from_us, a->idle.at[t.at].to_us, a->idle.at[t.at].next);
	swap_idle(a);
}

/* ---- what no node of the device explains ---- */

static void give(struct sc_accountant *a, struct span span, enum sc_part part, enum sc_owner owner,
		 struct sc_account *out)
{
	const double us = sc_period_us(&a->in->period, span.from_us, span.to_us);

	out->part_us[part] += us;
	out->owner_us[owner] += us;
}

/* What a node of the host lets start. */
static void launch(struct sc_accountant *a, uint32_t node)
{
	const struct sc_graph *g = a->in->graph;

	for (uint32_t k = g->succ_start[node]; k < g->succ_start[node + 1]; k++) {
		double *us = &a->launched_us.at[g->succ[k]];

		*us = fmax(*us, a->in->timeline->end_us[node]);
	}
}

/* When the host let each node of the class start. */
static void find_launches(struct sc_accountant *a, uint32_t class_id)
{
	const struct sc_graph *g = a->in->graph;
	const uint32_t first = a->class_start.at[class_id], end = a->class_start.at[class_id + 1];

	SC_VEC_RESERVE(&a->launched_us, g->nodes.n + 1);
	for (uint32_t i = first; i < end; i++)
		for (uint32_t k = a->lane_start.at[a->lane.at[i]];
		     k < a->lane_start.at[a->lane.at[i] + 1]; k++)
			a->launched_us.at[a->node.at[k]] = 0;
	for (uint32_t i = first; i < end; i++)
		for (uint32_t k = a->lane_start.at[a->lane.at[i]];
		     k < a->lane_start.at[a->lane.at[i] + 1] &&
		     g->lanes.at[a->lane.at[i]].kind == SC_LANE_HOST;
		     k++)
			launch(a, a->node.at[k]);
}

/* Until it is launched what comes next waits for the host, if that works. */
static void split_at_launch(struct sc_accountant *a)
{
	for (size_t i = 0; i < a->idle.n; i++) {
		const struct sc_idle *idle = &a->idle.at[i];
		double at_us = idle->next == SC_NONE ? 0 : a->launched_us.at[idle->next];

		at_us = fmin(fmax(at_us, idle->from_us), idle->to_us);
		keep(a, idle->from_us, at_us, idle->next);
		keep(a, at_us, idle->to_us, idle->next);
	}
	swap_idle(a);
}

/* Before it begins and after it ends a class is done; between, only its host can keep it. */
static void take_rest(struct sc_accountant *a, uint32_t class_id, struct sc_account *out)
{
	const struct sc_account_input *in = a->in;
	const enum sc_owner others = in->staged ? SC_OWN_BUBBLE : SC_OWN_PEER;
	const double begin_us = in->begin_us ? in->begin_us[class_id] : in->period.from_us;

	for (size_t i = 0; i < a->idle.n; i++) {
		const struct sc_idle *idle = &a->idle.at[i];
		const double end_us = in->end_us              ? in->end_us[class_id]
				      : idle->next == SC_NONE ? idle->from_us
							      : in->period.to_us;
		const double from_us = fmin(fmax(idle->from_us, begin_us), idle->to_us);
		const double to_us = fmax(fmin(idle->to_us, end_us), from_us);

		give(a, (struct span){idle->from_us, from_us}, SC_PART_DONE, others, out);
		give(a, (struct span){from_us, to_us}, SC_PART_HOST, SC_OWN_HOST, out);
		give(a, (struct span){to_us, idle->to_us}, SC_PART_DONE, others, out);
	}
}

static void idle_all(struct sc_accountant *a)
{
	a->idle.n = a->left.n = 0;
	keep(a, a->in->period.from_us, a->in->period.to_us, SC_NONE);
	swap_idle(a);
}

void sc_account_of_class(struct sc_accountant *a, uint32_t class_id, struct sc_account *out)
{
	memset(out, 0, sizeof(*out));
	idle_all(a);
	for (size_t i = 0; i < N_EXPLANATIONS; i++) {
		if (EXPLANATIONS[i].on_host && a->idle.n) {
			find_launches(a, class_id);
			split_at_launch(a);
		}
		take_kind(a, class_id, &EXPLANATIONS[i], out);
	}
	take_rest(a, class_id, out);
}

void sc_add_late(const struct sc_graph *graph, const struct sc_timeline *timeline, double *late_us)
{
	for (uint32_t i = 0; i < graph->nodes.n; i++) {
		const uint32_t by = timeline->bound_by[i];

		if (timeline->reason[i] == SC_BY_PEER && by != SC_NONE)
			late_us[sc_graph_class_of(graph, by)] +=
				timeline->start_us[i] - timeline->ready_us[i];
	}
}
