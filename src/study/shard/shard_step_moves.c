/* See the header. */
#include "study/shard/shard_step_moves.h"

#include <math.h>
#include <string.h>

enum {
	MAX_TARGETS = 10,    /* ranks that a shard is tried on */
	MAX_HOT_TABLES = 24, /* of a busy rank */
	MAX_REPLICAS = 6,    /* tables that are asked back from replication */
	N_RANDOM_TABLES = 4,
};

struct hunt {
	struct sc_step_state *s;
	const struct sc_step_weights *w;
	const bool *frozen;
	uint32_t *ranks; /* idlest first */
	double *load;
	bool *seen; /* tables already asked */
	struct sc_step_undo undo;
	sc_step_moves *out;
};

/* ---- homes of a move ---- */

static double load_of(const struct sc_step_state *s, uint32_t rank)
{
	double per_byte = s->rates->by_node ? s->rates->host_scatter : s->rates->a2a;

	return s->forward[rank] + s->backward[rank] + 2 * s->sent[rank] * per_byte;
}

/* Of the busiest rank, and of what leaves the host. */
static double host_load(const struct sc_step_state *s, uint32_t host)
{
	uint32_t per_host = s->problem->ranks_per_host;
	double most = 0;

	for (uint32_t r = host * per_host; r < (host + 1) * per_host; r++)
		most = fmax(most, load_of(s, r));
	return most + 2 * s->node_columns[host] / (double)per_host * s->rates->a2a;
}

/* The n idlest ranks without this table, in the order of their numbers. */
static uint32_t pick_idle(struct sc_step_state *s, uint32_t table, uint32_t n, int32_t *out)
{
	struct sc_home none = {.placement = s->homes[table].placement};
	uint32_t n_picked = 0;

	sc_step_state_swap(s, table, &none);
	while (n_picked < n) {
		uint32_t best = UINT32_MAX;

		for (uint32_t r = 0; r < s->problem->world; r++) {
			bool taken = false;

			for (uint32_t i = 0; i < n_picked; i++)
				taken = taken || out[i] == (int32_t)r;
			if (!taken && (best == UINT32_MAX || load_of(s, r) < load_of(s, best)))
				best = r;
		}
		out[n_picked++] = (int32_t)best;
	}
	sc_step_state_swap(s, table, &none);
	for (uint32_t i = 1; i < n; i++) {
		int32_t rank = out[i];
		uint32_t k = i;

		for (; k > 0 && out[k - 1] > rank; k--)
			out[k] = out[k - 1];
		out[k] = rank;
	}
	return n_picked;
}

static void slice_columns(struct sc_step_state *s, const struct sc_step_move *m,
			  struct sc_home *home)
{
	const struct sc_table *t = &s->problem->tables[m->table];
	int64_t cols = t->dim / m->n;
	int32_t ranks[SC_STEP_MAX_SLICES];

	sc_home_begin(home, t, SC_COLUMN_WISE);
	pick_idle(s, m->table, m->n, ranks);
	for (uint32_t i = 0; i < m->n; i++) {
		struct sc_step_slice slice = {ranks[i], 0, (int64_t)i * cols, t->rows, cols};

		sc_home_add(s, m->table, home, &slice);
	}
}

/* `ranks` NULL: from `first` on. */
static void slice_rows(struct sc_step_state *s, const struct sc_step_move *m, const int32_t *ranks,
		       int32_t first, struct sc_home *home)
{
	const struct sc_table *t = &s->problem->tables[m->table];
	int64_t rows = (t->rows + m->n - 1) / m->n;

	for (uint32_t i = 0; i < m->n; i++) {
		int64_t at = (int64_t)i * rows < t->rows ? (int64_t)i * rows : t->rows;
		struct sc_step_slice slice = {ranks ? ranks[i] : first + (int32_t)i, at, 0,
					      t->rows - at < rows ? t->rows - at : rows, t->dim};

		sc_home_add(s, m->table, home, &slice);
	}
}

static void some_rows(struct sc_step_state *s, const struct sc_step_move *m, struct sc_home *home)
{
	const struct sc_shard_problem *p = s->problem;
	int32_t ranks[SC_STEP_MAX_SLICES];
	bool one_host;

	if (m->n == p->world) {
		sc_home_begin(home, &p->tables[m->table], SC_ROW_WISE);
		slice_rows(s, m, NULL, 0, home);
		return;
	}
	pick_idle(s, m->table, m->n, ranks);
	one_host = (uint32_t)ranks[0] / p->ranks_per_host ==
		   (uint32_t)ranks[m->n - 1] / p->ranks_per_host;
	sc_home_begin(home, &p->tables[m->table], one_host ? SC_TABLE_ROW_WISE : SC_ROW_WISE);
	slice_rows(s, m, ranks, 0, home);
}

/* The idlest hosts without this table: all ranks of n of them, in the order of their numbers. */
static void pick_hosts(struct sc_step_state *s, uint32_t table, uint32_t n, int32_t *ranks)
{
	const struct sc_shard_problem *p = s->problem;
	struct sc_home none = {.placement = s->homes[table].placement};
	uint32_t per_host = p->ranks_per_host, n_hosts = p->world / per_host, at = 0;
	bool *taken = sc_xrealloc(NULL, n_hosts, sizeof(*taken));

	memset(taken, 0, n_hosts * sizeof(*taken));
	sc_step_state_swap(s, table, &none);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t best = n_hosts;
		double least = INFINITY;

		for (uint32_t h = 0; h < n_hosts; h++) {
			double load = host_load(s, h);

			if (!taken[h] && load < least) {
				best = h;
				least = load;
			}
		}
		taken[best] = true;
	}
	sc_step_state_swap(s, table, &none);
	for (uint32_t h = 0; h < n_hosts; h++) {
		for (uint32_t i = 0; taken[h] && i < per_host; i++)
			ranks[at++] = (int32_t)(h * per_host + i);
	}
	free(taken);
}

static void whole_hosts(struct sc_step_state *s, const struct sc_step_move *m, struct sc_home *home)
{
	int32_t ranks[SC_STEP_MAX_SLICES];

	sc_home_begin(home, &s->problem->tables[m->table], SC_ROW_WISE);
	pick_hosts(s, m->table, m->n / s->problem->ranks_per_host, ranks);
	slice_rows(s, m, ranks, 0, home);
}

static void replicate(struct sc_step_state *s, const struct sc_step_move *m, struct sc_home *home)
{
	const struct sc_table *t = &s->problem->tables[m->table];

	sc_home_begin(home, t, SC_DATA_PARALLEL);
	for (uint32_t r = 0; r < s->problem->world; r++) {
		struct sc_step_slice slice = {(int32_t)r, 0, 0, t->rows, t->dim};

		sc_home_add(s, m->table, home, &slice);
	}
}

static void make_home(struct sc_step_state *s, const struct sc_step_move *m, struct sc_home *home)
{
	const struct sc_table *t = &s->problem->tables[m->table];
	struct sc_step_slice whole = {m->rank, 0, 0, t->rows, t->dim};

	switch (m->kind) {
	case SC_MOVE_SHARD:
		sc_home_copy(home, &s->homes[m->table]);
		home->shards.at[m->shard].at.rank = m->rank;
		return;
	case SC_MOVE_SWAP:
		sc_home_copy(home, &s->homes[m->table]);
		home->shards.at[m->shard].at.rank =
			s->homes[m->other].shards.at[m->other_shard].at.rank;
		return;
	case SC_MOVE_WHOLE:
		sc_home_begin(home, t, SC_TABLE_WISE);
		sc_home_add(s, m->table, home, &whole);
		return;
	case SC_MOVE_COLUMNS:
		slice_columns(s, m, home);
		return;
	case SC_MOVE_ROWS:
		some_rows(s, m, home);
		return;
	case SC_MOVE_HOST:
		sc_home_begin(home, t, SC_TABLE_ROW_WISE);
		slice_rows(s, m, NULL, m->rank * (int32_t)s->problem->ranks_per_host, home);
		return;
	case SC_MOVE_HOSTS:
		whole_hosts(s, m, home);
		return;
	case SC_MOVE_REPLICATE:
		replicate(s, m, home);
		return;
	}
}

void sc_step_move_do(struct sc_step_state *s, const struct sc_step_move *m,
		     struct sc_step_undo *undo)
{
	make_home(s, m, &undo->first);
	undo->two = m->kind == SC_MOVE_SWAP;
	if (undo->two) {
		sc_home_copy(&undo->second, &s->homes[m->other]);
		undo->second.shards.at[m->other_shard].at.rank =
			s->homes[m->table].shards.at[m->shard].at.rank;
		sc_step_state_swap(s, m->other, &undo->second);
	}
	sc_step_state_swap(s, m->table, &undo->first);
}

void sc_step_move_undo(struct sc_step_state *s, const struct sc_step_move *m,
		       struct sc_step_undo *undo)
{
	sc_step_state_swap(s, m->table, &undo->first);
	if (undo->two)
		sc_step_state_swap(s, m->other, &undo->second);
}

void sc_step_undo_release(struct sc_step_undo *undo)
{
	sc_home_release(&undo->first);
	sc_home_release(&undo->second);
}

/* ---- which moves ---- */

static void offer(struct hunt *h, struct sc_step_move move)
{
	sc_step_move_do(h->s, &move, &h->undo);
	if (sc_step_state_fits(h->s)) {
		move.estimate = sc_step_estimate(h->s, h->w);
		SC_VEC_PUSH(h->out, move);
	}
	sc_step_move_undo(h->s, &move, &h->undo);
}

static bool is_on(const struct sc_home *home, int32_t rank)
{
	for (size_t i = 0; i < home->shards.n; i++) {
		if (home->shards.at[i].at.rank == rank)
			return true;
	}
	return false;
}

static bool is_loose(const struct sc_home *home)
{
	return home->placement.type == SC_TABLE_WISE || home->placement.type == SC_COLUMN_WISE;
}

/* Is this shard one that may change ranks alone? Slices of rows may where they need not lie together. */
static bool may_move(const struct hunt *h, const struct sc_home *home)
{
	const struct sc_shard_problem *p = h->s->problem;

	if (is_loose(home))
		return true;
	return home->placement.type == SC_TABLE_ROW_WISE && h->s->rates->partial_sums &&
	       p->world == p->ranks_per_host && home->shards.n < p->world;
}

static void offer_swaps(struct hunt *h, uint32_t table, uint32_t shard, int32_t rank)
{
	const struct sc_step_state *s = h->s;

	for (uint32_t t = 0; t < s->problem->n_tables; t++) {
		const struct sc_home *home = &s->homes[t];

		if (t == table || h->frozen[t] || !may_move(h, home))
			continue;
		for (uint32_t i = 0; i < home->shards.n; i++) {
			struct sc_step_move move = {SC_MOVE_SWAP, table, t, shard, i, 0, 0, 0};

			if (home->shards.at[i].at.rank != rank ||
			    is_on(home, s->homes[table].shards.at[shard].at.rank))
				continue;
			offer(h, move);
			break;
		}
	}
}

static void offer_ranks(struct hunt *h, uint32_t table, uint32_t shard)
{
	const struct sc_home *home = &h->s->homes[table];
	uint32_t world = h->s->problem->world;

	for (uint32_t i = 0; i < world && i < MAX_TARGETS; i++) {
		int32_t rank = (int32_t)h->ranks[i];
		struct sc_step_move move = {SC_MOVE_SHARD, table, 0, shard, 0, rank, 0, 0};

		if (is_on(home, rank))
			continue;
		offer(h, move);
		if (i < MAX_TARGETS / 2)
			offer_swaps(h, table, shard, rank);
	}
}

static void offer_splits(struct hunt *h, uint32_t table)
{
	const struct sc_shard_problem *p = h->s->problem;
	const struct sc_table *t = &p->tables[table];
	uint32_t n_hosts = p->world / p->ranks_per_host;

	for (uint32_t n = 2; n <= p->world && n <= SC_STEP_MAX_SLICES; n *= 2) {
		if (t->dim % (4 * n) == 0 && t->dim / n >= SC_STEP_MIN_COLS)
			offer(h, (struct sc_step_move){SC_MOVE_COLUMNS, table, 0, 0, 0, 0, n, 0});
		if (h->s->rates->partial_sums && n < p->world && t->rows >= n)
			offer(h, (struct sc_step_move){SC_MOVE_ROWS, table, 0, 0, 0, 0, n, 0});
	}
	if (t->rows >= p->world && p->world > 1)
		offer(h, (struct sc_step_move){SC_MOVE_ROWS, table, 0, 0, 0, 0, p->world, 0});
	for (uint32_t i = 0; i < n_hosts && n_hosts > 1 && t->rows >= p->ranks_per_host; i++)
		offer(h, (struct sc_step_move){SC_MOVE_HOST, table, 0, 0, 0, (int32_t)i,
					       p->ranks_per_host, 0});
	for (uint32_t k = 2; h->s->rates->partial_sums && k < n_hosts; k *= 2) {
		uint32_t n = k * p->ranks_per_host;

		if (n <= SC_STEP_MAX_SLICES && t->rows >= n)
			offer(h, (struct sc_step_move){SC_MOVE_HOSTS, table, 0, 0, 0, 0, n, 0});
	}
}

/* Every way to place the table anew, and to move its shards that lie on `rank` (-1: none). */
static void ask_table(struct hunt *h, uint32_t table, int32_t rank)
{
	const struct sc_shard_problem *p = h->s->problem;
	const struct sc_table *t = &p->tables[table];
	struct sc_home *home = &h->s->homes[table];
	double bytes = (double)t->rows * (double)t->dim * 4;

	if (h->frozen[table])
		return;
	for (uint32_t i = 0; i < home->shards.n && may_move(h, home); i++) {
		if (home->shards.at[i].at.rank == rank)
			offer_ranks(h, table, i);
	}
	if (h->seen[table])
		return;
	h->seen[table] = true;
	for (uint32_t i = 0; i < p->world && i < MAX_TARGETS; i++) {
		int32_t to = (int32_t)h->ranks[i];

		if (home->placement.type != SC_TABLE_WISE)
			offer(h, (struct sc_step_move){SC_MOVE_WHOLE, table, 0, 0, 0, to, 0, 0});
	}
	offer_splits(h, table);
	if (p->world > 1 && bytes <= SC_STEP_MAX_REPLICA_BYTES &&
	    home->placement.type != SC_DATA_PARALLEL)
		offer(h, (struct sc_step_move){SC_MOVE_REPLICATE, table, 0, 0, 0, 0, 0, 0});
}

static double cost_on(const struct sc_home *home, int32_t rank)
{
	double ms = 0;

	for (size_t i = 0; i < home->shards.n; i++) {
		const struct sc_step_shard *shard = &home->shards.at[i];

		if (rank < 0 || shard->at.rank == rank)
			ms += shard->part.forward_ms + shard->part.backward_ms;
		if (rank < 0)
			break;
	}
	return ms;
}

/* The dearest tables of a rank; of the replicas, where `rank` is -1. */
static void ask_dearest(struct hunt *h, int32_t rank, uint32_t n_most)
{
	uint32_t n_tables = (uint32_t)h->s->problem->n_tables, last = UINT32_MAX;
	double last_ms = INFINITY;

	for (uint32_t n = 0; n < n_most; n++) {
		uint32_t best = UINT32_MAX;
		double best_ms = 0;

		for (uint32_t t = 0; t < n_tables; t++) {
			const struct sc_home *home = &h->s->homes[t];
			bool replica = home->placement.type == SC_DATA_PARALLEL;
			double ms = replica == (rank < 0) ? cost_on(home, rank) : 0;
			bool is_next = ms < last_ms || (!(ms > last_ms) && t > last);

			if (ms > best_ms && (last == UINT32_MAX || is_next)) {
				best = t;
				best_ms = ms;
			}
		}
		if (best == UINT32_MAX)
			return;
		ask_table(h, best, rank);
		last = best;
		last_ms = best_ms;
	}
}

static uint32_t most_of(const double *of_rank, uint32_t n)
{
	uint32_t at = 0;

	for (uint32_t r = 1; r < n; r++) {
		if (of_rank[r] > of_rank[at])
			at = r;
	}
	return at;
}

static void sort_ranks(struct hunt *h)
{
	uint32_t world = h->s->problem->world;

	for (uint32_t r = 0; r < world; r++) {
		double load = load_of(h->s, r);
		uint32_t k = r;

		for (; k > 0 && h->load[k - 1] > load; k--) {
			h->load[k] = h->load[k - 1];
			h->ranks[k] = h->ranks[k - 1];
		}
		h->load[k] = load;
		h->ranks[k] = r;
	}
}

static int by_estimate(const void *a, const void *b)
{
	const struct sc_step_move *x = a, *y = b;

	if (x->estimate < y->estimate || x->estimate > y->estimate)
		return x->estimate < y->estimate ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->table != y->table)
		return x->table < y->table ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	return (x->other > y->other) - (x->other < y->other);
}

void sc_step_moves_find(struct sc_step_state *s, const struct sc_step_weights *w,
			const bool *frozen, struct sc_rng *rng, sc_step_moves *out)
{
	uint32_t world = s->problem->world, n_tables = (uint32_t)s->problem->n_tables;
	struct hunt h = {.s = s, .w = w, .frozen = frozen, .out = out};
	uint32_t hot[4];

	out->n = 0;
	h.ranks = sc_xrealloc(NULL, world, sizeof(*h.ranks));
	h.load = sc_xrealloc(NULL, world, sizeof(*h.load));
	h.seen = sc_xrealloc(NULL, n_tables + 1, sizeof(*h.seen));
	memset(h.seen, 0, n_tables * sizeof(*h.seen));
	sort_ranks(&h);
	hot[0] = h.ranks[world - 1];
	hot[1] = most_of(s->forward, world);
	hot[2] = most_of(s->backward, world);
	hot[3] = most_of(s->sent, world);
	for (int i = 0; i < 4; i++) {
		bool known = false;

		for (int k = 0; k < i; k++)
			known = known || hot[k] == hot[i];
		if (!known)
			ask_dearest(&h, (int32_t)hot[i], MAX_HOT_TABLES);
	}
	ask_dearest(&h, -1, MAX_REPLICAS);
	for (int i = 0; i < N_RANDOM_TABLES; i++)
		ask_table(&h, (uint32_t)sc_rng_below(rng, n_tables), -1);
	if (out->n)
		qsort(out->at, out->n, sizeof(*out->at), by_estimate);
	sc_step_undo_release(&h.undo);
	free(h.ranks);
	free(h.load);
	free(h.seen);
}
