"""Tile sizes: each configuration simulated, the most promising ones timed."""

from __future__ import annotations

import itertools
import math
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.loops.compiled import time
from rooflab.loops.read import source
from rooflab.loops.understanding import understand
from rooflab.machines.cache_levels import Chosen
from rooflab.types.loop import LoopReport

MOST = 4096  # configurations of one sweep
TIMED = 5


def parse(text: str) -> tuple[str, tuple[int, ...]]:
    """The name and the sizes that `text` lists: "bi=8:256:8" (the last included) or "bi=8,16,32".

    Raises:
        RooflabError: anything else, a size below one, or more than a sweep should hold.
    """
    name, _, values = text.partition("=")
    try:
        if ":" in values:
            parts = [int(each) for each in values.split(":")]
            if len(parts) not in (2, 3):
                raise ValueError
            every = range(parts[0], parts[1] + 1, *parts[2:])
            if len(every) > MOST:
                raise RooflabError(f"--tile {text}: {len(every):,} sizes, expected at most {MOST:,}: larger steps")
            sizes = tuple(every)
        else:
            sizes = tuple(int(each) for each in values.split(","))
    except ValueError:
        sizes = ()
    if not name or not sizes or min(sizes) < 1:
        raise RooflabError(f"--tile {text}: expected NAME=FIRST:LAST:STEP or NAME=SIZE,SIZE,… of sizes above zero")
    return name, sizes


def configurations(sizes: Mapping[str, Sequence[int]]) -> tuple[dict[str, int], ...]:
    """Every combination of `sizes`, the last name changing fastest.

    Raises:
        RooflabError: none, or more than a sweep should hold.
    """
    count = math.prod(len(each) for each in sizes.values())
    if not sizes or count == 0:
        raise RooflabError("no tile size given, expected such as {'t': range(8, 257, 8)}")
    if count > MOST:
        raise RooflabError(f"{count:,} configurations, expected at most {MOST:,}: take larger steps")
    return tuple(dict(zip(sizes, each, strict=True)) for each in itertools.product(*sizes.values()))


def arguments(fn: Callable[..., Any], args: Sequence[Any], sizes: Mapping[str, int]) -> tuple[Any, ...]:
    """All arguments of `fn`: those `given`, with the tile sizes in their places.

    Raises:
        UnknownNameError: a tile size that is no parameter.
        RooflabError: one that is given as something other than a whole number, or none of its parameters is one;
            too few or too many arguments.
    """
    names = source.read(fn).parameters
    given = dict(zip(names, args, strict=True)) if len(args) == len(names) else {}
    whole = [name for name in names if name not in given or _is_whole(given[name])]
    for name in sizes:
        if name in whole:
            continue
        if name in names:
            raise RooflabError(
                f"{fn.__name__}: {name} is given {_said(given[name])}, expected a whole number for a tile size"
            )
        if not whole:
            raise RooflabError(
                f"{fn.__name__} has no tile size {name!r}: none of its parameters ({', '.join(names)}) is a whole "
                "number; a tile size is one that its loops step by"
            )
        raise UnknownNameError(f"tile size of {fn.__name__}", name, whole)
    if len(args) == len(names):
        return tuple(sizes.get(name, value) for name, value in zip(names, args, strict=True))
    rest = [name for name in names if name not in sizes]
    if len(args) != len(rest):
        raise RooflabError(
            f"{fn.__name__}: got {len(args)} arguments beside the tile sizes, expected {len(rest)}:"
            f" {', '.join(rest)}"
        )
    held = dict(zip(rest, args, strict=True)) | dict(sizes)
    return tuple(held[name] for name in names)


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _said(value: Any) -> str:
    return "an array" if hasattr(value, "shape") else repr(value)


def simulate(
    fn: Callable[..., Any],
    args: Sequence[Any],
    chosen: Sequence[dict[str, int]],
    caches: Chosen,
    time_limit_s: float | None,
) -> list[LoopReport | RooflabError]:
    """A report without times for each configuration, several at once: each twin runs without Python's lock."""
    from rooflab.loops import examine

    def one(sizes: dict[str, int]) -> LoopReport | RooflabError:
        try:
            loop = understand(fn, arguments(fn, args, sizes))
            return examine.report(loop, caches, time_limit_s=time_limit_s, time=False, code=True)
        except RooflabError as error:
            return error

    # The first compiles the twin for all of them.
    first = one(chosen[0])
    workers = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    with ThreadPoolExecutor(workers) as pool:
        return [first, *pool.map(one, chosen[1:])]


def timed(fn: Callable[..., Any], args: Sequence[Any], sizes: dict[str, int]) -> time.Timing:
    """Seconds of a warm run of the compiled loop on one core, with these tile sizes."""
    loop = understand(fn, arguments(fn, args, sizes))
    compiled = time.build(loop)
    return time.warm(compiled.serial, loop.arguments, time.steered_by_data(loop.source, loop.value_types))
