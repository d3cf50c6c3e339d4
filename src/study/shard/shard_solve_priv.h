/* Shared by the files of the sharding solver: the problem with its constraints worked in (model), a
 * placement that changes step by step (state), and the stages that work on them. */
#pragma once

#include "base/intern.h"
#include "base/rng.h"
#include "study/shard/shard.h"
#include "study/shard/shard_ledger.h"

enum { SC_WIDTH_STEP = 4 }; /* column slices are multiples of it, but for a table's remainder */

/* One way to shard a unit. HOST and UNIFORM choices have a shard for every rank they are on; equal
 * ones may be there once, as in an option's list. */
struct sc_choice {
	enum sc_spread spread;
	enum sc_shard_type type;
	enum sc_tier tier;
	bool same_cost; /* all shards cost the same */
	bool made;      /* has no option, and all n shards */
	uint32_t n;
	uint32_t n_runs, run_end[SC_MAX_RUNS]; /* of shards[]; n_runs 0: all n are there */
	uint32_t first_option; /* of model->members: one option for each table of the unit */
	const struct sc_option_shard *shards;
	double cost, hbm; /* of the dearest shard; of the largest */
	double total;     /* cost of all */
	double host, ssd; /* bytes of all */
	double cache_frac;
	int64_t hot_rows;
};
/* Tables that are placed together: one, or those that TOGETHER constraints join. */
struct sc_unit {
	uint32_t first_choice, n_choices;
	uint32_t first_table, n_tables; /* of model->tables */
	uint32_t first_rank;            /* of state->ranks; room for the most shards it may have */
	bool ruled;                     /* some constraint looks at its ranks */
	bool typed;                     /* some constraint looks at its type or tier */
	bool whole_in[SC_N_TIERS];      /* constraints bar column slices there */
};
struct sc_shard_model {
	const struct sc_shard_problem *problem;
	uint32_t world, per_host, n_hosts;
	SC_VEC(struct sc_unit) units;
	SC_VEC(struct sc_choice) choices;
	SC_VEC(uint32_t) members;     /* options, by choice */
	SC_VEC(uint32_t) tables;      /* by unit */
	uint32_t *unit_of;            /* of each table */
	uint32_t *first_rule, *rules; /* constraints that name table t: rules[first_rule[t]], ... */
	double *hbm_cap, *speed;      /* of each rank */
	double hbm_total, hbm_most;   /* of all ranks; of the largest */
	int64_t least_cols;           /* of a column slice */
	bool alike;                   /* ranks: of the same speed */
	bool same_cap;                /* and memory */
	bool tight;                   /* memory may decide */
	bool takes_any;               /* plans adopted may have placements that are no option */
	size_t n_ranks_room;
	struct sc_arena arena;
};
int sc_shard_model_init(struct sc_shard_model *model, const struct sc_shard_problem *problem,
			struct sc_err *err);
/* Makes every option a choice of that number, and leaves none out as beaten: for an evaluator with
 * other costs than the problem's, which has no constraints here. It has room for the ranks of the
 * plan's shards. */
void sc_shard_model_init_all(struct sc_shard_model *model, const struct sc_shard_problem *problem,
			     const struct sc_shard_plan *plan);
void sc_shard_model_release(struct sc_shard_model *model);
static inline bool sc_rule_is_pair(const struct sc_shard_constraint *c)
{
	return c->kind == SC_TOGETHER || c->kind == SC_APART;
}
/* The rule is a pin or a ban of that type and tier. */
static inline bool sc_rule_names(const struct sc_shard_constraint *c, enum sc_shard_type type,
				 enum sc_tier tier)
{
	return (c->type < 0 || c->type == (int)type) && (c->tier < 0 || c->tier == (int)tier);
}
/* Constraints allow the whole option; those of single ranks are seen to at placing. */
bool sc_shard_rule_allows(const struct sc_shard_problem *problem,
			  const struct sc_shard_constraint *rule, const struct sc_option *option);
/* Some table is pinned to different ranks, or barred from where it is pinned to. */
bool sc_shard_rules_conflict(const struct sc_shard_model *model);
/* Names the rules that no plan keeps to. */
int sc_shard_rules_contradiction(const struct sc_shard_problem *problem, struct sc_err *err);
/* Makes a choice of an option of one table, whether or not others beat it. */
uint32_t sc_shard_model_option(struct sc_shard_model *model, uint32_t option);
/* Makes a choice of a single table's placement that is no option, as it is; SC_UNPLACED if it has
 * no cost. */
uint32_t sc_shard_model_made(struct sc_shard_model *model, uint32_t unit,
			     const struct sc_table_placement *at, const struct sc_shard *shards);
/* Constraints on types allow column slices that are no option, in that memory. */
bool sc_shard_model_may_split(const struct sc_shard_model *model, uint32_t unit, enum sc_tier tier);
/* Makes a choice with these slice widths, in the memory of another; SC_UNPLACED if some width is
 * not allowed. */
uint32_t sc_shard_model_slices(struct sc_shard_model *model, uint32_t unit, uint32_t like,
			       const int64_t *cols, uint32_t n);
static inline const struct sc_option_shard *sc_choice_shard(const struct sc_choice *c, uint32_t i)
{
	uint32_t run = 0;

	if (c->n_runs == 0)
		return &c->shards[i];
	while (i >= c->run_end[run])
		run++;
	return &c->shards[run];
}
/* The number of shards that are listed, and how many are like the i-th of them. */
static inline uint32_t sc_choice_n_listed(const struct sc_choice *c)
{
	return c->n_runs ? c->n_runs : c->n;
}
static inline uint32_t sc_choice_repeats(const struct sc_choice *c, uint32_t i)
{
	return c->n_runs == 0 ? 1 : c->run_end[i] - (i ? c->run_end[i - 1] : 0);
}

#define SC_UNPLACED UINT32_MAX
#define SC_NO_SIDES UINT32_MAX
/* So many units are placed whatever signal there is: few tables have a plan at once. */
enum { SC_UNITS_AT_ONCE = 1024 };

/* The number of ranks that a placement writes down. */
static inline uint32_t sc_choice_n_ranks(const struct sc_choice *c)
{
	return c->spread == SC_SPREAD_UNIFORM ? 0 : c->spread == SC_SPREAD_HOST ? 1 : c->n;
}
/* The number of ranks that a unit has room to write down. */
static inline uint32_t sc_unit_slots(const struct sc_shard_model *m, uint32_t unit)
{
	size_t end = unit + 1 < m->units.n ? m->units.at[unit + 1].first_rank : m->n_ranks_room;

	return (uint32_t)end - m->units.at[unit].first_rank;
}

/* The rank of a choice's i-th shard, by the ranks written down. */
static inline int32_t sc_choice_rank(const struct sc_shard_model *m, const struct sc_choice *c,
				     const int32_t *ranks, uint32_t i)
{
	if (c->spread == SC_SPREAD_UNIFORM)
		return (int32_t)i;
	if (c->spread == SC_SPREAD_HOST)
		return ranks[0] * (int32_t)m->per_host + (int32_t)i;
	return ranks[i];
}

/* The choice's first shard on a rank, or NULL. */
const struct sc_option_shard *sc_choice_shard_on(const struct sc_shard_model *m,
						 const struct sc_choice *c, const int32_t *ranks,
						 int32_t rank);

/* The time of each collective, ms a byte. */
struct sc_exchange_rates {
	bool partial_sums; /* slices of rows send whole vectors */
	bool by_node;      /* added up within a node first: host_scatter is its all-to-all */
	double a2a, scatter, host_scatter, reduce;
};
/* The sums of the predicted step's phases. */
struct sc_phases {
	const struct sc_exchange_rates *rates;
	double *forward, *backward, *sent; /* of each rank */
	double *host_columns; /* bytes of vectors that leave a host, or are added up in it */
	double scatter_bytes, replica_ms, reduce_bytes;
};
/* The weight of each phase of a step: what overlaps counts less. Candidates come by several
 * weightings. */
struct sc_phase_weights {
	double exchange, replica, reduce;
};

/* expm1 of a power, the last that was asked for. */
struct sc_growth {
	double power, growth;
};

enum { SC_RANK_BLOCK = 8 };

/* A placement, with the sums that tell what a change would do. The potential is sum over ranks of
 * exp(kappa (load / scale - 1)): for a large kappa its descent lowers the busiest rank; for a small
 * one it balances total work (multiplicative weights; Plotkin, Shmoys, Tardos 1995). */
struct sc_shard_state {
	const struct sc_shard_model *model;
	struct sc_phases *phases; /* NULL: the potential is kept up; else these are */
	struct sc_ledger used;
	double *weight, *host_weight; /* of each rank, its term of the potential; of each host */
	/* The terms of memory's own potential, and their sums by host and of all, kept where memory
	 * may decide. */
	double *mem_weight, *host_mem_weight, mem_potential;
	double *block_least, *block_mem_least; /* weights of each block of ranks */
	double potential, kappa, scale;
	bool is_old;         /* the potential: a host's sum has changed since */
	double least_weight; /* of all ranks, while a unit is inserted */
	struct sc_growth load_growth, mem_growth;
	double bias[4]; /* by spread: factor on what an insertion seems to cost */
	double noise;   /* up to that share more, at random */
	struct sc_rng *rng;
	/* The number of hosts that take whole blocks (HOST); the others take single shards;
	 * SC_NO_SIDES: all take both. A block and a large shard rarely fit on one host, which an
	 * insertion at a time does not see. */
	uint32_t block_hosts;
	const uint32_t *only;  /* if not NULL: the choice of each unit that insertion may take */
	uint32_t *choice;      /* of each unit, or SC_UNPLACED */
	int32_t *ranks;        /* FREE, ON_HOST: rank of each shard; HOST: the host, first */
	int32_t *trial, *best; /* ranks of a candidate */
	uint64_t work;         /* candidates looked at: a clock that is the same on every machine */
};
/* Makes a state that is judged by phases, or by the potential. */
struct sc_shard_state sc_shard_state_make(const struct sc_shard_model *model, bool by_phases,
					  struct sc_arena *arena);
void sc_shard_state_clear(struct sc_shard_state *s);
void sc_shard_state_copy(struct sc_shard_state *to, const struct sc_shard_state *from);
void sc_shard_state_sharpen(struct sc_shard_state *s, double kappa, double scale);
void sc_shard_state_remove(struct sc_shard_state *s, uint32_t unit);
void sc_shard_state_place(struct sc_shard_state *s, uint32_t unit, uint32_t choice,
			  const int32_t *ranks);
static inline const struct sc_choice *sc_unit_choice(const struct sc_shard_state *s, uint32_t unit)
{
	return &s->model->choices.at[s->choice[unit]];
}
static inline int32_t *sc_unit_ranks(const struct sc_shard_state *s, uint32_t unit)
{
	return &s->ranks[s->model->units.at[unit].first_rank];
}
/* Sums anew, so that rounding of many changes does not build up. */
void sc_shard_state_sum_anew(struct sc_shard_state *s);
/* Writes the plan of a complete placement. */
void sc_shard_state_plan(const struct sc_shard_state *s, struct sc_shard_plan *plan);

/* A move: one unit, or two, get another choice or other ranks. */
struct sc_change {
	uint32_t n;
	struct {
		uint32_t unit, choice;
		int32_t *ranks; /* room for as many as any unit's */
	} to[2];
};
struct sc_change sc_change_make(const struct sc_shard_model *model, struct sc_arena *arena);
/* Writes where unit number i of the change lies now. */
void sc_change_begin(const struct sc_shard_state *s, struct sc_change *change, uint32_t i,
		     uint32_t unit);
/* Makes the change; what was goes to `change`, so that a second call undoes it. */
void sc_shard_state_swap(struct sc_shard_state *s, struct sc_change *change);

/* The two ways to judge a placement: each keeps its sums as choices come and go (sign -1). */
void sc_potential_add(struct sc_shard_state *s, const struct sc_choice *c, const int32_t *ranks,
		      double sign);
double sc_potential_of(struct sc_shard_state *s);
/* Computes all terms and sums anew. */
void sc_potential_weigh(struct sc_shard_state *s);
void sc_phases_add(struct sc_shard_state *s, uint32_t unit, const struct sc_choice *c, double sign);
double sc_phases_estimate(const struct sc_shard_state *s, const struct sc_phase_weights *weights);

/* Puts the unit where the potential grows least; false: nowhere has room, nothing is changed. */
bool sc_shard_state_insert(struct sc_shard_state *s, uint32_t unit);
/* Constraints allow this choice's shards on the rank: the first of a unit that they rule. */
bool sc_shard_rules_allow(const struct sc_shard_state *s, uint32_t unit, const struct sc_choice *c,
			  int32_t rank);
static inline bool sc_shard_state_allows(const struct sc_shard_state *s, uint32_t unit,
					 const struct sc_choice *c, int32_t rank)
{
	return !s->model->units.at[unit].ruled || sc_shard_rules_allow(s, unit, c, rank);
}
/* Counts the units that are not placed, and names the last of them. */
uint32_t sc_shard_state_unplaced(const struct sc_shard_state *s, uint32_t *some);
bool sc_shard_state_is_complete(const struct sc_shard_state *s);
bool sc_shard_state_is_on(const struct sc_shard_state *s, uint32_t unit, int32_t rank);

/* Each of the unit's shards is free to lie anywhere. */
static inline bool sc_shard_state_is_loose(const struct sc_shard_state *s, uint32_t unit)
{
	return s->choice[unit] != SC_UNPLACED &&
	       s->model->choices.at[s->choice[unit]].spread == SC_SPREAD_FREE;
}

/* Places units as the plan says where that is possible; false: some units stay unplaced. */
bool sc_shard_state_adopt(struct sc_shard_state *s, struct sc_shard_model *model,
			  const struct sc_shard_plan *plan);
/* Takes out what constraints or memory forbid and puts it elsewhere. */
void sc_shard_state_mend(struct sc_shard_state *s);

/* Looks for a plan whose cost is near `bound`, by the clock from `start_s` on; false: none was
 * found that holds. */
bool sc_shard_search_run(struct sc_shard_model *model, const struct sc_solve_opts *opts,
			 double bound, double start_s, struct sc_shard_plan *out);
double sc_shard_model_bound(const struct sc_shard_model *model, double *lp_bound);
/* The choice of least work that each unit may take in a plan of each of n costs, those of a cost
 * one after the other; SC_UNPLACED: not known. */
void sc_shard_model_choices(const struct sc_shard_model *model, const double *z, uint32_t n,
			    uint32_t *choice);

/* ---- moves of one unit, or of two, that might shorten the step ---- */

enum sc_move_kind {
	SC_MOVE_SHARD, /* one shard to `rank` */
	SC_MOVE_SWAP,  /* with a shard of `other` */
	SC_MOVE_PLACE, /* as `choice`: whole on `rank`, rows on all of host `rank`, or on every rank
			*/
	SC_MOVE_SPREAD /* as `choice`: a slice on each of as many of the idlest ranks */
};
struct sc_step_move {
	enum sc_move_kind kind;
	uint32_t unit, other;
	uint32_t shard, other_shard;
	int32_t rank;
	uint32_t choice;
	double estimate;
};
typedef SC_VEC(struct sc_step_move) sc_step_moves;
struct sc_loose_shard {
	uint32_t unit, shard;
};
/* Finds the moves that fit the memory, best estimate first: those of the units of the ranks that
 * are the busiest in some phase, of the dearest replicas, and of some units at random. `frozen`:
 * units left alone. */
struct sc_step_hunt {
	struct sc_shard_state *s;
	const bool *frozen;
	struct sc_rng *rng;
	struct sc_change change; /* scratch, as all below */
	const struct sc_phase_weights *w;
	uint32_t *ranks;              /* idlest first */
	double *load;                 /* of those */
	bool *seen;                   /* units already asked */
	struct sc_loose_shard *loose; /* of rank r from first_loose[r] on */
	uint32_t *first_loose;
	sc_step_moves *out;
};
void sc_step_moves_find(struct sc_step_hunt *hunt, const struct sc_phase_weights *weights,
			sc_step_moves *out);
/* Makes the move; sc_shard_state_change with hunt->change undoes it. */
void sc_step_move_do(struct sc_step_hunt *hunt, const struct sc_step_move *move);

/* ---- a shard's cost by TorchRec's model ---- */

/* A table placed by one type in one tier. */
struct sc_torchrec_ask {
	const struct sc_torchrec_topology *topology;
	const struct sc_table *table;
	double poolings; /* of a sample and feature */
	enum sc_shard_type type;
	enum sc_tier tier;
};
/* The parts of a shard's cost, ms; input_dist is in no sum. */
struct sc_torchrec_perf {
	double fwd_compute, fwd_comms, bwd_compute, bwd_comms, prefetch, input_dist;
};
/* Fills cost and bytes of a shard whose rows and cols are given; `perf` may be NULL. */
void sc_torchrec_cost(const struct sc_torchrec_ask *ask, struct sc_option_shard *shard,
		      struct sc_torchrec_perf *perf);
