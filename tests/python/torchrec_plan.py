"""TorchRec's planner on DLRM-DCNv2, by its own estimator and by ours

Prints each plan's predicted step, beside that of the plan which `stepcast shard` finds."""

import json
import os
import re
import tempfile

import stepcast
from stepcast.torchrec import ShardEstimator


def tables_of_model():
    """(name, rows, dim, pooling) of models/dlrm-dcnv2.yaml, which has a table a line."""
    with open(os.path.join(stepcast.configs(), "models", "dlrm-dcnv2.yaml"), encoding="utf-8") as file:
        found = [dict(re.findall(r"(name|rows|dim|pooling): (\w+)", line)) for line in file if "{name:" in line]
    return [(t["name"], int(t["rows"]), int(t["dim"]), float(t.get("pooling", 1))) for t in found]


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
    from torchrec.distributed.planner.types import ParameterConstraints

    configs = [
        EmbeddingBagConfig(name=n, num_embeddings=r, embedding_dim=d, feature_names=["f_" + n])
        for n, r, d, _ in tables_of_model()
    ]
    constraints = {n: ParameterConstraints(pooling_factors=[p]) for n, _, _, p in tables_of_model()}
    model = EmbeddingBagCollection(device=torch.device("meta"), tables=configs)
    # The planner keeps 15 % for itself.
    topology = Topology(
        world_size=world, compute_device="cuda", local_world_size=8, hbm_cap=int(hbm_gib * 2**30 / 0.85)
    )
    times = ShardEstimator(config) if ours else EmbeddingPerfEstimator(topology, constraints)
    enumerator = EmbeddingEnumerator(
        topology,
        batch_per_gpu,
        constraints=constraints,
        estimator=[times, EmbeddingStorageEstimator(topology, constraints)],
    )
    planner = EmbeddingShardingPlanner(
        topology, batch_size=batch_per_gpu, enumerator=enumerator, constraints=constraints
    )
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
    config = stepcast.example("dlrm-dcnv2-h100")
    given = json.loads(stepcast.shard(config, baseline=["naive"], draws=0).plan_json)
    rows = [("stepcast shard", stepcast.shard(config, search=5, draws=0).best)]
    for name, ours in (("TorchRec, its estimator", False), ("TorchRec, our estimator", True)):
        plan = plan_with(config, ours)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({**given, "plan": {"embeddings": tables_of_plan(plan)}}, file)
            file.flush()
            rows.append((name, stepcast.shard(config, plan=[file.name], draws=0).best))
    for name, best in rows:
        print(f"{name:26} step {best['iteration_ms']:.3f} ms, busiest rank {best['cost']:.3f} ms")


if __name__ == "__main__":
    main()
