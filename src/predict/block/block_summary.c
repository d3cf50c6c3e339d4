/* Summaries of blocks: one simulated alone, what it is beside a data-parallel collective, and
 * sequences of them, which compose as max-plus maps (block.h). */
#include "predict/block.h"

#include <math.h>
#include <string.h>

#include "base/fnv.h"
#include "models/row_reuse.h"

#define SLOWEST_RATE 1e-3 /* a step without any room counts as so slow */
enum { N_REMEMBERED = 1 << 12, N_CONTEXTS = 1 << 6, N_LOOKUPS = 1 << 13 }; /* slots */

void sc_build_scratch_init(struct sc_build_scratch *scratch, struct sc_arena *arena)
{
	*scratch = (struct sc_build_scratch){
		.arena = arena,
		.sim = sc_simulator_create(),
		.rows = sc_row_memo_create(),
		.known = {sc_memo_create(N_CONTEXTS), sc_memo_create(N_LOOKUPS), 0},
		.memo = sc_memo_create(N_REMEMBERED),
		.variants = sc_memo_create(N_REMEMBERED),
	};
	sc_graph_init(&scratch->graph);
}

void sc_build_scratch_release(struct sc_build_scratch *scratch)
{
	sc_graph_release(&scratch->graph);
	sc_timeline_release(&scratch->timeline);
	SC_VEC_RELEASE(&scratch->ids);
	sc_simulator_destroy(scratch->sim);
	sc_row_memo_destroy(scratch->rows);
	sc_memo_destroy(scratch->known.contexts);
	sc_memo_destroy(scratch->known.lookups);
	sc_memo_destroy(scratch->memo);
	sc_memo_destroy(scratch->variants);
}

double sc_block_exposed_us(const struct sc_block *block, size_t at)
{
	const struct sc_step *step = &block->steps.at[at];
	double us = step->us;
	int left = step->hidden;

	for (size_t i = at + 1; i < block->steps.n && left > 0; i++) {
		const struct sc_step *beside = &block->steps.at[i];

		if (beside->kind == SC_STEP_COMM)
			break;
		if (beside->kind == SC_STEP_HOST)
			continue;
		us -= beside->us;
		left--;
	}
	return fmax(us, 0);
}

/* Adds the GPU's wait for the host at the start of `n` parts. */
static void add_leads(struct sc_summary *s, double n, double lead_us)
{
	s->gpu_us += n * lead_us;
	s->owner_us[SC_OWN_HOST] += n * lead_us;
	s->beside_us += n * lead_us;
	s->beside_sm_us += n * lead_us;
}

/* Adds all of a summary but the GPU's waits for the host. */
static void add_summary(const struct sc_summary *a, double n, struct sc_summary *out)
{
	out->host_us += n * a->host_us;
	out->gpu_us += n * a->gpu_us;
	out->flop += n * a->flop;
	out->hidden_us += n * a->hidden_us;
	out->beside_us += n * a->beside_us;
	out->beside_sm_us += n * a->beside_sm_us;
	out->wave_us2 += n * a->wave_us2;
	for (int o = 0; o < SC_N_OWNERS; o++)
		out->owner_us[o] += n * a->owner_us[o];
	for (int r = 0; r < SC_N_RES; r++)
		out->load_us[r] += n * a->load_us[r];
}

struct sc_summary sc_summary_then(const struct sc_summary *a, const struct sc_summary *b)
{
	struct sc_summary out = *a;

	add_summary(b, 1, &out);
	out.lead_us = fmax(a->lead_us, a->host_us - a->gpu_us + b->lead_us);
	out.host_waits = b->host_waits;
	if (a->host_waits) {
		out.lead_us = a->lead_us;
		add_leads(&out, 1, b->lead_us);
	}
	return out;
}

struct sc_summary sc_summary_repeat(const struct sc_summary *a, double n)
{
	struct sc_summary out = {0};

	if (n <= 0)
		return out;
	add_summary(a, n, &out);
	out.lead_us = a->lead_us + (n - 1) * fmax(a->host_us - a->gpu_us, 0);
	out.host_waits = a->host_waits;
	if (a->host_waits) {
		out.lead_us = a->lead_us;
		add_leads(&out, n - 1, a->lead_us);
	}
	return out;
}

/* Returns the units of a resource for each rank; NICs belong to the node. */
static double capacity(int resource, double peers)
{
	return resource == SC_RES_NIC && peers > 1 ? 1 / peers : 1;
}

static double sm_rate(const struct sc_cost *step, const struct sc_cost *comm)
{
	double sms = step->demand[SC_RES_SM];

	return sms > 0 ? fmin(1, (1 - comm->demand[SC_RES_SM]) / sms) : 1;
}

/* Returns the share of its speed that a step keeps beside a collective, which holds its SMs. */
static double rate_beside(const struct sc_cost *step, const struct sc_cost *comm, double peers)
{
	double rate = sm_rate(step, comm), alone = 1;

	if (comm->demand[SC_RES_NIC] > 0)
		alone = fmin(1, capacity(SC_RES_NIC, peers) / comm->demand[SC_RES_NIC]);
	for (int r = SC_RES_SM + 1; r < SC_N_RES; r++) {
		double all = capacity(r, peers), ours = step->demand[r], its = comm->demand[r];

		if (ours > 0)
			rate = fmin(rate, fmax(all / (ours + its), (all - its * alone) / ours));
	}
	return rate;
}

double sc_block_uneven(const struct sc_block *block, const struct sc_block_env *env)
{
	double us = 0, sum[2] = {0}, squares[2] = {0}, out = 0;

	for (size_t i = 0; i < block->steps.n; i++) {
		const struct sc_cost *step = &block->steps.at[i].cost;
		/* The collective's rate beside the step counts too, SMs apart. */
		struct sc_cost own = env->beside, others = *step;

		own.demand[SC_RES_SM] = others.demand[SC_RES_SM] = 0;
		const double rate[2] = {rate_beside(step, &env->beside, env->node_peers),
					rate_beside(&own, &others, env->node_peers)};

		if (block->steps.at[i].kind == SC_STEP_HOST)
			continue;
		us += step->work_us;
		for (int r = 0; r < 2; r++) {
			double slowdown = 1 / fmax(rate[r], SLOWEST_RATE);

			sum[r] += step->work_us * slowdown;
			squares[r] += step->work_us * slowdown * slowdown;
		}
	}
	for (int r = 0; r < 2 && us > 0; r++)
		out += sqrt(fmax(0, squares[r] / us - sum[r] / us * (sum[r] / us)));
	return out;
}

static void add_beside(const struct sc_cost *step, const struct sc_block_env *env,
		       struct sc_summary *s)
{
	double rate = rate_beside(step, &env->beside, env->node_peers);

	s->beside_us += step->latency_us + step->work_us / rate;
	s->beside_sm_us += step->latency_us + step->work_us / sm_rate(step, &env->beside);
	for (int r = 0; r < SC_N_RES; r++)
		s->load_us[r] += step->work_us * step->demand[r];
}

/* Finds the block's time beside a data-parallel collective. */
static void find_beside(const struct sc_block *block, const struct sc_block_env *env,
			struct sc_summary *s)
{
	struct sc_cost window = {0};
	int hidden = 0;

	for (size_t i = 0; i < block->steps.n; i++) {
		const struct sc_step *step = &block->steps.at[i];

		if (step->kind == SC_STEP_HOST)
			continue;
		if (step->kind == SC_STEP_COMM)
			hidden = step->hidden;
		if (hidden > 0) {
			/* Steps that run beside each other are one load, their average. */
			window.work_us += sc_block_exposed_us(block, i);
			for (int r = 0; r < SC_N_RES; r++)
				window.demand[r] += step->cost.work_us * step->cost.demand[r];
		} else
			add_beside(&step->cost, env, s);
		hidden -= hidden > 0 && step->kind == SC_STEP_KERNEL;
	}
	if (!(window.work_us > 0))
		return;
	for (int r = 0; r < SC_N_RES; r++)
		window.demand[r] = fmin(1, window.demand[r] / window.work_us);
	add_beside(&window, env, s);
}

/* Sets each step's time as if alone; says whether some run beside others. */
static bool find_times(struct sc_block *block, struct sc_summary *s)
{
	bool overlaps = false;

	for (size_t i = 0; i < block->steps.n; i++) {
		struct sc_step *step = &block->steps.at[i];

		step->us = step->kind == SC_STEP_HOST ? 0 : sc_cost_alone_us(&step->cost);
		s->host_us += step->host_us;
		s->flop += step->flop;
		overlaps = overlaps || step->hidden > 0;
	}
	return overlaps;
}

/* Returns the end of steps that run one after another, where the GPU is free at `gpu_us`; this
 * needs no graph. */
static double end_in_turn_us(const struct sc_block *block, double gpu_us)
{
	double host_us = 0;

	for (size_t i = 0; i < block->steps.n; i++) {
		const struct sc_step *step = &block->steps.at[i];

		host_us += step->host_us;
		if (step->kind != SC_STEP_HOST)
			gpu_us = fmax(gpu_us, host_us) + step->cost.latency_us + step->cost.work_us;
	}
	return fmax(gpu_us, host_us);
}

/* A block ends later on a GPU that is free only once the host has launched all of it, than on one
 * that is free at once; behind both ends stand the steps' times on the GPU in the former case. */
enum { END_BEHIND, END_AT_ONCE, STEP_TIMES };

static int simulate_at(const struct sc_block *block, double gpu_us,
		       struct sc_build_scratch *scratch, struct sc_err *err)
{
	/* The graph holds this block alone. */
	struct sc_emit emit;

	sc_block_alone_begin(scratch, gpu_us, &emit);
	scratch->ids.n = 0;
	for (size_t i = 0; i < 3 * block->steps.n; i++)
		SC_VEC_PUSH(&scratch->ids, SC_NONE);
	emit.node = scratch->ids.at + 2 * block->steps.n;
	sc_block_emit(block, &emit, scratch->ids.at);
	sc_graph_seal(&scratch->graph);
	return sc_simulate(scratch->sim, &scratch->graph, NULL, &scratch->timeline, err);
}

uint64_t sc_block_print(struct sc_block *block)
{
	uint64_t print = block->print ? block->print : SC_FNV_START;

	for (size_t i = 0; !block->print && i < block->steps.n; i++) {
		const struct sc_step *step = &block->steps.at[i];
		const double numbers[] = {step->cost.latency_us,
					  step->cost.work_us,
					  step->cost.waves,
					  step->host_us,
					  step->kind,
					  step->hidden,
					  step->cost.holds_sm,
					  step->cost.beside_frac};

		print = sc_fnv_words(print, numbers, sizeof(numbers) / sizeof(numbers[0]));
		print = sc_fnv_words(print, step->cost.demand, SC_N_RES);
	}
	return block->print = print;
}

/* Finds, by simulation, the times of a block of which steps run beside others. */
static int overlapping_times(struct sc_block *block, struct sc_build_scratch *scratch,
			     const double **out, struct sc_err *err)
{
	struct sc_memo_key *key = sc_memo_begin(scratch->memo);
	const uint64_t print = sc_block_print(block);
	double *times, at_once_us;
	int rc;

	sc_memo_put_bytes(key, &print, sizeof(print));
	*out = sc_memo_find(scratch->memo);
	if (*out)
		return 0;
	rc = simulate_at(block, 0, scratch, err);
	at_once_us = scratch->timeline.total_us;
	if (rc == 0)
		rc = simulate_at(block, block->sum.host_us, scratch, err);
	if (rc)
		return rc;
	*out = times = sc_memo_add(scratch->memo, STEP_TIMES + block->steps.n);
	times[END_AT_ONCE] = at_once_us;
	const struct sc_timeline *tl = &scratch->timeline;
	const uint32_t *node = scratch->ids.at + 2 * block->steps.n;

	times[END_BEHIND] = tl->total_us;
	for (size_t i = 0; i < block->steps.n; i++)
		times[STEP_TIMES + i] = block->steps.at[i].kind == SC_STEP_HOST
						? 0
						: tl->end_us[node[i]] - tl->start_us[node[i]];
	return 0;
}

/* Finds when any block ends, and sets its steps' times. */
static int find_ends(struct sc_block *block, bool overlaps, struct sc_build_scratch *scratch,
		     double ends_us[STEP_TIMES], struct sc_err *err)
{
	const double *times;
	int rc;

	if (!overlaps) {
		ends_us[END_BEHIND] = end_in_turn_us(block, block->sum.host_us);
		ends_us[END_AT_ONCE] = end_in_turn_us(block, 0);
		return 0;
	}
	rc = overlapping_times(block, scratch, &times, err);
	if (rc)
		return rc;
	memcpy(ends_us, times, STEP_TIMES * sizeof(*times));
	for (size_t i = 0; i < block->steps.n; i++)
		block->steps.at[i].us = times[STEP_TIMES + i];
	return 0;
}

int sc_block_summarize(struct sc_block *block, const struct sc_block_env *env,
		       struct sc_build_scratch *scratch, struct sc_err *err)
{
	struct sc_summary *s = &block->sum;
	double ends_us[STEP_TIMES];
	bool overlaps;
	int rc;

	memset(s, 0, sizeof(*s));
	overlaps = find_times(block, s);
	rc = find_ends(block, overlaps, scratch, ends_us, err);
	if (rc)
		return rc;
	s->gpu_us = sc_quantize_us(ends_us[END_BEHIND] - s->host_us);
	s->lead_us = sc_quantize_us(fmin(fmax(ends_us[END_AT_ONCE] - s->gpu_us, 0), s->host_us));
	/* The owners of the GPU's time are those of a GPU that never waits for the host. */
	double sum = 0;

	for (size_t i = 0; i < block->steps.n; i++) {
		const double us = sc_block_exposed_us(block, i);

		for (int o = 0; o < SC_N_OWNERS; o++)
			s->owner_us[o] += us * block->steps.at[i].cost.owner_frac[o];
		if (block->steps.at[i].kind == SC_STEP_COMM)
			s->hidden_us += fmax(0, block->steps.at[i].us - us);
		sum += us;
	}
	for (int o = 0; o < SC_N_OWNERS && sum > 0; o++) /* rounding */
		s->owner_us[o] *= s->gpu_us / sum;
	for (size_t i = 0; i < block->steps.n; i++) {
		const struct sc_step *step = &block->steps.at[i];

		if (step->kind == SC_STEP_KERNEL)
			s->wave_us2 += step->us * step->us / fmax(1, step->cost.waves);
	}
	find_beside(block, env, s);
	s->host_waits = env->host_waits;
	if (s->host_waits)
		s->host_us = s->lead_us + s->gpu_us;
	return 0;
}
