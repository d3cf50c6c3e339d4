"""Requests and their results."""

from __future__ import annotations

import contextlib
import html
import json
import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence, Union

from . import _command, _native

if TYPE_CHECKING:
    import pandas

Config = Union[str, "os.PathLike[str]", Mapping[str, Any], "Request"]
Price = Union[float, str, Sequence[str]]  # of any GPU, or "GPU=USD", one or several
# The list that a document is about, where none is named.
_MAIN = ("plans", "best", "points", "cases", "configs", "pairs", "ranks", "files", "slots", "critical_path")


class StepcastError(ValueError):
    """What the command would print: a file, a line and a column where they are known, and what is wrong."""


def _fail() -> StepcastError:
    text = _native.call("error").decode(errors="replace")
    return StepcastError(text.removeprefix("error: "))


def _text(value: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(v) for v in value) + "]"
    return str(value)


def _flat(overrides: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in overrides.items():
        if isinstance(value, Mapping):
            yield from _flat(value, prefix + key + ".")
        elif value is not None:
            yield prefix + key, _text(value)


def _options(**given: Any) -> list[str]:
    """Options of a command: True is the option alone, a list gives it again for each."""
    words = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                words += [option, os.fspath(one) if isinstance(one, os.PathLike) else str(one)]
    return words


class Request:
    """A config that is read once and asked often.

    `config` is a path, a mapping with the keys of a config, or another request. Overrides are keys of the config:
    ``Request("gpt.yaml", gpus=64, parallel={"tp": 8})`` or ``**{"parallel.tp": 8}``.
    """

    def __init__(self, config: Config, **overrides: Any) -> None:
        self._at: int | None = None
        if isinstance(config, Request):
            self._at = _native.call("request_copy", config._at)
        elif isinstance(config, Mapping):
            self._at = _native.call("request_text", json.dumps(_without_none(config), ensure_ascii=False).encode(), None)
        else:
            self._at = _native.call("request_file", os.fsencode(config))
        if not self._at:
            raise _fail()
        self.set(**overrides)

    def set(self, **overrides: Any) -> None:
        """Sets keys, in the order given; those before one that is wrong stay set."""
        for key, value in _flat(overrides):
            if _native.call("request_set", self._at, key.encode(), value.encode()) != 0:
                raise _fail()

    def __del__(self) -> None:
        if getattr(self, "_at", None):
            _native.call("request_free", self._at)

    def _run(self, function: str, options: list[str]) -> tuple[str, str | None]:
        result = _native.call(function, self._at, *_native.words(options))
        if not result:
            raise _fail()
        try:
            plan = _native.call("result_plan", result)
            return _native.call("result_json", result).decode(), plan and plan.decode()
        finally:
            _native.call("result_free", result)

    def predict(
        self,
        *,
        explain: bool = False,
        detail: str | None = None,
        price: Price | None = None,
        tokens: float | None = None,
        samples: float | None = None,
        confidence: int | None = None,
    ) -> Prediction:
        """The time of one iteration; the request may be asked by several threads at once."""
        words = _options(explain=explain, detail=detail, price=price, tokens=tokens, samples=samples, confidence=confidence)
        return Prediction(self._run("predict", words)[0])


def _without_none(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if value is not None
    }


def _request(config: Config, overrides: Mapping[str, Any]) -> Request:
    return config if isinstance(config, Request) and not overrides else Request(config, **overrides)


@contextlib.contextmanager
def _pandas_for(what: str, instead: str) -> Iterator[None]:
    """Says of an import of pandas that fails what to do."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise ModuleNotFoundError(f"{what} needs pandas: pip install pandas, or use {instead}", name="pandas") from None


class _Document:
    """A result: `json` is the text that the command prints with --json; names are its keys."""

    def __init__(self, text: str) -> None:
        self.json = text
        self._values: dict[str, Any] | None = None

    @property
    def values(self) -> dict[str, Any]:
        """The whole document."""
        if self._values is None:
            self._values = json.loads(self.json)
        return self._values

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def keys(self) -> Iterable[str]:
        return self.values.keys()

    def to_dict(self) -> dict[str, Any]:
        """A copy of the whole document."""
        return json.loads(self.json)

    def to_pandas(self, name: str | None = None) -> pandas.DataFrame:
        """A list of the document as a DataFrame: ``to_pandas("plans")``; without a name the one that it is about."""
        with _pandas_for("to_pandas()", "to_dict()"):
            import pandas

        name = name or next(n for n in _MAIN if n in self.values)
        return pandas.json_normalize(self.values[name])

    def page(self) -> str:
        """The page that the command writes with --report: one HTML file that needs no other."""
        done = subprocess.run([_command.path(), "page", "-"], input=self.json, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise StepcastError(done.stderr.strip().removeprefix("error: "))
        return done.stdout

    def _repr_html_(self) -> str:
        """The page in a frame of its own, as notebooks show it."""
        return f'<iframe srcdoc="{html.escape(self.page())}" style="width:100%;height:40em;border:0"></iframe>'

    @property
    def warnings(self) -> list[str]:
        """What was assumed, and where a model is used outside the range it was fitted in."""
        return self.values.get("warnings", [])


class Prediction(_Document):
    """One predicted iteration. Times in ms, memory in GiB of the fullest GPU."""

    @property
    def iteration_ms(self) -> float:
        return self.values["iteration_ms"]

    @property
    def band_ms(self) -> tuple[float, float]:
        """Should hold four measured times of five."""
        return self.values["low_ms"], self.values["high_ms"]

    @property
    def breakdown_ms(self) -> dict[str, float]:
        """Where the time of the busiest GPU goes; adds up to iteration_ms."""
        return self.values["breakdown_ms"]

    @property
    def communication_ms(self) -> float:
        """What that GPU communicates, hidden or not; ``breakdown_ms["exposed_comm"]`` of it is exposed."""
        return self.values["communication_ms"]

    @property
    def memory_gib(self) -> dict[str, float]:
        """By what fills it, with `total` and `capacity`."""
        return self.values["memory_gib"]

    @property
    def fits(self) -> bool:
        """In the memory of the GPU, and of the host and its SSDs where they hold tables."""
        return self.values["fits"]

    @property
    def mfu(self) -> float:
        return self.values["mfu"]

    @property
    def samples_per_s(self) -> float:
        return self.values["samples_per_s"]

    def __repr__(self) -> str:
        low, high = self.band_ms
        return f"<Prediction {self.iteration_ms:.2f} ms ({low:.2f} to {high:.2f})>"


class Sharding(_Document):
    """Plans of embedding tables, best first."""

    def __init__(self, text: str, plan: str) -> None:
        super().__init__(text)
        self.plan_json = plan

    @property
    def plans(self) -> list[dict[str, Any]]:
        return self.values["plans"]

    @property
    def best(self) -> dict[str, Any]:
        return self.plans[0]

    @property
    def plan(self) -> dict[str, Any]:
        """The best plan: module, table, then what TorchRec's ParameterSharding has."""
        return json.loads(self.plan_json)["plan"]

    def __repr__(self) -> str:
        return f"<Sharding {self.best['name']}: {self.best['cost']:.4g} {self.values['cost_unit']}>"


def predict(
    config: Config,
    *,
    explain: bool = False,
    detail: str | None = None,
    price: Price | None = None,
    tokens: float | None = None,
    samples: float | None = None,
    confidence: int | None = None,
    **overrides: Any,
) -> Prediction:
    """Predicts one training iteration; the arguments are options of `stepcast predict`.

    >>> predict("gpt-22b.yaml", parallel={"tp": 4}).iteration_ms
    >>> predict("gpt-22b.yaml", price=2.5, tokens=15e12)["run_cost"]["usd"]
    """
    return _request(config, overrides).predict(
        explain=explain, detail=detail, price=price, tokens=tokens, samples=samples, confidence=confidence
    )


def shard(
    config: Config,
    *,
    search: float | None = None,
    objective: str | None = None,
    plan: str | Sequence[str] = (),
    baseline: str | Sequence[str] = (),
    constraint: str | Sequence[str] = (),
    current: str | None = None,
    draws: int | None = None,
    seed: int | None = None,
    options: Mapping[str, Any] | None = None,
    **overrides: Any,
) -> Sharding:
    """Ranks plans that place the embedding tables of a DLRM, and searches for a better one.

    The arguments are options of `stepcast shard`; `options` has the others, as ``{"max_moved_gib": 20}``.
    """
    named = {
        "search": search,
        "objective": objective,
        "plan": plan,
        "baseline": baseline,
        "constraint": constraint,
        "current": current,
        "draws": draws,
        "seed": seed,
    }
    words = _options(**{**named, **(options or {})})
    text, best = _request(config, overrides)._run("shard", words)
    return Sharding(text, best or "{}")


def _axis(key: str, values: Sequence[Any]) -> str:
    """As --grid takes it, which has commas between values, and within them in brackets alone."""
    texts = [_text(value) for value in values]
    for text in texts:
        depth = 0
        for c in text:
            depth += (c == "[") - (c == "]")
            if c == "," and depth == 0:
                raise StepcastError(f"grid: {key}: a value cannot have a comma: \"{text}\"; give a table")
    return f"{key}=" + ",".join(texts)


@contextlib.contextmanager
def _as_file(table: Any) -> Iterator[str]:
    """A table in memory as the file that --table reads."""
    if isinstance(table, (str, os.PathLike)):
        yield os.fspath(table)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        table.to_csv(file, index=False)
        file.flush()
        yield file.name


def rows(
    config: Config,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    table: Any = None,
    jobs: int | None = None,
    **overrides: Any,
) -> list[dict[str, Any]]:
    """What `sweep` gives, as a list of mappings: it needs no pandas."""
    axes = [_axis(key, values) for key, values in (grid or {}).items()]
    request, found = _request(config, overrides), []
    failure: list[BaseException] = []

    @_native.ROW
    def take(_ctx: Any, _index: int, row: Any) -> int:
        try:
            found.append(json.loads(_native.call("result_json", row)))
        except BaseException as error:  # would be lost in the library
            failure.append(error)
        return len(failure)

    with _as_file(table) if table is not None else contextlib.nullcontext() as path:
        words = _options(grid=axes, table=path, jobs=jobs)
        rc = _native.call("sweep", request._at, *_native.words(words), take, None)
    if failure:
        raise failure[0]
    if rc != 0:
        raise _fail()
    return found


def sweep(
    config: Config,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    table: Any = None,
    jobs: int | None = None,
    **overrides: Any,
) -> pandas.DataFrame:
    """Predicts many cases over one config: a grid of keys, or a table (a CSV file or a DataFrame).

    One row a case, with the columns of `stepcast sweep`; columns of the table that are no keys come as text. A case that cannot be predicted says why in `error`.

    >>> sweep("gpt-22b.yaml", grid={"parallel.tp": [2, 4, 8]})[["parallel.tp", "iteration_ms"]]
    """
    with _pandas_for("sweep()", "rows(), which gives a list of mappings"):
        import pandas

    return pandas.DataFrame(rows(config, grid=grid, table=table, jobs=jobs, **overrides))
