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
	int rc = 0;

	if (n_copies > 1 << 20 || n_shards > 1 << 20)
		return sc_foreign_fail(n_shards > n_copies ? shards : copies, err, "is too large");
	if (n_shards && !sc_foreign_gpus(file))
		rc = sc_foreign_put_count(file, shards, "gpus", n_copies * n_shards * ranks, err);
	if (!n_shards && sc_foreign_gpus(file))
		n_shards = sc_foreign_gpus(file) / (n_copies * ranks);
	if (rc == 0)
		rc = shards ? sc_foreign_put(file, shards, "parallel.sharding",
					     n_shards * cp == 1 ? "none" : "fsdp", err)
			    : sc_foreign_put_absent(file, "parallelism.data_parallel_shard_degree",
						    "parallel.sharding", "fsdp", err);
	if (rc == 0 && n_copies > 1 && n_shards * cp > 1)
		rc = sc_foreign_put_count(file, copies, "parallel.shard_ranks", n_shards * cp, err);
	return rc;
}

static int take_titan_batch(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *local = sc_foreign_get(file, "training.local_batch_size");
	const struct sc_foreign_leaf *all = sc_foreign_get(file, "training.global_batch_size");
	const struct sc_foreign_leaf *micro =
		sc_foreign_get(file, "parallelism.pipeline_parallel_microbatch_size");
	int64_t n_all = sc_foreign_count(file, "training.global_batch_size", 0), n_local;
	bool piped = sc_foreign_ours(file, "parallel.pp", 1) > 1;
	int rc = 0;

	local = local ? local : sc_foreign_get(file, "training.batch_size");
	n_local = local ? sc_foreign_count(file, local->path, 0) : 0;
	if (n_local > 1 << 26)
		return sc_foreign_fail(local, err, "is too large");
	if (n_all)
		rc = sc_foreign_put(file, all, "training.global_batch", NULL, err);
	else if (n_local && sc_foreign_gpus(file))
		rc = sc_foreign_put_count(
			file, local, "training.global_batch",
			sc_foreign_gpus(file) / sc_foreign_replica(file) * n_local, err);
	if (rc == 0 && piped && micro)
		rc = sc_foreign_put(file, micro, "training.micro_batch", NULL, err);
	else if (rc == 0 && piped)
		rc = sc_foreign_put_absent(file, "parallelism.pipeline_parallel_microbatch_size",
					   "training.micro_batch", "1", err);
	else if (rc == 0 && n_local)
		rc = sc_foreign_put(file, local, "training.micro_batch", NULL, err);
	return rc;
}

static int finish_torchtitan(struct sc_foreign *file, struct sc_err *err)
{
	int rc = take_flavor(file, err);

	if (rc == 0)
		rc = take_shards(file, err);
	return rc ? rc : take_titan_batch(file, err);
}

const struct sc_foreign_format sc_format_torchtitan = {.name = "torchtitan",
						       .table = "torchtitan",
						       .strict = true,
						       .order = 2,
						       .finish = finish_torchtitan};

/* What train_batch_size leaves to a step of a replica. */
static int take_whole_batch(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *all = sc_foreign_get(file, "train_batch_size");
	int64_t n = sc_foreign_count(file, "train_batch_size", 0);
	int64_t steps = sc_foreign_count(file, "gradient_accumulation_steps", 1);
	int64_t parts = sc_foreign_gpus(file) / sc_foreign_replica(file) * steps;
	int rc = sc_foreign_put(file, all, "training.global_batch", NULL, err);

	if (rc || !parts || sc_foreign_line_of(file->lines, "training.micro_batch"))
		return rc;
	if (n % parts)
		return sc_foreign_fail(all, err,
				       "does not divide by replicas and accumulated steps");
	return sc_foreign_put_count(file, all, "training.micro_batch", n / parts, err);
}

static int take_deepspeed_batch(struct sc_foreign *file, struct sc_err *err)
{
	const struct sc_foreign_leaf *micro =
		sc_foreign_get(file, "train_micro_batch_size_per_gpu");
	const struct sc_foreign_leaf *at =
		micro ? micro : sc_foreign_get(file, "gradient_accumulation_steps");
	int64_t n = sc_foreign_count(file, "train_micro_batch_size_per_gpu", 0);
	int64_t steps = sc_foreign_count(file, "gradient_accumulation_steps", 1);
	int rc = 0;

	if (n > 1 << 26 || steps > 1 << 16)
		return sc_foreign_fail(at, err, "this batch is too large");
	if (n)
		rc = sc_foreign_put(file, micro, "training.micro_batch", NULL, err);
	if (rc == 0 && sc_foreign_count(file, "train_batch_size", 0))
		return take_whole_batch(file, err);
	if (rc == 0 && n && sc_foreign_gpus(file))
		rc = sc_foreign_put_count(
			file, micro, "training.global_batch",
			sc_foreign_gpus(file) / sc_foreign_replica(file) * n * steps, err);
	return rc;
}

const struct sc_foreign_format sc_format_deepspeed = {.name = "DeepSpeed",
						      .table = "deepspeed",
						      .strict = true,
						      .open = "auto",
						      .order = 2,
						      .finish = take_deepspeed_batch};
