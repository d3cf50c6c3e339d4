/* Lower bounds of the busiest rank's cost. LP: every table takes the option of least total work,
 * spread over all ranks. Elimination: a cost z is impossible when, without the options whose shard
 * does not fit beside what must lie on every rank, the least work is over what the ranks can do by
 * z; bisection finds the largest such z. Memory and large shards raise that work by a price on what
 * there is little of. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "study/shard/shard_solve_priv.h"

enum { BISECTIONS = 40, PRICE_STEPS = 18, MOST_PIECES = 12, FIXPOINT_STEPS = 50 };
static const double EPS = 1e-9;

struct slice_cost {
	double cost, work; /* of a slice; of the table cut so, falling as the cost rises */
};
/* A way is a choice of a unit, or stands for all its cuts into columns in one tier. */
struct way {
	double cost, least; /* of the dearest and the cheapest shard; of cuts 0 */
	double work, hbm;   /* of all shards; of cuts the least */
	uint32_t choice;    /* SC_UNPLACED: cuts */
	uint32_t n;         /* shards */
	uint32_t first_slice, n_slices;
	bool everywhere; /* a load on every rank */
};
struct relaxation {
	const struct sc_shard_model *model;
	SC_VEC(struct way) ways;          /* by unit, least work first */
	SC_VEC(struct slice_cost) slices; /* by way, least cost first */
	SC_VEC(uint32_t) first_way;       /* by unit, and the end */
	double *forced;                   /* load each unit must put on every rank */
	/* Each way has its open work, what of it is priced, and its weight in the budget. */
	double *open, *base, *weight;
	uint32_t *priced;               /* units whose cheapest way has a weight */
	double speed_total, speed_most; /* sum over ranks, and the fastest's */
};
/* A question is whether a plan of cost z exists: `room` is a rank's, `total` that of all ranks;
 * `forced` is what all units put on every rank, and with the weights of large shards at least
 * `always`. */
struct question {
	double room, total, forced, always;
};

static void add_way(struct relaxation *x, struct way way)
{
	size_t k = x->ways.n;

	SC_VEC_PUSH(&x->ways, way);
	for (; k > x->first_way.at[x->first_way.n - 1] && x->ways.at[k - 1].work > way.work; k--) {
		x->ways.at[k] = x->ways.at[k - 1];
		x->ways.at[k - 1] = way;
	}
}

/* Wider slices mostly cost more, so few move. */
static void add_slice(struct relaxation *x, uint32_t first, struct slice_cost slice)
{
	size_t k = x->slices.n;

	SC_VEC_PUSH(&x->slices, slice);
	for (; k > first && x->slices.at[k - 1].cost > slice.cost; k--) {
		x->slices.at[k] = x->slices.at[k - 1];
		x->slices.at[k - 1] = slice;
	}
}

/* Adds the cost of slices of every width, and the work of the whole table at that rate. */
static void add_cuts(struct relaxation *x, uint32_t table, enum sc_tier tier, double most)
{
	const struct sc_shard_problem *p = x->model->problem;
	int64_t dim = p->tables[table].dim, rest = dim % SC_WIDTH_STEP;
	int64_t least = x->model->least_cols;
	struct way way = {
		.choice = SC_UNPLACED, .hbm = HUGE_VAL, .first_slice = (uint32_t)x->slices.n};
	struct slice_cost *at;

	for (int64_t w = least - least % SC_WIDTH_STEP; w <= dim; w += SC_WIDTH_STEP) {
		for (int64_t cols = w; cols <= w + rest && cols <= dim; cols += rest ? rest : 1) {
			struct sc_option_shard s = {0};
			double whole = (double)dim / (double)cols;

			if (cols < least || !p->column_cost(p->column_ctx, table, tier, cols, &s) ||
			    s.hbm_bytes > most)
				continue;
			add_slice(x, way.first_slice, (struct slice_cost){s.cost, s.cost * whole});
			way.hbm = fmin(way.hbm, s.hbm_bytes * whole);
		}
	}
	way.n_slices = (uint32_t)x->slices.n - way.first_slice;
	if (!way.n_slices)
		return;
	at = &x->slices.at[way.first_slice];
	for (uint32_t i = 1; i < way.n_slices; i++)
		at[i].work = fmin(at[i].work, at[i - 1].work);
	way.work = at[way.n_slices - 1].work;
	add_way(x, way);
}

/* Adds the unit's ways whose shards have at most so many bytes. */
static void add_unit(struct relaxation *x, uint32_t unit, double most)
{
	const struct sc_shard_model *m = x->model;
	const struct sc_unit *u = &m->units.at[unit];
	bool is_cut[SC_N_TIERS] = {false};

	for (uint32_t i = u->first_choice; i < u->first_choice + u->n_choices; i++) {
		const struct sc_choice *c = &m->choices.at[i];
		struct way way = {.cost = c->cost,
				  .least = HUGE_VAL,
				  .work = c->total,
				  .choice = i,
				  .n = c->n,
				  .everywhere = c->spread == SC_SPREAD_UNIFORM};

		for (uint32_t k = 0; k < sc_choice_n_listed(c); k++) {
			way.hbm += c->shards[k].hbm_bytes * sc_choice_repeats(c, k);
			way.least = fmin(way.least, c->shards[k].cost);
		}
		if (c->hbm <= most)
			add_way(x, way);
		if (c->spread != SC_SPREAD_FREE || is_cut[c->tier])
			continue;
		is_cut[c->tier] = true;
		if (sc_shard_model_may_split(m, unit, c->tier))
			add_cuts(x, m->tables.at[u->first_table], c->tier, most);
	}
}

static void begin(struct relaxation *x, const struct sc_shard_model *m)
{
	*x = (struct relaxation){.model = m};
	for (uint32_t r = 0; r < m->world; r++) {
		x->speed_total += m->speed[r];
		x->speed_most = fmax(x->speed_most, m->speed[r]);
	}
	for (uint32_t u = 0; u < m->units.n; u++) {
		uint32_t first = (uint32_t)x->ways.n;

		SC_VEC_PUSH(&x->first_way, first);
		add_unit(x, u, m->hbm_most);
		if (x->ways.n == first) /* no plan fits: the bound is one of plans that do not */
			add_unit(x, u, HUGE_VAL);
	}
	SC_VEC_PUSH(&x->first_way, (uint32_t)x->ways.n);
	x->forced = sc_xcalloc(m->units.n + 1, sizeof(*x->forced));
	x->open = sc_xcalloc(3 * x->ways.n + 1, sizeof(*x->open));
	x->base = x->open + x->ways.n;
	x->weight = x->base + x->ways.n;
	x->priced = sc_xcalloc(m->units.n + 1, sizeof(*x->priced));
}

static void end(struct relaxation *x)
{
	SC_VEC_RELEASE(&x->ways);
	SC_VEC_RELEASE(&x->slices);
	SC_VEC_RELEASE(&x->first_way);
	free(x->forced);
	free(x->open);
	free(x->priced);
}

/* The least work of a unit that goes that way; HUGE_VAL: a shard does not fit beside what lies
 * everywhere. */
static double open_work(const struct relaxation *x, uint32_t unit, const struct way *way,
			const struct question *q)
{
	double room = q->room * (1.0 + EPS);
	size_t n;

	if (way->everywhere)
		return way->least + q->forced - x->forced[unit] <= room ? way->work : HUGE_VAL;
	if (way->choice != SC_UNPLACED)
		return way->cost + q->always <= room ? way->work : HUGE_VAL;
	SC_FIRST_NOT(n, i, way->first_slice, way->first_slice + way->n_slices,
		     x->slices.at[i].cost <= q->room - q->always);
	return n > way->first_slice ? x->slices.at[n - 1].work : HUGE_VAL;
}

/* The least work of a unit's open ways, and the load that all of them put on every rank. */
static double open_least(const struct relaxation *x, uint32_t unit, const struct question *q,
			 double *everywhere)
{
	double least = HUGE_VAL;

	*everywhere = HUGE_VAL;
	for (uint32_t i = x->first_way.at[unit]; i < x->first_way.at[unit + 1]; i++) {
		const struct way *way = &x->ways.at[i];
		double work;

		if (*everywhere <= 0.0 && way->work >= least)
			break;
		work = open_work(x, unit, way, q);
		least = fmin(least, work);
		if (isfinite(work))
			*everywhere = fmin(*everywhere, way->everywhere ? way->least : 0.0);
	}
	return least;
}

/* Removes what does not fit, to a fixpoint. False: no plan costs z or less. */
static bool drop_unfit(struct relaxation *x, struct question *q)
{
	for (int step = 0; step < FIXPOINT_STEPS; step++) {
		double work = 0.0, forced = 0.0;

		for (uint32_t u = 0; u < x->model->units.n; u++) {
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

/* A way's weight in a budget: bytes of memory (k 0), or its shards seen as pieces of a rank. Cuts
 * may be of narrow slices, which weigh nothing. */
static double weight_of(const struct way *way, const struct question *q, int k)
{
	if (k == 0)
		return way->hbm;
	if (way->everywhere || way->choice == SC_UNPLACED)
		return 0.0;
	return way->n * floor((k + 1) * way->least / (q->room - q->always) * (1.0 + EPS)) / k;
}

/* Sets what is priced of each way, and its weight; lists the units where that depends on the price,
 * and returns the sum over the others: their cheapest way weighs nothing. */
static double begin_prices(const struct relaxation *x, const struct question *q, int k,
			   bool by_work, uint32_t *n_priced)
{
	double sum = 0.0;

	*n_priced = 0;
	for (uint32_t u = 0; u < x->model->units.n; u++) {
		double least = HUGE_VAL, weight = 0.0;

		for (uint32_t i = x->first_way.at[u]; i < x->first_way.at[u + 1]; i++) {
			const struct way *way = &x->ways.at[i];

			x->base[i] = by_work || !isfinite(x->open[i]) ? x->open[i]
				     : way->everywhere                ? way->least
								      : 0.0;
			x->weight[i] = weight_of(way, q, k);
			weight = x->base[i] < least ? x->weight[i] : weight;
			least = fmin(least, x->base[i]);
		}
		if (weight > 0.0)
			x->priced[(*n_priced)++] = u;
		else
			sum += least;
	}
	return sum;
}

/* A lower bound of the work of the open ways, or of what they put on every rank, within a budget of
 * weights: the largest over prices of sum min(.. + price * weight) - price * budget. A weight is
 * GPU memory, or a shard's size seen through a dual feasible function (Fekete and Schepers 2001:
 * floor((k + 1) x) / k): what fits in a bin also fits with sizes seen so, and large shards count
 * where work alone lets fractions of them through. The search ends once it is above `enough`. */
static double priced(const struct relaxation *x, const struct question *q, int k, bool by_work)
{
	double enough = (by_work ? q->total : q->room) * (1.0 + EPS), best = 0.0;
	double budget = k ? (double)x->model->world : x->model->hbm_total;
	double low = 0.0, high = 4.0 * (k == 0 ? q->total / fmax(budget, 1.0) : q->room), rest;
	uint32_t n_priced;

	if (k && !by_work)
		high /= budget;
	rest = begin_prices(x, q, k, by_work, &n_priced);
	for (int step = 0;
	     step < PRICE_STEPS && best <= enough && !sc_search_is_ended(x->model->problem->watch);
	     step++) {
		double price = 0.5 * (low + high), sum = rest, used = 0.0;

		for (uint32_t p = 0; p < n_priced; p++) {
			const uint32_t u = x->priced[p];
			double least = HUGE_VAL, weight = 0.0;

			for (uint32_t i = x->first_way.at[u]; i < x->first_way.at[u + 1]; i++) {
				double own = x->base[i] + price * x->weight[i];

				weight = own < least ? x->weight[i] : weight;
				least = own < least ? own : least;
			}
			sum += least;
			used += weight;
		}
		best = fmax(best, sum - price * budget);
		*(used > budget ? &low : &high) = price;
	}
	return best;
}

/* Raises the load that lies on every rank. False: no plan costs z or less. */
static bool weigh_pieces(const struct relaxation *x, struct question *q)
{
	double always = q->always;

	for (uint32_t u = 0; u < x->model->units.n; u++)
		for (uint32_t i = x->first_way.at[u]; i < x->first_way.at[u + 1]; i++)
			x->open[i] = open_work(x, u, &x->ways.at[i], q);
	if (x->model->tight && priced(x, q, 0, true) > q->total * (1.0 + EPS))
		return false;
	for (int k = 1; k <= MOST_PIECES && x->model->alike; k++) {
		if (q->room <= q->always)
			return false;
		always = fmax(always, priced(x, q, k, false));
		if (always > q->room * (1.0 + EPS) ||
		    priced(x, q, k, true) > q->total * (1.0 + EPS))
			return false;
	}
	q->always = always;
	return true;
}

/* Asks for plans of cost z, of which nothing is known yet. */
static struct question ask(struct relaxation *x, double z)
{
	memset(x->forced, 0, sizeof(*x->forced) * x->model->units.n);
	return (struct question){.room = z * x->speed_most, .total = z * x->speed_total};
}

/* The relaxation allows a plan of cost z. False: no plan costs z or less. */
static bool allows(struct relaxation *x, double z, bool weights)
{
	struct question q = ask(x, z);
	double before = -1.0;

	for (int step = 0; step < FIXPOINT_STEPS && q.always > before * (1.0 + 1e-6) &&
			   !sc_search_is_ended(x->model->problem->watch);
	     step++) {
		if (!drop_unfit(x, &q))
			return false;
		before = q.always;
		if (weights && !weigh_pieces(x, &q))
			return false;
	}
	return true;
}

void sc_shard_model_choices(const struct sc_shard_model *m, const double *z, uint32_t n,
			    uint32_t *choice)
{
	struct relaxation x;

	begin(&x, m);
	for (uint32_t k = 0; k < n; k++, choice += m->units.n) {
		struct question q = ask(&x, z[k]);

		drop_unfit(&x, &q);
		for (uint32_t u = 0; u < m->units.n; u++) {
			choice[u] = SC_UNPLACED;
			for (uint32_t i = x.first_way.at[u];
			     i < x.first_way.at[u + 1] && choice[u] == SC_UNPLACED; i++)
				if (isfinite(open_work(&x, u, &x.ways.at[i], &q)))
					choice[u] = x.ways.at[i].choice;
		}
	}
	end(&x);
}

/* Finds the largest z that the relaxation refuses. */
static double bisect(struct relaxation *x, double low, bool weights, int steps)
{
	double high = fmax(low, 1e-300) * 1.01, limit = 1e9 * high; /* a plan may not be there */

	while (!allows(x, high, weights) && high < limit) {
		low = high;
		high = low * 1.25;
	}
	for (int i = 0; i < steps; i++) {
		double mid = 0.5 * (low + high);

		*(allows(x, mid, weights) ? &high : &low) = mid;
	}
	return low;
}

double sc_shard_model_bound(const struct sc_shard_model *m, double *lp)
{
	struct relaxation x;
	double bound, work = 0.0;
	bool small = m->choices.n < 4000;

	begin(&x, m);
	for (uint32_t u = 0; u < m->units.n; u++)
		work += x.ways.at[x.first_way.at[u]].work;
	bound = work / x.speed_total; /* at this cost the work of all tables just fills the ranks */
	if (lp)
		*lp = bound;
	if (bound > 0.0) {
		bound = bisect(&x, bound, false, small ? BISECTIONS : 16);
		if (!allows(&x, bound * 1.002, true))
			bound = bisect(&x, bound * 1.002, true, small ? 12 : 5);
	}
	end(&x);
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
