"""A loop taken apart: counted and simulated, compiled, checked, timed; its machine's roofs are not asked for."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from rooflab.errors import RooflabError
from rooflab.loops.compiled import summary
from rooflab.loops.compiled import time as original
from rooflab.loops.read import language, source
from rooflab.loops.read.arguments import Arguments, bind
from rooflab.loops.read.value_types import Array, Kinds
from rooflab.loops.static import affine
from rooflab.loops.twin import count
from rooflab.machines.cache_levels import Chosen
from rooflab.machines.detect import detect
from rooflab.timing import Timing
from rooflab.types.loop import Code, LoopReport, Static, Timed
from rooflab.types.simulation import Simulation
from rooflab.units import iec

LIMIT_S = 60.0  # of counting, unless the caller says otherwise
_CONFLICTS, _SHARE = 1.5, 1 / 3  # misses ÷ those that capacity explains; conflicts among a level's misses
_ENDS = 16  # lines that the ends of arrays and rows may share with nothing: no conflicts
_COPIES, _LOOKED_UP_BYTES = 3, 1 << 30  # of less memory than that, there is enough anywhere
_PLAIN_PYTHON = 200_000  # accesses up to which the loop is run by Python itself too, to compare results
_CONVENTIONS = (
    "FLOP: as the source says them; a multiply-add is 2, a comparison, negation or minimum 1, exp and the like"
    " 1 (special); whole numbers and indices none",
    "accesses: every load and store of the source, in Python's order; bytes of a level: those that cross between"
    " it and the nearer one, in whole lines",
    "simulated, not counted by hardware: arrays lie one behind the other, each on pages of its own",
)


class Known(NamedTuple):
    """A loop that was read and is understood."""

    source: source.Source
    kinds: Kinds
    arguments: Arguments


def understand(fn: Callable[..., Any], given: tuple[Any, ...]) -> Known:
    """`fn` on the arguments `given`.

    Raises:
        RooflabError: what cannot be counted, by line.
    """
    read = source.read(fn)
    arguments = bind(fn, read, given)
    _check_memory(read.name, arguments)
    kinds = Kinds(read, arguments.kinds)
    language.check(read, kinds)
    return Known(read, kinds, arguments)


def _check_memory(name: str, arguments: Arguments) -> None:
    """Raise where the arguments and two copies of them, of the counted and of the compiled run, do not fit."""
    nbytes = _COPIES * sum(value.nbytes for value in arguments.arrays().values())
    if nbytes < _LOOKED_UP_BYTES:
        return
    granted = detect(gpus=False).memory_granted_bytes
    if granted is not None and nbytes > granted:
        raise RooflabError(
            f"{name}: its arrays and two copies take {iec(nbytes)}, and {iec(granted)} of memory are granted:"
            " give smaller arguments; a few times the largest cache is enough"
        )


def report(
    known: Known,
    caches: Chosen,
    *,
    limit_s: float | None = LIMIT_S,
    time: bool = True,
    code: bool = False,
    classify: bool = False,
) -> LoopReport:
    """Everything about the loop that needs no machine.

    Args:
        known: the loop and its arguments.
        caches: to simulate.
        limit_s: bound on the counting; after it, counts are partial.
        time: compile and run the loop itself too.
        code: compile it and see what the compiler left, without running it.
        classify: tell compulsory, capacity and conflict misses apart.

    Raises:
        RooflabError: an access out of bounds; Python that numba cannot compile.
    """
    read, kinds, arguments = known
    try:
        counted = count.count(read, kinds, arguments, caches, limit_s, classify=classify)
    except Exception as error:
        raise _readable(error, read) from error
    outcome = counted.outcome
    if outcome.error is not None:
        raise RooflabError(outcome.error)
    warnings, checks = [], []
    done = _Run(None, [], "not run")
    static = None
    flop_by = count.flop(counted)
    if outcome.stopped:
        warnings.append(
            f"the count was stopped after {limit_s:g} s, at {outcome.where or 'its start'}: all counts"
            " are of what ran until then; give smaller arguments, or a longer limit"
        )
        done = done._replace(parallel="not run: the count did not end")
    else:
        try:
            if time:
                done = _run(known, counted, caches, checks, warnings)
            elif code:
                done = done._replace(code=summary.examine(*known, original.build(*known), counted))
        except Exception as error:
            raise _readable(error, read) from error
        totals = (int(sum(each.count for each in flop_by)), counted.simulation.accessed_bytes or 0)
        static = affine.analyze(read, kinds, arguments, caches.caches, totals)
        warnings += conflicts(static, counted.simulation)
    counts = _counts(known, counted)
    return msgspec.structs.replace(
        counts,
        flop_by=flop_by,
        code=done.code,
        runs=tuple(done.runs),
        parallel=done.parallel,
        static=static,
        checks=tuple(checks),
        complete=not outcome.stopped,
        stopped_at=outcome.where if outcome.stopped else "",
        caches=caches.text,
        warnings=tuple(warnings),
        conventions=(*_CONVENTIONS, *counted.simulation.assumptions),
    )


def _told_conflicts(simulation: Simulation) -> list[str]:
    """The same of classified misses, where conflicts are a third of a level's or more: with the worst array."""
    said = []
    for level in simulation.levels:
        if level.conflict and level.conflict >= _SHARE * level.misses:
            worst = max(level.arrays, key=lambda each: each.conflict or 0)
            said.append(
                f"{level.name}: {level.conflict / level.misses:.0%} of its misses are conflicts, most of"
                f" {worst.name}: lines used together fall into the same sets, as rows of a power of two do: pad"
                " them by a line"
            )
    return said


class _Run(NamedTuple):
    """What running the compiled loop showed; `parallel` says over what prange ran, or why it did not."""

    code: Code | None
    runs: list[Timed]
    parallel: str


def _counts(known: Known, counted: count.Counted) -> LoopReport:
    """The part of the report that the twin alone gives."""
    read, kinds, arguments = known
    return LoopReport(
        name=read.name,
        where=f"{read.path}:{read.tree.lineno}",
        arguments={name: _described(value, kinds.names[name]) for name, value in _named(known)},
        flop_by=(),
        accesses=counted.simulation.accesses,
        accessed_bytes=counted.simulation.accessed_bytes or 0,
        stored_bytes=count.stored_bytes(counted),
        simulation=counted.simulation,
        warm=counted.warm,
        lines=count.lines(counted, read),
        loops=count.loops(counted),
        source=tuple(read.lines.items()),
        strided=count.strided(counted, read),
        gathered=count.irregular(counted, "gather"),
        chased=count.irregular(counted, "chase"),
        scattered_bytes=count.scattered_bytes(counted, arguments),
    )


def conflicts(static: Static, simulation: Simulation) -> list[str]:
    """Sentences on levels that serve much more than caches without conflicts of the same size would need."""
    if simulation.levels[0].conflict is not None:
        return _told_conflicts(simulation)
    said = []
    for each, near in zip(simulation.traffic, simulation.levels, strict=True):
        needed = static.traffic_bytes.get(each.level)
        if needed and each.nbytes > _CONFLICTS * needed + _ENDS * near.cache.line_bytes:
            said.append(
                f"{near.name} misses {each.nbytes / needed:.1f} × what its capacity explains: lines used together"
                " fall into the same sets, as rows of a power of two do: pad them by a line"
            )
    return said


def _run(known: Known, counted: count.Counted, caches: Chosen, checks: list[str], warnings: list[str]) -> _Run:
    """The compiled code, the times, and what prange ran over; `checks` and `warnings` get what was found."""
    read, kinds, arguments = known
    compiled = original.build(read, kinds, arguments)
    wanted = (counted.outcome.result, counted.outcome.outputs)
    made = original.run_once(compiled.serial, arguments)
    _compare("the compiled loop", made, wanted, checks, warnings)
    if counted.simulation.accesses <= _PLAIN_PYTHON:
        _check_python(read, arguments, wanted, checks, warnings)
    fresh = original.steered_by_data(read, kinds)
    largest = max(each.capacity_bytes for each in caches.caches)
    runs = [_timed(original.warm(compiled.serial, arguments, fresh), 1, "warm")]
    runs.append(_timed(original.cold(compiled.serial, arguments, largest, fresh), 1, "cold"))
    parallel = compiled.verdict.reason
    if compiled.parallel is not None:
        run, refused = _spread(compiled.parallel, arguments, wanted, fresh, checks, warnings)
        runs += [] if run is None else [run]
        parallel = refused or parallel
    code = summary.examine(read, kinds, arguments, compiled, counted)
    return _Run(code, runs, parallel)


def _spread(
    function: Callable[..., Any],
    arguments: Arguments,
    wanted: tuple[Any, tuple],
    fresh: bool,
    checks: list[str],
    warnings: list[str],
) -> tuple[Timed | None, str]:
    """A warm run of the loop over prange, and ""; or None and why there is none."""
    import numba
    from numba.core.errors import NumbaError

    try:
        made = original.run_once(function, arguments)
    except NumbaError as error:
        # numba's prange knows less than its range: no steps, no loop variable that changes.
        return None, f"left out: {original.reason(error)}"
    if not _compare("prange", made, wanted, checks, warnings):
        return None, "left out: its result differs from that of one core"
    return _timed(original.warm(function, arguments, fresh), numba.get_num_threads(), "warm"), ""


def _check_python(
    read: source.Source, arguments: Arguments, wanted: tuple[Any, tuple], checks: list[str], warnings: list[str]
) -> None:
    """Compare with what Python itself makes of the loop, which may stop where compiled code goes on."""
    try:
        made = original.plain_python(read, arguments)
    except Exception as error:  # noqa: BLE001
        # whatever the user's own lines raise, a division by zero or a name without a value, is theirs to know
        frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == read.path]
        line = frames[-1].lineno if frames else read.tree.lineno
        said = f"{type(error).__name__} in line {line} ({error})"
        warnings.append(f"plain Python stops with {said}, where the compiled loop goes on")
        return
    _compare("plain Python", made, wanted, checks, warnings)


def _compare(
    name: str, made: tuple[Any, tuple], wanted: tuple[Any, tuple], checks: list[str], warnings: list[str]
) -> bool:
    differs = original.verify(name, made, wanted)
    if differs is None:
        checks.append(f"{name} gives the counted run's results")
    else:
        warnings.append(differs)
    return differs is None


def _timed(timing: Timing, threads: int, cache: Any) -> Timed:
    return Timed(
        threads=threads,
        cache=cache,
        best_s=timing.best_s,
        median_s=timing.median_s,
        spread=timing.spread,
        runs=timing.runs,
    )


def _readable(error: Exception, read: source.Source) -> Exception:
    """Errors of numba in one line that names the source's; others as they are."""
    from numba.core.errors import NumbaError

    # What its lowering does not know, numba says with Python's own error.
    return original.compile_error(error, read) if isinstance(error, (NumbaError, NotImplementedError)) else error


def _named(known: Known) -> list[tuple[str, Any]]:
    return list(zip(known.source.parameters, known.arguments.values, strict=True))


def _described(value: Any, kind: Any) -> str:
    if not isinstance(kind, Array):
        return f"{value!r}" if not hasattr(value, "item") else f"{value.item()!r}"
    sides = " × ".join(f"{each:,}" for each in value.shape)
    strided = "" if value.flags.c_contiguous else ", strided"
    return f"{value.dtype} {sides}{strided}"
