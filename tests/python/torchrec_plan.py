"""TorchRec's planner on a DLRM, by its own estimator and by ours: torchrec_plan.py [CONFIG]

Prints each plan's predicted step, beside that of the plan which `stepcast shard` finds."""

import json
import sys
import tempfile

import stepcast
from stepcast.torchrec import ShardEstimator


def tables_of(config):
    """(name, rows, dim) from the plan that has them all."""
    plan = stepcast.shard(config, baseline=["naive"], samples=0).plan["embeddings"]
    found = []
    for name, at in plan.items():
        shards = at["sharding_spec"] or []
        rows = max(s["shard_offsets"][0] + s["shard_sizes"][0] for s in shards)
        dim = max(s["shard_offsets"][1] + s["shard_sizes"][1] for s in shards)
        found.append((name, rows, dim))
    return found


def plan_with(config, ours, batch_per_gpu=6912, world=8, hbm_gib=55.879):
    import torch
    from torchrec import EmbeddingBagCollection, EmbeddingBagConfig
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
    from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
    from torchrec.distributed.planner.shard_estimators import (
        EmbeddingPerfEstimator,
        EmbeddingStorageEstimator,
    )

    configs = [
        EmbeddingBagConfig(name=n, num_embeddings=r, embedding_dim=d, feature_names=["f_" + n])
        for n, r, d in tables_of(config)
    ]
    model = EmbeddingBagCollection(device=torch.device("meta"), tables=configs)
    # The planner keeps 15 % for itself.
    topology = Topology(
        world_size=world, compute_device="cuda", local_world_size=8, hbm_cap=int(hbm_gib * 2**30 / 0.85)
    )
    times = ShardEstimator(config) if ours else EmbeddingPerfEstimator(topology)
    enumerator = EmbeddingEnumerator(
        topology, batch_per_gpu, estimator=[times, EmbeddingStorageEstimator(topology)]
    )
    planner = EmbeddingShardingPlanner(topology, batch_size=batch_per_gpu, enumerator=enumerator)
    return planner.plan(model, [EmbeddingBagCollectionSharder()]).plan[""]


def tables_of_plan(plan):
    """As `stepcast shard --plan` reads them."""
    tables = {}
    for name, at in plan.items():
        spec = at.sharding_spec
        shards = spec and [
            {
                "shard_offsets": list(s.shard_offsets),
                "shard_sizes": list(s.shard_sizes),
                "placement": f"rank:{s.placement.rank()}/cuda:{s.placement.rank() % 8}",
            }
            for s in spec.shards
        ]
        tables[name] = {
            "sharding_type": at.sharding_type,
            "compute_kernel": at.compute_kernel,
            "ranks": at.ranks,
            "sharding_spec": shards,
        }
    return tables


def main():
    config = sys.argv[1] if len(sys.argv) > 1 else stepcast.example("dlrm-dcnv2-h100")
    given = json.loads(stepcast.shard(config, baseline=["naive"], samples=0).plan_json)
    rows = [("stepcast shard", stepcast.shard(config, search=5, samples=0).best)]
    for name, ours in (("TorchRec, its estimator", False), ("TorchRec, our estimator", True)):
        plan = plan_with(config, ours)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({**given, "plan": {"embeddings": tables_of_plan(plan)}}, file)
            file.flush()
            rows.append((name, stepcast.shard(config, plan=[file.name], samples=0).best))
    for name, best in rows:
        print(f"{name:26} step {best['iteration_ms']:.3f} ms, busiest rank {best['cost']:.3f} ms")


if __name__ == "__main__":
    main()
