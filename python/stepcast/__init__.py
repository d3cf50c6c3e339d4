"""stepcast: how long one training iteration takes on a cluster of GPUs.

    import stepcast
    p = stepcast.predict("gpt-22b.yaml", gpus=64, parallel={"tp": 8})
    print(p.iteration_ms, p.memory_gib["total"])

Configs may name what is shipped: ``{"model": "models/llama3-8b.yaml", ...}``; `example` finds whole ones.
"""

import os as _os

from . import _native
from ._api import Prediction, Request, Sharding, StepcastError, predict, rows, shard, sweep
from ._studies import Study, c3, collective, compare, replay, scale, schedule, search

__all__ = [
    "Prediction",
    "Request",
    "Sharding",
    "StepcastError",
    "Study",
    "c3",
    "collective",
    "compare",
    "configs",
    "example",
    "predict",
    "replay",
    "rows",
    "scale",
    "schedule",
    "search",
    "shard",
    "sweep",
]
__version__ = _native.call("version").decode()


def configs() -> str:
    """The folder of the shipped configs."""
    own = _os.path.join(_native.HERE, "share", "stepcast", "configs")
    folders = [_os.environ.get("STEPCAST_CONFIGS"), own, "/usr/share/stepcast/configs"]
    folders.append(_os.path.join(_native.HERE, "..", "..", "configs"))
    for folder in folders:
        if folder and _os.path.isdir(folder):
            return folder
    raise StepcastError("no configs are found; set $STEPCAST_CONFIGS to their folder")


def example(name: str) -> str:
    """The path of a shipped example, as "gpt-22b-selene"."""
    path = _os.path.join(configs(), "examples", name + ".yaml")
    if not _os.path.exists(path):
        raise StepcastError(f"no example \"{name}\" in {_os.path.dirname(path)}")
    return path
