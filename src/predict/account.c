/* The idle time of a class is a list of stretches, which starts as the whole iteration. Each kind
 * of thing a GPU can do takes from it what it explains, the most telling kind first. Lanes are in
 * order of time, each kind for itself: the runs of a kind are merged only when it is asked for. */
#include "predict/account.h"

#include <string.h>

static inline double least(double a, double b)
{
	return a < b ? a : b;
}

static inline double most(double a, double b)
{
	return a > b ? a : b;
}

static void doings_clear(struct sc_doings *d, int first)
{
	for (int k = first; k < SC_N_DOINGS; k++)
		d->kinds[k].all.n = d->kinds[k].runs.n = d->kinds[k].n_in_runs = 0;
}

static inline void doing_put(struct sc_doings *d, int kind, struct sc_doing doing)
{
	if (doing.to_us > doing.from_us)
		SC_VEC_PUSH(&d->kinds[kind].all, doing);
}

/* Ends a run: all that was put since the lane before. */
static void end_lane(struct sc_doings *d)
{
	for (int k = 0; k < SC_N_DOINGS; k++) {
		struct sc_doing_list *list = &d->kinds[k];

		if (list->all.n > list->n_in_runs)
			SC_VEC_PUSH(&list->runs, (uint32_t)list->n_in_runs);
		list->n_in_runs = list->all.n;
	}
}

static inline double gap_us(const struct sc_cost *cost)
{
	return cost->gap != SC_GAP_NONE ? cost->latency_us : 0;
}

/* Returns what a node does: it transfers if it is a member of a group, or a collective of which one
 * rank alone was recorded. */
static inline enum sc_doing_kind find_doing(const struct sc_ran *ran, uint32_t id,
					    struct sc_doing *out)
{
	const struct sc_node *node = &ran->graph->nodes.at[id];
	const struct sc_cost *cost = &ran->graph->costs.at[node->cost];

	*out = (struct sc_doing){ran->timeline->start_us[id], ran->timeline->end_us[id], id};
	if (node->group != SC_NONE)
		return SC_DOES_TRANSFER;
	out->from_us += gap_us(cost);
	if (cost->owner_frac[SC_OWN_COMM] >= 1)
		return SC_DOES_TRANSFER;
	return node->kind == SC_NODE_COPY ? SC_DOES_COPY : SC_DOES_COMPUTE;
}

static void put_work(struct sc_doings *d, const struct sc_ran *ran, uint32_t id)
{
	struct sc_doing work;
	const enum sc_doing_kind kind = find_doing(ran, id, &work);

	doing_put(d, kind, work);
}

/* ---- the starts on each class of a graph that is read again with other costs ---- */

/* Lists, by class, its nodes off the host: where each class's begin, then the nodes. */
static void starts_make(const struct sc_graph *g, struct sc_graph_notes *notes)
{
	const uint32_t n = (uint32_t)g->classes.n;

	SC_VEC_RESERVE(&notes->starts, n + 1 + g->nodes.n);
	notes->starts.n = n + 1;
	for (uint32_t c = 0; c <= n; c++) {
		notes->starts.at[c] = (uint32_t)notes->starts.n;
		for (uint32_t i = 0; i < g->nodes.n; i++)
			if (sc_graph_class_of(g, i) == c &&
			    g->lanes.at[g->nodes.at[i].lane].kind != SC_LANE_HOST)
				SC_VEC_PUSH(&notes->starts, i);
	}
}

/* Says whether one of two nodes begins first, by its lane where both begin together. No work of a
 * kept graph has a gap before it, so this is the order of what they do. */
static inline bool begins_before(const struct sc_ran *ran, uint32_t a, uint32_t b)
{
	const double a_us = ran->timeline->start_us[a], b_us = ran->timeline->start_us[b];
	const struct sc_node *nodes = ran->graph->nodes.at;

	if (a_us < b_us || a_us > b_us)
		return a_us < b_us;
	return nodes[a].lane != nodes[b].lane ? nodes[a].lane < nodes[b].lane : a < b;
}

/* Orders the nodes of a class by their starts, in which neighbours of a sweep do nearly all. */
static void starts_sort(const struct sc_ran *ran, uint32_t *at, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		const uint32_t id = at[i];
		uint32_t k = i;

		for (; k > 0 && begins_before(ran, id, at[k - 1]); k--)
			at[k] = at[k - 1];
		at[k] = id;
	}
}

/* Collects what a class of that graph computes, copies and transfers. */
static void doings_work(struct sc_doings *d, const struct sc_ran *ran, uint32_t class_id)
{
	const struct sc_graph *g = ran->graph;
	const struct sc_timeline *tl = ran->timeline;

	doings_clear(d, 0);
	d->class_id = class_id;
	if (g->notes) {
		const uint32_t *starts = g->notes->starts.at;

		for (uint32_t i = starts[class_id]; i < starts[class_id + 1]; i++)
			put_work(d, ran, starts[i]);
		end_lane(d);
		return;
	}
	for (uint32_t i = d->class_start.at[class_id]; i < d->class_start.at[class_id + 1]; i++) {
		if (g->lanes.at[d->lane.at[i]].kind == SC_LANE_HOST)
			continue;
		for (uint32_t id = g->lane_first[d->lane.at[i]]; id != SC_NONE;
		     id = g->lane_next[id])
			if (tl->end_us[id] > tl->start_us[id])
				put_work(d, ran, id);
		end_lane(d);
	}
}

static void put_waits(struct sc_doings *d, const struct sc_ran *ran, uint32_t id)
{
	const struct sc_node *node = &ran->graph->nodes.at[id];
	const struct sc_cost *cost = &ran->graph->costs.at[node->cost];
	const bool is_member = node->group != SC_NONE;
	const double ready_us = ran->timeline->ready_us[id], start_us = ran->timeline->start_us[id];
	const double gap_end_us = is_member ? ready_us : start_us + gap_us(cost);

	if (is_member && start_us > ready_us)
		doing_put(d,
			  SC_DOES_WAIT + (ran->wait ? (int)ran->wait(ran->ctx, id) : SC_WAIT_PEERS),
			  (struct sc_doing){ready_us, start_us, id});
	doing_put(d, cost->gap == SC_GAP_UNEXPLAINED ? SC_DOES_NOTHING : SC_DOES_GAP,
		  (struct sc_doing){gap_end_us - gap_us(cost), gap_end_us, id});
}

static void put_host(struct sc_doings *d, const struct sc_ran *ran, uint32_t id)
{
	doing_put(d, SC_DOES_HOST,
		  (struct sc_doing){ran->timeline->start_us[id], ran->timeline->end_us[id], id});
}

/* Collects the waits of the class, its gaps and what its host does. */
static void doings_waits(struct sc_doings *d, const struct sc_ran *ran, uint32_t class_id)
{
	const struct sc_graph *g = ran->graph;

	doings_clear(d, SC_N_WORKS);
	for (uint32_t i = d->class_start.at[class_id]; i < d->class_start.at[class_id + 1]; i++) {
		const uint32_t lane = d->lane.at[i];
		const bool on_host = g->lanes.at[lane].kind == SC_LANE_HOST;

		for (uint32_t id = g->lane_first[lane]; id != SC_NONE; id = g->lane_next[id])
			(on_host ? put_host : put_waits)(d, ran, id);
		end_lane(d);
	}
}

/* Merges two runs, each of which is in order. */
static void merge_two(const struct sc_doing *at, const uint32_t bound[3], struct sc_doing *out)
{
	uint32_t i = bound[0], k = bound[1];

	while (i < bound[1] && k < bound[2])
		*out++ = at[i].from_us <= at[k].from_us ? at[i++] : at[k++];
	memcpy(out, &at[i], (bound[1] - i) * sizeof(*out));
	memcpy(out + (bound[1] - i), &at[k], (bound[2] - k) * sizeof(*out));
}

/* Returns one kind in the order of time, borrowed until the next class. */
static const struct sc_doing_list *doings_in_order(struct sc_doings *d, enum sc_doing_kind kind)
{
	struct sc_doing_list *list = &d->kinds[kind];
	const uint32_t end = (uint32_t)list->all.n;

	while (list->runs.n > 1) {
		size_t n = 0;

		SC_VEC_RESERVE(&d->merged, list->all.n);
		for (size_t r = 0; r < list->runs.n; r += 2) {
			const uint32_t from = list->runs.at[r];
			const uint32_t bound[3] = {
				from, r + 1 < list->runs.n ? list->runs.at[r + 1] : end,
				r + 2 < list->runs.n ? list->runs.at[r + 2] : end};

			merge_two(list->all.at, bound, &d->merged.at[from]);
			list->runs.at[n++] = from;
		}
		list->runs.n = n;
		/* The merged runs take the place of the list, which is the next scratch. */
		struct sc_doing *const at = list->all.at;
		const size_t cap = list->all.cap;

		list->all.at = d->merged.at;
		list->all.cap = d->merged.cap;
		d->merged.at = at;
		d->merged.cap = cap;
	}
	return list;
}

void sc_accountant_release(struct sc_accountant *a)
{
	for (int k = 0; k < SC_N_DOINGS; k++) {
		SC_VEC_RELEASE(&a->doings.kinds[k].all);
		SC_VEC_RELEASE(&a->doings.kinds[k].runs);
	}
	SC_VEC_RELEASE(&a->doings.merged);
	SC_VEC_RELEASE(&a->doings.class_start);
	SC_VEC_RELEASE(&a->doings.lane);
	SC_VEC_RELEASE(&a->launched_us);
	SC_VEC_RELEASE(&a->idle);
	SC_VEC_RELEASE(&a->left);
}

void sc_accountant_begin(struct sc_accountant *a, const struct sc_account_input *in)
{
	a->in = in;
	/* The lanes of a sealed graph are sorted by class. */
	const size_t n = in->ran.graph->classes.n;
	uint32_t *start;

	SC_VEC_RESERVE(&a->doings.class_start, n + 2);
	SC_VEC_RESERVE(&a->doings.lane, in->ran.graph->lanes.n + 1);
	start = a->doings.class_start.at;
	memset(start, 0, (n + 2) * sizeof(*start));
	for (size_t i = 0; i < in->ran.graph->lanes.n; i++)
		start[in->ran.graph->lanes.at[i].class_id + 2]++;
	for (size_t i = 1; i < n; i++)
		start[i + 1] += start[i];
	for (uint32_t i = 0; i < in->ran.graph->lanes.n; i++)
		a->doings.lane.at[start[in->ran.graph->lanes.at[i].class_id + 1]++] = i;
	a->doings.class_id = SC_NONE;
	if (!in->ran.graph->notes)
		return;
	if (!in->ran.graph->notes->starts.n)
		starts_make(in->ran.graph, in->ran.graph->notes);
	start = in->ran.graph->notes->starts.at;
	for (size_t c = 0; c < n; c++)
		starts_sort(&in->ran, start + start[c], start[c + 1] - start[c]);
}

static void find_period(struct sc_accountant *a, uint32_t class_id)
{
	a->period = a->in->period;
	if (a->in->own)
		a->period.repeats = a->in->own + class_id * a->period.n_repeats;
}

static void find_work(struct sc_accountant *a, uint32_t class_id)
{
	find_period(a, class_id);
	if (a->doings.class_id != class_id)
		doings_work(&a->doings, &a->in->ran, class_id);
}

/* ---- how long a class does something ---- */

/* Adds the part of a doing that lies beyond what was counted so far. */
static inline void count_on(const struct sc_period *period, const struct sc_doing *d,
			    double *until_us, double *us)
{
	if (d->to_us <= *until_us)
		return;
	*us += sc_period_us(period, most(d->from_us, *until_us), d->to_us);
	*until_us = d->to_us;
}

void sc_use_of_class(struct sc_accountant *a, uint32_t class_id, struct sc_use *out)
{
	static const enum sc_doing_kind kinds[3] = {SC_DOES_TRANSFER, SC_DOES_COMPUTE,
						    SC_DOES_COPY};
	double busy_until_us = 0, comm_until_us = 0, until_us = 0;
	const struct sc_period *period = &a->period;
	const struct sc_doing_list *lists[3];
	size_t next[3] = {0};

	find_work(a, class_id);
	*out = (struct sc_use){.busy_us = 0};
	for (int k = 0; k < 3; k++)
		lists[k] = doings_in_order(&a->doings, kinds[k]);
	for (;;) {
		const struct sc_doing *d = NULL;
		int k = 0;

		/* The doing that begins first is counted next. */
		for (int i = 0; i < 3; i++)
			if (next[i] < lists[i]->all.n &&
			    (!d || lists[i]->all.at[next[i]].from_us < d->from_us)) {
				d = &lists[i]->all.at[next[i]];
				k = i;
			}
		if (!d)
			return;
		next[k]++;
		count_on(period, d, &until_us, &out->active_us);
		if (kinds[k] == SC_DOES_TRANSFER)
			count_on(period, d, &comm_until_us, &out->comm_us);
		else
			count_on(period, d, &busy_until_us, &out->busy_us);
	}
}

double sc_active_of_class_us(struct sc_accountant *a, uint32_t class_id)
{
	const struct sc_ran *ran = &a->in->ran;
	const double *start_us = ran->timeline->start_us, *end_us = ran->timeline->end_us;
	double us = 0, from_us = 0, to_us = 0;
	const uint32_t *starts = ran->graph->notes->starts.at;

	find_period(a, class_id);
	for (uint32_t i = starts[class_id]; i < starts[class_id + 1]; i++) {
		const double start = start_us[starts[i]], end = end_us[starts[i]];

		if (end <= start)
			continue;
		if (start > to_us) {
			us += sc_period_us(&a->period, from_us, to_us);
			from_us = start;
		}
		to_us = most(to_us, end);
	}
	return us + sc_period_us(&a->period, from_us, to_us);
}

double sc_comm_of_class_us(struct sc_accountant *a, uint32_t class_id)
{
	const struct sc_graph *g = a->in->ran.graph;
	const struct sc_doing_list *list = &a->doings.kinds[SC_DOES_COMPUTE];
	struct sc_use use;
	double us;

	sc_use_of_class(a, class_id, &use);
	us = use.comm_us;
	for (size_t i = 0; i < list->all.n; i++) {
		const struct sc_doing *d = &list->all.at[i];
		const struct sc_cost *cost = &g->costs.at[g->nodes.at[d->node].cost];

		us += (cost->owner_frac[SC_OWN_COMM] + cost->hidden_frac) *
		      sc_period_us(&a->period, d->from_us, d->to_us);
	}
	return us;
}

/* ---- taking from the idle time ---- */

enum claim { OF_PART, OF_COST, OF_GAP };
/* A kind of thing that explains idle time. */
struct explanation {
	int kind; /* an sc_doing_kind or wait */
	enum sc_part part;
	enum claim claim;
	enum sc_owner owner; /* the owner where the claim is OF_PART */
	bool computes;       /* idle time before it waits for it */
	bool on_host;        /* takes only time before the next node is launched */
};
/* The order is that of precedence: what stands first takes first. */
static const struct explanation EXPLANATIONS[] = {
	{SC_DOES_COMPUTE, SC_PART_COMPUTE, .claim = OF_COST, .computes = true},
	{SC_DOES_COPY, SC_PART_MEMORY, .claim = OF_COST, .computes = true},
	{SC_DOES_TRANSFER, SC_PART_COMM, .claim = OF_COST},
	{SC_DOES_WAIT + SC_WAIT_STAGE, SC_PART_PIPELINE, .owner = SC_OWN_BUBBLE},
	{SC_DOES_WAIT + SC_WAIT_PEERS, SC_PART_PEERS, .owner = SC_OWN_PEER},
	{SC_DOES_GAP, SC_PART_HOST, .claim = OF_GAP},
	{SC_DOES_HOST, SC_PART_HOST, .owner = SC_OWN_HOST, .on_host = true},
	{SC_DOES_WAIT + SC_WAIT_POSTED, SC_PART_PIPELINE, .owner = SC_OWN_BUBBLE},
	{SC_DOES_NOTHING, SC_PART_HOST, .claim = OF_GAP},
};
enum { N_EXPLANATIONS = sizeof(EXPLANATIONS) / sizeof(EXPLANATIONS[0]) };

struct taking {
	struct sc_accountant *a;
	const struct explanation *by;
	struct sc_account *out;
	size_t at; /* the stretch of a->idle that is next */
};

/* Gives time to the owners of node `id`, which was at work for so long. */
static void account_own(const struct taking *t, uint32_t id, double us)
{
	const struct sc_graph *g = t->a->in->ran.graph;
	const struct sc_node *node = &g->nodes.at[id];
	const struct sc_cost *cost = &g->costs.at[node->cost];
	const bool of_host = t->by->claim == OF_COST && cost->owner_frac[SC_OWN_HOST] >= 1;

	t->out->part_us[of_host ? SC_PART_HOST : t->by->part] += us;
	if (t->by->claim == OF_PART)
		t->out->owner_us[t->by->owner] += us;
	else if (t->by->claim == OF_GAP)
		t->out->owner_us[sc_gaps[cost->gap].owner] += us;
	else
		sc_cost_own(node->group != SC_NONE ? &g->costs.at[g->groups.at[node->group].cost]
						   : cost,
			    us, t->out->owner_us);
}

static void idle_keep(struct sc_accountant *a, double from_us, double to_us, uint32_t next)
{
	const struct sc_idle idle = {from_us, to_us, next};

	if (to_us > from_us)
		SC_VEC_PUSH(&a->left, idle);
}

/* Takes the time of a doing from the idle stretches; both come in the order of time. */
static void idle_take(struct taking *t, const struct sc_doing *doing)
{
	struct sc_accountant *a = t->a;

	for (; t->at < a->idle.n; t->at++) {
		struct sc_idle *idle = &a->idle.at[t->at];
		const double from_us = most(doing->from_us, idle->from_us);
		const double to_us = least(doing->to_us, idle->to_us);
		const bool takes =
			to_us > from_us &&
			!(t->by->on_host &&
			  (idle->next == SC_NONE || a->launched_us.at[idle->next] < idle->to_us));

		if (idle->from_us >= doing->to_us)
			return;
		if (takes) {
			idle_keep(a, idle->from_us, from_us,
				  t->by->computes ? doing->node : idle->next);
			account_own(t, doing->node, sc_period_us(&a->period, from_us, to_us));
			idle->from_us = to_us;
		}
		if (idle->to_us > doing->to_us)
			return;
		if (!takes)
			idle_keep(a, idle->from_us, idle->to_us, idle->next);
	}
}

static void swap_idle(struct sc_accountant *a)
{
	const struct sc_idles idle = a->idle;

	a->idle = a->left;
	a->left = idle;
	a->left.n = 0;
}

/* Takes from the idle time of the class all that is done of a kind. */
static void take_kind(struct sc_accountant *a, const struct explanation *by, struct sc_account *out)
{
	const struct sc_doing_list *done;
	struct taking t = {a, by, out, 0};

	if (!a->idle.n || !a->doings.kinds[by->kind].all.n)
		return;
	done = doings_in_order(&a->doings, (enum sc_doing_kind)by->kind);
	for (size_t i = 0; i < done->all.n && t.at < a->idle.n; i++)
		idle_take(&t, &done->all.at[i]);
	for (; t.at < a->idle.n; t.at++)
		idle_keep(a, a->idle.at[t.at].from_us, a->idle.at[t.at].to_us,
			  a->idle.at[t.at].next);
	swap_idle(a);
}

/* ---- idle time that no node of the device explains ---- */

struct span {
	double from_us, to_us;
};
static void account_give(struct sc_accountant *a, struct span span, enum sc_part part,
			 enum sc_owner owner, struct sc_account *out)
{
	const double us = sc_period_us(&a->period, span.from_us, span.to_us);

	out->part_us[part] += us;
	out->owner_us[owner] += us;
}

/* Finds when the host let each node of the class start. */
static void find_launches(struct sc_accountant *a, uint32_t class_id)
{
	const struct sc_graph *g = a->in->ran.graph;
	const uint32_t *first_of = a->doings.class_start.at, *lanes = a->doings.lane.at;
	const uint32_t *lane = lanes + first_of[class_id], *end = lanes + first_of[class_id + 1];

	SC_VEC_RESERVE(&a->launched_us, g->nodes.n + 1);
	for (const uint32_t *l = lane; l < end; l++)
		for (uint32_t id = g->lane_first[*l]; id != SC_NONE; id = g->lane_next[id])
			a->launched_us.at[id] = 0;
	for (const uint32_t *l = lane; l < end; l++)
		for (uint32_t id = g->lanes.at[*l].kind == SC_LANE_HOST ? g->lane_first[*l]
									: SC_NONE;
		     id != SC_NONE; id = g->lane_next[id])
			for (uint32_t k = g->succ_start[id]; k < g->succ_start[id + 1]; k++) {
				double *us = &a->launched_us.at[g->succ[k]];

				*us = most(*us, a->in->ran.timeline->end_us[id]);
			}
}

/* Splits each idle stretch where its next node is launched: until then the GPU waits for the host,
 * if that works. */
static void split_at_launch(struct sc_accountant *a)
{
	for (size_t i = 0; i < a->idle.n; i++) {
		const struct sc_idle *idle = &a->idle.at[i];
		double at_us = idle->next == SC_NONE ? 0 : a->launched_us.at[idle->next];

		at_us = least(most(at_us, idle->from_us), idle->to_us);
		idle_keep(a, idle->from_us, at_us, idle->next);
		idle_keep(a, at_us, idle->to_us, idle->next);
	}
	swap_idle(a);
}

/* Shares out the rest: a class is done before it begins and after it ends; between, only its host
 * can keep it. */
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
		const double from_us = least(most(idle->from_us, begin_us), idle->to_us);
		const double to_us = most(least(idle->to_us, end_us), from_us);

		account_give(a, (struct span){idle->from_us, from_us}, SC_PART_DONE, others, out);
		account_give(a, (struct span){from_us, to_us}, SC_PART_HOST, SC_OWN_HOST, out);
		account_give(a, (struct span){to_us, idle->to_us}, SC_PART_DONE, others, out);
	}
}

void sc_account_of_class(struct sc_accountant *a, uint32_t class_id, struct sc_account *out)
{
	memset(out, 0, sizeof(*out));
	find_work(a, class_id);
	doings_waits(&a->doings, &a->in->ran, class_id);
	a->idle.n = a->left.n = 0;
	idle_keep(a, a->period.from_us, a->period.to_us, SC_NONE);
	swap_idle(a);
	for (size_t i = 0; i < N_EXPLANATIONS; i++) {
		if (EXPLANATIONS[i].on_host && a->idle.n) {
			find_launches(a, class_id);
			split_at_launch(a);
		}
		take_kind(a, &EXPLANATIONS[i], out);
	}
	take_rest(a, class_id, out);
	/* In each repeated stretch a class waits while the stretch lasts beyond its own work. */
	const struct sc_period *all = &a->in->period, *own = &a->period;
	double us = 0;

	for (size_t i = 0; i < all->n_repeats; i++)
		us += all->repeats[i].n * ((all->repeats[i].to_us - all->repeats[i].from_us) -
					   (own->repeats[i].to_us - own->repeats[i].from_us));
	out->part_us[SC_PART_PIPELINE] += us;
	out->owner_us[SC_OWN_BUBBLE] += us;
}

void sc_add_late(const struct sc_ran *ran, double *late_us)
{
	const struct sc_timeline *tl = ran->timeline;

	for (uint32_t i = 0; i < ran->graph->nodes.n; i++) {
		const uint32_t by = tl->bound_by[i];

		if (tl->reason[i] == SC_BY_PEER && by != SC_NONE)
			late_us[sc_graph_class_of(ran->graph, by)] +=
				tl->start_us[i] - tl->ready_us[i];
	}
}
