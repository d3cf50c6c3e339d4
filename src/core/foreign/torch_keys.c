/* Sources: torchtitan/config/job_config.py; DeepSpeed's configuration JSON
 * (deepspeed.ai/docs/config-json). */
#include "core/foreign/foreign.h"

/* Shards over what GPUs are left if its degree is -1, the default; context-parallel ranks too. */
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
	if (n_shards && sc_foreign_gpus(file) &&
	    n_shards * n_copies * ranks != sc_foreign_gpus(file))
		return sc_foreign_fail(
			shards, err,
			"times replicas, tensor, pipeline and context parallelism is "
			"not the GPUs that are given");
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

const struct sc_foreign_format sc_format_torchtitan = {.name = "torchtitan",
						       .table = "torchtitan",
						       .strict = true,
						       .order = 2,
						       .finish = take_shards};

const struct sc_foreign_format sc_format_deepspeed = {
	.name = "DeepSpeed", .table = "deepspeed", .strict = true, .open = "auto", .order = 2};
