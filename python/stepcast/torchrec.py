"""Our times in TorchRec's planner.

    from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
    from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
    from torchrec.distributed.planner.shard_estimators import EmbeddingStorageEstimator
    from stepcast.torchrec import ShardEstimator

    estimator = ShardEstimator("dlrm.yaml")
    enumerator = EmbeddingEnumerator(topology, batch_size, estimator=[estimator, EmbeddingStorageEstimator(topology)])
    planner = EmbeddingShardingPlanner(topology, enumerator=enumerator)

Needs neither torch nor torchrec to be imported before it is used.
"""

from __future__ import annotations

import ctypes
from typing import Any

from . import _native
from ._api import Config, _fail, _request

TYPES = {"twrw": "table_row_wise", "twcw": "table_column_wise"}
# What has the cost of fused kernels, and what lies in host memory.
KERNELS = {
    "dense": "fused",
    "quant": "fused",
    "quant_uvm": "fused_uvm",
    "quant_uvm_caching": "fused_uvm_caching",
    "ssd_virtual_table": "key_value",
    "dram_virtual_table": "fused_uvm",
}


class ShardEstimator:
    """Fills the times of a planner's sharding options with stepcast's, ms: kernels and exchanges of each shard.

    `config` is of the model whose tables are placed: tables are found by name. `overrides` are keys of it. Storage is
    not estimated: TorchRec's EmbeddingStorageEstimator goes beside.
    """

    def __init__(self, config: Config, constraints: Any = None, **overrides: Any) -> None:
        request = _request(config, overrides)
        self._at = _native.call("costs_of", request._at)
        if not self._at:
            raise _fail()

    def __del__(self) -> None:
        if getattr(self, "_at", None):
            _native.call("costs_free", self._at)

    def cost(self, table: str, sharding_type: str, kernel: str, rows: int, columns: int) -> Any:
        """What one shard costs by itself: a structure of times in ms and bytes."""
        out = _native.ShardCost()
        words = [w.encode() for w in (table, TYPES.get(sharding_type, sharding_type), KERNELS.get(kernel, kernel))]
        if _native.call("costs_shard", self._at, *words, rows, columns, ctypes.byref(out)) != 0:
            raise _fail()
        return out

    def estimate(self, sharding_options: list[Any], sharder_map: Any = None, **_: Any) -> None:
        """What the planner calls, with names that changed over the years: sets `perf` of each shard."""
        from torchrec.distributed.planner.types import Perf

        known: dict[tuple[Any, ...], Any] = {}
        for option in sharding_options:
            for shard in option.shards:
                rows, columns = map(int, shard.size)
                key = (option.name, option.sharding_type, option.compute_kernel, rows, columns)
                if key not in known:
                    known[key] = self.cost(*key)
                c = known[key]
                half = c.comms_ms / 2
                shard.perf = Perf(
                    fwd_compute=c.forward_ms,
                    fwd_comms=half,
                    bwd_compute=c.backward_ms,
                    bwd_comms=half,
                    prefetch_compute=c.prefetch_ms,
                )
