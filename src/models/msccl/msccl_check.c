/* Proves an algorithm: what it leaves is the collective's result, and thread blocks give the same
 * in any order. It is run on symbols (msccl_steps.c), from the inputs that a rank has of it. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "models/msccl/msccl_check_priv.h"

enum { SEED = 1, MAX_ORDER_BYTES = 1 << 30 };

static int connect(struct machine *m, struct sc_arena *arena)
{
	size_t slots = (size_t)sc_msccl_slots(m->algo->proto);
	int rc = sc_msccl_connect(m->algo, arena, &m->peers, m->err);

	if (rc)
		return rc;
	m->connections = sc_arena_calloc(arena, m->peers.n + 1, sizeof(*m->connections));
	for (size_t i = 0; i < m->peers.n; i++)
		m->connections[i].values =
			sc_arena_calloc(arena, slots * m->max_count, sizeof(struct value));
	return 0;
}

/* ---- before and after ---- */

/* Chunks that a rank's own part has where input and output are one. */
static int part_of(const struct sc_msccl *algo)
{
	return algo->n_chunks / algo->n_gpus;
}

/* Sets where the chunks of a GPU's buffer stand, so that in place a part is inside the whole. A
 * custom file that has both buffers means two, whatever its "inplace": MSCCL's compiler orders what
 * it does to them so. */
static void lay_out(struct machine *m, struct sc_arena *arena)
{
	const struct sc_msccl *algo = m->algo;
	size_t n = 0;

	for (int b = 0; b < SC_MSCCL_N_BUFFERS; b++)
		m->base[b] = sc_arena_calloc(arena, (size_t)algo->n_gpus, sizeof(size_t));
	for (int g = 0; g < algo->n_gpus; g++) {
		const int *chunks = algo->gpus[g].chunks;
		int both = chunks[0] > chunks[1] ? chunks[0] : chunks[1];
		size_t own = (size_t)g * (size_t)part_of(algo);

		m->base[SC_MSCCL_INPUT][g] = m->base[SC_MSCCL_OUTPUT][g] = n;
		if (!algo->in_place ||
		    (algo->coll >= SC_MSCCL_NEXT && chunks[0] > 0 && chunks[1] > 0)) {
			m->base[SC_MSCCL_OUTPUT][g] = n + (size_t)chunks[0];
			n += (size_t)chunks[0] + (size_t)chunks[1];
		} else {
			if (chunks[0] > 0 && chunks[0] < chunks[1])
				m->base[SC_MSCCL_INPUT][g] += own;
			if (chunks[1] > 0 && chunks[1] < chunks[0])
				m->base[SC_MSCCL_OUTPUT][g] += own;
			n += (size_t)both + own; /* own: a part stays inside whatever the sizes */
		}
		m->base[SC_MSCCL_SCRATCH][g] = n;
		n += (size_t)chunks[2];
	}
	m->slots = sc_arena_alloc(arena, (n + 1) * sizeof(*m->slots));
	m->order.written = sc_arena_alloc(arena, (n + 1) * sizeof(*m->order.written));
	m->n_slots = n;
}

/* From the input to where all steps are done. */
static int run_anew(struct machine *m)
{
	for (size_t i = 0; i < m->n_slots; i++) {
		m->slots[i] = (struct value){.chunk = -1};
		m->order.written[i] = (struct access){-1, 0, 0};
	}
	for (size_t c = 0; c < m->peers.n; c++)
		m->connections[c].n_sent = m->connections[c].n_taken = 0;
	memset(m->at, 0, m->algo->n_tbs * sizeof(*m->at));
	m->order.reads.n = 0;
	const struct sc_msccl *algo = m->algo;
	bool gathers = algo->coll == SC_MSCCL_ALL_GATHER && algo->in_place;

	for (int g = 0; g < algo->n_gpus; g++) {
		int n = algo->gpus[g].chunks[SC_MSCCL_INPUT];
		size_t at = m->base[SC_MSCCL_INPUT][g];

		if (n == 0 && gathers) {
			n = part_of(algo);
			at += (size_t)g * (size_t)n;
		} else if (n == 0 && algo->in_place) {
			n = algo->gpus[g].chunks[SC_MSCCL_OUTPUT];
		}
		for (int i = 0; i < n; i++)
			m->slots[at + (size_t)i] = (struct value){i, 1, m->number[g]};
	}
	return sc_msccl_run(m);
}

static int check_ordered(struct machine *m, bool local, size_t first, size_t n)
{
	struct order *o = &m->order;
	size_t slots = local ? 0 : (size_t)sc_msccl_slots(m->algo->proto) * m->peers.n, rows;
	int rc;

	o->local = local;
	o->first = first;
	o->n = n;
	o->width = (n + ROW - 1) / ROW * ROW;
	rows = m->algo->n_tbs + 2 * slots + m->n_done;
	if (rows * o->width * sizeof(*o->now) > MAX_ORDER_BYTES)
		return sc_err_at(
			m->err, SC_EUNSUPPORTED, m->algo->file, 0, 0,
			"too many thread blocks and dependencies to prove that accesses of "
			"a chunk are ordered");
	o->now = sc_xcalloc(rows * o->width + 1, sizeof(*o->now));
	o->sent = o->now + m->algo->n_tbs * o->width;
	o->taken = o->sent + slots * o->width;
	o->done = o->taken + slots * o->width;
	rc = run_anew(m);
	free(o->now);
	return rc;
}

/* The value that chunk `i` of rank `g`'s result must have; false: anything. */
static bool wanted(const struct machine *m, int g, int i, struct value *out)
{
	const struct sc_msccl *algo = m->algo;
	int part = part_of(algo), from = i / (part > 0 ? part : 1);

	*out = m->all;
	out->chunk = algo->coll == SC_MSCCL_REDUCE_SCATTER ? g * part + i : i;
	if (algo->coll == SC_MSCCL_ALL_GATHER)
		*out = (struct value){i % part, 1, m->number[from]};
	else if (algo->coll == SC_MSCCL_ALL_TO_ALL)
		*out = (struct value){g * part + i % part, 1, m->number[from]};
	else if (algo->coll == SC_MSCCL_NEXT && g > 0)
		*out = (struct value){i, 1, m->number[g - 1]};
	return algo->coll < SC_MSCCL_NEXT || (algo->coll == SC_MSCCL_NEXT && g > 0);
}

static int fail_result(const struct machine *m, int gpu, int chunk, size_t slot)
{
	const struct access *w = &m->order.written[slot];
	const struct sc_msccl *algo = m->algo;
	unsigned line = algo->gpus[gpu].line;

	if (w->tb < 0)
		return sc_err_at(m->err, SC_EVALUE, algo->file, line, 0,
				 "%s: chunk %d of rank %d's result is not written", algo->coll_name,
				 chunk, gpu);
	line = algo->steps[algo->tbs[algo->gpus[gpu].first + (size_t)w->tb].first + (size_t)w->step]
		       .line;
	return sc_err_at(
		m->err, SC_EVALUE, algo->file, line, 0,
		"%s: chunk %d of rank %d's result is wrong; it was written last by rank %d, "
		"thread block %d, step %d",
		algo->coll_name, chunk, gpu, gpu, w->tb, w->step);
}

static int check_result(const struct machine *m)
{
	const struct sc_msccl *algo = m->algo;
	int result = algo->coll == SC_MSCCL_REDUCE_SCATTER ? part_of(algo) : algo->n_chunks;

	for (int g = 0; g < algo->n_gpus; g++) {
		for (int i = 0; i < result; i++) {
			size_t slot = m->base[SC_MSCCL_OUTPUT][g] + (size_t)i;
			const struct value *got = &m->slots[slot];
			struct value want;

			if (!wanted(m, g, i, &want))
				break;
			if (algo->coll == SC_MSCCL_REDUCE_SCATTER && algo->in_place &&
			    algo->gpus[g].chunks[SC_MSCCL_OUTPUT] == 0)
				got = &m->slots[slot += (size_t)g * (size_t)result];
			if (got->chunk != want.chunk || got->n != want.n ||
			    got->ranks != want.ranks)
				return fail_result(m, g, i, slot);
		}
	}
	return 0;
}

static int run_proving(struct machine *m)
{
	const struct sc_msccl *algo = m->algo;
	size_t most = 0;
	int rc;

	for (int g = 0; g < algo->n_gpus; g++)
		most = algo->gpus[g].n > most ? algo->gpus[g].n : most;
	rc = check_ordered(m, true, 0, most);
	if (rc == 0)
		rc = check_result(m);
	for (int g = 0, end; g < algo->n_gpus && rc == 0; g = end) {
		size_t n = algo->gpus[g].n;

		for (end = g + 1; m->unordered[g] && end < algo->n_gpus && m->unordered[end] &&
				  n + algo->gpus[end].n <= 16 * ROW;
		     end++)
			n += algo->gpus[end].n;
		if (m->unordered[g])
			rc = check_ordered(m, false, algo->gpus[g].first, n);
	}
	return rc;
}

/* Buffers that hold what the collective needs. */
static int check_sizes(const struct sc_msccl *algo, struct sc_err *err)
{
	bool parts = algo->coll == SC_MSCCL_ALL_GATHER || algo->coll == SC_MSCCL_REDUCE_SCATTER ||
		     algo->coll == SC_MSCCL_ALL_TO_ALL;

	if (algo->coll > SC_MSCCL_ALL_TO_ALL)
		return 0;
	if (parts && algo->n_chunks % algo->n_gpus)
		return sc_err_at(err, SC_EVALUE, algo->file, 0, 0,
				 "nchunksperloop %d is not a multiple of ngpus %d, which %s needs",
				 algo->n_chunks, algo->n_gpus, algo->coll_name);
	for (int g = 0; g < algo->n_gpus; g++) {
		const int *chunks = algo->gpus[g].chunks;
		int whole =
			algo->coll == SC_MSCCL_REDUCE_SCATTER ? SC_MSCCL_INPUT : SC_MSCCL_OUTPUT;
		int n = chunks[whole];

		if (algo->in_place && n == 0)
			n = chunks[1 - whole];
		if (n != algo->n_chunks || (!algo->in_place && whole == SC_MSCCL_INPUT &&
					    chunks[SC_MSCCL_OUTPUT] < part_of(algo)))
			return sc_err_at(
				err, SC_EVALUE, algo->file, algo->gpus[g].line, 0,
				"rank %d: %s of nchunksperloop %d needs a buffer of as many chunks",
				g, algo->coll_name, algo->n_chunks);
	}
	return 0;
}

/* Steps that others wait for. */
static void note_awaited(struct machine *m)
{
	const struct sc_msccl *algo = m->algo;

	for (int g = 0; g < algo->n_gpus; g++)
		for (size_t t = algo->gpus[g].first; t < algo->gpus[g].first + algo->gpus[g].n; t++)
			for (size_t s = algo->tbs[t].first; s < algo->tbs[t].first + algo->tbs[t].n;
			     s++) {
				const struct sc_msccl_step *step = &algo->steps[s];
				size_t at;

				if (step->dep_tb < 0)
					continue;
				at = algo->tbs[algo->gpus[g].first + (size_t)step->dep_tb].first +
				     (size_t)step->dep_step;
				if (!m->done_at[at])
					m->done_at[at] = ++m->n_done;
			}
}

int sc_msccl_check(const struct sc_msccl *algo, struct sc_err *err)
{
	struct machine m = {.algo = algo, .err = err, .all.n = algo->n_gpus};
	struct sc_rng rng;
	struct sc_arena arena;
	int rc = check_sizes(algo, err);

	if (rc)
		return rc;
	sc_arena_init(&arena, 1 << 16);
	m.at = sc_arena_calloc(&arena, algo->n_tbs + 1, sizeof(*m.at));
	for (size_t s = 0; s < algo->n_steps; s++)
		if ((size_t)algo->steps[s].count > m.max_count)
			m.max_count = (size_t)algo->steps[s].count;
	m.number = sc_arena_alloc(&arena, (size_t)algo->n_gpus * sizeof(*m.number));
	sc_rng_init(&rng, SEED);
	for (int g = 0; g < algo->n_gpus; g++)
		m.all.ranks += m.number[g] = sc_rng_next(&rng);
	m.unordered = sc_arena_calloc(&arena, (size_t)algo->n_gpus, sizeof(*m.unordered));
	m.done_at = sc_arena_calloc(&arena, algo->n_steps + 1, sizeof(*m.done_at));
	note_awaited(&m);
	lay_out(&m, &arena);
	rc = connect(&m, &arena);
	if (rc == 0)
		rc = run_proving(&m);
	SC_VEC_RELEASE(&m.order.reads);
	sc_arena_release(&arena);
	return rc;
}
