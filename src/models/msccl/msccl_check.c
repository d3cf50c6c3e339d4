/* Runs an algorithm on symbols, and proves that thread blocks give the same in any order: a slot of
 * a buffer holds a chunk of a rank's input, or the sum of one chunk over ranks. Of which ones is
 * told by the sum of a random number of 64 bits for each (Zobrist's way, Univ. of Wisconsin report
 * 88, 1970): that two sums over other ranks agree has a chance of 2^-64. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/vec.h"
#include "models/msccl/msccl_priv.h"

enum { SIMPLE_SLOTS = 2, LOW_LATENCY_SLOTS = 8, SEED = 1 };

/* Chunk `chunk` summed over `n` ranks, whose numbers add up to `ranks`. */
struct value {
	int chunk, n; /* chunk < 0: nothing was written */
	uint64_t ranks;
};
/* The number of steps of another thread block that one has seen done, for those of some GPUs. */
typedef int16_t seen_steps;
_Static_assert(SC_MSCCL_MAX_STEPS < INT16_MAX, "seen_steps");
/* The reads of one slot since its last write: the last by each thread block. */
struct access {
	int tb, step; /* tb < 0: none */
	size_t next;  /* read, + 1 */
};
struct order {
	bool local;               /* dependencies alone: each thread block sees those of its GPU */
	size_t first, n, width;   /* thread blocks that are seen; width: a multiple of ROW */
	seen_steps *now;          /* by thread block */
	seen_steps *sent, *taken; /* by connection and slot: by its sender, its receiver */
	seen_steps *done;         /* by step that others wait for */
	struct access *written;   /* by slot; next: its reads */
	SC_VEC(struct access) reads;
};
struct connection {
	size_t n_sent, n_taken; /* primitives */
	struct value *values;   /* slots of max_count chunks */
	int count[LOW_LATENCY_SLOTS];
};
struct machine {
	const struct sc_msccl *algo;
	struct sc_err *err;
	struct value *slots;
	size_t *base[SC_MSCCL_N_BUFFERS]; /* of a GPU's buffer in slots; in place, two are one */
	size_t *at;                       /* next step of a thread block */
	struct sc_msccl_connections peers;
	struct connection *connections; /* of each in `peers` */
	uint64_t *number;               /* of a rank */
	struct value all;               /* of all ranks */
	size_t max_count;               /* chunks of a step */
	size_t n_slots;                 /* of all buffers */
	bool *unordered; /* by GPU: its dependencies alone do not order all accesses */
	size_t *done_at; /* by step that others wait for: its row of order.done, + 1 */
	size_t n_done;
	struct order order;
};

int sc_msccl_slots(enum sc_proto proto)
{
	return proto == SC_PROTO_SIMPLE ? SIMPLE_SLOTS : LOW_LATENCY_SLOTS;
}

static int algo_fail(const struct machine *m, int gpu, size_t tb, const char *text)
{
	const struct sc_msccl *algo = m->algo;
	const struct sc_msccl_tb *block = &algo->tbs[tb];
	size_t step = m->at[tb];
	unsigned line = step < block->n ? algo->steps[block->first + step].line : block->line;

	return sc_err_at(m->err, SC_EVALUE, algo->file, line, 0,
			 "rank %d, thread block %zu, step %zu: %s", gpu, tb - algo->gpus[gpu].first,
			 step, text);
}

/* ---- order ----
 * A step comes after those before it in its thread block, the one it depends on, the send that it
 * receives, and the receive that made room for what it sends. Two accesses of a slot, one of them a
 * write, are to be ordered so: then one run stands for all. Dependencies mostly do; what they do
 * not is looked at with all that GPUs tell each other, of some GPUs in each run, as clocks of all
 * thread blocks at once would be too large. */
enum { ROW = 64, MAX_ORDER_BYTES = 1 << 30 };

/* ROW at once, which compilers turn into few instructions. */
static void see_steps(const struct machine *m, seen_steps *restrict to,
		      const seen_steps *restrict from)
{
	for (size_t i = 0; i < m->order.width; i += ROW)
		for (size_t k = 0; k < ROW; k++)
			to[i + k] = to[i + k] > from[i + k] ? to[i + k] : from[i + k];
}

static seen_steps *row_of(const struct machine *m, seen_steps *rows, size_t i)
{
	return rows + i * m->order.width;
}

/* The place of a thread block of the GPU in a clock; order.n and more: nowhere. */
static size_t seen_at(const struct machine *m, int gpu, size_t tb)
{
	return tb - (m->order.local ? m->algo->gpus[gpu].first : m->order.first);
}

static int check_before(struct machine *m, int gpu, size_t tb, const struct access *before,
			const char *what)
{
	const struct sc_msccl *algo = m->algo;
	size_t other = algo->gpus[gpu].first + (size_t)before->tb;
	char text[160];

	if (other == tb || row_of(m, m->order.now, tb)[seen_at(m, gpu, other)] > before->step)
		return 0;
	m->unordered[gpu] = true;
	if (m->order.local)
		return 0;
	snprintf(
		text, sizeof(text),
		"nothing orders it and thread block %d, step %d (line %u), which %s the same chunk",
		before->tb, before->step,
		algo->steps[algo->tbs[other].first + (size_t)before->step].line, what);
	return algo_fail(m, gpu, tb, text);
}

static int note_access(struct machine *m, int gpu, size_t tb, size_t slot, bool writes)
{
	struct order *o = &m->order;
	struct access *w = &o->written[slot];
	int own = (int)(tb - m->algo->gpus[gpu].first), rc;
	size_t *end = &w->next, at;

	if (seen_at(m, gpu, tb) >= o->n)
		return 0;
	rc = w->tb >= 0 ? check_before(m, gpu, tb, w, "writes") : 0;
	for (at = *end; rc == 0 && at; at = *end) {
		struct access *read = &o->reads.at[at - 1];

		if (writes)
			rc = check_before(m, gpu, tb, read, "reads");
		else if (read->tb == own)
			break;
		end = &read->next;
	}
	if (rc)
		return rc;
	if (writes) {
		*w = (struct access){own, (int)m->at[tb], 0};
	} else if (at) {
		o->reads.at[at - 1].step = (int)m->at[tb];
	} else {
		*end = o->reads.n + 1; /* before the list moves */
		SC_VEC_PUSH(&o->reads, ((struct access){own, (int)m->at[tb], 0}));
	}
	return 0;
}

/* ---- one step ---- */

static struct value *chunk_slot(const struct machine *m, int gpu, int buffer, int off)
{
	return &m->slots[m->base[buffer][gpu] + (size_t)off];
}

static int value_add(struct machine *m, int gpu, size_t tb, struct value other, struct value *into)
{
	if (other.chunk != into->chunk)
		return algo_fail(m, gpu, tb, "adds two different chunks");
	into->n += other.n;
	into->ranks += other.ranks;
	return into->n <= m->algo->n_gpus
		       ? 0
		       : algo_fail(m, gpu, tb,
				   "adds the chunk of a rank that is in the sum already");
}

static int value_get(struct machine *m, int gpu, size_t tb, int buffer, int off, struct value *out)
{
	const struct value *slot = chunk_slot(m, gpu, buffer, off);

	*out = *slot;
	if (slot->chunk < 0)
		return algo_fail(m, gpu, tb, "reads a chunk that nothing was written to");
	return note_access(m, gpu, tb, (size_t)(slot - m->slots), false);
}

static int chunk_put(struct machine *m, int gpu, size_t tb, const struct sc_msccl_step *step, int i,
		     struct value value)
{
	struct value *slot = chunk_slot(m, gpu, step->dst, step->dst_off + i);

	*slot = value;
	return note_access(m, gpu, tb, (size_t)(slot - m->slots), true);
}

static int local_step(struct machine *m, int gpu, size_t tb, const struct sc_msccl_step *step)
{
	for (int i = 0; i < step->count; i++) {
		struct value value, sum;
		int rc = value_get(m, gpu, tb, step->src, step->src_off + i, &value);

		if (rc == 0 && step->op == SC_MSCCL_REDUCE) {
			rc = value_get(m, gpu, tb, step->dst, step->dst_off + i, &sum);
			rc = rc ? rc : value_add(m, gpu, tb, sum, &value);
		}
		if (rc == 0)
			rc = chunk_put(m, gpu, tb, step, i, value);
		if (rc)
			return rc;
	}
	return 0;
}

static int peer_step(struct machine *m, int gpu, size_t tb, const struct sc_msccl_step *step)
{
	enum sc_msccl_op op = (enum sc_msccl_op)step->op;
	struct connection *from = sc_msccl_receives(op) ? &m->connections[m->peers.from[tb]] : NULL;
	struct connection *to = sc_msccl_sends(op) ? &m->connections[m->peers.to[tb]] : NULL;
	size_t slots = (size_t)sc_msccl_slots(m->algo->proto);
	size_t taken = from ? from->n_taken % slots : 0, sent = to ? to->n_sent % slots : 0;
	bool reduces = op >= SC_MSCCL_RECV_REDUCE_SEND && op <= SC_MSCCL_RECV_REDUCE_COPY_SEND;

	if (from && from->count[taken] != step->count)
		return algo_fail(m, gpu, tb,
				 "receives another number of chunks than its peer sends");
	for (int i = 0; i < step->count; i++) {
		struct value own, value;
		int rc = 0;

		if (!from || reduces)
			rc = value_get(m, gpu, tb, step->src, step->src_off + i, &own);
		value = from ? from->values[taken * m->max_count + (size_t)i] : own;
		if (rc == 0 && reduces)
			rc = value_add(m, gpu, tb, own, &value);
		if (rc == 0 && from && op != SC_MSCCL_RECV_REDUCE_SEND)
			rc = chunk_put(m, gpu, tb, step, i, value);
		if (rc)
			return rc;
		if (to)
			to->values[sent * m->max_count + (size_t)i] = value;
	}
	if (to) {
		to->count[sent] = step->count;
		to->n_sent++;
	}
	if (from)
		from->n_taken++;
	return 0;
}

/* ---- all steps ---- */

/* NULL: the next step can run; else what it waits for. */
static const char *waits_for(const struct machine *m, int gpu, size_t tb)
{
	const struct sc_msccl *algo = m->algo;
	const struct sc_msccl_step *step = &algo->steps[algo->tbs[tb].first + m->at[tb]];
	enum sc_msccl_op op = (enum sc_msccl_op)step->op;
	size_t slots = (size_t)sc_msccl_slots(algo->proto);

	if (step->dep_tb >= 0 &&
	    m->at[algo->gpus[gpu].first + (size_t)step->dep_tb] <= (size_t)step->dep_step)
		return "it waits for a step of its own GPU that never ends";
	if (sc_msccl_receives(op)) {
		const struct connection *c = &m->connections[m->peers.from[tb]];

		if (c->n_sent == c->n_taken)
			return m->peers.at[m->peers.from[tb]].sender
				       ? "it waits for data that its peer never sends"
				       : "no thread block of its peer sends on this channel";
	}
	if (sc_msccl_sends(op)) {
		const struct connection *c = &m->connections[m->peers.to[tb]];

		if (c->n_sent - c->n_taken == slots)
			return m->peers.at[m->peers.to[tb]].receiver
				       ? "its peer never takes what was sent before"
				       : "no thread block of its peer receives on this channel";
	}
	return NULL;
}

static int run_step(struct machine *m, int gpu, size_t tb)
{
	const struct sc_msccl *algo = m->algo;
	struct order *o = &m->order;
	size_t at = algo->tbs[tb].first + m->at[tb], bytes = o->width * sizeof(*o->now);
	size_t slots = (size_t)sc_msccl_slots(algo->proto), from = m->peers.from[tb];
	size_t to = m->peers.to[tb];
	const struct sc_msccl_step *step = &algo->steps[at];
	enum sc_msccl_op op = (enum sc_msccl_op)step->op;
	bool receives = !o->local && sc_msccl_receives(op), sends = !o->local && sc_msccl_sends(op);
	seen_steps *now = row_of(m, o->now, tb);
	int rc = 0;

	/* rows of the slots that the step takes from and puts into */
	from = from * slots + m->connections[from].n_taken % slots;
	to = to * slots + m->connections[to].n_sent % slots;
	if (step->dep_tb >= 0) {
		const struct sc_msccl_tb *other =
			&algo->tbs[algo->gpus[gpu].first + (size_t)step->dep_tb];
		size_t row = m->done_at[other->first + (size_t)step->dep_step] - 1;

		see_steps(m, now, row_of(m, o->done, row));
	}
	if (receives)
		see_steps(m, now, row_of(m, o->sent, from));
	if (sends)
		see_steps(m, now, row_of(m, o->taken, to));
	if (op == SC_MSCCL_COPY || op == SC_MSCCL_REDUCE)
		rc = local_step(m, gpu, tb, step);
	else if (op != SC_MSCCL_NOP)
		rc = peer_step(m, gpu, tb, step);
	if (rc)
		return rc;
	m->at[tb]++;
	if (seen_at(m, gpu, tb) < o->n)
		now[seen_at(m, gpu, tb)] = (seen_steps)m->at[tb];
	if (m->done_at[at])
		memcpy(row_of(m, o->done, m->done_at[at] - 1), now, bytes);
	if (receives)
		memcpy(row_of(m, o->taken, from), now, bytes);
	if (sends)
		memcpy(row_of(m, o->sent, to), now, bytes);
	return 0;
}

/* Until nothing moves. The sums do not depend on the order, where accesses are ordered. */
static int step_run(struct machine *m)
{
	const struct sc_msccl *algo = m->algo;
	bool moved = true;

	while (moved) {
		moved = false;
		for (int g = 0; g < algo->n_gpus; g++) {
			const struct sc_msccl_gpu *gpu = &algo->gpus[g];

			for (size_t t = gpu->first; t < gpu->first + gpu->n; t++) {
				while (m->at[t] < algo->tbs[t].n && !waits_for(m, g, t)) {
					int rc = run_step(m, g, t);

					if (rc)
						return rc;
					moved = true;
				}
			}
		}
	}
	for (int g = 0; g < algo->n_gpus; g++)
		for (size_t t = algo->gpus[g].first; t < algo->gpus[g].first + algo->gpus[g].n; t++)
			if (m->at[t] < algo->tbs[t].n)
				return algo_fail(m, g, t, waits_for(m, g, t));
	return 0;
}

/* Checks that all that was sent was also taken. */
static int check_taken(struct machine *m)
{
	const struct sc_msccl *algo = m->algo;

	for (int g = 0; g < algo->n_gpus; g++) {
		for (size_t t = algo->gpus[g].first; t < algo->gpus[g].first + algo->gpus[g].n;
		     t++) {
			const struct connection *c = &m->connections[m->peers.to[t]];

			if (algo->tbs[t].send < 0 || c->n_sent == c->n_taken)
				continue;
			m->at[t] = algo->tbs[t].n - 1;
			return algo_fail(m, g, t, "more is sent than its peer receives");
		}
	}
	return 0;
}

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
	int rc;

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
	rc = step_run(m);
	return rc ? rc : check_taken(m);
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
	o->sent = row_of(m, o->now, m->algo->n_tbs);
	o->taken = row_of(m, o->sent, slots);
	o->done = row_of(m, o->taken, slots);
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
				"rank %d: %s of nchunksperloop %d needs a buffer of as many "
				"chunks",
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
