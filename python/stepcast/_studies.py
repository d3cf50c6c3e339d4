"""Studies that run as the command: their options are the command's, their results its JSON."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from typing import Any, Iterator, Mapping, Sequence, Union

from . import _command
from ._api import StepcastError, _Document, _flat, _options, _without_none

File = Union[str, "os.PathLike[str]"]
Config = Union[File, Mapping[str, Any]]


class Study(_Document):
    """What a command found: `study["best"]`; `values` is the whole document."""

    def __repr__(self) -> str:
        return f"<Study {self.values.get('verdict') or self.values['schema']}>"


def run_json(words: Sequence[str], text: str | None = None) -> str:
    """What the command writes with --json; StepcastError has what it says where it fails."""
    done = subprocess.run([_command.path(), *words, "--json", "-q"], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StepcastError(done.stderr.strip().removeprefix("error: "))
    return done.stdout


@contextlib.contextmanager
def _file(config: Config) -> Iterator[str]:
    """A mapping as the file that a command reads; JSON is YAML."""
    if not isinstance(config, Mapping):
        yield os.fspath(config)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        json.dump(_without_none(config), file, ensure_ascii=False)
        file.flush()
        yield file.name


def _study(command: str, configs: Sequence[Config], options: Mapping[str, Any], overrides: Mapping[str, Any]) -> Study:
    sets = [f"{key}={value}" for key, value in _flat(overrides)]
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_file(config)) for config in configs]
        return Study(run_json([command, *files, *_options(set=sets, **options)]))


def _pairs(given: Mapping[str, Any] | None) -> list[str]:
    """{"parallel.tp": [2, 4]} as --choose takes it; a key without values is named alone."""
    words = []
    for key, value in (given or {}).items():
        values = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
        words.append(key + ("=" + ",".join(map(str, values)) if values else ""))
    return words


def search(
    config: Config,
    *,
    choose: Mapping[str, Any] | None = None,
    fix: Mapping[str, Any] | None = None,
    gpus: str | None = None,
    options: Mapping[str, Any] | None = None,
    **overrides: Any,
) -> Study:
    """Looks for the fastest split: `best` and `shown` of its values. `options` has the command's others.

    >>> search("gpt-22b.yaml", choose={"parallel.tp": [2, 4, 8]}, options={"objective": "cost", "price": 2})
    """
    named = {"choose": _pairs(choose), "fix": _pairs(fix), "gpus": gpus, **(options or {})}
    return _study("search", [config], named, overrides)


def scale(config: Config, *, gpus: str, weak: bool = False, options: Mapping[str, Any] | None = None, **overrides: Any) -> Study:
    """The best split at each number of GPUs: ``scale("gpt-22b.yaml", gpus="8:64")``."""
    return _study("scale", [config], {"gpus": gpus, "weak": weak, **(options or {})}, overrides)


def compare(first: Config, *others: Config, **overrides: Any) -> Study:
    """Sets configs, or folders of recordings, side by side."""
    return _study("compare", [first, *others], {}, overrides)


def c3(config: Config | None = None, *, options: Mapping[str, Any] | None = None, **overrides: Any) -> Study:
    """What concurrent communication gains and costs, by policy; without a config `options` has the pair.

    >>> c3(options={"gemm": "8192,8192,8192,bf16", "collective": "all_reduce:64M", "device": "h100-sxm-80gb"})
    """
    return _study("c3", [] if config is None else [config], options or {}, overrides)


def collective(kind: str, *, options: Mapping[str, Any] | None = None, **named: Any) -> Study:
    """Times of a collective: ``collective("all_reduce", device="h100-sxm-80gb", bytes="1M:1G:x4")``."""
    return Study(run_json(["collective", kind, *_options(**named, **(options or {}))]))


def schedule(*names: Config, options: Mapping[str, Any] | None = None, **named: Any) -> Study:
    """Pipeline schedules side by side: ``schedule("1f1b", "zb-h1", pp=8, micro_batches=32, times="f=1,b=1,w=1")``."""
    return _study("schedule", names, {**named, **(options or {})}, {})


def replay(folder: File, *, options: Mapping[str, Any] | None = None, **named: Any) -> Study:
    """Simulates the iterations of a recording again: ``replay("run", scale="kernel:gemm=0.8")``."""
    return Study(run_json(["replay", os.fspath(folder), *_options(**named, **(options or {}))]))
