/* Judges a placement by a cost of its own, the potential of the busiest rank, and inserts units
 * where it grows least. A candidate costs a multiplication a rank: a load adds to the potential the
 * rank's term times a factor of the shard alone. */
#include <math.h>
#include <string.h>

#include "study/shard/shard_solve_priv.h"

/* Sharpness of the potential of memory, and its share beside that of the loads. */
enum { SET_WORK = 16 }; /* as many candidates take the time of setting a load */
static const double MEMORY_KAPPA = 12.0, MEMORY_SHARE = 0.05;
static const double MOST_EXPONENT = 500.0;
static const double LARGE_STEP = 0.01; /* of a host's sum */

static double weigh_load(const struct sc_shard_state *s, double load)
{
	return exp(fmin(s->kappa * (load / s->scale - 1.0), MOST_EXPONENT));
}

/* Memory's term of the potential, without its share. */
static double weigh_mem(const struct sc_shard_state *s, uint32_t rank)
{
	double cap = s->model->hbm_cap[rank];

	return cap > 0.0 ? exp(MEMORY_KAPPA * (s->used.hbm[rank] / cap - 1.0)) : 0.0;
}

static double least_of_block(const struct sc_shard_state *s, const double *weight, uint32_t block)
{
	const uint32_t first = block * SC_RANK_BLOCK, world = s->model->world;
	double least = weight[first];

	for (uint32_t r = first + 1; r < first + SC_RANK_BLOCK && r < world; r++)
		least = weight[r] < least ? weight[r] : least;
	return least;
}

/* Sets a rank's weight, and with it the least of its block. */
static void set_weight(const struct sc_shard_state *s, double *weight, double *block_least,
		       uint32_t rank, double value)
{
	double *least = &block_least[rank / SC_RANK_BLOCK];
	const double was = weight[rank];

	weight[rank] = value;
	if (value <= *least)
		*least = value;
	else if (was <= *least)
		*least = least_of_block(s, weight, rank / SC_RANK_BLOCK);
}

static void weigh_all_mem(struct sc_shard_state *s)
{
	const struct sc_shard_model *m = s->model;

	s->mem_potential = 0.0;
	memset(s->host_mem_weight, 0, sizeof(double) * m->n_hosts);
	for (uint32_t r = 0; r < m->world; r++) {
		s->mem_weight[r] = weigh_mem(s, r);
		s->host_mem_weight[r / m->per_host] += s->mem_weight[r];
		s->mem_potential += s->mem_weight[r];
	}
	for (uint32_t b = 0; b * SC_RANK_BLOCK < m->world; b++)
		s->block_mem_least[b] = least_of_block(s, s->mem_weight, b);
}

void sc_potential_weigh(struct sc_shard_state *s)
{
	const struct sc_shard_model *m = s->model;

	s->is_old = false;
	s->potential = 0.0;
	memset(s->host_weight, 0, sizeof(double) * m->n_hosts);
	for (uint32_t r = 0; r < m->world; r++) {
		s->weight[r] = weigh_load(s, s->used.cost[r]);
		s->host_weight[r / m->per_host] += s->weight[r];
		s->potential += s->weight[r];
	}
	for (uint32_t b = 0; b * SC_RANK_BLOCK < m->world; b++)
		s->block_least[b] = least_of_block(s, s->weight, b);
	if (m->tight)
		weigh_all_mem(s);
}

void sc_shard_state_sharpen(struct sc_shard_state *s, double kappa, double scale)
{
	s->kappa = kappa;
	s->scale = scale;
	sc_shard_state_sum_anew(s);
	sc_potential_weigh(s);
}

double sc_potential_of(struct sc_shard_state *s)
{
	if (!s->is_old)
		return s->potential;
	s->is_old = false;
	s->potential = 0.0;
	for (uint32_t h = 0; h < s->model->n_hosts; h++)
		s->potential += s->host_weight[h];
	return s->potential;
}

static void sum_host(struct sc_shard_state *s, uint32_t host)
{
	uint32_t first = host * s->model->per_host, end = first + s->model->per_host;
	double sum = 0.0;

	for (uint32_t r = first; r < end && r < s->model->world; r++)
		sum += s->weight[r];
	s->host_weight[host] = sum;
	s->is_old = true;
}

/* A large term that comes or goes would leave its rounding in the sums: those are made anew. */
static void set_load(struct sc_shard_state *s, uint32_t rank, double load)
{
	uint32_t host = rank / s->model->per_host;
	double weight = weigh_load(s, load), step = weight - s->weight[rank];

	s->work += SET_WORK;
	s->used.cost[rank] = load;
	set_weight(s, s->weight, s->block_least, rank, weight);
	if (fabs(step) > LARGE_STEP * s->host_weight[host]) {
		sum_host(s, host);
	} else {
		s->potential = sc_potential_of(s) + step;
		s->host_weight[host] += step;
	}
}

/* Adds a shard, or takes it away with sign -1. */
static void add_shard(struct sc_shard_state *s, const struct sc_option_shard *shard, uint32_t rank,
		      double sign)
{
	uint32_t host = rank / s->model->per_host;

	if (shard->cost > 0.0)
		set_load(s, rank, s->used.cost[rank] + sign * shard->cost / s->model->speed[rank]);
	sc_ledger_add_bytes(&s->used, shard, rank, sign);
	if (s->model->tight && shard->hbm_bytes > 0.0) {
		double was = s->mem_weight[rank];

		set_weight(s, s->mem_weight, s->block_mem_least, rank, weigh_mem(s, rank));
		s->host_mem_weight[host] += s->mem_weight[rank] - was;
		s->mem_potential += s->mem_weight[rank] - was;
	}
}

/* Adds the same load on every rank, all of the same speed: one factor serves all terms. */
static void add_everywhere(struct sc_shard_state *s, const struct sc_choice *c, double sign)
{
	const struct sc_shard_model *m = s->model;
	double step = sign * c->shards[0].cost / m->speed[0];
	double log_factor = s->kappa * step / s->scale;
	double factor = exp(fmin(log_factor, MOST_EXPONENT));

	s->work += SET_WORK + m->world;
	for (uint32_t r = 0; r < m->world; r++) {
		s->used.cost[r] += step;
		s->weight[r] *= factor;
		sc_ledger_add_bytes(&s->used, sc_choice_shard(c, r), r, sign);
	}
	if (m->tight)
		weigh_all_mem(s);
	if (fabs(log_factor) > MOST_EXPONENT / 10.0) {
		sc_potential_weigh(s);
		return;
	}
	s->potential = sc_potential_of(s) * factor;
	for (uint32_t h = 0; h < m->n_hosts; h++)
		s->host_weight[h] *= factor;
	for (uint32_t b = 0; b * SC_RANK_BLOCK < m->world; b++)
		s->block_least[b] *= factor;
}

void sc_potential_add(struct sc_shard_state *s, const struct sc_choice *c, const int32_t *ranks,
		      double sign)
{
	const struct sc_shard_model *m = s->model;

	if (c->spread == SC_SPREAD_UNIFORM && c->same_cost && m->alike) {
		add_everywhere(s, c, sign);
		return;
	}
	for (uint32_t i = 0; i < c->n; i++)
		add_shard(s, sc_choice_shard(c, i), (uint32_t)sc_choice_rank(m, c, ranks, i), sign);
}

/* The factors by which a shard raises a rank's terms of the potentials. */
struct factors {
	double load, mem;
};

/* expm1 takes long, and most shards that are asked about in a row are alike. */
static double grow(struct sc_growth *last, double power)
{
	if (power < last->power || power > last->power)
		*last = (struct sc_growth){power, expm1(power)};
	return last->growth;
}

static struct factors factors_on(struct sc_shard_state *s, const struct sc_option_shard *shard,
				 uint32_t rank)
{
	const struct sc_shard_model *m = s->model;
	double cap = m->hbm_cap[rank];
	struct factors f = {.load = grow(&s->load_growth,
					 s->kappa * shard->cost / (s->scale * m->speed[rank]))};

	if (m->tight && shard->hbm_bytes > 0.0 && cap > 0.0)
		f.mem = MEMORY_SHARE * sc_potential_of(s) / m->world *
			grow(&s->mem_growth, MEMORY_KAPPA * shard->hbm_bytes / cap);
	return f;
}

/* The rise of the potential by a shard on the rank. `f` holds rank 0's factors, which are those of
 * all ranks alike. */
static double rise(struct sc_shard_state *s, const struct sc_option_shard *shard, uint32_t rank,
		   const struct factors *f)
{
	struct factors own = *f;

	if (!s->model->alike || !s->model->same_cap)
		own = factors_on(s, shard, rank);
	return s->weight[rank] * own.load + s->mem_weight[rank] * own.mem;
}

/* A run of n ranks from the first. */
struct ranks {
	uint32_t first, n;
};

/* Finds the best of these ranks for one shard; -1: none has room. Most blocks
 * have none that is better than what was found before them. */
static int32_t best_rank(struct sc_shard_state *s, uint32_t unit, const struct sc_choice *c,
			 const struct sc_option_shard *shard, struct ranks of, double *rises)
{
	const struct sc_shard_model *m = s->model;
	const uint32_t end = of.first + of.n < m->world ? of.first + of.n : m->world;
	const bool plain = m->alike && (m->same_cap || !m->tight);
	const struct factors f = factors_on(s, shard, 0);
	double least = HUGE_VAL;
	int32_t found = -1;

	s->work += of.n;
	for (uint32_t at = of.first; at < end; at = (at / SC_RANK_BLOCK + 1) * SC_RANK_BLOCK) {
		const uint32_t b = at / SC_RANK_BLOCK, next = (b + 1) * SC_RANK_BLOCK;

		if (plain && !(s->block_least[b] * f.load + s->block_mem_least[b] * f.mem < least))
			continue;
		for (uint32_t r = at; r < next && r < end; r++) {
			double sum = plain ? s->weight[r] * f.load + s->mem_weight[r] * f.mem
					   : rise(s, shard, r, &f);

			if (sum < least && sc_ledger_fits(&s->used, shard, r) &&
			    sc_shard_state_allows(s, unit, c, (int32_t)r)) {
				least = sum;
				found = (int32_t)r;
			}
		}
	}
	*rises = least;
	return found;
}

/* Places all shards of a choice within those ranks, one after the other, and leaves the ranks in
 * s->trial. */
static double try_listed(struct sc_shard_state *s, uint32_t unit, const struct sc_choice *c,
			 struct ranks of)
{
	double sum = 0.0;
	uint32_t done = 0;

	for (; done < c->n; done++) {
		const struct sc_option_shard *shard = sc_choice_shard(c, done);
		double rises;

		s->trial[done] = best_rank(s, unit, c, shard, of, &rises);
		if (s->trial[done] < 0)
			break;
		sum += rises;
		if (c->n > 1)
			add_shard(s, shard, (uint32_t)s->trial[done], 1.0);
	}
	if (done < c->n)
		sum = HUGE_VAL;
	for (uint32_t i = 0; c->n > 1 && i < done; i++)
		add_shard(s, sc_choice_shard(c, i), (uint32_t)s->trial[i], -1.0);
	return sum;
}

/* The block from `first` has room; shards of one host share its memory. */
static bool block_fits(const struct sc_shard_state *s, uint32_t unit, const struct sc_choice *c,
		       uint32_t first)
{
	const struct sc_shard_model *m = s->model;
	struct sc_option_shard all = {0};

	if (first + c->n > m->world)
		return false;
	for (uint32_t i = 0; i < c->n; i++) {
		const struct sc_option_shard *shard = sc_choice_shard(c, i);
		uint32_t rank = first + i;

		if (rank % m->per_host == 0)
			all.host_bytes = all.ssd_bytes = 0.0;
		all.hbm_bytes = shard->hbm_bytes;
		all.host_bytes += shard->host_bytes;
		all.ssd_bytes += shard->ssd_bytes;
		if (!sc_ledger_fits(&s->used, &all, rank) ||
		    !sc_shard_state_allows(s, unit, c, (int32_t)rank))
			return false;
	}
	return true;
}

/* Places a shard on every rank from `first`, as UNIFORM and HOST choices have them. */
static double try_block(struct sc_shard_state *s, uint32_t unit, const struct sc_choice *c,
			uint32_t first, double limit)
{
	const struct sc_shard_model *m = s->model;
	struct factors f = factors_on(s, &c->shards[0], 0);
	double sum = 0.0;

	if (m->alike && c->same_cost && (m->same_cap || !m->tight)) {
		bool all = c->spread == SC_SPREAD_UNIFORM;
		uint32_t host = first / m->per_host;

		s->work++;
		sum = f.load * (all ? sc_potential_of(s) : s->host_weight[host]) +
		      f.mem * (all ? s->mem_potential : s->host_mem_weight[host]);
	} else {
		const struct sc_option_shard *last = c->shards;

		s->work += c->n;
		for (uint32_t i = 0; i < c->n && first + i < m->world; i++) {
			const struct sc_option_shard *shard = sc_choice_shard(c, i);

			if (!c->same_cost && shard != last)
				f = factors_on(s, shard, 0);
			last = shard;
			sum += rise(s, shard, first + i, &f);
		}
	}
	return sum < limit && block_fits(s, unit, c, first) ? sum : HUGE_VAL;
}

struct candidate {
	uint32_t choice;
	double score;
};

static void keep(struct sc_shard_state *s, struct candidate *best, uint32_t choice, double score)
{
	const struct sc_choice *c = &s->model->choices.at[choice];

	best->choice = choice;
	best->score = score;
	if (c->spread == SC_SPREAD_HOST)
		s->best[0] = s->trial[0];
	else if (c->spread != SC_SPREAD_UNIFORM)
		memcpy(s->best, s->trial, sizeof(*s->best) * c->n);
}

static void try_choice(struct sc_shard_state *s, uint32_t unit, uint32_t choice,
		       struct candidate *best)
{
	const struct sc_shard_model *m = s->model;
	const struct sc_choice *c = &m->choices.at[choice];
	double luck = s->noise > 0.0 ? 1.0 + s->noise * sc_rng_uniform(s->rng) : 1.0;
	double bias = s->bias[c->spread] * luck, score;
	bool sides = s->block_hosts != SC_NO_SIDES;
	uint32_t free_host = sides ? s->block_hosts : 0;
	uint32_t first_host = sides && c->spread == SC_SPREAD_ON_HOST ? free_host : 0;
	uint32_t end_host = sides && c->spread == SC_SPREAD_HOST ? s->block_hosts : m->n_hosts;
	double each = c->total / (double)c->n;
	double power = s->kappa * each / (s->scale * m->speed[0]);
	double least = m->alike ? (double)c->n * s->least_weight : 0.0;

	/* The rise is at least this, wherever the shards go; expm1(x) is x or more, and takes long.
	 */
	if (bias * (least * power) >= best->score ||
	    bias * (least * grow(&s->load_growth, power)) >= best->score)
		return;
	if (c->spread == SC_SPREAD_FREE || c->spread == SC_SPREAD_UNIFORM) {
		score = bias *
			(c->spread == SC_SPREAD_FREE
				 ? try_listed(s, unit, c,
					      (struct ranks){free_host * m->per_host, m->world})
				 : try_block(s, unit, c, 0, best->score / bias));
		if (score < best->score)
			keep(s, best, choice, score);
		return;
	}
	for (uint32_t h = first_host; h < end_host; h++) {
		uint32_t first = h * m->per_host;

		score = bias *
			(c->spread == SC_SPREAD_HOST
				 ? try_block(s, unit, c, first, best->score / bias)
				 : try_listed(s, unit, c, (struct ranks){first, m->per_host}));
		if (c->spread == SC_SPREAD_HOST)
			s->trial[0] = (int32_t)h;
		if (score < best->score)
			keep(s, best, choice, score);
	}
}

bool sc_shard_state_insert(struct sc_shard_state *s, uint32_t unit)
{
	const struct sc_unit *u = &s->model->units.at[unit];
	struct candidate best = {.choice = SC_UNPLACED, .score = HUGE_VAL};

	s->least_weight = HUGE_VAL;
	for (uint32_t b = 0; b * SC_RANK_BLOCK < s->model->world; b++)
		s->least_weight = fmin(s->least_weight, s->block_least[b]);
	if (s->only && s->only[unit] != SC_UNPLACED)
		try_choice(s, unit, s->only[unit], &best);
	else
		for (uint32_t i = 0; i < u->n_choices; i++)
			try_choice(s, unit, u->first_choice + i, &best);
	if (best.choice == SC_UNPLACED)
		return false;
	sc_shard_state_place(s, unit, best.choice, s->best);
	return true;
}
