/* Runs an algorithm on symbols, and proves that thread blocks give the same in any order: a slot of
 * a buffer holds a chunk of a rank's input, or the sum of one chunk over ranks. Of which ones is
 * told by the sum of a random number of 64 bits for each (Zobrist's way, Univ. of Wisconsin report
 * 88, 1970): that two sums over other ranks agree has a chance of 2^-64. */
#include <stdio.h>
#include <string.h>

#include "models/msccl/msccl_check_priv.h"

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
static int run_all(struct machine *m)
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

int sc_msccl_run(struct machine *m)
{
	int rc = run_all(m);

	return rc ? rc : check_taken(m);
}
