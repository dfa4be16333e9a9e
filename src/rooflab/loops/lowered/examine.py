"""A function taken apart as numba lowers it: what its source is too free for is counted from its LLVM IR."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import msgspec
import numba
import numpy as np

from rooflab.errors import RooflabError
from rooflab.loops import conflicts, core_profiles, examine, understanding
from rooflab.loops.compiled import time as timing
from rooflab.loops.compiled.with_lines import with_lines
from rooflab.loops.findings import Findings, compare
from rooflab.loops.lowered import afresh, again, count, over_prange, refused, short_errors
from rooflab.loops.lowered.again import Given, Whole
from rooflab.loops.read import decorated
from rooflab.loops.read.arguments import arrays_in, check_array
from rooflab.loops.read.source import Source, read_whole
from rooflab.loops.twin import count as counting
from rooflab.machines.bench.experiments import thread_teams
from rooflab.machines.cache_levels import Chosen
from rooflab.types.loop import LoopReport, Region, Static, Timed

_PLAIN_PYTHON = 200_000  # accesses up to which Python itself runs it too, to compare results
_CONVENTIONS = (
    "counted from the LLVM IR of numba before it is optimised: every load and store of the function and of what it"
    " calls, in order; a slice that is computed with is first made a temporary, and copied, as numba does",
    "FLOP: as that IR has them; a multiply-add is 2, a comparison, negation or minimum 1, exp and the like 1"
    " (special); whole numbers and indices none",
    "bytes of a level: those that cross between it and the nearer one, in whole lines",
    "simulated, not counted by hardware: arrays lie one behind the other, each on pages of its own; what the"
    " function makes comes behind them, and what is freed is used again for the next of the same size",
)


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
    whole: Whole | None = None,
) -> LoopReport:
    """Everything about the function that needs no machine.

    Args:
        fn: what numba compiles, or a plain function that it could.
        args: its arguments in order: arrays, numbers, tuples of them.
        caches: to simulate.
        time_limit_s: bound on the counting; after it, counts are partial.
        time: run the compiled function itself too.
        classify: tell compulsory, capacity and conflict misses apart.
        why: why its source alone does not do.
        hint: what else is to be said where numba refuses it.
        own: what is timed in its place, and must give the same.
        whole: `fn` with all that its code follows from, where that is known: times are of kept code then.

    Raises:
        RooflabError: what numba cannot compile (its line, and why), an access out of bounds, arguments that do not
            fit.
    """
    source = read_whole(fn)
    refused.check(fn, source)
    given = _bound(fn, source, args)
    beside = over_prange.shares_beside(fn, source, given) if time and own is None else None
    found = beside and functools.partial(over_prange.found_by, beside)
    try:
        return _report(fn, source, given, caches, time_limit_s, time, classify, why, hint, own, whole, found)
    finally:
        if beside is not None:
            beside.end()


def _report(
    fn: Callable[..., Any],
    source: Source,
    given: Given,
    caches: Chosen,
    time_limit_s: float | None,
    time: bool,
    classify: bool,
    why: str,
    hint: str,
    own: Callable[..., Any] | None,
    whole: Whole | None,
    shares_beside: Callable[[], tuple[Region, ...] | None] | None,
) -> LoopReport:
    """The same; `shares_beside` says what another process found of loops over prange, when it has."""
    units = _units(given, caches) if classify else None
    try:
        counted, plan, outside = count.count(fn, source, given.values, caches, time_limit_s, units=units)
    except Exception as error:
        raise _readable(error, source, hint) from error
    outcome = counted.outcome
    if outcome.error is not None:
        raise RooflabError(outcome.error)
    said = _warnings(counted, plan, outside, time_limit_s)
    function = own or compiled(fn)
    findings, runs, parallel, loops = Findings(), list[Timed](), "not run", ()
    team = over_prange.Team()
    if outcome.stopped:
        parallel = "not run: the count did not end"
    elif time:
        random = bool(plan.random)
        ran = _run(fn, source, given, counted, caches, random, function, own, whole, shares_beside)
        findings, runs, parallel, team_function = ran
        # what is decorated so runs as a team's code on one thread too
        spread_out = again.is_spread(fn)
        profiled = fn if own is not None or spread_out else function
        alone = 1 if spread_out else None
        loops, more = core_profiles.loops_of(profiled, given.copied(), outcome.seconds, team=alone)
        said += more
        most = max((each.threads for each in runs), default=1)
        if most > 1:
            if spread_out and any(each.missed or each.dearer for each in loops):
                # each thread learns the branches of its own part
                team_function = fn
            trips = {each.line: each.trips for each in counting.loops(counted)}
            spread = (shares_beside and shares_beside()) or over_prange.shares(fn, source, given, trips)
            team = over_prange.of_team(fn, given, team_function, most, counted, spread)
    simulation = counted.simulation
    return msgspec.structs.replace(
        examine.counts(
            source,
            {name: described(value) for name, value in given.values.items()},
            counted,
            counting.irregular(counted, "stride"),
            _scattered_bytes(given, counted),
        ),
        core_loops=loops,
        **team._asdict(),
        runs=tuple(runs),
        parallel=parallel,
        static=Static(reason=f"counted from its LLVM IR: {why}" if why else "counted from its LLVM IR"),
        checks=findings.checks,
        complete=not outcome.stopped,
        unseen=plan.unseen,
        stopped_at=outcome.where if outcome.stopped else "",
        caches=caches.text,
        warnings=(*said, *findings.warnings, *conflicts.classified(simulation)),
        conventions=(*_CONVENTIONS, *simulation.assumptions),
    )


def _bound(fn: Callable[..., Any], source: Source, args: tuple[Any, ...]) -> Given:
    try:
        bound = inspect.signature(decorated.python_function(fn)).bind(*args)
    except TypeError as error:
        raise RooflabError(f"{source.name}: {error}") from None
    bound.apply_defaults()
    nbytes = 0
    for name, value in bound.arguments.items():
        for part, array in arrays_in(name, value):
            check_array(source, part, array)
            if array.dtype.hasobject:
                raise RooflabError(
                    f"{source.name}: argument {part} is an array of Python objects, expected one of numbers"
                )
            nbytes += array.nbytes
        if not isinstance(value, np.ndarray):
            _check_plain(source, name, value)
    understanding.check_memory(source.name, nbytes)
    return Given(dict(bound.arguments))


def _check_plain(source: Source, name: str, value: Any) -> None:
    from numba.core.errors import NumbaError

    if isinstance(value, (list, set, dict)):
        raise RooflabError(
            f"{source.name}: argument {name} is a {type(value).__name__}, expected a NumPy array or a number, or a"
            f" tuple of them: np.array({name})"
        )
    try:
        numba.typeof(value)
    except (NumbaError, ValueError):
        ways = (each for each in ("to_numpy", "numpy") if callable(getattr(value, each, None)))
        way = next((f": {name}.{each}()" for each in ways), "")
        raise RooflabError(
            f"{source.name}: argument {name} is a {type(value).__name__}, which numba knows no type for: expected"
            f" arrays, numbers and tuples of them{way}"
        ) from None


def _units(given: Given, caches: Chosen) -> int:
    unit = caches.caches[0].unit_bytes
    arrays = [array for name, value in given.values.items() for _, array in arrays_in(name, value)]
    # what the function makes itself is not known yet: as much again, and some
    return 2 * sum(-(-each.nbytes // unit) + 1 for each in arrays) + (1 << 16)


def _readable(error: Exception, source: Source, hint: str) -> Exception:
    """Errors of numba in one line that names the source's, with the `hint`; others as they are."""
    if isinstance(error, ImportError) and "scipy" in str(error):
        return RooflabError(
            f"{source.path}: {source.name}: numba compiles products and factorisations of matrices (@, np.dot,"
            " np.linalg) with SciPy, which is not installed: python -m pip install scipy"
        )
    if not isinstance(error, timing.refusals()):
        return error
    line = timing.line_of(error) or source.tree.lineno
    said = f"numba cannot compile it at {source.lines.get(line, '').strip()!r}: {timing.reason(error)}"
    return RooflabError(f"{source.path}:{line}: {source.name}: {said}{f' (and {hint})' if hint else ''}")


def _warnings(
    counted: counting.Counted, plan: Any, outside: Mapping[int, int], time_limit_s: float | None
) -> list[str]:
    said = []
    if counted.outcome.stopped:
        said.append(
            f"the count was stopped after {time_limit_s:g} s, at {counted.outcome.where or 'its start'}: all"
            " counts are of what ran until then; give smaller arguments, or a longer limit"
        )
    for line, number in sorted(outside.items()):
        where = f"line {line}" if line else "outside of its own lines"
        said.append(
            f"{where}: {number:,} accesses to memory that numba keeps itself (lists, strings, copies of slices"
            " that overlap) are not counted"
        )
    if plan.modelled:
        said.append(
            f"{', '.join(plan.modelled)} of BLAS or LAPACK cannot be seen: its operands are taken as read, and"
            " its result as written, once and in order; a time on one core is that of one thread of the library"
        )
    if plan.unseen:
        said.append(f"what {', '.join(plan.unseen)} accesses and computes cannot be seen and is not counted")
    return said


def _scattered_bytes(given: Given, counted: counting.Counted) -> int:
    """Bytes of the array arguments whose elements are picked by data."""
    names = {ref.array for ref in counted.twin.text.refs if ref.pattern in ("gather", "chase")}
    arrays = dict(each for name, value in given.values.items() for each in arrays_in(name, value))
    return sum(array.nbytes for name, array in arrays.items() if name in names)


def described(value: Any) -> str:
    """An argument in words: "fp64 1,000 × 3"."""
    if isinstance(value, np.ndarray):
        sides = " × ".join(f"{each:,}" for each in value.shape)
        return f"{value.dtype} {sides}{'' if value.flags.c_contiguous else ', strided'}"
    if isinstance(value, tuple):
        return f"({', '.join(described(each) for each in value)})"
    return f"{value.item()!r}" if hasattr(value, "item") else f"{value!r}"


def compiled(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` as numba compiles it: with the user's own options where it has any."""
    return fn if decorated.options(fn) else with_lines(numba.njit(**over_prange.AS_PLAIN)(afresh.with_helpers(fn)))


def _run(
    fn: Callable[..., Any],
    source: Source,
    given: Given,
    counted: counting.Counted,
    caches: Chosen,
    random: bool,
    function: Callable[..., Any],
    own: Callable[..., Any] | None = None,
    whole: Whole | None = None,
    beside: Callable[[], object] | None = None,
) -> tuple[Findings, list[Timed], str, Callable[..., Any] | None]:
    """How the results of the compiled function compare, its times, over what it is spread, compiled for a team."""
    spread = again.is_spread(fn)
    findings, wanted = Findings(), (counted.outcome.result, counted.outcome.outputs)
    tried = over_prange.Tried(None, over_prange.why_not(fn))
    with warnings.catch_warnings():
        # numba warns of loops that it did not spread over threads
        warnings.simplefilter("ignore")
        with (
            again.on_one(function, spread),
            nullcontext() if decorated.options(fn) or own is not None else short_errors.used(),
        ):
            # compiled by this first call
            results = timing.run_once(function, given)
            if not random:
                findings += compare("the compiled function", results, wanted)
                if counted.simulation.accesses <= _PLAIN_PYTHON and own is None:
                    findings += _plain_python(fn, given, counted)
        plain = own is None and not spread and not decorated.has_options(fn)
        if plain and _several() and over_prange.names(fn, source):
            tried = over_prange.tried(fn, given, None if random else wanted, counted.simulation.accesses)
            findings += tried.findings
        if beside is not None:
            # what is timed runs alone: the other process has ended
            beside()
        fresh = again.steered_by_data(source.tree)
        by_prange = tried.function is not None
        runs = again.timed(function, whole, given, caches, fresh, spread, by_prange, tried.function)
    return findings, runs, "as decorated: parallel=True" if spread else tried.why, tried.function


def _several() -> bool:
    return thread_teams.most() > 1


def _plain_python(fn: Callable[..., Any], given: Given, counted: counting.Counted) -> Findings:
    """Compare with what Python itself makes of the function, where Python gets to its end."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            copies = given.copied()
            python = decorated.python_function(fn)
            named = {
                name: value
                for (name, each), value in zip(inspect.signature(python).parameters.items(), copies, strict=True)
                if each.kind is each.KEYWORD_ONLY
            }
            results = python(*copies[: len(copies) - len(named)], **named), copies
    except Exception as error:  # noqa: BLE001
        # whatever the user's own lines raise is theirs to know
        why = f"{type(error).__name__} ({error})"
        return Findings(warnings=(f"plain Python stops with {why}, where the compiled function goes on",))
    return compare(timing.PLAIN, results, (counted.outcome.result, counted.outcome.outputs))
