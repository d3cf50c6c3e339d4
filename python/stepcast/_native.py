"""The functions of libstepcast's header, by ctypes, and nothing more."""

from __future__ import annotations

import ctypes
import os
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_double, c_int, c_longlong, c_size_t, c_void_p
from typing import Any, Iterable

HERE = os.path.dirname(os.path.abspath(__file__))


class ShardCost(ctypes.Structure):
    _fields_ = [
        (name, c_double)
        for name in (
            "forward_ms",
            "backward_ms",
            "comms_ms",
            "prefetch_ms",
            "hbm_bytes",
            "host_bytes",
            "ssd_bytes",
        )
    ]


ROW = CFUNCTYPE(c_int, c_void_p, c_size_t, c_void_p)
WORDS = POINTER(c_char_p)
FUNCTIONS = {
    "version": (c_char_p, []),
    "error": (c_char_p, []),
    "error_status": (c_int, []),
    "request_file": (c_void_p, [c_char_p]),
    "request_text": (c_void_p, [c_char_p, c_char_p]),
    "request_set": (c_int, [c_void_p, c_char_p, c_char_p]),
    "request_copy": (c_void_p, [c_void_p]),
    "request_free": (None, [c_void_p]),
    "predict": (c_void_p, [c_void_p, WORDS, c_size_t]),
    "shard": (c_void_p, [c_void_p, WORDS, c_size_t]),
    "sweep": (c_int, [c_void_p, WORDS, c_size_t, ROW, c_void_p]),
    "result_json": (c_char_p, [c_void_p]),
    "result_plan": (c_char_p, [c_void_p]),
    "result_free": (None, [c_void_p]),
    "costs_of": (c_void_p, [c_void_p]),
    "costs_shard": (
        c_int,
        [c_void_p, c_char_p, c_char_p, c_char_p, c_longlong, c_longlong, POINTER(ShardCost)],
    ),
    "costs_free": (None, [c_void_p]),
}


def _load() -> ctypes.CDLL:
    """$STEPCAST_LIBRARY, the library in this package, the system's."""
    own = os.path.join(HERE, "lib", "libstepcast.so")
    path = os.environ.get("STEPCAST_LIBRARY") or (own if os.path.exists(own) else "libstepcast.so.0")
    library = ctypes.CDLL(path)
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, "stepcast_" + name)
        function.restype, function.argtypes = result, arguments
    return library


library = _load()


def _check(arguments: Iterable[Any]) -> None:
    """C would take a text up to its first NUL."""
    for argument in arguments:
        if isinstance(argument, bytes) and b"\0" in argument:
            raise ValueError(f"a NUL in {argument!r}")


def call(name: str, *arguments: Any) -> Any:
    _check(arguments)
    return getattr(library, "stepcast_" + name)(*arguments)


def words(options: list[str]) -> tuple[Any, int]:
    """As the two arguments `options` and `n_options`."""
    encoded = [option.encode() for option in options]
    _check(encoded)
    return (c_char_p * len(encoded))(*encoded), len(encoded)
