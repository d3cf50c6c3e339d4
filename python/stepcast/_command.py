"""The command `stepcast` of the package."""

import os
import sys

from ._native import HERE


def path() -> str:
    """$STEPCAST, the command in this package, the system's."""
    own = os.path.join(HERE, "bin", "stepcast")
    return os.environ.get("STEPCAST") or (own if os.path.exists(own) else "stepcast")


def main() -> None:
    os.execvp(path(), ["stepcast", *sys.argv[1:]])
