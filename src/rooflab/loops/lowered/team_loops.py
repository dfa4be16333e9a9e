"""The loops of a function as a team of threads runs them: numba makes a function of its own of each over prange.

Such a function is written anew around the lines of the source, and may call others: all of it counts to the loop
over prange that it is of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from rooflab.loops.lowered import core_loops, profile
from rooflab.loops.lowered.ir_text import CALLED, Places
from rooflab.loops.read.decorated import python_function
from rooflab.types.loop import CoreLoop


def found_in(fn: Callable[..., Any], values: tuple[Any, ...], threads: int = 1) -> tuple[CoreLoop, ...]:
    """As `core_loops.found_in`, of the code for a team of so many threads, of which one runs it all."""
    taken = profile.take(fn, values, team=threads)
    lines = _lines_of(fn)
    places = Places(taken[0].ir, lines)
    homes = _homes(taken, places, lines)
    found: list[CoreLoop] = []
    for each in taken:
        first, home = len(found), homes.get(each.function.name, 0)
        foreign = profile.SPREAD not in each.function.name
        for loop in core_loops.of_profile(each, places):
            line = home if home and (foreign or not loop.line) else loop.line
            within = None if loop.within is None else loop.within + first
            found.append(replace(loop, line=line, within=within))
    return tuple(found)


def _lines_of(fn: Callable[..., Any]) -> range:
    """The lines of a Python function, as its code has them."""
    code = python_function(fn).__code__
    return range(code.co_firstlineno, 1 + max(line for *_, line in code.co_lines() if line is not None))


def _homes(taken: Sequence[profile.Profile], places: Places, lines: range) -> dict[str, int]:
    """The first line of the source that functions hold, by name: of those that a team runs, and what they call."""
    by_name = {each.function.name: each.function for each in taken}
    found: dict[str, int] = {}
    todo = [(name, 0) for name in by_name if profile.SPREAD in name]
    while todo:
        name, caller = todo.pop()
        if found.get(name):
            continue
        function = by_name[name]
        own = {places.line(each.debug) for each in function.instructions()} & set(lines)
        found[name] = caller or min(own, default=0)
        called = {each.strip('"') for one in function.instructions() for each in CALLED.findall(one.text)}
        todo += [(each, found[name]) for each in called if each in by_name]
    return found
