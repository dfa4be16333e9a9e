"""Streams and caches as they are written on a command line: "matmul 256 order=ikj", "512KiB/8"."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rooflab import units
from rooflab.cachesim import streams
from rooflab.cachesim.coherence import streams as core_streams
from rooflab.cachesim.coherence.stream import CoreStreams
from rooflab.cachesim.streams.stream import Stream
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.simulation import POLICIES, PREFETCHERS, Cache, tlb

_SIZES = ("nbytes", "stride_bytes", "item_bytes", "index_bytes")
_OF_ARRAYS = ("recorded", "spmv_csr")  # which only Python can give
NAMES = tuple(name for name in streams.__all__ if name not in _OF_ARRAYS)
CORE_NAMES = tuple(core_streams.__all__)


def stream(name: str, values: Sequence[str], settings: Mapping[str, str]) -> Stream:
    """What `name`, its sizes and its settings describe: "matmul", ["256"], {"order": "ikj"}.

    Raises:
        UnknownNameError: no such stream or setting, with near matches.
        RooflabError: a missing or wrong value.
    """
    if name in CORE_NAMES and name not in NAMES:
        raise RooflabError(f"{name} is a stream of several cores: give --cores 2")
    if name not in NAMES:
        raise UnknownNameError("stream", name, NAMES)
    return _made(name, getattr(streams, name), values, settings, {})


def streams_of_cores(name: str, cores: int, values: Sequence[str], settings: Mapping[str, str]) -> CoreStreams:
    """What `name`, its sizes and its settings describe for `cores` cores: "counters", 2, ["10000"].

    Raises:
        UnknownNameError: no such stream or setting, with near matches.
        RooflabError: a missing or wrong value, or another number of cores than the stream has.
    """
    if name not in CORE_NAMES:
        raise UnknownNameError("stream of several cores", name, CORE_NAMES)
    make = getattr(core_streams, name)
    if "cores" in inspect.signature(make).parameters:
        return _made(name, make, values, settings, {"cores": cores})
    streams = _made(name, make, values, settings, {})
    if len(streams.cores) != cores:
        raise RooflabError(f"{name} is of {len(streams.cores)} cores, got --cores {cores}")
    return streams


def _made(
    name: str,
    make: Callable[..., Any],
    values: Sequence[str],
    settings: Mapping[str, str],
    fixed: Mapping[str, Any],
) -> Any:
    """`make` called with `fixed`, then `values` in the order of its other parameters, then `settings` by name."""
    every = inspect.signature(make).parameters
    parameters = {key: each for key, each in every.items() if key not in fixed}
    plain = [key for key, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    if len(values) > len(plain):
        raise RooflabError(f"{name}: {len(values)} values, expected at most {len(plain)} ({', '.join(plain)})")
    arguments: dict[str, Any] = dict(fixed)
    for key, text in (*zip(plain, values, strict=False), *settings.items()):
        if key not in parameters:
            raise UnknownNameError(f"setting of {name}", key, parameters)
        arguments[key] = _value(name, key, text, parameters[key].default)
    missing = [key for key in plain if parameters[key].default is inspect.Parameter.empty and key not in arguments]
    if missing:
        more = f" --cores {fixed['cores']}" if fixed else ""
        raise RooflabError(
            f"{name} needs {' and '.join(missing)}, such as `rooflab simulate {example(name)}{more}`"
        )
    return make(**arguments)


def example(name: str) -> str:
    """How a stream is asked for."""
    firsts = {"sequential": "64MiB", "strided": "64MiB 256", "random": "64MiB 1000000", "pointer_chase": "4MiB"}
    return f"{name} {firsts.get(name, '256')}"


def _value(name: str, key: str, text: str, default: object) -> object:
    if isinstance(default, bool):
        if text.casefold() not in ("true", "false"):
            raise RooflabError(f"{name}: {key} is {text!r}, expected true or false")
        return text.casefold() == "true"
    if isinstance(default, str):
        return text
    try:
        if isinstance(default, float):
            return float(text)
        return int(text.replace("_", "").replace(",", ""))
    except ValueError:
        if key in _SIZES:
            return int(units.parse(text, "byte"))
        raise RooflabError(f"{name}: {key} is {text!r}, expected a number") from None


# Words that may follow the sizes of a cache, and the field of it that each sets.
_WORDS: dict[str, tuple[str, Any]] = {
    "write-through": ("write_back", False),
    "no-allocate": ("write_allocate", False),
    "no-fetch": ("fetch_on_write", False),
    "inclusive": ("inclusion", "inclusive"),
    "exclusive": ("inclusion", "exclusive"),
    "xor": ("index", "xor"),
    **{name: ("prefetch", name) for name in PREFETCHERS},
}
_NUMBERS = {"sector": "sector_bytes", "ahead": "prefetch_ahead", "seed": "seed"}


def cache(text: str, **more: Any) -> Cache:
    """The cache written as CAPACITY/WAYS or CAPACITY/WAYS/LINE and what else it is, such as "512KiB/8,plru".

    "full" stands for all ways. After the sizes, parted by commas: a policy, words as "write-through", numbers as
    "sector=32". What is said there goes before `more`; prefetchers are added to those.

    Raises:
        RooflabError: not written so, or sizes that do not fit.
    """
    sizes, *words = text.split(",")
    parts = sizes.split("/")
    if len(parts) not in (2, 3):
        raise RooflabError(f"level {text!r} is not CAPACITY/WAYS or CAPACITY/WAYS/LINE, such as 512KiB/8")
    line = int(_number(text, parts[2])) if len(parts) == 3 else 64
    fields: dict[str, Any] = {}
    for word in words:
        key, equals, number = word.partition("=")
        field, value = _WORDS.get(word, ("policy", word))
        if equals and key in _NUMBERS:
            field, value = _NUMBERS[key], int(_number(text, number))
        elif word not in (*_WORDS, *POLICIES) and not word.startswith("qlru_"):
            known = (*_WORDS, *POLICIES, *(f"{each}=N" for each in _NUMBERS))
            raise UnknownNameError(f"setting of level {text!r}", word, known)
        if field == "prefetch":
            value = (*fields.get(field, more.get(field, ())), value)
        elif field in fields:
            raise RooflabError(f"level {text!r}: {field} is said twice; leave one of them out")
        fields[field] = value
    return Cache(int(_number(text, parts[0])), _ways(text, parts[1]), line, **{**more, **fields})


def buffer(text: str) -> Cache:
    """The TLB written as ENTRIES/WAYS or ENTRIES/WAYS/PAGE, such as "64/full" or "1536/12/4KiB".

    Raises:
        RooflabError: not written so, or sizes that do not fit.
    """
    parts = text.split("/")
    if len(parts) not in (2, 3):
        raise RooflabError(f"TLB {text!r} is not ENTRIES/WAYS or ENTRIES/WAYS/PAGE, such as 64/full")
    page = int(_number(text, parts[2])) if len(parts) == 3 else 4096
    return tlb(int(_number(text, parts[0])), _ways(text, parts[1]), page)


def _ways(text: str, part: str) -> int | None:
    return None if part.casefold() == "full" else int(_number(text, part))


def _number(text: str, part: str) -> float:
    try:
        return float(int(part.replace("_", "")))
    except ValueError:
        pass
    try:
        return units.parse(part, "byte")
    except RooflabError as error:
        raise RooflabError(f"{text!r}: {error}") from None
