"""The command `stepcast` of the package."""

import os
import sys

from ._native import HERE


def path() -> str:
    """$STEPCAST, the command in this package, the system's."""
    own = os.path.join(HERE, "bin", "stepcast")
    if os.environ.get("STEPCAST"):
        return os.environ["STEPCAST"]
    return own if os.path.exists(own) else _system()


def _system() -> str:
    """The first binary in $PATH: a script of that name may be `main`."""
    for folder in os.get_exec_path():
        path = os.path.join(folder, "stepcast")
        if os.path.isfile(path) and os.access(path, os.X_OK):
            with open(path, "rb") as file:
                if file.read(2) != b"#!":
                    return path
    raise FileNotFoundError("the command stepcast is not found; set $STEPCAST to its path")


def main() -> None:
    try:
        command = path()
    except FileNotFoundError as error:
        sys.exit(f"error: {error}")
    os.execvp(command, ["stepcast", *sys.argv[1:]])
