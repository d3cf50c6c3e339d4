/* A memory of blocks' sums: rows of a sweep and floors of a search ask for the same blocks again
 * and again, and for sums alone. The key has all that decides them: a new key of a model, of
 * training, a device, the software or the fabric belongs to it by itself; of the split it has what
 * put_split lists. */
#include <assert.h>
#include <string.h>

#include "core/config/config_schedule.h"
#include "predict/transformer/build_transformer.h"
#include "predict/transformer/transformer_priv.h"

/* Says whether the key has all that sums depend on. Passes with sharded weights read steps. Blocks
 * whose gradients are scattered each time depend on the number of micro-batches, which neighbours
 * differ in. Lists of a row live no longer than it does: machines that have some are not
 * remembered, but for a torus, over which no block sends. */
static bool is_remembered(const struct sc_transformer *tf)
{
	const struct sc_sharding_rule rule = sc_sharding_rule(tf->request);

	return tf->opts->brief && !rule.weights && !(rule.gradients && rule.each) &&
	       sc_request_n_kinds(tf->request) == 1 && !tf->fabric.files && !tf->fabric.tiers.n;
}

static void put_model(struct sc_memo_key *key, const struct sc_request *req)
{
	struct sc_training training = req->config.training;

	sc_memo_put_bytes(key, &req->config.model, sizeof(req->config.model));
	training.software = training.software_version = NULL; /* resolved to its profile */
	training.global_batch = 0;                            /* batches are put */
	training.optimizer = SC_OPT_ADAM;                     /* no block has a part of its step */
	sc_memo_put_bytes(key, &training, sizeof(training));
}

/* The spans of an environment say how many ranks each axis has, and c3.policy whether products of
 * tensor parallelism overlap. */
static void put_split(struct sc_memo_key *key, const struct sc_request *req)
{
	const struct sc_parallel *par = &req->config.parallel;
	const struct sc_schedule_traits traits = sc_schedule_traits(par->schedule);

	sc_memo_put(key, (double)par->etp);
	sc_memo_put(key, par->sequence_parallel);
	sc_memo_put(key, (double)sc_vocab_shares(par));
	sc_memo_put(key, sc_transformer_batches(req));
	sc_memo_put(key, sc_recompute_frac(req));
	sc_memo_put(key, traits.splits);
	sc_memo_put(key, traits.pairs && sc_transformer_may_pair(req));
}

static void put_machine(struct sc_memo_key *key, const struct sc_transformer *tf,
			const struct sc_block_env *of)
{
	struct sc_block_env env = *of;

	sc_memo_put_bytes(key, &tf->request->device, sizeof(tf->request->device));
	sc_memo_put_bytes(key, &tf->request->software, sizeof(tf->request->software));
	/* Member by member: what lies between them is anything. */
	for (int family = 0; family < SC_N_C3_FAMILIES; family++) {
		sc_memo_put(key, tf->request->c3[family].policy);
		sc_memo_put(key, tf->request->c3[family].n);
	}
	sc_memo_put(key, (double)tf->request->config.c3.channels);
	sc_memo_put_bytes(key, &tf->fabric, sizeof(tf->fabric));
	env.device = NULL;
	env.request = NULL;
	env.software = NULL;
	env.fabric = NULL;
	memset(env.axis_fabric, 0, sizeof(env.axis_fabric));
	sc_memo_put_bytes(key, &env, sizeof(env));
}

/* Says whether any rank runs the block of an id; others are not made. */
static bool has_block(const struct sc_transformer *tf, int id)
{
	const int of_layer = id - SC_BLOCK_LAYER_F, kind = of_layer / SC_N_LAYER_BLOCKS;
	bool split = of_layer < 0
			     ? id >= SC_BLOCK_HEAD_I
			     : of_layer % SC_N_LAYER_BLOCKS >= SC_BLOCK_LAYER_I - SC_BLOCK_LAYER_F;

	if (split && !sc_schedule_traits(tf->request->config.parallel.schedule).splits)
		return false;
	return of_layer < SC_N_LAYER_BLOCKS || tf->layers.of[kind] > 0;
}

/* Makes all blocks, with their steps and sums. */
static int make_blocks(const struct sc_transformer *tf, struct sc_variant *v, struct sc_err *err)
{
	const double samples[2] = {(double)tf->request->config.training.micro_batch,
				   tf->request->last_micro_batch};
	int rc = 0;

	for (int partial = 0; partial < (tf->partial ? 2 : 1) && rc == 0; partial++)
		for (int id = 0; id < SC_N_BLOCKS && rc == 0; id++) {
			struct sc_block *block = &v->block[partial][id];

			sc_block_clear(block);
			if (!has_block(tf, id))
				continue;
			sc_transformer_block(&v->env, (enum sc_block_id)id, samples[partial],
					     block);
			rc = sc_block_summarize(block, &v->env, tf->scratch, err);
		}
	v->has_steps = true;
	/* Nobody asks how unevenly sharded weights slow a pass: it is simulated. */
	const bool asks = !sc_sharding_rule(tf->request).weights;

	for (int kind = 0; kind < SC_N_LAYER_KINDS && rc == 0 && asks; kind++)
		v->uneven[kind] =
			sc_block_uneven(v->block[0] + sc_block_of(SC_BLOCK_LAYER_B, kind), &v->env);
	return rc;
}

void sc_variant_make_steps(const struct sc_transformer *tf, struct sc_variant *variant)
{
	int rc = variant->has_steps ? 0 : make_blocks(tf, variant, NULL);

	assert(rc == 0);
	(void)rc;
}

/* The memo keeps sums of blocks as numbers, behind v->uneven. */
enum { N_SUMS = sizeof(struct sc_summary) / sizeof(double) };

static void ask_of_variant(const struct sc_transformer *tf, const struct sc_variant *v)
{
	struct sc_memo_key *key = sc_memo_begin(tf->scratch->variants);

	sc_memo_put(key, tf->request->last_micro_batch);
	put_split(key, tf->request);
	put_model(key, tf->request);
	put_machine(key, tf, &v->env);
}

static void recall(const struct sc_transformer *tf, const double *known, struct sc_variant *v)
{
	memcpy(v->uneven, known, sizeof(v->uneven));
	known += SC_N_LAYER_KINDS;
	for (int partial = 0; partial < (tf->partial ? 2 : 1); partial++)
		for (int id = 0; id < SC_N_BLOCKS; id++) {
			struct sc_block *block = &v->block[partial][id];

			sc_block_clear(block);
			if (!has_block(tf, id))
				continue;
			memcpy(&block->sum, known, sizeof(block->sum));
			known += N_SUMS;
		}
}

static void remember(const struct sc_transformer *tf, const struct sc_variant *v)
{
	size_t n = 0;
	double *to;

	for (int id = 0; id < SC_N_BLOCKS; id++)
		n += (tf->partial ? 2u : 1u) * has_block(tf, id);
	/* Blocks ask this memo nothing: the key is still that of the variant. */
	to = sc_memo_add(tf->scratch->variants, SC_N_LAYER_KINDS + n * N_SUMS);
	memcpy(to, v->uneven, sizeof(v->uneven));
	to += SC_N_LAYER_KINDS;
	for (int partial = 0; partial < (tf->partial ? 2 : 1); partial++)
		for (int id = 0; id < SC_N_BLOCKS; id++) {
			const struct sc_summary *sum = &v->block[partial][id].sum;

			if (!has_block(tf, id))
				continue;
			memcpy(to, sum, sizeof(*sum));
			to += N_SUMS;
		}
}

int sc_variant_sum(const struct sc_transformer *tf, struct sc_variant *variant, struct sc_err *err)
{
	const double *known;
	int rc;

	if (!is_remembered(tf))
		return make_blocks(tf, variant, err);
	ask_of_variant(tf, variant);
	known = sc_memo_find(tf->scratch->variants);
	variant->has_steps = false;
	if (known) {
		recall(tf, known, variant);
		return 0;
	}
	rc = make_blocks(tf, variant, err);
	if (rc == 0)
		remember(tf, variant);
	return rc;
}
