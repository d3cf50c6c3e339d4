/* Sources: torchtitan/config/job_config.py; DeepSpeed's configuration JSON (deepspeed.ai/docs/config-json). */
#include "core/foreign/foreign.h"

#include <string.h>

static int take_flavor(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *flavor = sc_foreign_get(file, "model.flavor");
	const struct sc_yaml *models;

	if (!flavor || sc_foreign_line_of(file->lines, "model.layers"))
		return 0;
	models = sc_yaml_get(file->table->root, "flavors");
	for (const struct sc_yaml *model = models ? models->child : NULL; model;
	     model = model->next)
		for (const struct sc_yaml *known = model->child; known; known = known->next)
			if (sc_foreign_is(file, "model.name", model->key) &&
			    sc_foreign_is(file, "model.flavor", known->key))
				return sc_foreign_put(file, flavor, "model", known->text, err);
	return sc_foreign_fail(
		flavor, err,
		"its shape is not known; give the model's config.json beside this file");
}

/* Shards over what is left of the GPUs if its degree is -1, as it is by default; context-parallel ranks hold shards
 * too. */
static int take_shards(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *shards =
		sc_foreign_get(file, "parallelism.data_parallel_shard_degree");
	const struct sc_foreign_leaf *copies =
		sc_foreign_get(file, "parallelism.data_parallel_replicate_degree");
	int64_t n_copies = sc_foreign_count(file, "parallelism.data_parallel_replicate_degree", 1);
	int64_t n_shards = sc_foreign_count(file, "parallelism.data_parallel_shard_degree", 0);
	int64_t ranks = sc_foreign_replica(file), cp = sc_foreign_ours(file, "parallel.cp", 1);
	int rc;

	if (n_copies > 1 << 20 || n_shards > 1 << 20)
		return sc_foreign_fail(n_shards > n_copies ? shards : copies, err, "is too large");
	if (!n_shards && sc_foreign_gpus(file))
		n_shards = sc_foreign_gpus(file) / (n_copies * ranks);
	rc = shards ? sc_foreign_put(file, shards, "parallel.sharding",
				     n_shards * cp == 1 ? "none" : "fsdp", err)
		    : sc_foreign_put_absent(file, "parallelism.data_parallel_shard_degree",
					    "parallel.sharding", "fsdp", err);
	if (rc == 0 && n_copies > 1 && n_shards * cp > 1)
		rc = sc_foreign_put_count(file, copies, "parallel.shard_ranks", n_shards * cp, err);
	return rc;
}

static int finish_torchtitan(struct sc_foreign *file, struct sc_err *err)
{
	int rc = take_flavor(file, err);

	return rc ? rc : take_shards(file, err);
}

const struct sc_foreign_format sc_format_torchtitan = {.name = "torchtitan",
						       .table = "torchtitan",
						       .strict = true,
						       .order = 2,
						       .finish = finish_torchtitan};

const struct sc_foreign_format sc_format_deepspeed = {
	.name = "DeepSpeed", .table = "deepspeed", .strict = true, .open = "auto", .order = 2};
