/* Which operations of a step are one: sends with their receives, and collectives. */
#include <stdlib.h>
#include <string.h>

#include "trace/graph/build_job_priv.h"

struct job_ops *sc_job_ops_of(const struct job_builder *b, uint32_t worker, int type)
{
	return &b->runs[(size_t)worker * SC_N_JOB_TYPES + (size_t)type];
}

bool sc_job_is_recv(int type)
{
	return type == SC_JOB_FORWARD_RECV || type == SC_JOB_BACKWARD_RECV;
}

/* Which of the job's model chunks, from the first layers on, a computation belongs to. */
static uint32_t global_chunk(const struct job_builder *b, const struct sc_job_op *op)
{
	const uint32_t chunk = op->chunk > 0 ? (uint32_t)op->chunk : 0;

	return chunk * b->job->n_stages + (uint32_t)b->job->workers.at[op->worker].stage;
}

/* The first chunk receives nothing forward and sends nothing backward; the last the other way. */
static bool transfers(const struct job_builder *b, int type, uint32_t compute)
{
	const uint32_t chunk = global_chunk(b, &b->ops[compute]);

	if (type == SC_JOB_FORWARD_RECV || type == SC_JOB_BACKWARD_SEND)
		return chunk > 0;
	return chunk + 1 < b->job->n_chunks * b->job->n_stages;
}

const struct job_ops *sc_job_compute_of(const struct job_builder *b, uint32_t worker, int type)
{
	const bool forward = type == SC_JOB_FORWARD_SEND || type == SC_JOB_FORWARD_RECV;

	return sc_job_ops_of(b, worker, forward ? SC_JOB_FORWARD : SC_JOB_BACKWARD);
}

/* Computations of the worker that have a transfer of the type. */
static uint32_t count_transfers(const struct job_builder *b, uint32_t worker, int type)
{
	const struct job_ops *compute = sc_job_compute_of(b, worker, type);
	uint32_t n = 0;

	for (uint32_t i = 0; i < compute->n; i++)
		n += transfers(b, type, compute->first + i);
	return n;
}

struct job_walk sc_job_walk_begin(const struct job_builder *b, uint32_t worker, int type)
{
	struct job_walk walk = {
		.b = b,
		.run = sc_job_ops_of(b, worker, type),
		.compute = sc_job_compute_of(b, worker, type),
		.type = type,
	};

	if (walk.run->n != count_transfers(b, worker, type)) {
		walk.all = true;
		walk.c = walk.run->n + 1 == walk.compute->n && type == SC_JOB_FORWARD_RECV;
	}
	return walk;
}

bool sc_job_walk_next(struct job_walk *walk)
{
	if (walk->i == walk->run->n)
		return false;
	while (!walk->all && walk->c < walk->compute->n &&
	       !transfers(walk->b, walk->type, walk->compute->first + walk->c))
		walk->c++;
	walk->op = walk->run->first + walk->i++;
	walk->matched = walk->c < walk->compute->n ? walk->compute->first + walk->c++ : SC_NONE;
	walk->moves = walk->matched != SC_NONE && transfers(walk->b, walk->type, walk->matched);
	return true;
}

/* Groups of a type are told apart by who takes part: `slot`; of a slot the k-th of each worker match. */
static size_t slot_of(const struct job_builder *b, uint32_t worker, int type)
{
	const struct sc_job_worker *w = &b->job->workers.at[worker];
	const uint32_t n_stages = b->job->n_stages, n_dp = b->job->n_dp;
	uint32_t stage = (uint32_t)w->stage;

	switch (sc_job_types[type].span) {
	case SC_SPAN_STAGE:
		return stage;
	case SC_SPAN_ENDS:
		return (size_t)w->dp_rank;
	case SC_SPAN_PAIR: /* the sender */
		if (type == SC_JOB_FORWARD_RECV)
			stage = (stage + n_stages - 1) % n_stages;
		if (type == SC_JOB_BACKWARD_RECV)
			stage = (stage + 1) % n_stages;
		return (size_t)stage * n_dp + (size_t)w->dp_rank;
	case SC_SPAN_SELF:
	case SC_SPAN_ALL:
		break;
	}
	return 0;
}

/* Where the groups of a type are kept: receives with their sends. */
static size_t table_of(const struct job_builder *b, uint32_t worker, int type)
{
	int home = type;

	if (type == SC_JOB_FORWARD_RECV)
		home = SC_JOB_FORWARD_SEND;
	if (type == SC_JOB_BACKWARD_RECV)
		home = SC_JOB_BACKWARD_SEND;
	return (size_t)home * b->job->workers.n + slot_of(b, worker, type);
}

static uint32_t count_moves(const struct job_builder *b, uint32_t worker, int type)
{
	struct job_walk walk = sc_job_walk_begin(b, worker, type);
	uint32_t n = 0;

	while (sc_job_walk_next(&walk))
		n += walk.moves;
	return n;
}

/* How many groups each slot has, then where they begin. Returns how many there are. */
static uint32_t number_groups(struct job_builder *b)
{
	uint32_t n = 0;

	for (uint32_t w = 0; w < b->job->workers.n; w++) {
		for (int t = 0; t < SC_N_JOB_TYPES; t++) {
			const enum sc_job_span span = sc_job_types[t].span;
			uint32_t *count = &b->n_groups[table_of(b, w, t)], own;

			if (span == SC_SPAN_SELF || sc_job_is_recv(t))
				continue;
			own = span == SC_SPAN_PAIR ? count_moves(b, w, t)
						   : sc_job_ops_of(b, w, t)->n;
			if (own > *count)
				*count = own;
		}
	}
	for (size_t i = 0; i < SC_N_JOB_TYPES * b->job->workers.n; i++) {
		b->group_base[i] = n;
		n += b->n_groups[i];
	}
	return n;
}

static void assign_pairs(struct job_builder *b, uint32_t worker, int type)
{
	struct job_walk walk = sc_job_walk_begin(b, worker, type);
	const size_t table = table_of(b, worker, type);
	uint32_t k = 0;

	while (sc_job_walk_next(&walk)) {
		if (!walk.moves)
			continue;
		if (k < b->n_groups[table])
			b->out->group[walk.op] = b->group_base[table] + k;
		k++;
	}
}

static void assign_groups(struct job_builder *b)
{
	for (uint32_t i = 0; i < b->out->n_ops; i++)
		b->out->group[i] = SC_NONE;
	for (uint32_t w = 0; w < b->job->workers.n; w++) {
		for (int t = 0; t < SC_N_JOB_TYPES; t++) {
			const struct job_ops *run = sc_job_ops_of(b, w, t);
			const size_t table = table_of(b, w, t);

			if (sc_job_types[t].span == SC_SPAN_PAIR)
				assign_pairs(b, w, t);
			else if (sc_job_types[t].span != SC_SPAN_SELF)
				for (uint32_t k = 0; k < run->n; k++)
					b->out->group[run->first + k] = b->group_base[table] + k;
		}
	}
}

/* Members of each group in the order of operations. Groups that only receives lack stay with one. */
static void add_groups(struct job_builder *b, uint32_t n_groups)
{
	struct sc_job_graph *out = b->out;
	uint32_t *start = sc_xmalloc(((size_t)n_groups + 1) * sizeof(*start));
	struct sc_member *members = sc_xmalloc(out->n_ops * sizeof(*members) + 1);
	uint32_t sum = 0;

	memset(start, 0, ((size_t)n_groups + 1) * sizeof(*start));
	for (size_t i = 0; i < out->n_ops; i++)
		if (out->group[i] != SC_NONE)
			start[out->group[i]]++;
	for (uint32_t g = 0; g < n_groups; g++) {
		const uint32_t n = start[g];

		start[g] = sum;
		sum += n;
	}
	start[n_groups] = sum;
	for (size_t i = 0; i < out->n_ops; i++)
		if (out->group[i] != SC_NONE)
			members[start[out->group[i]]++] =
				(struct sc_member){.class_id = b->ops[i].worker, .count = 1};
	sum = 0;
	for (uint32_t g = 0; g < n_groups; g++) {
		sc_graph_add_group(b->graph,
				   (struct sc_node_use){(uint32_t)out->n_ops + g, SC_NONE},
				   &members[sum], start[g] - sum);
		sum = start[g];
	}
	free(start);
	free(members);
}

void sc_job_add_groups(struct job_builder *b)
{
	const uint32_t n = number_groups(b);

	assign_groups(b);
	add_groups(b, n);
}
