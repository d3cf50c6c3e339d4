/* Lower bounds of the busiest rank's cost.
 * LP: every table takes the option of least total work, spread over all ranks.
 * Elimination: a cost z is impossible when, without the options whose shard does not fit beside what must
 * lie on every rank, the least work is over what the ranks can do by z; bisection finds the largest such z.
 * Weights: what fits in a bin also fits with sizes seen through a dual feasible function (Fekete and
 * Schepers 2001: floor((k + 1) x) / k), which counts large shards where work alone would let fractions of
 * them through; for k = 1 that is the pairing cut. A shard on every rank of a host weighs on each. */
#include "study/shard/shard_bound_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BISECTIONS = 40, PRICE_STEPS = 18, MOST_PIECES = 12, FIXPOINT_STEPS = 50 };
static const double EPS = 1e-9;

static int by_cost(const void *a, const void *b)
{
	const struct sc_slice_cost *x = a, *y = b;

	return (x->cost > y->cost) - (x->cost < y->cost);
}

/* What slices of every width cost, and the work of the whole table at that rate. */
static void add_widths(struct sc_relaxation *x, const struct sc_shard_model *m, uint32_t table,
		       enum sc_tier tier)
{
	const struct sc_shard_problem *p = m->problem;
	int64_t dim = p->tables[table].dim, rest = dim % SC_WIDTH_STEP;
	int64_t least = p->min_cols > SC_WIDTH_STEP ? p->min_cols : SC_WIDTH_STEP;

	for (int64_t w = least - least % SC_WIDTH_STEP; w <= dim; w += SC_WIDTH_STEP) {
		for (int64_t cols = w; cols <= w + rest && cols <= dim; cols += rest ? rest : 1) {
			struct sc_option_shard s = {0};

			if (cols >= least && p->column_cost(p->column_ctx, table, tier, cols, &s))
				SC_VEC_PUSH(&x->slices,
					    ((struct sc_slice_cost){s.cost, s.cost * (double)dim /
										    (double)cols}));
		}
	}
}

static void add_slices(struct sc_relaxation *x, const struct sc_shard_model *m, uint32_t unit)
{
	const struct sc_unit *u = &m->units.at[unit];
	size_t first = x->slices.n;
	bool seen[SC_N_TIERS] = {false};

	for (uint32_t i = 0; i < u->n_choices; i++) {
		const struct sc_choice *c = &m->choices.at[u->first_choice + i];

		if (c->spread == SC_SPREAD_FREE && !seen[c->tier] &&
		    sc_shard_model_may_split(m, unit, c->tier))
			add_widths(x, m, m->tables.at[u->first_table], c->tier);
		seen[c->tier] = seen[c->tier] || c->spread == SC_SPREAD_FREE;
	}
	if (x->slices.n == first)
		return;
	qsort(&x->slices.at[first], x->slices.n - first, sizeof(*x->slices.at), by_cost);
	for (size_t i = first + 1; i < x->slices.n; i++)
		x->slices.at[i].work = fmin(x->slices.at[i].work, x->slices.at[i - 1].work);
}

static void add_ways(struct sc_relaxation *x, const struct sc_shard_model *m, uint32_t unit)
{
	const struct sc_unit *u = &m->units.at[unit];
	size_t first = x->ways.n;

	for (uint32_t i = 0; i < u->n_choices; i++) {
		const struct sc_choice *c = &m->choices.at[u->first_choice + i];
		struct sc_way way = {.cost = c->cost, .work = c->total};

		way.ranks = c->spread == SC_SPREAD_HOST ? m->per_host : 1;
		way.shards = way.ranks > 1 ? 1 : c->n;
		way.everywhere = c->spread == SC_SPREAD_UNIFORM;
		way.choice = u->first_choice + i;
		way.least = HUGE_VAL;
		for (uint32_t k = 0; k < sc_choice_n_listed(c); k++) {
			way.hbm += c->shards[k].hbm_bytes * sc_choice_repeats(c, k);
			way.least = fmin(way.least, c->shards[k].cost);
		}
		SC_VEC_PUSH(&x->ways, way);
		for (size_t k = x->ways.n - 1; k > first && x->ways.at[k - 1].work > way.work;
		     k--) {
			x->ways.at[k] = x->ways.at[k - 1];
			x->ways.at[k - 1] = way;
		}
	}
}

void sc_relaxation_init(struct sc_relaxation *x, const struct sc_shard_model *m)
{
	*x = (struct sc_relaxation){.model = m};
	for (uint32_t u = 0; u < m->units.n; u++) {
		SC_VEC_PUSH(&x->first_way, (uint32_t)x->ways.n);
		SC_VEC_PUSH(&x->first_slice, (uint32_t)x->slices.n);
		add_ways(x, m, u);
		add_slices(x, m, u);
	}
	SC_VEC_PUSH(&x->first_way, (uint32_t)x->ways.n);
	SC_VEC_PUSH(&x->first_slice, (uint32_t)x->slices.n);
	for (uint32_t r = 0; r < m->world; r++)
		x->hbm_total += m->hbm_cap[r];
	x->forced = sc_xrealloc(NULL, m->units.n + 1, sizeof(*x->forced));
	memset(x->forced, 0, (m->units.n + 1) * sizeof(*x->forced));
	x->weight = sc_xrealloc(NULL, x->ways.n + 1, sizeof(*x->weight));
	memset(x->weight, 0, (x->ways.n + 1) * sizeof(*x->weight));
}

void sc_relaxation_release(struct sc_relaxation *x)
{
	SC_VEC_RELEASE(&x->ways);
	SC_VEC_RELEASE(&x->slices);
	SC_VEC_RELEASE(&x->first_way);
	SC_VEC_RELEASE(&x->first_slice);
	free(x->forced);
	free(x->weight);
}

/* Work that all ranks can do by z; *most: of the rank that can do most. */
static double room_by(const struct sc_shard_model *m, double z, double *most)
{
	double sum = 0.0;

	*most = 0.0;
	for (uint32_t r = 0; r < m->world; r++) {
		double room = m->speed[r] * (z - m->base[r]);

		if (room > 0.0) {
			sum += room;
			*most = fmax(*most, room);
		}
	}
	return sum;
}

double sc_relaxation_slices(const struct sc_relaxation *x, uint32_t unit, double limit)
{
	uint32_t low = x->first_slice.at[unit], high = x->first_slice.at[unit + 1];
	uint32_t first = low;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (x->slices.at[mid].cost <= limit)
			low = mid + 1;
		else
			high = mid;
	}
	return low > first ? x->slices.at[low - 1].work : HUGE_VAL;
}

static double piece(double size, double room, int k)
{
	return floor((k + 1) * size / room * (1.0 + EPS)) / k;
}

/* What one z asks: `room` of a rank, `total` of all, `always` on every rank at least. */
struct question {
	double room, total, always, forced;
	int k; /* weight function; 0: memory */
};

static double weight_of(const struct sc_way *way, const struct question *q)
{
	if (q->k == 0)
		return way->hbm;
	if (way->everywhere)
		return 0.0;
	return (double)way->ranks * way->shards * piece(way->least, q->room - q->always, q->k);
}

static void set_weights(const struct sc_relaxation *x, struct question *q, int k)
{
	q->k = k;
	for (size_t i = 0; i < x->ways.n; i++)
		x->weight[i] = weight_of(&x->ways.at[i], q);
}

static bool is_open(const struct sc_way *way, const struct question *q, double forced_own)
{
	double beside = fmax(q->always, q->forced - forced_own);

	if (way->everywhere)
		return way->least + (q->forced - forced_own) <= q->room * (1.0 + EPS);
	return way->cost + beside <= q->room * (1.0 + EPS);
}

/* The open way of least work. */
static uint32_t open_choice(const struct sc_relaxation *x, uint32_t unit, const struct question *q)
{
	for (uint32_t i = x->first_way.at[unit]; i < x->first_way.at[unit + 1]; i++) {
		if (is_open(&x->ways.at[i], q, x->forced[unit]))
			return x->ways.at[i].choice;
	}
	return SC_UNPLACED;
}

/* Least work of a unit's open ways, and the load that all of them put on every rank. */
static double open_least(const struct sc_relaxation *x, uint32_t unit, const struct question *q,
			 double *everywhere)
{
	double least = HUGE_VAL;

	*everywhere = HUGE_VAL;
	if (x->first_slice.at[unit + 1] > x->first_slice.at[unit]) {
		least = sc_relaxation_slices(x, unit, q->room - fmax(q->always, q->forced));
		if (isfinite(least))
			*everywhere = 0.0;
	}
	for (uint32_t i = x->first_way.at[unit]; i < x->first_way.at[unit + 1]; i++) {
		const struct sc_way *way = &x->ways.at[i];

		if (*everywhere <= 0.0 && way->work >= least)
			break;
		if (is_open(way, q, x->forced[unit])) {
			least = fmin(least, way->work);
			*everywhere = fmin(*everywhere, way->everywhere ? way->least : 0.0);
		}
	}
	return least;
}

/* Least of (work, or load on every rank) + price * weight over a unit's open ways; the weight of that
 * way in *weight. */
static double cheapest(const struct sc_relaxation *x, uint32_t unit, const struct question *q,
		       double price, bool by_work, double *weight)
{
	double least = HUGE_VAL;

	for (uint32_t i = x->first_way.at[unit]; i < x->first_way.at[unit + 1]; i++) {
		const struct sc_way *way = &x->ways.at[i];
		double w = x->weight[i];
		double sum = by_work ? way->work : way->everywhere ? way->least : 0.0;

		if (is_open(way, q, x->forced[unit]) && sum + price * w < least) {
			least = sum + price * w;
			*weight = w;
		}
	}
	if (x->first_slice.at[unit + 1] > x->first_slice.at[unit]) {
		double work = sc_relaxation_slices(x, unit, q->room - fmax(q->always, q->forced));

		/* A slice weighs nothing here: narrow ones may not. */
		if (isfinite(work) && (by_work ? work : 0.0) < least) {
			least = by_work ? work : 0.0;
			*weight = 0.0;
		}
	}
	return least;
}

/* Removes what does not fit, to a fixpoint. False: no plan by z. */
static bool eliminate(struct sc_relaxation *x, struct question *q)
{
	uint32_t n = (uint32_t)x->model->units.n;

	for (int step = 0; step < FIXPOINT_STEPS; step++) {
		double work = 0.0, forced = 0.0;

		for (uint32_t u = 0; u < n; u++) {
			double load;

			work += open_least(x, u, q, &load);
			if (work > q->total * (1.0 + EPS))
				return false;
			x->forced[u] = load;
			forced += load;
		}
		if (forced <= q->forced * (1.0 + EPS))
			return true;
		q->forced = forced;
		q->always = fmax(q->always, forced);
		if (forced > q->room * (1.0 + EPS))
			return false;
	}
	return true;
}

/* Largest over prices of sum min(.. + price * weight) - price * budget: a lower bound of the sum. More
 * than `enough` need not be known. */
static double priced(const struct sc_relaxation *x, const struct question *q, double budget,
		     bool by_work)
{
	double enough = by_work ? q->total * (1.0 + EPS) : q->room * (1.0 + EPS);
	double low = 0.0, high = by_work ? 4.0 * q->room : 4.0 * q->room / budget, best = 0.0;

	if (q->k == 0)
		high = 4.0 * q->total / budget;
	for (int step = 0; step < PRICE_STEPS && best <= enough; step++) {
		double price = 0.5 * (low + high), sum = 0.0, used = 0.0;

		for (uint32_t u = 0; u < x->model->units.n; u++) {
			double weight = 0.0;

			sum += cheapest(x, u, q, price, by_work, &weight);
			used += weight;
		}
		best = fmax(best, sum - price * budget);
		if (used > budget)
			low = price;
		else
			high = price;
	}
	return best;
}

/* Weights of large shards: raises what lies on every rank. False: no plan by z. */
static bool weigh(struct sc_relaxation *x, struct question *q)
{
	double world = (double)x->model->world, always = q->always;

	set_weights(x, q, 0);
	if (x->model->tight && priced(x, q, x->hbm_total, true) > q->total * (1.0 + EPS))
		return false;
	if (!x->model->alike)
		return true;
	for (int k = 1; k <= MOST_PIECES; k++) {
		if (q->room - q->always <= 0.0)
			return false;
		set_weights(x, q, k);
		always = fmax(always, priced(x, q, world, false));
		if (always > q->room * (1.0 + EPS) ||
		    priced(x, q, world, true) > q->total * (1.0 + EPS))
			return false;
	}
	q->always = always;
	return always <= q->room * (1.0 + EPS);
}

void sc_shard_model_choices(const struct sc_shard_model *m, double z, uint32_t *choice)
{
	struct sc_relaxation x;
	struct question q = {0};

	sc_relaxation_init(&x, m);
	q.total = room_by(m, z, &q.room);
	eliminate(&x, &q);
	for (uint32_t u = 0; u < m->units.n; u++)
		choice[u] = open_choice(&x, u, &q);
	sc_relaxation_release(&x);
}

bool sc_relaxation_allows(struct sc_relaxation *x, double z, bool weights)
{
	struct question q = {0};
	double before = -1.0;

	memset(x->forced, 0, sizeof(double) * x->model->units.n);
	q.total = room_by(x->model, z, &q.room);
	for (int step = 0; step < FIXPOINT_STEPS && q.always > before * (1.0 + 1e-6); step++) {
		if (!eliminate(x, &q))
			return false;
		before = q.always;
		if (weights && !weigh(x, &q))
			return false;
	}
	x->always = q.always;
	return true;
}

/* Largest z that the relaxation refuses. */
static double bisect(struct sc_relaxation *x, double low, bool weights, int steps)
{
	double high = fmax(low, 1e-300) * 1.01;

	while (!sc_relaxation_allows(x, high, weights) && high < 1e300) {
		low = high;
		high = low * 1.25;
	}
	for (int i = 0; i < steps; i++) {
		double mid = 0.5 * (low + high);

		if (sc_relaxation_allows(x, mid, weights))
			high = mid;
		else
			low = mid;
	}
	return low;
}

/* The cost at which the work of all tables just fills the ranks. */
static double lp_bound(const struct sc_relaxation *x)
{
	struct question q = {.room = HUGE_VAL};
	const struct sc_shard_model *m = x->model;
	double work = 0.0, low = 0.0, high = 0.0, most;

	for (uint32_t u = 0; u < m->units.n; u++)
		work += cheapest(x, u, &q, 0.0, true, &most);
	for (uint32_t r = 0; r < m->world; r++) {
		low = fmax(low, m->base[r]);
		high = fmax(high, m->base[r] + work / m->speed[r]);
	}
	if (work <= 0.0 || room_by(m, low, &most) >= work)
		return low;
	for (int i = 0; i < BISECTIONS + 20; i++) {
		double mid = 0.5 * (low + high);

		if (room_by(m, mid, &most) < work)
			low = mid;
		else
			high = mid;
	}
	return low;
}

double sc_shard_model_bound(const struct sc_shard_model *m, double *lp)
{
	struct sc_relaxation x;
	double bound;
	bool small = m->choices.n < 4000;

	sc_relaxation_init(&x, m);
	bound = lp_bound(&x);
	if (lp)
		*lp = bound;
	if (bound > 0.0) {
		bound = bisect(&x, bound, false, small ? BISECTIONS : 16);
		if (!sc_relaxation_allows(&x, bound * 1.002, true))
			bound = bisect(&x, bound * 1.002, true, small ? 12 : 5);
	}
	sc_relaxation_release(&x);
	return bound;
}

double sc_shard_bound(const struct sc_shard_problem *problem, double *lp)
{
	struct sc_shard_model model;
	double bound;

	if (sc_shard_model_init(&model, problem, NULL)) {
		if (lp)
			*lp = 0.0;
		return 0.0;
	}
	bound = sc_shard_model_bound(&model, lp);
	sc_shard_model_release(&model);
	return bound;
}
