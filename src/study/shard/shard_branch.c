/* Raises the lower bound where whole hosts are taken by row-wise blocks. A large shard and a block do not
 * fit on one host, so a plan has some number k of hosts with blocks; for each k the tables' choices obey
 *   blocks + k * uniform <= k * z        (on the hosts with blocks)
 *   weights of large shards <= ranks of the other hosts
 *   all work <= world * z
 *   uniform <= z - the dearest single shard decided on
 * A Lagrangian of the four is a bound; where it does not refute z, the table it is least sure of is
 * branched on: block, free or uniform. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/shard/shard_bound_priv.h"

enum { BLOCK, SINGLE, EVERYWHERE, N_CLASSES, UNDECIDED = N_CLASSES };
enum { MOST_HOSTS = 8, MOST_UNITS = 400, PRICE_STEPS = 12, STEPS = 7 };
static const double EPS = 1e-9;
/* The first cost to refute: with it, cost over bound is this. */
static const double GOOD_GAP = 1.018;
static const struct {
	double work, uniform;
} PRICES[] = {{0.0, 0.0}, {0.1, 0.0}, {0.3, 0.0}, {1.0, 0.0},  {4.0, 0.0},
	      {0.0, 0.4}, {0.0, 1.0}, {0.0, 3.0}, {0.0, 20.0}, {0.3, 1.0}};
enum { N_PRICES = sizeof(PRICES) / sizeof(PRICES[0]) };
/* Units judged without a deadline: some 30 ms. */
enum { QUICK_JUDGEMENTS = 60000 };

/* Least cost of a unit in each class; HUGE_VAL: not open. */
struct options {
	double block, uniform;
	double work, weight; /* of single shards */
	double single;       /* least that its dearest shard costs */
};
struct hunt {
	const struct sc_relaxation *x;
	struct options *units;
	uint8_t *fixed; /* class of each unit, or UNDECIDED */
	uint32_t n, k;
	double single_room; /* a single shard may cost, beside the load decided everywhere */
	double uniform_room;
	double z, ranks; /* ranks of hosts without blocks */
	double deadline_s;
	struct sc_search_watch *watch;
	int64_t nodes_left;
	size_t favourite; /* of PRICES: refuted last */
};
/* Prices of the constraints: the first is 1. */
struct prices {
	double weight, work, uniform;
};

static double coefficient(const struct hunt *h)
{
	return h->k ? (double)h->k : 1.0;
}

static double value(const struct hunt *h, const struct prices *p, uint32_t unit, int class)
{
	const struct options *o = &h->units[unit];
	const struct sc_shard_model *m = h->x->model;

	if (class == BLOCK)
		return o->block * (1.0 + p->work * m->per_host);
	if (class == EVERYWHERE)
		return o->uniform * (coefficient(h) + p->work * m->world + p->uniform);
	return o->work * p->work + o->weight * p->weight;
}

/* Least value, its class, and by how much the next class is worse. */
static double least(const struct hunt *h, const struct prices *p, uint32_t unit, int *class,
		    double *doubt)
{
	double best = HUGE_VAL, second = HUGE_VAL;

	*class = h->fixed[unit];
	*doubt = HUGE_VAL;
	if (*class != UNDECIDED)
		return value(h, p, unit, *class);
	for (int i = 0; i < N_CLASSES; i++) {
		bool shut = i == SINGLE && h->units[unit].single > h->single_room;
		double v = shut ? HUGE_VAL : value(h, p, unit, i);

		if (v < best) {
			second = best;
			best = v;
			*class = i;
		} else {
			second = fmin(second, v);
		}
	}
	*doubt = second - best;
	return best;
}

struct verdict {
	double sum;    /* over 0: refuted */
	uint32_t unit; /* the least sure one; h->n: none is open */
};

static struct verdict evaluate(const struct hunt *h, const struct prices *p, double *used)
{
	struct verdict v = {.unit = h->n};
	double closest = HUGE_VAL;

	*used = 0.0;
	for (uint32_t u = 0; u < h->n; u++) {
		double doubt;
		int class;

		v.sum += least(h, p, u, &class, &doubt);
		if (class == SINGLE)
			*used += h->units[u].weight;
		if (h->fixed[u] == UNDECIDED && (v.unit == h->n || doubt < closest)) {
			closest = doubt;
			v.unit = u;
		}
	}
	v.sum -= coefficient(h) * h->z * (1.0 + EPS) + p->weight * h->ranks +
		 p->work * h->x->model->world * h->z;
	return v;
}

/* The prices that refute best. */
static struct verdict judge(struct hunt *h)
{
	struct verdict best = {.sum = -HUGE_VAL, .unit = h->n};

	for (size_t at = 0; at < N_PRICES; at++) {
		size_t i = (at + h->favourite) % N_PRICES;
		double low = 0.0, high = 2.0 * coefficient(h) * h->z, used;
		struct prices p = {.work = PRICES[i].work * coefficient(h) / h->x->model->world,
				   .uniform = PRICES[i].uniform * coefficient(h)};

		for (int step = 0; step < PRICE_STEPS; step++) {
			struct verdict v;

			p.weight = 0.5 * (low + high);
			v = evaluate(h, &p, &used);
			if (v.sum > best.sum)
				best = v;
			if (best.sum > 0.0) {
				h->favourite = i;
				return best;
			}
			if (used > h->ranks)
				low = p.weight;
			else
				high = p.weight;
		}
	}
	return best;
}

/* Rooms that the decisions leave. False: they contradict each other. */
static bool set_rooms(struct hunt *h)
{
	double sum = 0.0, dearest = 0.0;

	for (uint32_t u = 0; u < h->n; u++) {
		if (h->fixed[u] == EVERYWHERE)
			sum += h->units[u].uniform;
		if (h->fixed[u] == SINGLE)
			dearest = fmax(dearest, h->units[u].single);
	}
	h->single_room = h->z * (1.0 + EPS) - sum;
	h->uniform_room = h->z * (1.0 + EPS) - dearest;
	return sum + dearest <= h->z * (1.0 + EPS);
}

static bool is_late(const struct hunt *h)
{
	return sc_search_is_stopped(h->watch) ||
	       (h->deadline_s > 0.0 && sc_shard_now_s() > h->deadline_s);
}

/* True: no plan of cost z with these decisions. */
static bool refute(struct hunt *h)
{
	struct verdict v;
	bool refuted = true;

	if (h->nodes_left-- <= 0 || (h->nodes_left % 64 == 0 && is_late(h))) {
		h->nodes_left = 0;
		return false;
	}
	if (!set_rooms(h))
		return true;
	v = judge(h);
	if (v.sum > 0.0)
		return true;
	if (v.unit == h->n)
		return false;
	for (int class = 0; class < N_CLASSES && refuted; class ++) {
		const struct options *o = &h->units[v.unit];

		if (!isfinite(class == BLOCK ? o->block : class == SINGLE ? o->work : o->uniform))
			continue;
		h->fixed[v.unit] = (uint8_t) class;
		refuted = refute(h);
	}
	h->fixed[v.unit] = UNDECIDED;
	return refuted;
}

/* What a unit may still be when z is the cost and `always` is on every rank. */
static struct options options_by(const struct hunt *h, uint32_t unit, double always)
{
	const struct sc_relaxation *x = h->x;
	struct options o = {.block = HUGE_VAL,
			    .uniform = HUGE_VAL,
			    .work = HUGE_VAL,
			    .single = HUGE_VAL,
			    .weight = HUGE_VAL};
	double room = (h->z - x->model->base[0]) * x->model->speed[0] * (1.0 + EPS);

	for (uint32_t i = x->first_way.at[unit]; i < x->first_way.at[unit + 1]; i++) {
		const struct sc_way *way = &x->ways.at[i];

		if (way->cost + (way->everywhere ? 0.0 : always) > room)
			continue;
		if (way->everywhere)
			o.uniform = fmin(o.uniform, way->least);
		else if (way->ranks > 1 && h->k > 0)
			o.block = fmin(o.block, way->least);
		else if (way->ranks == 1) {
			o.work = fmin(o.work, way->work);
			o.single = fmin(o.single, way->cost);
		}
	}
	if (x->first_slice.at[unit + 1] > x->first_slice.at[unit]) {
		double work = sc_relaxation_slices(x, unit, room - always);

		if (isfinite(work)) {
			o.work = fmin(o.work, work);
			o.weight = 0.0;
			o.single = 0.0;
		}
	}
	return o;
}

/* Weights of single shards: those too large to lie beside the smallest block need a rank of a host without;
 * `pieces` of the smallest of them fit a rank. */
static void set_weights(struct hunt *h, double always)
{
	const struct sc_relaxation *x = h->x;
	double room = (h->z - x->model->base[0]) * x->model->speed[0] - always;
	double block = HUGE_VAL, smallest = HUGE_VAL, pieces, beside;

	for (uint32_t u = 0; u < h->n; u++)
		block = fmin(block, h->units[u].block);
	beside = h->k > 0 ? room - block : 0.0;
	for (uint32_t i = 0; i < x->ways.n; i++) {
		const struct sc_way *way = &x->ways.at[i];

		if (!way->everywhere && way->ranks == 1 && way->least > beside * (1.0 + EPS) &&
		    way->least <= room)
			smallest = fmin(smallest, way->least);
	}
	pieces = fmax(floor(room / smallest * (1.0 + EPS)), 1.0);
	for (uint32_t u = 0; u < h->n; u++) {
		struct options *o = &h->units[u];
		double weight = HUGE_VAL;

		for (uint32_t i = x->first_way.at[u]; i < x->first_way.at[u + 1]; i++) {
			const struct sc_way *way = &x->ways.at[i];
			double size = way->least > beside * (1.0 + EPS) ? way->least : 0.0;

			if (!way->everywhere && way->ranks == 1 && way->cost <= room * (1.0 + EPS))
				weight = fmin(weight, way->shards *
							      floor((pieces + 1.0) * size / room *
								    (1.0 + EPS)) /
							      pieces);
		}
		o->weight = fmin(o->weight, weight);
		if (!isfinite(o->weight))
			o->weight = 0.0;
	}
}

static bool refuted_with(struct hunt *h, uint32_t k, double always)
{
	const struct sc_shard_model *m = h->x->model;

	h->k = k;
	h->ranks = (double)(m->n_hosts - k) * m->per_host;
	for (uint32_t u = 0; u < h->n; u++) {
		h->units[u] = options_by(h, u, always);
		h->fixed[u] = UNDECIDED;
		if (!isfinite(h->units[u].block) && !isfinite(h->units[u].uniform) &&
		    !isfinite(h->units[u].work))
			return true;
	}
	set_weights(h, always);
	return refute(h);
}

static bool refuted_by_all(struct hunt *h, struct sc_relaxation *x, double z, int64_t nodes)
{
	double always;

	h->z = z;
	h->nodes_left = nodes;
	if (!sc_relaxation_allows(x, z, true))
		return true;
	always = x->always;
	for (uint32_t k = 0; k <= x->model->n_hosts; k++) {
		if (!refuted_with(h, k, always))
			return false;
	}
	return true;
}

double sc_shard_branch_bound(const struct sc_shard_model *m, double bound, double cost,
			     const struct sc_solve_opts *until)
{
	struct sc_relaxation x;
	struct hunt h = {.n = (uint32_t)m->units.n, .watch = until->watch};
	double deadline_s = until->seconds > 0.0 ? sc_shard_now_s() + until->seconds : 0.0;
	double low = bound, high = cost;
	int64_t left = QUICK_JUDGEMENTS / (int64_t)(m->units.n + 1);

	if (!m->alike || m->base[0] > 0.0 || m->speed[0] < 1.0 || m->speed[0] > 1.0 ||
	    m->n_hosts < 2 || m->n_hosts > MOST_HOSTS || m->units.n > MOST_UNITS ||
	    m->world != m->n_hosts * m->per_host)
		return bound;
	sc_relaxation_init(&x, m);
	h.x = &x;
	h.units = sc_xrealloc(NULL, h.n, sizeof(*h.units));
	h.fixed = sc_xrealloc(NULL, h.n, sizeof(*h.fixed));
	for (int step = 0; step < STEPS && low < high; step++) {
		double mid =
			step == 0 ? fmax(0.5 * (low + high), cost / GOOD_GAP) : 0.5 * (low + high);
		double now = deadline_s > 0.0 ? sc_shard_now_s() : 0.0;
		int64_t nodes = deadline_s > 0.0 ? INT64_MAX : left * 3 / 4;

		h.deadline_s = deadline_s > 0.0 ? now + 0.5 * (deadline_s - now) : 0.0;
		if (refuted_by_all(&h, &x, mid, nodes))
			low = mid;
		else
			high = mid;
		left -= nodes - h.nodes_left;
	}
	free(h.units);
	free(h.fixed);
	sc_relaxation_release(&x);
	return low;
}
