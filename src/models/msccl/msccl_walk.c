/* The time of an algorithm by walking its thread blocks. All chunks are cut into the same tiles;
 * for each tile a thread block runs its steps in order. A step waits for the steps it depends on,
 * for data in its connection and for room in the next one; it moves its bytes at a thread block's
 * rate, and what it sends passes a first-come server of its link, of its GPU's port or of its NIC.
 * LL and LL128 forward as they receive; Simple after the first of two slices. Beyond some tiles
 * each costs as much as the last. Rates and latencies: the fabric profile, by links, protocol. */
#include <assert.h>
#include <math.h>

#include "base/search.h"
#include "base/units.h"
#include "models/collective/collective_priv.h"
#include "models/msccl/msccl_priv.h"

/* Tiles that are walked: the rest costs as much a tile as the second half of these. */
enum { WARM_TILES = 8, WALKED_TILES = 16, MAX_SLOTS = 8 };

#define LOCAL_US                                                                        \
	1.5 /* of each copy or reduction in a GPU; set by hand with the rates of MI300X \
	       (configs/fabrics) */

enum limit { BY_BLOCK, BY_LINK, BY_PORT, BY_NET, BY_LATENCY, N_LIMITS };
static const char *const LIMITS[N_LIMITS] = {"block", "link", "port", "network", "latency"};

struct connection {
	double available_us[MAX_SLOTS], sent_us[MAX_SLOTS], freed_us[MAX_SLOTS];
	size_t n_sent, n_taken;
	bool is_remote;
};
struct block {
	size_t step, tile, part; /* next; part: of a step that is more than one primitive */
	double free_us;
	int gpu;
	bool has_turn;
	bool is_parked; /* in the chain of a step's waiters */
};
struct turn {
	double us;
	size_t block;
};
struct done {
	size_t tile; /* + 1 */
	double us;
};
struct server {
	double free_us, busy_us;
};
struct walk {
	const struct sc_msccl *algo;
	const struct sc_fabric *fabric;
	int per_node;                /* ranks; no more than the GPUs of a node */
	double link_gbps, port_gbps; /* of two GPUs, of one; 0: no limit */
	const struct sc_fabric_walk_proto *p;
	int slots;
	double chunk_bytes, tile_bytes;
	size_t n_tiles, walked_tiles;
	int per_primitive; /* chunks */
	struct block *blocks;
	struct sc_msccl_connections peers;
	struct connection *connections; /* of each in `peers` */
	/* Links, by the GPU and the peer's place on its node; ports; NICs. */
	struct server *servers[N_LIMITS];
	size_t n_servers[N_LIMITS];
	struct done *done;  /* of a step */
	struct turn *turns; /* a heap, the earliest first */
	size_t n_turns;
	size_t *waiters; /* of a step: a thread block + 1 that waits for it, a chain */
	size_t *next_waiter;
	double tile_end_us[WALKED_TILES];
};

/* ---- thread blocks by the time at which they can go on ---- */

static bool before(struct turn a, struct turn b)
{
	return 2 * SC_ORDER(a.us, b.us) + SC_ORDER(a.block, b.block) < 0;
}

static struct turn pop(struct walk *w)
{
	struct turn first = w->turns[0], last = w->turns[--w->n_turns];
	size_t at = 0;

	for (size_t child; (child = 2 * at + 1) < w->n_turns; at = child) {
		if (child + 1 < w->n_turns && before(w->turns[child + 1], w->turns[child]))
			child++;
		if (!before(w->turns[child], last))
			break;
		w->turns[at] = w->turns[child];
	}
	w->turns[at] = last;
	w->blocks[first.block].has_turn = false;
	return first;
}

/* ---- one step ---- */

static const struct sc_msccl_step *step_of(const struct walk *w, size_t block)
{
	return &w->algo->steps[w->algo->tbs[block].first + w->blocks[block].step];
}

static struct connection *from_of(const struct walk *w, size_t block)
{
	return &w->connections[w->peers.from[block]];
}

static struct connection *to_of(const struct walk *w, size_t block)
{
	return &w->connections[w->peers.to[block]];
}

static double tile_of(const struct walk *w, size_t tile)
{
	return fmin(w->tile_bytes, w->chunk_bytes - (double)tile * w->tile_bytes);
}

/* Consecutive reductions into one place, which neither wait nor are waited for, are one. */
static size_t merged(const struct walk *w, size_t block)
{
	const struct sc_msccl_tb *tb = &w->algo->tbs[block];
	const struct sc_msccl_step *first = step_of(w, block);
	size_t n = 1, left = tb->n - w->blocks[block].step;

	if (first->op != SC_MSCCL_REDUCE)
		return 1;
	while (n < left && n < 16 && first[n].op == SC_MSCCL_REDUCE && first[n].dep_tb < 0 &&
	       first[n].dst == first->dst && first[n].dst_off == first->dst_off &&
	       first[n].src == first->src && first[n].count == first->count)
		n++;
	return n;
}

/* When the step's needs are met; HUGE_VAL: not yet known, then *waits_on says that the block waits
 * on a step (+ 1; else on a connection, whose other side wakes it). */
static double ready_us(const struct walk *w, size_t block, size_t *waits_on)
{
	const struct block *b = &w->blocks[block];
	const struct sc_msccl_step *step = step_of(w, block);
	enum sc_msccl_op op = (enum sc_msccl_op)step->op;
	double us = b->free_us;

	*waits_on = 0;
	if (step->dep_tb >= 0 && b->part == 0) {
		size_t of = w->algo->gpus[b->gpu].first + (size_t)step->dep_tb;
		size_t at = w->algo->tbs[of].first + (size_t)step->dep_step;

		if (w->done[at].tile <= b->tile) {
			*waits_on = at + 1;
			return HUGE_VAL;
		}
		if (w->done[at].tile == b->tile + 1)
			us = fmax(us, w->done[at].us);
	}
	if (sc_msccl_receives(op)) {
		const struct connection *c = from_of(w, block);

		if (c->n_sent == c->n_taken)
			return HUGE_VAL;
		us = fmax(us, c->available_us[c->n_taken % (size_t)w->slots]);
	}
	if (sc_msccl_sends(op)) {
		const struct connection *c = to_of(w, block);

		if (c->n_sent - c->n_taken == (size_t)w->slots)
			return HUGE_VAL;
		us = fmax(us, c->freed_us[c->n_sent % (size_t)w->slots]);
	}
	return us;
}

/* A first-come server: takes bytes from `us` on, and is done at what it returns. */
static double serve(struct server *server, double us, double bytes, double gbps)
{
	double work = sc_bytes_us(bytes, gbps);

	server->free_us = fmax(server->free_us, us) + work;
	server->busy_us += work;
	return server->free_us;
}

static double send_end_us(struct walk *w, size_t block, double start, double bytes)
{
	const struct block *b = &w->blocks[block];
	const struct sc_fabric *f = w->fabric;
	const struct connection *c = to_of(w, block);
	double wire = bytes * w->p->wire_factor, end = start;
	int nics = f->nics_per_node > 0 ? f->nics_per_node : 1;

	if (c->is_remote) {
		int node = b->gpu / w->per_node, local = b->gpu % w->per_node;
		size_t at = (size_t)(node * nics + local * nics / f->gpus_per_node);
		struct server *nic = &w->servers[BY_NET][at];

		/* As in the library's own exchange a peer's buffer fills before the bytes flow. */
		if (w->algo->coll == SC_MSCCL_ALL_TO_ALL && c->n_sent == 1)
			nic->free_us = fmax(nic->free_us, start) +
				       sc_collective_fill_us(f, wire, f->nic_gbps * f->net.eff);
		return serve(nic, start, wire, f->nic_gbps * f->net.eff);
	}
	if (w->link_gbps > 0) {
		int peer = w->algo->tbs[block].send % w->per_node;
		size_t link = (size_t)(b->gpu * w->per_node + peer);

		end = serve(&w->servers[BY_LINK][link], start, wire, w->link_gbps);
	}
	if (w->port_gbps > 0)
		end = fmax(end, serve(&w->servers[BY_PORT][b->gpu], start, wire, w->port_gbps));
	return end;
}

static void wake(struct walk *w, size_t waiter);

static void run_peer_step(struct walk *w, size_t block, double start, double bytes)
{
	const struct sc_fabric *f = w->fabric;
	struct block *b = &w->blocks[block];
	enum sc_msccl_op op = (enum sc_msccl_op)step_of(w, block)->op;
	bool simple = w->algo->proto == SC_PROTO_SIMPLE;
	double moving = sc_bytes_us(bytes, w->p->block_gbps);
	double slice = simple ? moving / 2 : 0, end = start + w->p->step_us + moving;
	size_t other[2], n_other = 0;

	if (sc_msccl_receives(op)) {
		struct connection *c = from_of(w, block);
		size_t slot = c->n_taken % (size_t)w->slots;

		end = fmax(end, c->sent_us[slot] + w->p->step_us + slice);
	}
	if (sc_msccl_sends(op)) {
		struct connection *c = to_of(w, block);
		size_t slot = c->n_sent++ % (size_t)w->slots;
		double far_us = c->is_remote ? f->net.latency_us +
						       sc_nccl_hop_us(false, SC_ALGO_RING,
								      w->algo->proto, SC_HOP_NET)
					     : 0;

		end = fmax(end, send_end_us(w, block, start, bytes));
		c->sent_us[slot] = end + far_us;
		c->available_us[slot] =
			far_us + w->p->step_us + (simple ? end - slice : start + w->p->step_us);
		other[n_other++] = w->peers.at[w->peers.to[block]].receiver;
	}
	if (sc_msccl_receives(op)) {
		struct connection *c = from_of(w, block);

		c->freed_us[c->n_taken++ % (size_t)w->slots] = end;
		other[n_other++] = w->peers.at[w->peers.from[block]].sender;
	}
	b->free_us = end;
	for (size_t i = 0; i < n_other; i++)
		wake(w, other[i]);
}

/* The step is over for this tile: who waits for it goes on, and the block to its next one. */
static void finish_steps(struct walk *w, size_t block, size_t n)
{
	struct block *b = &w->blocks[block];
	const struct sc_msccl_tb *tb = &w->algo->tbs[block];

	for (; n > 0; n--) {
		size_t at = tb->first + b->step++, next;

		w->done[at] = (struct done){b->tile + 1, b->free_us};
		for (size_t waiter = w->waiters[at]; waiter; waiter = next) {
			next = w->next_waiter[waiter - 1];
			w->waiters[at] = next;
			w->blocks[waiter - 1].is_parked = false;
			wake(w, waiter);
		}
	}
	if (b->step < tb->n)
		return;
	w->tile_end_us[b->tile] = fmax(w->tile_end_us[b->tile], b->free_us);
	b->step = 0;
	b->tile++;
}

static void run_step(struct walk *w, size_t block, double start)
{
	struct block *b = &w->blocks[block];
	const struct sc_msccl_step *step = step_of(w, block);
	int left = step->count - (int)b->part * w->per_primitive;
	int chunks = left < w->per_primitive ? left : w->per_primitive;
	size_t n = 1;

	b->free_us = start;
	if (step->op == SC_MSCCL_COPY || step->op == SC_MSCCL_REDUCE) {
		double bytes = step->count * tile_of(w, b->tile);

		n = merged(w, block);
		b->free_us +=
			LOCAL_US + (double)n * sc_bytes_us(bytes, w->fabric->walk->local_gbps);
	} else {
		run_peer_step(w, block, start, chunks * tile_of(w, b->tile));
		b->part++;
		if (left > chunks)
			return;
	}
	b->part = 0;
	finish_steps(w, block, n);
}

/* Puts a block that may go on into the heap, or notes what it waits for. */
static void wake(struct walk *w, size_t waiter)
{
	size_t block = waiter - 1, on;
	struct block *b;
	double us;

	if (waiter == 0)
		return;
	b = &w->blocks[block];
	if (b->has_turn || b->is_parked || b->tile == w->walked_tiles || w->algo->tbs[block].n == 0)
		return;
	us = ready_us(w, block, &on);
	while (us < HUGE_VAL && step_of(w, block)->op == SC_MSCCL_NOP) {
		b->free_us = us;
		finish_steps(w, block, 1);
		if (b->tile == w->walked_tiles)
			return;
		us = ready_us(w, block, &on);
	}
	if (us < HUGE_VAL) {
		struct turn turn = {us, block};
		size_t at = w->n_turns++;

		w->blocks[block].has_turn = true;
		for (; at > 0 && before(turn, w->turns[(at - 1) / 2]); at = (at - 1) / 2)
			w->turns[at] = w->turns[(at - 1) / 2];
		w->turns[at] = turn;
	} else if (on) {
		b->is_parked = true;
		w->next_waiter[block] = w->waiters[on - 1];
		w->waiters[on - 1] = waiter;
	}
}

/* ---- set-up ---- */

static void set_tiles(struct walk *w, double bytes)
{
	const struct sc_msccl *algo = w->algo;
	double chunks;

	w->chunk_bytes = bytes / algo->n_chunks;
	w->tile_bytes = w->p->tile_bytes;
	w->n_tiles = (size_t)fmax(1, ceil(w->chunk_bytes / w->tile_bytes));
	w->walked_tiles = w->n_tiles < WALKED_TILES ? w->n_tiles : WALKED_TILES;
	chunks = floor(w->tile_bytes / fmax(1, w->chunk_bytes));
	w->per_primitive = (int)fmax(1, fmin(SC_MSCCL_MAX_COUNT, chunks));
}

/* The profile's are of the fastest GPU with such links, all of them switched; this one's may be
 * slower, wired pair by pair, or not there. */
static void set_rates(struct walk *w)
{
	const struct sc_fabric *f = w->fabric;
	double port_gbps = f->link_gbps * f->link.eff;

	w->link_gbps = w->port_gbps = 0;
	if (sc_is_over_pcie(f, w->per_node)) {
		w->port_gbps = f->pcie_gbps * f->ramp.pcie_eff;
		return;
	}
	w->port_gbps = f->walk->port_gbps > 0 ? fmin(f->walk->port_gbps, port_gbps) : port_gbps;
	w->link_gbps = f->walk->link_gbps;
	if (f->topology == SC_LINK_MESH && !(w->link_gbps > 0) && f->link_gpus > 1)
		w->link_gbps = port_gbps / (f->link_gpus - 1);
}

static int init(struct walk *w, struct sc_arena *arena, struct sc_err *err)
{
	const struct sc_msccl *algo = w->algo;
	size_t gpus = (size_t)algo->n_gpus, nics = (size_t)w->fabric->nics_per_node + 1;
	size_t nodes = gpus / (size_t)w->per_node + 1;

	w->blocks = sc_arena_calloc(arena, algo->n_tbs + 1, sizeof(*w->blocks));
	w->turns = sc_arena_calloc(arena, algo->n_tbs + 1, sizeof(*w->turns));
	w->next_waiter = sc_arena_calloc(arena, algo->n_tbs + 1, sizeof(*w->next_waiter));
	w->waiters = sc_arena_calloc(arena, algo->n_steps + 1, sizeof(*w->waiters));
	w->done = sc_arena_calloc(arena, algo->n_steps + 1, sizeof(*w->done));
	w->n_servers[BY_LINK] = gpus * (size_t)w->per_node;
	w->n_servers[BY_PORT] = gpus;
	w->n_servers[BY_NET] = nodes * nics;
	for (int i = BY_LINK; i <= BY_NET; i++)
		w->servers[i] = sc_arena_calloc(arena, w->n_servers[i], sizeof(struct server));
	for (int g = 0; g < algo->n_gpus; g++)
		for (size_t t = 0; t < algo->gpus[g].n; t++)
			w->blocks[algo->gpus[g].first + t].gpu = g;
	int per_node = w->per_node;
	int rc = sc_msccl_connect(w->algo, arena, &w->peers, err);

	if (rc)
		return rc;
	w->connections = sc_arena_calloc(arena, w->peers.n + 1, sizeof(*w->connections));
	for (size_t i = 0; i < w->peers.n; i++)
		w->connections[i].is_remote =
			w->peers.at[i].from / per_node != w->peers.at[i].to / per_node;
	return 0;
}

static double most(const double *x, size_t n)
{
	double most = 0;

	for (size_t i = 0; i < n; i++)
		most = fmax(most, x[i]);
	return most;
}

/* The link that was at work the longest, and how long. */
static double busiest_us(const struct walk *w, int *best)
{
	double busy[N_LIMITS] = {0};

	*best = BY_BLOCK;
	for (int k = BY_LINK; k <= BY_NET; k++)
		for (size_t i = 0; i < w->n_servers[k]; i++)
			busy[k] = fmax(busy[k], w->servers[k][i].busy_us);
	for (size_t t = 0; t < w->algo->n_tbs; t++) {
		double bytes = 0;

		for (size_t s = 0; s < w->algo->tbs[t].n; s++)
			bytes += w->algo->steps[w->algo->tbs[t].first + s].count * w->chunk_bytes;
		bytes *= (double)w->walked_tiles / (double)w->n_tiles;
		busy[BY_BLOCK] = fmax(busy[BY_BLOCK], sc_bytes_us(bytes, w->p->block_gbps));
	}
	for (int i = 0; i < BY_LATENCY; i++)
		if (busy[i] > busy[*best])
			*best = i;
	return busy[*best];
}

/* A step of many chunks is several primitives where they are large: two blocks that both send
 * before they receive then fill their connections and wait for each other. */
static bool has_ended(const struct walk *w)
{
	for (size_t t = 0; t < w->algo->n_tbs; t++)
		if (w->algo->tbs[t].n > 0 && w->blocks[t].tile < w->walked_tiles)
			return false;
	return true;
}

static struct sc_msccl_time time_of(const struct walk *w)
{
	double end_us = most(w->tile_end_us, w->walked_tiles);
	int best;
	double busy_us = busiest_us(w, &best);
	/* where nothing was at work for half of the time, waiting was */
	const char *limit = LIMITS[busy_us > end_us / 2 ? best : BY_LATENCY];

	if (!has_ended(w))
		return (struct sc_msccl_time){HUGE_VAL, "deadlock"};
	if (w->n_tiles > w->walked_tiles) {
		double warm_us = most(w->tile_end_us, WARM_TILES);
		double tiles = w->chunk_bytes / w->tile_bytes - (double)w->walked_tiles;

		/* the last of few may come faster than what blocks share can go on */
		double shared_us = best == BY_BLOCK ? 0 : busy_us / (double)w->walked_tiles;

		end_us += tiles * fmax((end_us - warm_us) / (WALKED_TILES - WARM_TILES), shared_us);
	}
	return (struct sc_msccl_time){w->p->base_us + end_us, limit};
}

int sc_msccl_walk(const struct sc_msccl *algo, const struct sc_msccl_place *place, double bytes,
		  struct sc_msccl_time *out, struct sc_err *err)
{
	const struct sc_fabric *fabric = place->fabric;
	struct walk w = {.algo = algo, .fabric = fabric, .per_node = place->ranks_per_node};
	struct sc_arena arena;
	int rc;

	if (!fabric->walk || !(fabric->walk->protos[algo->proto].block_gbps > 0))
		return sc_err_set(
			err, SC_EUNSUPPORTED,
			"the fabric profile has no rates for %s algorithms on these links",
			sc_msccl_proto_names[algo->proto]);
	assert(w.per_node > 0 && w.per_node <= fabric->gpus_per_node);
	w.p = &fabric->walk->protos[algo->proto];
	w.slots = sc_msccl_slots(algo->proto);
	set_tiles(&w, bytes);
	set_rates(&w);
	sc_arena_init(&arena, 1 << 16);
	rc = init(&w, &arena, err);
	if (rc == 0) {
		for (size_t t = 0; t < w.algo->n_tbs; t++)
			wake(&w, t + 1);
		while (w.n_turns) {
			struct turn turn = pop(&w);

			run_step(&w, turn.block, turn.us);
			wake(&w, turn.block + 1);
		}
		*out = time_of(&w);
	}
	sc_arena_release(&arena);
	return rc;
}
