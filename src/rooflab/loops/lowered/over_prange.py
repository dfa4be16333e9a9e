"""Functions counted from their IR whose own loops are over prange: compiled for a team, which runs them too.

A function that nobody decorated says by prange alone that it may be spread over threads; so does one whose
decorator has no options that matter. What is decorated otherwise runs as its decorator says.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numba
import numpy as np

from rooflab.errors import RooflabError
from rooflab.loops import beside, core_profiles, dependencies, prange_lines, understanding
from rooflab.loops.compiled import regions
from rooflab.loops.compiled import time as timing
from rooflab.loops.compiled.with_lines import with_lines
from rooflab.loops.findings import Findings, compare
from rooflab.loops.lowered import afresh, short_errors
from rooflab.loops.lowered.again import Given
from rooflab.loops.read import decorated
from rooflab.loops.read.arguments import arrays_in
from rooflab.loops.read.source import Source
from rooflab.loops.twin import count as counting
from rooflab.machines.bench.experiments import thread_teams
from rooflab.types.loop import CoreLoop, Region
from rooflab.types.shared_lines import SharedLines
from rooflab.types.simulation import Simulation

AS_PLAIN: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_SHARES: beside.Key = ("shares",)


class Team(NamedTuple):
    """What a team of threads makes of a function: of `types.loop.LoopReport` the fields of these names."""

    team_loops: tuple[CoreLoop, ...] = ()
    regions: tuple[Region, ...] = ()
    shared_lines: tuple[SharedLines, ...] = ()


class Tried(NamedTuple):
    """A function compiled for a team and run once; `function` is None where `why` says what kept it from it."""

    function: Callable[..., Any] | None
    why: str
    findings: Findings = Findings()


def names(fn: Callable[..., Any], source: Source) -> frozenset[str]:
    """The names by which the loops of `source` that are over numba's prange call it; empty where none is."""
    scope = regions.scope_of(decorated.python_function(fn))
    called = [
        each.iter.func
        for each in ast.walk(source.tree)
        if isinstance(each, ast.For) and isinstance(each.iter, ast.Call)
    ]
    return frozenset(ast.unparse(each).rpartition(".")[2] for each in called if _stands_for(each, scope))


def why_not(fn: Callable[..., Any]) -> str:
    """Why a function without a loop of its own over prange, and without a decorator that asks, is not spread."""
    for each in dependencies.functions_of(fn):
        code = decorated.python_function(each).__code__
        if each is not fn and "prange" in dependencies.names_in(code):
            where = f"prange stands in {code.co_name}, which it calls"
            return f"not tried: {where}: decorate that with njit(parallel=True)"
    return "not tried: counted from its LLVM IR, on one core"


def _stands_for(node: ast.expr, scope: Mapping[str, Any]) -> bool:
    """Whether a name, or one of a module, is numba's prange."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return getattr(scope.get(node.value.id), node.attr, None) is numba.prange
    return isinstance(node, ast.Name) and scope.get(node.id) is numba.prange


def compiled(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` as numba compiles it for a team, with what else its decorator says."""
    given = {name: value for name, value in decorated.options(fn).items() if name in ("nogil", *afresh.VALUED)}
    chosen: dict[str, Any] = {**AS_PLAIN, **given, "parallel": True}
    return with_lines(numba.njit(**chosen)(afresh.with_helpers(fn)))


def tried(fn: Callable[..., Any], given: Given, wanted: tuple[Any, tuple[Any, ...]] | None, summed: int) -> Tried:
    """`fn` compiled for a team and run once, its results compared with those `wanted`; None: they are random.

    `summed`: how many numbers may have been added up in another order.
    """
    function = compiled(fn)
    try:
        with short_errors.used():
            results = timing.run_once(function, given)
    except timing.refusals() as error:
        # numba's prange knows less than its range: no steps, no loop variable that changes.
        return Tried(None, f"left out: {timing.reason(error)}")
    findings = Findings() if wanted is None else compare("prange", results, wanted, summed)
    if findings.warnings:
        return Tried(None, "left out: its result differs from that of one core", findings)
    return Tried(function, "prange as written", findings)


def of_team(
    fn: Callable[..., Any],
    given: Given,
    profiled: Callable[..., Any] | None,
    threads: int,
    counted: counting.Counted,
    spread: tuple[Region, ...],
) -> Team:
    """What a team of so many threads makes of `fn`, which was run on it.

    Args:
        fn: counted.
        given: its arguments.
        profiled: the same compiled for a team, whose loops are looked at; None: they are those of one core.
        threads: of the team.
        counted: what one core did.
        spread: its loops over prange.
    """
    of_loops: tuple[CoreLoop, ...] = ()
    if profiled is not None:
        of_loops, _ = core_profiles.loops_of(
            profiled, given.copied(), counted.outcome.seconds, team=thread_teams.most()
        )
    taken = _taken(decorated.python_function(fn), given, spread, threads, counted.simulation)
    return Team(of_loops, spread, taken)


def shares(
    fn: Callable[..., Any], source: Source, given: Given, trips: Mapping[int, int] | None
) -> tuple[Region, ...]:
    """The loops of `fn` that are over prange, with how their trips divide; `trips`: as of `regions.of_tree`."""
    with warnings.catch_warnings(), short_errors.used():
        warnings.simplefilter("ignore")
        scope = regions.scope_of(afresh.with_helpers(fn))
        return regions.of_tree(source.tree, scope, given.copied, names(fn, source), trips)


def shares_beside(fn: Callable[..., Any], source: Source, given: Given) -> beside.Beside | None:
    """What finds the same in a copy of this process; None where trips say enough, or nothing is over prange."""
    wanted, nbytes = names(fn, source), sum(each.nbytes for each in _arrays(given))
    if not wanted or thread_teams.most() < 2 or not beside.can_be(nbytes):
        return None
    if regions.follow_from_trips(source.tree, wanted):
        return None
    return beside.Beside({_SHARES: lambda: shares(fn, source, given, None)})


def found_by(copy: beside.Beside) -> tuple[Region, ...] | None:
    """What such a copy found, which is waited for; None where it did not."""
    copy.done(_SHARES)
    return copy.result(_SHARES)


def _arrays(given: Given) -> Iterator[np.ndarray]:
    return (array for name, value in given.values.items() for _, array in arrays_in(name, value))


def _taken(
    python: Callable[..., Any], given: Given, spread: tuple[Region, ...], threads: int, simulation: Simulation
) -> tuple[SharedLines, ...]:
    """The cache lines that threads take from one another, where the source alone says what it accesses."""
    try:
        loop = understanding.understand(python, tuple(given.values.values()))
    except RooflabError:
        # it is counted from its IR since its source does not say all: nothing is said of its threads' lines
        return ()
    return prange_lines.of(loop, loop.source.tree, spread, threads, simulation)
