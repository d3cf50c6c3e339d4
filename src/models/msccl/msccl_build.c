/* Recipes: which algorithms can be built, and one from its GPUs (msccl_algorithms.c). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "models/msccl/msccl_algorithms.h"

const char *const sc_msccl_kind_names[] = {
	[SC_MSCCL_RING_ALL_GATHER] = "ring_all_gather",
	[SC_MSCCL_RING_ALL_GATHER_FUSED] = "ring_all_gather_fused",
	[SC_MSCCL_RING_ALL_REDUCE] = "ring_all_reduce",
	[SC_MSCCL_PAIRS_ALL_GATHER] = "pairs_all_gather",
	[SC_MSCCL_PAIRS_ALL_REDUCE] = "pairs_all_reduce",
	[SC_MSCCL_PAIRS_ALL_TO_ALL] = "pairs_all_to_all",
	[SC_MSCCL_TWO_STEP_ALL_TO_ALL] = "two_step_all_to_all",
	[SC_MSCCL_ALL_TO_NEXT] = "all_to_next",
	[SC_MSCCL_HIERARCHICAL_ALL_REDUCE] = "hierarchical_all_reduce",
	[SC_MSCCL_TREE_ALL_REDUCE] = "tree_all_reduce",
	[SC_MSCCL_N_KINDS] = NULL,
};

struct kind {
	void (*build)(struct sc_msccl_builder *b);
	enum sc_msccl_coll coll;
	bool in_place, uses_input;
};
static const struct kind KINDS[SC_MSCCL_N_KINDS] = {
	[SC_MSCCL_RING_ALL_GATHER] = {sc_msccl_ring_all_gather, SC_MSCCL_ALL_GATHER, true, false},
	[SC_MSCCL_RING_ALL_GATHER_FUSED] = {sc_msccl_ring_all_gather, SC_MSCCL_ALL_GATHER, true,
					    false},
	[SC_MSCCL_RING_ALL_REDUCE] = {sc_msccl_ring_all_reduce, SC_MSCCL_ALL_REDUCE, true, true},
	[SC_MSCCL_PAIRS_ALL_GATHER] = {sc_msccl_pairs, SC_MSCCL_ALL_GATHER, true, false},
	[SC_MSCCL_PAIRS_ALL_REDUCE] = {sc_msccl_pairs_all_reduce, SC_MSCCL_ALL_REDUCE, true, true},
	[SC_MSCCL_PAIRS_ALL_TO_ALL] = {sc_msccl_pairs, SC_MSCCL_ALL_TO_ALL, false, true},
	[SC_MSCCL_TWO_STEP_ALL_TO_ALL] = {sc_msccl_two_step_all_to_all, SC_MSCCL_ALL_TO_ALL, false,
					  true},
	[SC_MSCCL_ALL_TO_NEXT] = {sc_msccl_all_to_next, SC_MSCCL_NEXT, false, true},
	[SC_MSCCL_HIERARCHICAL_ALL_REDUCE] = {sc_msccl_hierarchical_all_reduce, SC_MSCCL_ALL_REDUCE,
					      true, true},
	[SC_MSCCL_TREE_ALL_REDUCE] = {sc_msccl_tree_all_reduce, SC_MSCCL_ALL_REDUCE, true, true},
};

static int chunks_of(const struct sc_msccl_recipe *r)
{
	if (r->kind == SC_MSCCL_RING_ALL_REDUCE)
		return r->n_gpus * r->channels * r->instances;
	if (r->kind == SC_MSCCL_PAIRS_ALL_REDUCE)
		return r->n_gpus * r->n_gpus * r->instances;
	if (r->kind == SC_MSCCL_TWO_STEP_ALL_TO_ALL)
		return r->n_gpus;
	if (r->kind == SC_MSCCL_ALL_TO_NEXT)
		return r->gpus_per_node * r->instances;
	if (r->kind == SC_MSCCL_TREE_ALL_REDUCE)
		return r->instances;
	return r->n_gpus * r->instances;
}

static void set_buffers(const struct sc_msccl *algo, const struct sc_msccl_recipe *r,
			struct sc_msccl_gpu *gpu)
{
	const struct kind *kind = &KINDS[r->kind];

	gpu->chunks[SC_MSCCL_INPUT] = kind->uses_input ? algo->n_chunks : 0;
	gpu->chunks[SC_MSCCL_OUTPUT] = kind->in_place && kind->uses_input ? 0 : algo->n_chunks;
	if (r->kind == SC_MSCCL_PAIRS_ALL_REDUCE)
		gpu->chunks[SC_MSCCL_SCRATCH] = (r->n_gpus - 1) * r->n_gpus * r->instances;
	if (r->kind == SC_MSCCL_TWO_STEP_ALL_TO_ALL)
		gpu->chunks[SC_MSCCL_SCRATCH] = algo->n_chunks;
	if (r->kind == SC_MSCCL_ALL_TO_NEXT)
		gpu->chunks[SC_MSCCL_SCRATCH] = 2 * r->instances;
}

static bool is_by_node(enum sc_msccl_kind kind)
{
	return kind >= SC_MSCCL_TWO_STEP_ALL_TO_ALL;
}

static int channels_of(const struct sc_msccl_recipe *r)
{
	int each = r->kind == SC_MSCCL_ALL_TO_NEXT               ? SC_MSCCL_NEXT_CHANNELS
		   : r->kind == SC_MSCCL_HIERARCHICAL_ALL_REDUCE ? sc_msccl_blocks_of(r)
								 : 1;

	return r->channels * r->instances * each;
}

int sc_msccl_recipe_check(const struct sc_msccl_recipe *r, struct sc_err *err)
{
	const char *name = sc_msccl_kind_names[r->kind];
	int count = r->kind >= SC_MSCCL_HIERARCHICAL_ALL_REDUCE ? 1
		    : is_by_node(r->kind)                       ? r->gpus_per_node
		    : r->kind == SC_MSCCL_PAIRS_ALL_REDUCE      ? r->n_gpus
								: 1;

	if (r->n_gpus < 2 || r->n_gpus > SC_MSCCL_MAX_GPUS)
		return sc_err_set(err, SC_ECONFLICT, "%s: %d GPUs; expected 2 to %d", name,
				  r->n_gpus, SC_MSCCL_MAX_GPUS);
	if (is_by_node(r->kind) && r->n_gpus % r->gpus_per_node)
		return sc_err_set(err, SC_ECONFLICT,
				  "%s: %d GPUs are not whole nodes of %d; see --ranks and --nodes",
				  name, r->n_gpus, r->gpus_per_node);
	if (r->kind == SC_MSCCL_HIERARCHICAL_ALL_REDUCE && r->gpus_per_node < 2)
		return sc_err_set(err, SC_ECONFLICT, "%s: needs nodes of two ranks or more", name);
	if (count > SC_MSCCL_MAX_COUNT)
		return sc_err_set(err, SC_ECONFLICT,
				  "%s: a step would move %d chunks; at most %d can be", name, count,
				  SC_MSCCL_MAX_COUNT);
	if (r->channels > 1 && r->kind > SC_MSCCL_RING_ALL_REDUCE)
		return sc_err_set(err, SC_ECONFLICT, "%s: channels are of rings; give instances",
				  name);
	if (r->instances > 1 && r->kind == SC_MSCCL_TWO_STEP_ALL_TO_ALL)
		return sc_err_set(err, SC_ECONFLICT, "%s: has one instance", name);
	if (channels_of(r) > SC_MSCCL_MAX_CHANNELS)
		return sc_err_set(err, SC_ECONFLICT,
				  "%s: would have %d channels; at most %d can be", name,
				  channels_of(r), SC_MSCCL_MAX_CHANNELS);
	return 0;
}

/* Makes the last of the waits before a step the step's own, as MSCCL's executor wants it; steps of
 * the GPU are numbered anew. */
static void fold_waits(struct sc_msccl_builder *b)
{
	struct sc_msccl_tb *tbs = b->tbs.at + b->first_tb;
	size_t n_tbs = b->tbs.n - b->first_tb, first = n_tbs ? tbs[0].first : 0, n_kept = first;
	struct sc_msccl_step *steps = b->steps.at;
	int *number = sc_xcalloc(b->steps.n + 1, sizeof(*number));

	for (size_t t = 0; t < n_tbs; t++)
		for (size_t s = tbs[t].first, n = 0; s < tbs[t].first + tbs[t].n; s++) {
			bool folds = steps[s].op == SC_MSCCL_NOP &&
				     s + 1 < tbs[t].first + tbs[t].n &&
				     steps[s + 1].op != SC_MSCCL_NOP;

			number[s] = folds ? -1 : (int)n++;
			if (!folds)
				continue;
			steps[s + 1].dep_tb = steps[s].dep_tb;
			steps[s + 1].dep_step = steps[s].dep_step;
		}
	for (size_t s = first; s < b->steps.n; s++)
		if (steps[s].dep_tb >= 0)
			steps[s].dep_step =
				number[tbs[steps[s].dep_tb].first + (size_t)steps[s].dep_step];
	for (size_t t = 0; t < n_tbs; t++) {
		size_t from = tbs[t].first, end = from + tbs[t].n;

		for (tbs[t].first = n_kept; from < end; from++)
			if (number[from] >= 0)
				steps[n_kept++] = steps[from];
		tbs[t].n = n_kept - tbs[t].first;
	}
	b->steps.n = n_kept;
	free(number);
}

void sc_msccl_build(const struct sc_msccl_recipe *recipe, struct sc_arena *arena,
		    struct sc_msccl *out)
{
	const struct kind *kind = &KINDS[recipe->kind];
	struct sc_msccl_builder b = {.recipe = recipe, .n = recipe->n_gpus};

	assert(sc_msccl_recipe_check(recipe, NULL) == 0);
	assert(recipe->channels > 0 && recipe->instances > 0);
	*out = (struct sc_msccl){.file = "",
				 .name = sc_msccl_kind_names[recipe->kind],
				 .coll = kind->coll,
				 .coll_name = sc_msccl_coll_names[kind->coll],
				 .proto = recipe->proto,
				 .n_gpus = recipe->n_gpus,
				 .n_channels = channels_of(recipe),
				 .n_chunks = chunks_of(recipe),
				 .in_place = kind->in_place};
	out->gpus = sc_arena_calloc(arena, (size_t)recipe->n_gpus, sizeof(*out->gpus));
	for (b.gpu = 0; b.gpu < b.n; b.gpu++) {
		struct sc_msccl_gpu *gpu = &out->gpus[b.gpu];

		set_buffers(out, recipe, gpu);
		gpu->first = b.first_tb = b.tbs.n;
		kind->build(&b);
		fold_waits(&b);
		gpu->n = b.tbs.n - gpu->first;
	}
	out->n_tbs = b.tbs.n;
	out->n_steps = b.steps.n;
	out->tbs = sc_arena_alloc(arena, b.tbs.n * sizeof(*out->tbs));
	out->steps = sc_arena_alloc(arena, b.steps.n * sizeof(*out->steps));
	memcpy(out->tbs, b.tbs.at, b.tbs.n * sizeof(*out->tbs));
	memcpy(out->steps, b.steps.at, b.steps.n * sizeof(*out->steps));
	SC_VEC_RELEASE(&b.tbs);
	SC_VEC_RELEASE(&b.steps);
}
