/* Gradients in buckets of another size. The all-reduces (or reduce-scatters) of one communicator in backward,
 * in the order of their stream, are one row of bytes, cut anew every N bytes. A new bucket is on a lane of its
 * own; it starts when what its last byte waited for is done: where it ends inside a recorded bucket, gradients
 * are taken to appear evenly over the kernels since the bucket before. Recorded ones stay as nodes without
 * time, which wait for the bucket with their last byte, so that whatever waited for them does. A row is
 * cut where something waits for a collective before a later one is launched. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "trace/replay/replay_streams_priv.h"

/* A recorded collective on one rank. */
struct item {
	uint32_t node, act, launch;
	uint32_t before;      /* on its lane, or SC_NONE */
	uint32_t producer;    /* activity of another lane that it waited for, or SC_NONE */
	uint32_t first_use;   /* first call that waits for it or launches what does */
	uint32_t first_cause; /* in the list of causes */
	uint32_t n_causes;
	int32_t instance;
	double bytes, transfer_us, waiting_us;
};
/* Those of one communicator: items[r * n + i] for the rank ranks.at[r]. */
struct row {
	uint64_t comm;
	int kind, n_ranks; /* of the communicator */
	size_t n;
	SC_VEC(uint32_t) ranks;
	SC_VEC(struct item) items;
};
struct bucketing {
	const struct stream_study *study;
	size_t iteration;
	struct sc_trace_graph *g;
	uint32_t n_nodes;  /* recorded */
	uint32_t *item_of; /* by node: 1 + index in items of the rank being read, or 0 */
	SC_VEC(struct item) items;
	SC_VEC(uint32_t) causes; /* nodes */
	SC_VEC(struct row) rows;
	size_t n_recorded, n_new; /* collectives */
};
/* A bucket to be: it ends at `fraction` of item `last`. */
struct bucket {
	size_t first, last;
	double bytes, fraction, us;
};

static const struct sc_act *act_of(const struct bucketing *b, size_t rank, uint32_t node)
{
	return &b->study->run.ranks.at[rank].acts.at[b->g->refs.at[node].index];
}

/* ---- what was recorded ---- */

static double work_of(const struct sc_trace_graph *g, uint32_t node)
{
	const uint32_t group = g->graph.nodes.at[node].group;

	return g->graph.costs
		.at[group == SC_NONE ? g->graph.nodes.at[node].cost
				     : g->graph.groups.at[group].cost]
		.work_us;
}

static void read_item(struct bucketing *b, size_t rank, uint32_t node)
{
	const struct sc_trace_run *run = &b->study->run;
	const struct sc_act *act = act_of(b, rank, node);
	const double us = work_of(b->g, node);
	struct item item = {
		.node = node,
		.act = b->g->refs.at[node].index,
		.launch = act->launch,
		.before = SC_NONE,
		.producer = SC_NONE,
		.first_use = SC_NONE,
		.instance = b->g->graph.nodes.at[node].group == SC_NONE
				    ? SC_MERGE_NO_INSTANCE
				    : run->merge.ranks.at[rank].calls.at[act->merge_call].instance,
		.bytes = (double)run->ranks.at[rank].collectives.at[act->merge_call].bytes,
	};

	if (item.instance < 0 && b->study->opts->missing != SC_MISSING_SYMMETRIC)
		item.waiting_us = sc_streams_waiting_us(b->study, rank, act, us);
	item.transfer_us = us - item.waiting_us;
	SC_VEC_PUSH(&b->items, item);
	b->item_of[node] = (uint32_t)b->items.n;
}

static void read_items(struct bucketing *b, size_t rank)
{
	b->items.n = 0;
	for (uint32_t i = 0; i < b->g->graph.nodes.n; i++)
		if (sc_graph_class_of(&b->g->graph, i) == rank &&
		    b->g->refs.at[i].kind == SC_TRACE_NODE_ACT &&
		    sc_streams_is_gradient(b->study, rank, b->iteration, act_of(b, rank, i)))
			read_item(b, rank, i);
}

/* The call at which the host cannot go on, or at which it launches a user. */
static uint32_t use_of(const struct bucketing *b, size_t rank, uint32_t node)
{
	if (b->g->refs.at[node].kind != SC_TRACE_NODE_ACT)
		return b->g->refs.at[node].index;
	return act_of(b, rank, node)->launch;
}

static bool is_other_act(const struct bucketing *b, const struct item *item, uint32_t node)
{
	return b->g->refs.at[node].kind == SC_TRACE_NODE_ACT &&
	       b->g->graph.nodes.at[node].lane != b->g->graph.nodes.at[item->node].lane;
}

static void read_edge_from(struct bucketing *b, size_t rank, struct item *item, uint32_t to)
{
	const uint32_t use = use_of(b, rank, to);

	if (!b->item_of[to] && use < item->first_use)
		item->first_use = use;
}

static void read_edge_to(struct bucketing *b, struct item *item, uint32_t from)
{
	item->n_causes++;
	if (is_other_act(b, item, from) &&
	    (item->producer == SC_NONE ||
	     b->g->refs.at[from].index > b->g->refs.at[item->producer].index))
		item->producer = from;
}

/* Their numbers are known. */
static void read_causes(struct bucketing *b)
{
	const struct sc_graph *graph = &b->g->graph;
	size_t n = b->causes.n;

	for (size_t i = 0; i < b->items.n; i++) {
		b->items.at[i].first_cause = (uint32_t)n;
		n += b->items.at[i].n_causes;
		b->items.at[i].n_causes = 0;
	}
	SC_VEC_RESERVE(&b->causes, n + 1);
	b->causes.n = n;
	for (size_t e = 0; e < graph->edges.n; e++) {
		const uint32_t i = b->item_of[(uint32_t)graph->edges.at[e]];

		if (i)
			b->causes.at[b->items.at[i - 1].first_cause +
				     b->items.at[i - 1].n_causes++] =
				(uint32_t)(graph->edges.at[e] >> 32);
	}
}

static void read_edges(struct bucketing *b, size_t rank)
{
	const struct sc_graph *graph = &b->g->graph;

	for (size_t e = 0; e < graph->edges.n; e++) {
		const uint32_t from = (uint32_t)(graph->edges.at[e] >> 32);
		const uint32_t to = (uint32_t)graph->edges.at[e];

		if (b->item_of[from])
			read_edge_from(b, rank, &b->items.at[b->item_of[from] - 1], to);
		if (b->item_of[to])
			read_edge_to(b, &b->items.at[b->item_of[to] - 1], from);
	}
	for (uint32_t i = 0; i < graph->nodes.n; i++)
		if (graph->lane_next[i] != SC_NONE && b->item_of[graph->lane_next[i]])
			b->items.at[b->item_of[graph->lane_next[i]] - 1].before = i;
	read_causes(b);
}

/* ---- rows ---- */

static struct row *row_of(struct bucketing *b, size_t first_row, uint64_t comm, int kind)
{
	struct row row = {.comm = comm, .kind = kind};

	for (size_t i = first_row; i < b->rows.n; i++)
		if (b->rows.at[i].comm == comm && b->rows.at[i].kind == kind)
			return &b->rows.at[i];
	SC_VEC_PUSH(&b->rows, row);
	return &b->rows.at[b->rows.n - 1];
}

static bool same_row(const struct row *a, const struct row *b)
{
	if (a->n != b->n || a->items.at[0].instance < 0)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->items.at[i].instance != b->items.at[i].instance)
			return false;
	return true;
}

/* Rows of this rank join those of other ranks with the same collectives. */
static void join_rows(struct bucketing *b, size_t first_row)
{
	size_t kept = first_row;

	for (size_t i = first_row; i < b->rows.n; i++) {
		struct row row = b->rows.at[i];
		size_t other = 0;

		while (other < first_row && !same_row(&b->rows.at[other], &row))
			other++;
		if (other == first_row) {
			b->rows.at[kept++] = row;
			continue;
		}
		SC_VEC_PUSH(&b->rows.at[other].ranks, row.ranks.at[0]);
		for (size_t k = 0; k < row.n; k++)
			SC_VEC_PUSH(&b->rows.at[other].items, row.items.at[k]);
		SC_VEC_RELEASE(&row.ranks);
		SC_VEC_RELEASE(&row.items);
	}
	b->rows.n = kept;
}

static void read_rank(struct bucketing *b, size_t rank)
{
	const struct sc_trace_run *run = &b->study->run;
	const size_t first_row = b->rows.n;

	memset(b->item_of, 0, b->g->graph.nodes.n * sizeof(*b->item_of));
	read_items(b, rank);
	read_edges(b, rank);
	for (size_t i = 0; i < b->items.n; i++) {
		const uint32_t call = run->ranks.at[rank].acts.at[b->items.at[i].act].merge_call;
		const struct sc_merge_call *merged = &run->merge.ranks.at[rank].calls.at[call];
		struct row *row = row_of(b, first_row, merged->comm, merged->kind);

		if (row->n++ == 0) {
			row->n_ranks = sc_streams_ranks_of(
				b->study, &run->ranks.at[rank].collectives.at[call],
				merged->instance);
			SC_VEC_PUSH(&row->ranks, (uint32_t)rank);
		}
		SC_VEC_PUSH(&row->items, b->items.at[i]);
	}
	join_rows(b, first_row);
}

/* All are groups, or none; and all ranks of the groups have the row. */
static bool is_whole(const struct bucketing *b, const struct row *row)
{
	for (size_t i = 0; i < row->n; i++) {
		const uint32_t group = b->g->graph.nodes.at[row->items.at[i].node].group;

		if ((group == SC_NONE) != (row->items.at[0].instance < 0))
			return false;
		if (group != SC_NONE && b->g->graph.groups.at[group].n_members != row->ranks.n)
			return false;
	}
	return true;
}

/* Item i begins a part of its own on some rank: an earlier one since `from` is used before it is launched,
 * or something else is between on the stream. */
static bool is_cut(const struct row *row, size_t from, size_t i)
{
	for (size_t r = 0; r < row->ranks.n; r++) {
		const struct item *items = &row->items.at[r * row->n];

		if (items[i].before != items[i - 1].node)
			return true;
		for (size_t k = from; k < i; k++)
			if (items[k].first_use < items[i].launch)
				return true;
	}
	return false;
}

/* ---- new buckets ---- */

static double line_us(const struct bucketing *b, const struct row *row, double bytes)
{
	for (size_t i = 0; i < b->study->fits.n; i++) {
		const struct stream_fit *fit = &b->study->fits.at[i];

		if (fit->kind == row->kind && fit->n_ranks == row->n_ranks)
			return fit->latency_us + fit->us_per_byte * bytes;
	}
	return bytes;
}

/* The first activity of the lane that the thread launched. */
static uint32_t first_launched(const struct bucketing *b, const struct item *item, uint32_t lane)
{
	const size_t rank = sc_graph_class_of(&b->g->graph, item->node);
	const struct sc_trace_rank *rec = &b->study->run.ranks.at[rank];
	const uint16_t thread = rec->calls.at[item->launch].lane;

	for (uint32_t i = 0; i < b->n_nodes; i++) {
		const struct sc_act *act;

		if (b->g->graph.nodes.at[i].lane != lane ||
		    b->g->refs.at[i].kind != SC_TRACE_NODE_ACT)
			continue;
		act = act_of(b, rank, i);
		if (act->launch != SC_NONE && rec->calls.at[act->launch].lane == thread)
			return i;
	}
	return item->producer;
}

/* The kernel of the producer's stream at which a part of the work since the bucket before is done. */
static uint32_t producer_at(const struct bucketing *b, const struct item *item,
			    const struct item *before, double fraction)
{
	const struct sc_graph *graph = &b->g->graph;
	const uint32_t lane = graph->nodes.at[item->producer].lane;
	const bool follows = before && before->producer != SC_NONE &&
			     graph->nodes.at[before->producer].lane == lane &&
			     before->producer < item->producer;
	uint32_t first, i;
	double sum = 0, done = 0;

	first = follows ? graph->lane_next[before->producer] : first_launched(b, item, lane);
	for (i = first; i != SC_NONE && i < item->producer; i = graph->lane_next[i])
		sum += work_of(b->g, i);
	sum += work_of(b->g, item->producer);
	for (i = first; i != SC_NONE && i < item->producer; i = graph->lane_next[i]) {
		done += work_of(b->g, i);
		if (done >= fraction * sum)
			return i;
	}
	return item->producer;
}

static uint32_t add_bucket_node(struct bucketing *b, const struct item *item,
				const struct bucket *new_bucket, uint32_t lane, uint32_t group)
{
	struct sc_graph *graph = &b->g->graph;
	const struct sc_trace_node ref = {.index = item->act, .kind = SC_TRACE_NODE_ACT};
	struct sc_cost cost = graph->costs.at[graph->nodes.at[item->node].cost];
	uint32_t node;

	cost.work_us = group == SC_NONE ? new_bucket->us : 0;
	node = sc_graph_add_node(graph, (enum sc_node_kind)graph->nodes.at[item->node].kind, lane,
				 (struct sc_node_use){sc_graph_add_cost(graph, &cost),
						      graph->nodes.at[item->node].op});
	graph->nodes.at[node].group = group;
	SC_VEC_PUSH(&b->g->refs, ref);
	return node;
}

/* On one rank: what the bucket waits for, and the recorded collectives that wait for it. */
static void link_bucket(struct bucketing *b, const struct item *items,
			const struct bucket *new_bucket, uint32_t node, uint32_t previous)
{
	const struct item *last = &items[new_bucket->last];
	const struct item *before = new_bucket->last ? last - 1 : NULL;
	uint32_t whole = (uint32_t)new_bucket->last + 1;

	if (new_bucket->fraction < 1 && last->producer != SC_NONE) {
		sc_graph_add_dep(&b->g->graph, node,
				 producer_at(b, last, before, new_bucket->fraction));
		whole--;
	}
	for (size_t i = new_bucket->first; i < whole; i++)
		for (uint32_t k = 0; k < items[i].n_causes; k++)
			sc_graph_add_dep(&b->g->graph, node,
					 b->causes.at[items[i].first_cause + k]);
	if (previous != SC_NONE)
		sc_graph_add_dep(&b->g->graph, node, previous);
	for (size_t i = new_bucket->first; i <= new_bucket->last; i++)
		if (i < new_bucket->last || !(new_bucket->fraction < 1))
			sc_graph_add_dep(&b->g->graph, items[i].node, node);
}

static uint32_t add_bucket_group(struct bucketing *b, const struct row *row,
				 const struct bucket *new_bucket)
{
	const struct item *item = &row->items.at[new_bucket->last];
	struct sc_member *members = sc_xmalloc((row->ranks.n + 1) * sizeof(*members));
	struct sc_graph *graph = &b->g->graph;
	struct sc_cost cost =
		graph->costs.at[graph->groups.at[graph->nodes.at[item->node].group].cost];
	uint32_t group;

	for (size_t r = 0; r < row->ranks.n; r++)
		members[r] = (struct sc_member){.class_id = row->ranks.at[r], .count = 1};
	cost.work_us = new_bucket->us;
	group = sc_graph_add_group(graph,
				   (struct sc_node_use){sc_graph_add_cost(graph, &cost), SC_NONE},
				   members, (uint32_t)row->ranks.n);
	SC_VEC_PUSH(&b->g->group_instance, (uint32_t)item->instance);
	free(members);
	return group;
}

struct row_buckets {
	SC_VEC(struct bucket) list;
};

/* Cuts items from..to of the row every bucket_mib. Times keep the ratios of the line, and what was recorded
 * of waiting is spread over the bytes. */
static void cut_part(const struct bucketing *b, const struct row *row, size_t from, size_t to,
		     struct row_buckets *out)
{
	const double size = b->study->opts->bucket_mib * SC_BYTES_PER_MIB;
	double total = 0, recorded_us = 0, line_sum = 0, waiting_us = 0, end = 0, at = 0;
	struct bucket new_bucket = {.first = from};

	for (size_t i = from; i < to; i++) {
		total += row->items.at[i].bytes;
		recorded_us += row->items.at[i].transfer_us;
		waiting_us += row->items.at[i].waiting_us;
		line_sum += line_us(b, row, row->items.at[i].bytes);
	}
	for (size_t i = from; i < to; i++) {
		const double bytes = row->items.at[i].bytes;

		while (at < total) {
			const double next = fmin(at + size, total);

			if (next > end + bytes)
				break;
			new_bucket.last = i;
			new_bucket.bytes = next - at;
			new_bucket.fraction = next < total ? fmin(1, (next - end) / bytes) : 1;
			new_bucket.us = recorded_us * line_us(b, row, next - at) / line_sum +
					waiting_us * (next - at) / total;
			SC_VEC_PUSH(&out->list, new_bucket);
			new_bucket.first = new_bucket.fraction < 1 ? i : i + 1;
			at = next;
		}
		end += bytes;
	}
}

static void add_buckets(struct bucketing *b, const struct row *row, const struct row_buckets *news)
{
	struct sc_graph *graph = &b->g->graph;
	uint32_t *groups = sc_xmalloc((news->list.n + 1) * sizeof(*groups));

	for (size_t k = 0; k < news->list.n; k++)
		groups[k] = row->items.at[0].instance < 0
				    ? SC_NONE
				    : add_bucket_group(b, row, &news->list.at[k]);
	for (size_t r = 0; r < row->ranks.n; r++) {
		const struct item *items = &row->items.at[r * row->n];
		const uint32_t lane = sc_graph_add_lane(graph, row->ranks.at[r], SC_LANE_COMM);
		uint32_t previous = items[0].before;

		for (size_t k = 0; k < news->list.n; k++) {
			const struct bucket *new_bucket = &news->list.at[k];
			const uint32_t node = add_bucket_node(b, &items[new_bucket->last],
							      new_bucket, lane, groups[k]);

			link_bucket(b, items, new_bucket, node, previous);
			/* Whatever is between two parts on the recorded stream stays there. */
			previous = !(new_bucket->fraction < 1) && new_bucket->last + 1 < row->n
					   ? items[new_bucket->last + 1].before
					   : SC_NONE;
			previous = previous == items[new_bucket->last].node ? SC_NONE : previous;
		}
	}
	free(groups);
}

static void empty_items(struct bucketing *b, const struct row *row)
{
	struct sc_graph *graph = &b->g->graph;

	for (size_t i = 0; i < row->items.n; i++) {
		const struct sc_node *node = &graph->nodes.at[row->items.at[i].node];

		b->g->refs.at[row->items.at[i].node].kind = SC_TRACE_NODE_EMPTY;
		graph->costs.at[node->cost].latency_us = 0;
		graph->costs.at[node->cost].work_us = 0;
		if (node->group != SC_NONE)
			graph->costs.at[graph->groups.at[node->group].cost].work_us = 0;
	}
}

static void rebucket(struct bucketing *b, const struct row *row)
{
	struct row_buckets news = {.list = {0}};
	size_t from = 0;

	for (size_t i = 1; i <= row->n; i++)
		if (i == row->n || is_cut(row, from, i)) {
			cut_part(b, row, from, i, &news);
			from = i;
		}
	add_buckets(b, row, &news);
	empty_items(b, row);
	b->n_new += news.list.n;
	b->n_recorded += row->n;
	SC_VEC_RELEASE(&news.list);
}

void sc_streams_bucket(struct stream_study *study, size_t iteration, struct sc_trace_graph *graph)
{
	struct bucketing b = {.study = study, .iteration = iteration, .g = graph};

	b.n_nodes = (uint32_t)graph->graph.nodes.n;
	b.item_of = sc_xmalloc((graph->graph.nodes.n + 1) * sizeof(*b.item_of));
	for (size_t r = 0; r < study->run.ranks.n; r++)
		read_rank(&b, r);
	for (size_t i = 0; i < b.rows.n; i++)
		if (is_whole(&b, &b.rows.at[i]))
			rebucket(&b, &b.rows.at[i]);
	for (size_t i = 0; i < b.rows.n; i++) {
		SC_VEC_RELEASE(&b.rows.at[i].ranks);
		SC_VEC_RELEASE(&b.rows.at[i].items);
	}
	study->n_recorded_buckets = b.n_recorded;
	study->n_new_buckets = b.n_new;
	SC_VEC_RELEASE(&b.rows);
	SC_VEC_RELEASE(&b.items);
	SC_VEC_RELEASE(&b.causes);
	free(b.item_of);
	sc_graph_seal(&graph->graph);
}
