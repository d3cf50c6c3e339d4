"""Traces of torch.profiler, for `stepcast replay`."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Sequence

from ._studies import replay, run_json

__all__ = ["read", "replay", "trace_handler"]


def trace_handler(folder: str, rank: int | None = None) -> Callable[[Any], None]:
    """For torch.profiler's `on_trace_ready`: one packed trace a rank in `folder`, for `read`.

        with torch.profiler.profile(on_trace_ready=stepcast.profiler.trace_handler("traces")) as p:
            for batch in batches:
                step(batch)
                p.step()
    """

    def save(profile: Any) -> None:
        own = int(os.environ.get("RANK", "0")) if rank is None else rank
        os.makedirs(folder, exist_ok=True)
        profile.export_chrome_trace(os.path.join(folder, f"rank{own}.pt.trace.json.gz"))

    return save


def read(files: str | Sequence[str], out: str) -> dict[str, Any]:
    """Reads traces (files, or a folder of them), one a rank, into the folder `out`, as `stepcast import` does.

    What was read and what was skipped comes back; `replay` takes the folder.
    """
    if isinstance(files, str):
        names = sorted(os.listdir(files)) if os.path.isdir(files) else [""]
        files = [os.path.join(files, name) if name else files for name in names]
    return json.loads(run_json(["import", *map(os.fspath, files), "-o", out]))
