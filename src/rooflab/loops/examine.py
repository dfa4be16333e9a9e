"""A loop taken apart: counted and simulated, compiled, checked, timed; its machine's roofs are not asked for."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import msgspec

from rooflab.errors import RooflabError
from rooflab.loops import beside, conflicts, core_profiles, prange_lines
from rooflab.loops.compiled import kept_code, regions, summary
from rooflab.loops.compiled.ahead import Ahead, Copied, Meanwhile
from rooflab.loops.compiled.runs import on_one_core, on_threads, once_more
from rooflab.loops.compiled.time import (
    PLAIN,
    Compiled,
    build,
    compile_error,
    plain_python,
    reason,
    refusals,
    run_once,
    steered_by_data,
    texts,
)
from rooflab.loops.findings import Findings, compare
from rooflab.loops.lowered import count as lowered_count
from rooflab.loops.read import source
from rooflab.loops.read.arguments import Arguments
from rooflab.loops.read.understood import Understood
from rooflab.loops.read.value_types import Array
from rooflab.loops.static import affine
from rooflab.loops.twin import count, generated_files
from rooflab.loops.understanding import TIME_LIMIT_S
from rooflab.machines.bench.experiments import thread_teams
from rooflab.machines.cache_levels import Chosen
from rooflab.types.loop import Code, CoreLoop, LoopReport, Region, Timed
from rooflab.types.shared_lines import SharedLines

_PLAIN_PYTHON = 200_000  # accesses up to which the loop is run by Python itself too, to compare results
_ALONE, _TEAM = "profile of one core", "profile of a team"  # what a copy of this process is given to do
CONVENTIONS = (
    "FLOP: as the source says them, of what is asked for, complex numbers by their parts; a multiply-add is 2, a"
    " comparison, negation or minimum 1, exp and the like 1 (special); whole numbers and indices none",
    "accesses: every load and store of the source, in Python's order; bytes of a level: those that cross between"
    " it and the nearer one, in whole lines",
    "simulated, not counted by hardware: arrays lie one behind the other, each on pages of its own",
)


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
    """Everything about the loop that needs no machine.

    Args:
        loop: read and understood.
        caches: to simulate.
        time_limit_s: bound on the counting; after it, counts are partial.
        time: compile and run the loop itself too.
        code: compile it and see what the compiler left, without running it.
        classify: tell compulsory, capacity and conflict misses apart.
        fastmath: with `code`: what the compiler leaves where sums may be added up in another order.
        profile: with `code`: run it once, to see what a core does in each of its loops.
        why: with `code`: also ask the compiler why it is not vectorised.

    Raises:
        RooflabError: an access out of bounds; Python that numba cannot compile.
    """
    begun = _begun(loop) if time else None
    try:
        return _report(loop, caches, time_limit_s, time, code, classify, fastmath, profile, why, begun)
    finally:
        if begun is not None:
            begun.end()


def _begun(loop: Understood) -> Meanwhile | None:
    """What compiles the loop meanwhile; None where that was done before, or there is no second core for it."""
    if not beside.has_second_core():
        return None
    compiled, spread = build(loop), texts(loop).parallel
    if summary.is_found(loop, compiled):
        return None
    path, values = compiled.module.__file__, loop.arguments.values
    if beside.is_worth_it(sum(each.nbytes for each in loop.arguments.arrays().values())):
        more: dict[str, Callable[[], object]] = {
            _ALONE: lambda: _of_one_core(loop, compiled),
            _TEAM: lambda: _of_team(loop, compiled),
        }
        # of threads a copy has none: where they have begun, no team runs in it
        tasks = [_ALONE] if compiled.parallel is None or thread_teams.have_begun() else [_ALONE, _TEAM]
        return Copied(compiled.serial, compiled.parallel, path, values, {name: more[name] for name in tasks})
    module = None if spread is None else generated_files.module(spread.stem, spread.text).__file__
    return Ahead(path, module, values)


def _of_one_core(loop: Understood, compiled: Compiled, counted_s: float = 0.0) -> _Profiled:
    return core_profiles.loops_of(compiled.serial, loop.arguments.copied(), counted_s)


def _of_team(loop: Understood, compiled: Compiled, counted_s: float = 0.0) -> _Profiled:
    assert compiled.parallel is not None
    return core_profiles.loops_of(compiled.parallel, loop.arguments.copied(), counted_s, team=thread_teams.most())


def _report(
    loop: Understood,
    caches: Chosen,
    time_limit_s: float | None,
    time: bool,
    code: bool,
    classify: bool,
    fastmath: bool,
    profile: bool,
    why: bool,
    begun: Meanwhile | None,
) -> LoopReport:
    read = loop.source
    try:
        counted = lowered_count.of_loop(loop, caches, time_limit_s, classify=classify)
    except Exception as error:
        raise _readable(error, read) from error
    outcome = counted.outcome
    if outcome.error is not None:
        raise RooflabError(outcome.error)
    warnings = []
    done = _Run(None, [], "not run", Findings())
    static = None
    flop_by = count.flop(counted)
    if outcome.stopped:
        warnings.append(
            f"the count was stopped after {time_limit_s:g} s, at {outcome.where or 'its start'}: all counts"
            " are of what ran until then; give smaller arguments, or a longer limit"
        )
        done = done._replace(parallel="not run: the count did not end")
    else:
        try:
            if time:
                done = _run(loop, counted, caches, begun)
            elif code:
                function = build(loop, fastmath=fastmath).serial
                if profile:
                    # what runs is looked at too: without it each compiles for itself
                    kept_code.compile_for(function, loop.arguments.values)
                done = done._replace(code=summary.examine(loop, build(loop), counted, fastmath=fastmath, why=why))
                if profile:
                    found, _ = core_profiles.loops_of(function, loop.arguments.copied(), outcome.seconds)
                    done = done._replace(core_loops=core_profiles.of_source(found, loop.source.tree, function))
        except Exception as error:
            raise _readable(error, read) from error
        totals = (int(sum(each.count for each in flop_by)), counted.simulation.accessed_bytes or 0)
        static = affine.analyze(loop, caches.caches, totals)
        warnings += [*done.findings.warnings, *conflicts.sentences(static, counted.simulation)]
    described = {name: _described(value, loop.value_types.names[name]) for name, value in _named(loop)}
    scattered = count.scattered_bytes(counted, loop.arguments)
    return msgspec.structs.replace(
        counts(read, described, counted, count.strided(counted, read), scattered),
        flop_by=flop_by,
        code=done.code,
        core_loops=done.core_loops,
        team_loops=done.team_loops,
        regions=done.regions,
        shared_lines=done.shared_lines,
        runs=tuple(done.runs),
        parallel=done.parallel,
        static=static,
        checks=done.findings.checks,
        complete=not outcome.stopped,
        stopped_at=outcome.where if outcome.stopped else "",
        caches=caches.text,
        warnings=tuple(warnings),
        conventions=(*CONVENTIONS, *counted.simulation.assumptions),
    )


_Profiled = tuple[tuple[CoreLoop, ...], tuple[str, ...]]  # loops, and what is to be said


class _Run(NamedTuple):
    """What running the compiled loop showed; `parallel` says over what prange ran, or why it did not."""

    code: Code | None
    runs: list[Timed]
    parallel: str
    findings: Findings
    core_loops: tuple[CoreLoop, ...] = ()
    regions: tuple[Region, ...] = ()
    team_loops: tuple[CoreLoop, ...] = ()
    shared_lines: tuple[SharedLines, ...] = ()


def counts(
    read: source.Source,
    described: Mapping[str, str],
    counted: count.Counted,
    strided: dict[str, int],
    scattered_bytes: int,
) -> LoopReport:
    """The part of the report that the twin alone gives.

    Args:
        read: the source.
        described: the arguments by name, in words.
        counted: by its twin.
        strided: misses of accesses that step over lines, by level.
        scattered_bytes: of the arrays whose elements are picked by data.
    """
    return LoopReport(
        name=read.name,
        where=f"{read.path}:{read.tree.lineno}",
        arguments=dict(described),
        flop_by=count.flop(counted),
        accesses=counted.simulation.accesses,
        accessed_bytes=counted.simulation.accessed_bytes or 0,
        stored_bytes=count.stored_bytes(counted),
        simulation=counted.simulation,
        warm=counted.warm,
        lines=count.lines(counted, read),
        loops=count.loops(counted),
        source=tuple(read.lines.items()),
        strided=strided,
        gathered=count.irregular(counted, "gather"),
        chased=count.irregular(counted, "chase"),
        jumps=count.jumps(counted),
        walks=count.walks(counted),
        scattered_bytes=scattered_bytes,
        footprint_bytes=counted.footprint_bytes,
        side_by_side=counted.side_by_side,
    )


def _run(loop: Understood, counted: count.Counted, caches: Chosen, begun: Meanwhile | None) -> _Run:
    """The compiled code, the times, what prange ran over, and how the results compare."""
    read, types, arguments = loop
    compiled = build(loop)
    if begun is not None:
        begun.compiled(spread=False)
    wanted = (counted.outcome.result, counted.outcome.outputs)
    findings = compare("the compiled loop", run_once(compiled.serial, arguments), wanted)
    if counted.simulation.accesses <= _PLAIN_PYTHON:
        findings += _check_python(read, arguments, wanted)
    fresh = steered_by_data(read, types)
    text = texts(loop)
    counted_s = counted.outcome.seconds
    loops, said = _done(begun, _ALONE, counted_s) or _of_one_core(loop, compiled, counted_s)
    code = summary.examine(loop, compiled, counted, begun=begun)
    alone, team = kept_code.ready(text.serial, arguments.values), None
    with _still(begun):
        runs = on_one_core(alone, arguments, caches, fresh)
    parallel, spread, of_team, taken = compiled.verdict.reason, (), (), ()
    if compiled.parallel is not None and text.parallel is not None:
        tree, summed = compiled.verdict.tree, counted.simulation.accesses
        if begun is not None:
            begun.compiled()
        with _still(begun):
            several, refused, compared = _spread(
                compiled.parallel, text.parallel, arguments, wanted, fresh, summed
            )
        findings += compared
        runs += several
        parallel = refused or parallel
        team = kept_code.ready(text.parallel, arguments.values) if several else None
        if not refused and tree is not None:
            spread = _regions(loop, tree, counted)
            found, _ = _done(begun, _TEAM, counted_s) or _of_team(loop, compiled, counted_s)
            most = max((each.threads for each in several), default=1)
            taken = prange_lines.of(loop, tree, spread, most, counted.simulation)
            of_team = core_profiles.of_source(found, tree, compiled.parallel)
    if begun is not None:
        begun.end()
    # all that was compiled and profiled lies between both
    runs = once_more(runs, alone, team, arguments, fresh)
    own_loops = core_profiles.of_source(loops, loop.source.tree, compiled.serial)
    return _Run(code, runs, parallel, findings + Findings(warnings=said), own_loops, spread, of_team, taken)


def _done(begun: Meanwhile | None, what: str, counted_s: float) -> _Profiled | None:
    """The profile that was made meanwhile; None where it is ours to make, or the count took too long for one."""
    return None if begun is None or counted_s > core_profiles.LONGEST_S else begun.result(what)


def _still(begun: Meanwhile | None) -> AbstractContextManager[None]:
    """While it lasts, nothing is compiled beside this process."""
    return nullcontext() if begun is None else begun.still()


def _regions(loop: Understood, tree: ast.FunctionDef, counted: count.Counted) -> tuple[Region, ...]:
    """How the loops over prange of `tree` divide among threads."""
    scope: dict[str, Any] = {}
    exec(generated_files.preamble(loop.source), scope)
    trips = {each.line: each.trips for each in count.loops(counted)}
    others = frozenset(name for name, known in loop.source.modules.items() if known == "prange")
    return regions.of_tree(tree, scope, loop.arguments.copied, others, trips)


def _spread(
    function: Callable[..., Any],
    text: kept_code.Text,
    arguments: Arguments,
    wanted: tuple[Any, tuple],
    fresh: bool,
    summed: int,
) -> tuple[list[Timed], str, Findings]:
    """Warm runs of the loop over prange, and ""; or none and why; and how its results compare."""
    from numba.core.errors import NumbaError

    try:
        results = run_once(function, arguments)
    except NumbaError as error:
        # numba's prange knows less than its range: no steps, no loop variable that changes.
        return [], f"left out: {reason(error)}", Findings()
    findings = compare("prange", results, wanted, summed)
    if findings.warnings:
        return [], "left out: its result differs from that of one core", findings
    return on_threads(kept_code.ready(text, arguments.values), arguments, fresh), "", findings


def _check_python(read: source.Source, arguments: Arguments, wanted: tuple[Any, tuple]) -> Findings:
    """Compare with what Python itself makes of the loop, which may stop where compiled code goes on."""
    try:
        results = plain_python(read, arguments)
    except Exception as error:  # noqa: BLE001
        # whatever the user's own lines raise, a division by zero or a name without a value, is theirs to know
        frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == read.path]
        line = frames[-1].lineno if frames else read.tree.lineno
        why = f"{type(error).__name__} in line {line} ({error})"
        return Findings(warnings=(f"plain Python stops with {why}, where the compiled loop goes on",))
    return compare(PLAIN, results, wanted)


def _readable(error: Exception, read: source.Source) -> Exception:
    """Errors of numba in one line that names the source's; others as they are."""
    return compile_error(error, read) if isinstance(error, refusals()) else error


def _named(loop: Understood) -> list[tuple[str, Any]]:
    return list(zip(loop.source.parameters, loop.arguments.values, strict=True))


def _described(value: Any, kind: Any) -> str:
    if not isinstance(kind, Array):
        return f"{value!r}" if not hasattr(value, "item") else f"{value.item()!r}"
    sides = " × ".join(f"{each:,}" for each in value.shape)
    strided = "" if value.flags.c_contiguous else ", strided"
    return f"{value.dtype} {sides}{strided}"
