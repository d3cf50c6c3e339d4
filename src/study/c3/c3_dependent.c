/* Products that need what a collective brings, or whose result one sends: in pieces, by copies of
 * chunks, in one kernel. */
#include <math.h>

#include "study/c3/c3_priv.h"

/* The least tile of products without tensor cores has so many rows: no piece takes less. */
#define SIMT_TILE_ROWS 64.0
/* The share of a push's cost that is left beside the other of two streams. Pieces on 8 H100
 * (kraken, BF16) ask for 0.9 to 1, on 8 B300 (PyTorch, FP8) for 0.7. */
#define PUSH_LEFT 0.89
/* The sums of an all-reduce are there only when all parts have been added: a product sends its
 * scatter, and its gather follows. */
static bool gathers_after(const struct sc_c3_study *s)
{
	return s->pair->transfer.shape.kind == SC_ALL_REDUCE;
}

static void send_cost(const struct sc_c3_study *s, double n_pieces, double n_copies,
		      struct sc_cost *out)
{
	sc_c3_copy_cost(s, gathers_after(s) ? 2 * n_pieces : n_pieces, n_copies, out);
}

/* Adds what follows when a product's result was sent: sums, and copies of them to all. */
static void add_sums(struct sc_c3_study *s, uint32_t sent)
{
	const struct sc_transfer *t = &s->pair->transfer;
	struct sc_cost reduce, gather;
	uint32_t summed;

	sc_interfere_reduce(t, &reduce);
	summed = sc_c3_add(s, s->compute, &reduce, sent);
	send_cost(s, 1, t->n_ranks - 1, &gather);
	if (gathers_after(s))
		sc_c3_add(s, s->comm, &gather, summed);
}

/* The costs of the first piece, and of each of the rest, which follow it closely. Rows that the
 * pieces do not share alike leave some with one more: their mean counts. */
static void first_next_costs(const struct sc_c3_study *s, double pieces, struct sc_cost out[2])
{
	const double rows = s->pair->gemm.u.gemm.m / pieces, whole = fmax(1, floor(rows));
	struct sc_op piece = s->pair->gemm;
	struct sc_cost longer;

	piece.u.gemm.m = whole + 1;
	sc_c3_kernel_cost(s, &piece, 0, &longer);
	piece.u.gemm.m = whole;
	sc_c3_kernel_cost(s, &piece, 0, &out[0]);
	sc_c3_scale(&out[0],
		    1 + (rows - whole) *
				    (sc_cost_alone_us(&longer) / sc_cost_alone_us(&out[0]) - 1));
	out[1] = out[0];
	sc_c3_scale(&out[1], sc_interfere_next_piece_factor(s->pair->transfer.device, &piece));
}

/* Adds the time that the software takes for a call; SC_NONE: it takes none. */
static uint32_t add_call(struct sc_c3_study *s)
{
	const struct sc_cost call = {.work_us = s->pair->transfer.call_us};

	return call.work_us > 0 ? sc_c3_add(s, s->host, &call, SC_NONE) : SC_NONE;
}

/* The first piece is the rank's own, so it waits for no copy. */
static void add_gather(struct sc_c3_study *s, double pieces)
{
	const struct sc_transfer *t = &s->pair->transfer;
	struct sc_cost kernels[2], copy;
	uint32_t arrived = add_call(s);

	first_next_costs(s, pieces, kernels);
	sc_c3_copy_cost(s, pieces - 1, 1, &copy);
	for (double i = 0; i < pieces; i++) {
		struct sc_cost kernel = kernels[i > 0];

		kernel.latency_us += t->device->interference.copy_us;
		sc_c3_add(s, s->compute, &kernel, arrived);
		if (i + 1 < pieces)
			arrived = sc_c3_add(s, s->comm, &copy, SC_NONE);
	}
}

/* The last piece is the rank's own; then it adds up what all have sent. */
static void add_scatter(struct sc_c3_study *s, double pieces)
{
	const struct sc_transfer *t = &s->pair->transfer;
	struct sc_cost kernels[2], copy;
	uint32_t pushed = add_call(s), made;

	first_next_costs(s, pieces, kernels);
	send_cost(s, pieces - 1, 1, &copy);
	for (double i = 0; i < pieces; i++) {
		struct sc_cost kernel = kernels[i > 0];

		kernel.latency_us += PUSH_LEFT * t->device->interference.push_us;
		made = sc_c3_add(s, s->compute, &kernel, i < 1 ? pushed : SC_NONE);
		if (i + 1 < pieces)
			pushed = sc_c3_add(s, s->comm, &copy, made);
	}
	add_sums(s, pushed);
}

static int run_pieces(struct sc_c3_study *s, double pieces)
{
	s->result.n = pieces;
	if (pieces < 2)
		return sc_c3_run_serial(s);
	sc_c3_begin(s);
	if (sc_c3_sends(s->pair->kind))
		add_scatter(s, pieces);
	else
		add_gather(s, pieces);
	return sc_c3_run(s);
}

/* There are as many pieces as ranks, and no more than rows. Pieces of products without tensor cores
 * have whole tiles, and are as many as pay: pairs in fp32 take no longer than in turn. */
int sc_c3_run_chunked(struct sc_c3_study *s, double n)
{
	const struct sc_op *gemm = &s->pair->gemm;
	const double most = fmin(n > 0 ? n : s->pair->transfer.n_ranks, ceil(gemm->u.gemm.m));
	const double tiles = floor(gemm->u.gemm.m / SIMT_TILE_ROWS);
	struct sc_c3_result best;
	int rc;

	if (sc_device_has_tensor(s->pair->transfer.device, gemm->dtype))
		return run_pieces(s, most);
	rc = run_pieces(s, 1);
	best = s->result;
	for (double p = 2; rc == 0 && p <= fmin(most, tiles); p++) {
		rc = run_pieces(s, p);
		if (s->result.time_us < best.time_us)
			best = s->result;
	}
	s->result = best;
	return rc;
}

/* One GEMM runs beside copies of its chunks, which engines move as they are ready: one chunk of
 * each rank, or `chunks` of the rows of all. */
int sc_c3_run_copied(struct sc_c3_study *s, double chunks)
{
	const struct sc_transfer *t = &s->pair->transfer;
	const struct sc_interference_coef *c = &t->device->interference;
	const bool scatters = sc_c3_sends(s->pair->kind);
	const double n = chunks > 0 ? chunks : t->n_ranks;
	/* a rank's own part needs no copy */
	const double parts = chunks > 0 ? chunks : t->n_ranks - 1.0;
	struct sc_cost kernel, most, one;
	uint32_t first = SC_NONE;

	sc_c3_begin(s);
	s->result.n = chunks;
	sc_c3_kernel_cost(s, &s->pair->gemm, 0, &kernel);
	send_cost(s, parts, 1, &one);
	most = one;
	most.latency_us = n * (scatters ? c->push_us : c->copy_us) + t->call_us;
	/* All chunks go beside the product but the first or last; a rank's own is one. */
	most.work_us *= chunks > 0 ? chunks - 1 : parts;
	if (chunks > 0 && !scatters)
		first = sc_c3_add(s, s->comm, &one, SC_NONE);
	sc_c3_add(s, s->comm, &most, SC_NONE);
	sc_c3_add(s, s->compute, &kernel, first);
	if (!scatters)
		return sc_c3_run(s);
	add_sums(s, sc_c3_add(s, s->comm, &one, s->last_kernel));
	return sc_c3_run(s);
}

/* The share of a transfer without which no tile of a fused kernel begins: none, for a rank has its
 * own rows; all of an all-to-all of which each row comes in parts; for experts, whose tokens are
 * whole rows from all, the first expert's share. */
static double fused_lead(const struct sc_c3_pair *pair)
{
	if (pair->kind == SC_C3_DISPATCH_EXPERTS)
		return fmin(1, 1 / pair->gemm.u.gemm.batch);
	return pair->kind == SC_C3_GATHER_GEMM && pair->transfer.shape.kind == SC_ALL_TO_ALL;
}

/* One kernel's tiles wait for what they need, or send what they make. Measured kernels leave no
 * time for sums: tiles add what comes. `slower`: its own work over the library's. */
static int run_fused_by(struct sc_c3_study *s, double slower)
{
	const struct sc_transfer *t = &s->pair->transfer;
	const double ranks = t->n_ranks, copy_us = t->device->interference.copy_us;
	const double lead = fused_lead(s->pair);
	const bool in_parts = lead > 0 && s->pair->kind == SC_C3_GATHER_GEMM;
	struct sc_cost kernel, copy, part;
	uint32_t moved = SC_NONE;

	sc_c3_begin(s);
	sc_c3_kernel_cost(s, &s->pair->gemm, 0, &kernel);
	kernel.latency_us += (in_parts ? 1 : ranks) * copy_us + t->call_us;
	kernel.work_us *= slower;
	sc_c3_copy_cost(s, 1, 1, &copy);
	sc_interfere_adders(t, &copy);
	part = copy;
	part.work_us *= lead;
	if (lead > 0)
		moved = sc_c3_add(s, s->comm, &part, SC_NONE);
	part.work_us = (1 - lead) * copy.work_us;
	part.latency_us = lead > 0 ? 0 : copy.latency_us;
	if (lead < 1)
		sc_c3_add(s, s->comm, &part, SC_NONE);
	sc_c3_add(s, s->compute, &kernel, moved);
	part = copy;
	part.work_us /= ranks - 1;
	part.latency_us += gathers_after(s) ? 2 * copy_us : 0; /* parts are there, sums are there */
	if (sc_c3_sends(s->pair->kind))
		sc_c3_add(s, s->comm, &part, s->last_kernel);
	return sc_c3_run(s);
}

/* The best kernels (Flux) are no slower than the library and read weights once; the usual ones
 * (Triton's) read them anew for the rows of each rank, where those come or leave rank by rank. */
int sc_c3_run_fused(struct sc_c3_study *s)
{
	const struct sc_c3_pair *pair = s->pair;
	const bool by_rank = fused_lead(pair) <= 0 && pair->kind != SC_C3_EXPERTS_COMBINE;
	const double usual = sc_interfere_fused_factor(pair->transfer.device, &pair->gemm,
						       by_rank ? pair->transfer.n_ranks : 1);
	int rc = run_fused_by(s, 1);
	const double best_us = s->result.time_us;

	if (rc == 0)
		rc = run_fused_by(s, usual);
	s->result.best_us = best_us;
	return rc;
}
