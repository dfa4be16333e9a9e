"""A Python loop that was taken apart before: what follows from it is found on disk, its times are taken anew."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import msgspec

from rooflab.loops import kept
from rooflab.loops.compiled import kept_code, runs
from rooflab.loops.compiled import time as timing
from rooflab.loops.read.understood import Understood
from rooflab.loops.understanding import TIME_LIMIT_S
from rooflab.machines.bench.experiments import thread_teams
from rooflab.machines.cache_levels import Chosen
from rooflab.types.loop import LoopReport, Timed

_FAR = 1.1  # of times: what a busy moment seldom makes of two that are alike
_ALIKE = 1.25  # of times of one loop at two moments


def report(
    loop: Understood,
    caches: Chosen,
    *,
    time_limit_s: float | None = TIME_LIMIT_S,
    time: bool = True,
    code: bool = False,
    classify: bool = False,
    fastmath: bool = False,
    profile: bool = False,
    why: bool = True,
) -> LoopReport:
    """As `examine.report`, which it asks where nothing was found.

    What was left out for the time that it took, a count that did not end or was not repeated, is not kept.

    Raises:
        RooflabError: as `examine.report`.
    """
    options = {"time": time, "code": code, "classify": classify, "fastmath": fastmath, "profile": profile}
    options["why"] = why
    key = _key(loop, caches, options)
    entry = None if key is None else kept.find(key)
    if entry is not None:
        found = LoopReport.from_dict(msgspec.msgpack.decode(entry["report"]))
        spread = entry["spread"] == b"1"
        return msgspec.structs.replace(found, runs=_timed(loop, caches, spread) if time else ())
    # what takes a loop apart compiles: its imports take longer than all that is left to do where it was found
    from rooflab.loops import examine

    made = examine.report(loop, caches, time_limit_s=time_limit_s, **options)
    profiled = bool(made.core_loops) or not (time or profile)
    if key is not None and made.complete and made.warm is not None and profiled:
        plain = msgspec.structs.replace(made, runs=()).to_dict()
        spread = any(each.threads > 1 for each in made.runs)
        kept.keep(key, {"report": msgspec.msgpack.encode(plain), "spread": b"1" if spread else b"0"})
    return made


def _key(loop: Understood, caches: Chosen, options: dict[str, bool]) -> str | None:
    """A digest of all that such a report follows from but its times; None where that is not known."""
    if not kept.is_on():
        return None
    source = loop.source
    values = kept.of_values(dict(zip(source.parameters, loop.arguments.values, strict=True)))
    if values is None:
        return None
    constants = sorted((name, type(value).__name__, repr(value)) for name, value in source.constants.items())
    tree = ast.dump(source.tree, include_attributes=True)
    # over how many threads it may run decides whether loops over prange are looked at
    several = thread_teams.most() > 1
    modules = sorted(source.modules.items())
    said = source.name, source.path, tree, constants, modules, sorted(source.lines.items())
    return kept.key("report of Python", said, values, caches, sorted(options.items()), several)


def _timed(loop: Understood, caches: Chosen, spread: bool) -> tuple[Timed, ...]:
    text = timing.texts(loop)
    fresh = timing.steered_by_data(loop.source, loop.value_types)
    arguments = loop.arguments
    alone, team = kept_code.ready(text.serial, arguments.values), None
    found = runs.on_one_core(alone, arguments, caches, fresh)
    if spread and text.parallel is not None:
        team = kept_code.ready(text.parallel, arguments.values)
        found += runs.on_threads(team, arguments, fresh)
    return tuple(runs.once_more(found, alone, team, arguments, fresh))


def compiled(loop: Understood, fastmath: bool = False) -> Callable[..., Any]:
    """The loop for one core, in machine code."""
    return kept_code.ready(timing.texts(loop, fastmath=fastmath).serial, loop.arguments.values)


def in_turns(one: tuple[Understood, bool], other: tuple[Understood, bool], now_s: float) -> tuple[float, float]:
    """Least seconds of a warm call of two loops, each with whether sums are added up in any order, run in turns.

    Runs are kept where the first loop took about `now_s`, the seconds that it takes by itself at the moment: that
    was no busy one. They are found where it still does, or where the second was far slower.
    """
    keys = [_values_key(*each) for each in (one, other)]
    key = None if None in keys else kept.key("in turns", *keys)
    entry = None if key is None else kept.find(key)
    if entry is not None:
        before_s, after_s = msgspec.msgpack.decode(entry["seconds"])
        if after_s > _FAR * before_s or _alike(before_s, now_s):
            return before_s, after_s
    before_s, after_s = timing.in_turns(
        [
            (compiled(*each), each[0].arguments, timing.steered_by_data(each[0].source, each[0].value_types))
            for each in (one, other)
        ]
    )
    if key is not None and _alike(before_s, now_s):
        kept.keep(key, {"seconds": msgspec.msgpack.encode((before_s, after_s))})
    return before_s, after_s


def _alike(one_s: float, other_s: float) -> bool:
    return max(one_s, other_s) <= _ALIKE * min(one_s, other_s)


def same_results(one: tuple[Understood, bool], other: tuple[Understood, bool]) -> bool:
    """Whether two loops, each with whether sums are added up in any order, leave the same; found or tried."""
    keys = [_values_key(*each) for each in (one, other)]
    key = None if None in keys else kept.key("same results", *keys)
    entry = None if key is None else kept.find(key)
    if entry is not None:
        return entry["same"] == b"1"
    results = [
        timing.run_once(timing.build(loop, fastmath=fastmath).serial, loop.arguments)
        for loop, fastmath in (one, other)
    ]
    same = timing.verify(one[0].source.name, results[1], results[0]) is None
    if key is not None:
        kept.keep(key, {"same": b"1" if same else b"0"})
    return same


def _values_key(loop: Understood, fastmath: bool) -> tuple[Any, ...] | None:
    """What a loop computes on: its text and its arguments; None where those are not known."""
    values = kept.of_values(dict(zip(loop.source.parameters, loop.arguments.values, strict=True)))
    return None if values is None else (*timing.texts(loop, fastmath=fastmath).serial, values)
