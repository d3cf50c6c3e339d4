#!/usr/bin/env python3
"""Makes a TorchRec ShardingPlan of a plan that `stepcast shard -o` wrote.

    from torchrec_plan_loader import load_plan
    plan = load_plan("plan.json", {"embeddings": "model.sparse_arch.embedding_bag_collection"})
    model = DistributedModelParallel(model, plan=plan)

The second argument renames modules: stepcast knows tables by name only. The plan must have been made for
the world size of the job.
"""
import json

from torch.distributed._shard.sharding_spec import EnumerableShardingSpec, ShardMetadata
from torchrec.distributed.embedding_types import EmbeddingComputeKernel
from torchrec.distributed.types import (
    CacheParams,
    EmbeddingModuleShardingPlan,
    ParameterSharding,
    ShardingPlan,
)


def parameter(entry):
    shards, cache = entry["sharding_spec"], entry.get("cache_params")
    spec = shards and EnumerableShardingSpec([ShardMetadata(**shard) for shard in shards])
    return ParameterSharding(
        sharding_type=entry["sharding_type"],
        compute_kernel=EmbeddingComputeKernel(entry["compute_kernel"]).value,
        ranks=entry["ranks"],
        sharding_spec=spec,
        cache_params=cache and CacheParams(load_factor=cache["load_factor"]),
    )


def load_plan(path, modules=None):
    with open(path, encoding="utf-8") as file:
        plan = json.load(file)["plan"]
    return ShardingPlan(
        {
            (modules or {}).get(module, module): EmbeddingModuleShardingPlan(
                {name: parameter(entry) for name, entry in tables.items()}
            )
            for module, tables in plan.items()
        }
    )
