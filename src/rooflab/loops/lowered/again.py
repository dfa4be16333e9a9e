"""A function taken apart from its LLVM IR before: what follows from it is found on disk, its times are taken anew.

Nothing here imports numba: that takes longer than all of an answer that was kept.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from rooflab.loops import dependencies, kept, understanding
from rooflab.loops.compiled import kept_code, numba_symbols, runs
from rooflab.loops.compiled import time as timing
from rooflab.loops.read import decorated
from rooflab.loops.read.arguments import arrays_in, copies_of
from rooflab.loops.read.source import read_whole
from rooflab.machines.bench.experiments import thread_teams
from rooflab.machines.cache_levels import Chosen
from rooflab.types.loop import LoopReport, Timed


class Given(NamedTuple):
    """What a function is called with, by name."""

    values: Mapping[str, Any]

    def copied(self) -> tuple[Any, ...]:
        """Them in order, with every array copied."""
        return copies_of(self.values.values())


class Whole(NamedTuple):
    """A function of the user's as what numba compiles; beside `kept_code.Text`.

    Attributes:
        fn: the function.
        stem: as of a `Text`: what names it.
        text: all that its code follows from.
        function: its name.
        ready: it, where numba has compiled it.
        team: whether it is compiled for a team of threads, by prange alone.
    """

    fn: Callable[..., Any]
    stem: str
    text: str
    function: str
    ready: Callable[..., Any] | None = None
    team: bool = False

    @property
    def said(self) -> tuple[str, ...]:
        """What tells it from others."""
        return self.stem, self.text, self.function, str(self.team)

    def compiled(self) -> Any:
        """The function, as numba compiles it."""
        if self.ready is not None:
            return self.ready
        from rooflab.loops.lowered import examine, over_prange

        return over_prange.compiled(self.fn) if self.team else examine.compiled(self.fn)


def report(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    caches: Chosen,
    *,
    time_limit_s: float | None = understanding.TIME_LIMIT_S,
    time: bool = True,
    classify: bool = False,
    why: str = "",
    hint: str = "",
    own: Callable[..., Any] | None = None,
) -> LoopReport:
    """As `examine.report`, which it asks where nothing was found.

    A count that did not end or was not repeated is not kept, and nothing of a function that uses what has no
    description (`dependencies`) or is timed as something else.

    Raises:
        RooflabError: as `examine.report`.
    """
    whole = None if own is not None or not kept.is_on() else described(fn)
    given = None if whole is None else _given(fn, args)
    values = None if given is None else kept.of_values(given.values)
    key = None
    if whole is not None and values is not None:
        several = thread_teams.most() > 1
        said = sorted({"time": time, "classify": classify, "why": why, "hint": hint}.items())
        key = kept.key("report of IR", whole.said, values, caches, said, several, numba_symbols.settings())
    entry = None if key is None else kept.find(key)
    if entry is not None and whole is not None and given is not None:
        found = LoopReport.from_dict(msgspec.msgpack.decode(entry["report"]))
        if not time:
            return found
        nbytes = sum(each.nbytes for name, held in given.values.items() for _, each in arrays_in(name, held))
        understanding.check_memory(found.name, nbytes)
        fresh = steered_by_data(read_whole(fn).tree)
        by_prange = entry["by_prange"] == b"1"
        runs_of = timed(None, whole, given, caches, fresh, is_spread(fn), by_prange)
        return msgspec.structs.replace(found, runs=tuple(runs_of))
    # what lowers a function compiles
    from rooflab.loops.lowered import examine

    made = examine.report(
        fn, args, caches, time_limit_s=time_limit_s, time=time, classify=classify, why=why, hint=hint, own=own,
        whole=whole,
    )  # fmt: skip
    profiled = bool(made.core_loops) or not time
    if key is not None and made.complete and made.warm is not None and profiled:
        plain = msgspec.structs.replace(made, runs=()).to_dict()
        by_prange = not is_spread(fn) and any(each.threads > 1 for each in made.runs)
        parts = {"report": msgspec.msgpack.encode(plain), "by_prange": b"1" if by_prange else b"0"}
        kept.keep(key, parts)
    return made


def described(fn: Callable[..., Any]) -> Whole | None:
    """`fn` with all that its code follows from; None where that is not known."""
    said = dependencies.described(fn)
    return None if said is None else Whole(fn, "function of the user's", repr(said), fn.__name__)


def _given(fn: Callable[..., Any], args: tuple[Any, ...]) -> Given | None:
    try:
        bound = inspect.signature(decorated.python_function(fn)).bind(*args)
    except TypeError:
        # refused where it is taken apart
        return None
    bound.apply_defaults()
    return Given(dict(bound.arguments))


def timed(
    function: Callable[..., Any] | None,
    whole: Whole | None,
    given: Given,
    caches: Chosen,
    fresh: bool,
    spread: bool,
    by_prange: bool = False,
    team: Callable[..., Any] | None = None,
) -> list[Timed]:
    """Runs of a function: on one core; on several where its decorator or its own loops spread it.

    Args:
        function: as numba compiled it; None where that is still to be done, if its code was not kept.
        whole: with all that it follows from; None where that is not known.
        given: its arguments.
        caches: of which the largest is emptied for cold runs.
        fresh: whether each run needs its inputs anew.
        spread: whether its decorator has it run on several threads.
        by_prange: whether it is compiled for several threads beside that.
        team: so compiled; as `function`.
    """
    function = _ready(function, whole, given, spread)
    with on_one(function, spread):
        found = runs.on_one_core(function, given, caches, fresh)
    if thread_teams.most() > 1 and by_prange:
        team = _ready(team, whole and whole._replace(team=True), given, spread=True)
        found += runs.on_threads(team, given, fresh)
        return runs.once_more(found, function, team, given, fresh)
    if not (spread and thread_teams.most() > 1):
        return runs.once_more(found, function, None, given, fresh)
    several = runs.on_threads(function, given, fresh)
    with on_one(function, spread):
        found = runs.once_more(found, function, None, given, fresh)
    return [*found, *runs.once_more(several, function, function, given, fresh)]


def _ready(
    function: Callable[..., Any] | None, whole: Whole | None, given: Given, spread: bool
) -> Callable[..., Any]:
    """`function` as kept code where it is; as numba compiled it elsewhere."""
    if whole is not None:
        held = kept_code.ready(whole._replace(ready=function), tuple(given.values.values()))
        # without a layer of threads numba did not spread it after all
        if not spread or not isinstance(held, kept_code.Code) or held.layer:
            function = held
    function = function or (None if whole is None else whole.compiled())
    assert function is not None
    return function


def is_spread(fn: Callable[..., Any]) -> bool:
    """Whether the decorator of `fn`, or of what it calls, asks for several threads."""
    return any(decorated.options(each).get("parallel") for each in dependencies.functions_of(fn))


@contextmanager
def on_one(function: Callable[..., Any], spread: bool) -> Iterator[None]:
    """While it lasts, a function that numba spreads over threads runs on one."""
    set_threads = runs.setter(function) if spread else None
    before = thread_teams.most()  # asked for first: numba says how many it was set to
    if set_threads is not None:
        set_threads(1)
    try:
        yield
    finally:
        if set_threads is not None:
            set_threads(before)


def steered_by_data(tree: ast.FunctionDef) -> bool:
    """Whether a run may take another path on what the last one wrote: each then needs fresh inputs."""
    return timing.steered(tree, lambda node: isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)))
