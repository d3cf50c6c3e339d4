/* Pairs the thread blocks of an algorithm: the one that sends to a GPU on a channel with the one
 * there that receives from it on the same channel. Both ends are sorted alike, so partners stand
 * side by side. Two blocks that send, or receive, on one connection are an error; an end without
 * the other is left to msccl_check.c. */
#include "base/search.h"
#include "models/msccl/msccl_priv.h"

struct end {
	int from, to, channel;
	size_t tb;
	bool sends;
};

/* As strcmp. */
static int compare_connections(const struct end *x, const struct end *y)
{
	return 4 * SC_ORDER(x->from, y->from) + 2 * SC_ORDER(x->to, y->to) +
	       SC_ORDER(x->channel, y->channel);
}

SC_COMPARE(compare_ends, struct end, 2 * compare_connections(a, b) + SC_ORDER(a->tb, b->tb));

static size_t list_ends(const struct sc_msccl *algo, struct end *ends)
{
	size_t n = 0;

	for (int g = 0; g < algo->n_gpus; g++) {
		for (size_t t = algo->gpus[g].first; t < algo->gpus[g].first + algo->gpus[g].n;
		     t++) {
			const struct sc_msccl_tb *tb = &algo->tbs[t];

			if (tb->send >= 0)
				ends[n++] = (struct end){g, tb->send, tb->channel, t, true};
			if (tb->recv >= 0)
				ends[n++] = (struct end){tb->recv, g, tb->channel, t, false};
		}
	}
	SC_SORT(ends, n, compare_ends);
	return n;
}

int sc_msccl_connect(const struct sc_msccl *algo, struct sc_arena *arena,
		     struct sc_msccl_connections *out, struct sc_err *err)
{
	struct end *ends = sc_arena_alloc(arena, (2 * algo->n_tbs + 1) * sizeof(*ends));
	size_t n = list_ends(algo, ends);

	out->n = 0;
	out->at = sc_arena_calloc(arena, n + 1, sizeof(*out->at));
	out->from = sc_arena_calloc(arena, algo->n_tbs + 1, sizeof(*out->from));
	out->to = sc_arena_calloc(arena, algo->n_tbs + 1, sizeof(*out->to));
	for (size_t i = 0; i < n; i++) {
		const struct end *end = &ends[i];
		struct sc_msccl_connection *at;
		size_t *side;

		if (i == 0 || compare_connections(end - 1, end) != 0)
			out->at[out->n++] = (struct sc_msccl_connection){end->from, end->to,
									 end->channel, 0, 0};
		at = &out->at[out->n - 1];
		side = end->sends ? &at->sender : &at->receiver;
		if (*side)
			return sc_err_at(err, SC_EVALUE, algo->file, algo->tbs[end->tb].line, 0,
					 "rank %d: two thread blocks %s rank %d on channel %d",
					 end->sends ? end->from : end->to,
					 end->sends ? "send to" : "receive from",
					 end->sends ? end->to : end->from, end->channel);
		*side = end->tb + 1;
		(end->sends ? out->to : out->from)[end->tb] = out->n - 1;
	}
	return 0;
}
