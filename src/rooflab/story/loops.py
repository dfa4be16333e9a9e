"""What limits the loop I wrote, at every cache level, and which tile sizes suit it?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rooflab.errors import RooflabError
from rooflab.story.machines import as_machine
from rooflab.timing import check_time_limit

if TYPE_CHECKING:
    from os import PathLike

    from rooflab.types.core_timing import CoreTiming
    from rooflab.types.loop import LoopReport
    from rooflab.types.machine import Machine
    from rooflab.types.simulation import Cache
    from rooflab.types.tile_sweep import TileSweep


def loop(
    fn: Callable[..., Any] | str | PathLike[str],
    *args: Any,
    machine: Machine | str | PathLike[str] | None = None,
    levels: Sequence[Cache] | None = None,
    timed: bool = True,
    time_limit_s: float | None = 60.0,
    classify: bool = False,
    threads: int | None = None,
    advise: bool = True,
    advice_s: float = 10.0,
    cflags: str | None = None,
    told: Callable[[LoopReport], None] | None = None,
) -> LoopReport:
    """What limits a loop written in Python over NumPy arrays, or in C, at every cache level.

    Its FLOP and its traffic at every level are exact: an instrumented twin of the function runs beside a
    simulator of the caches. Then the function itself is compiled by numba, checked and timed on this host.
    The arguments are copied: what they hold is not changed.

    Args:
        fn: a function that numba compiles, with or without `njit`: loops, slices, array expressions, helpers. What
            is decorated keeps its options; `vectorize` and `guvectorize` are the loops that NumPy runs them in.
            What numba cannot compile is refused by line. Or a function of C, C++
            or LLVM IR: "kernel.c:triad", compiled by clang (the system's, or that of the extra `c`).
        args: its arguments, NumPy arrays and numbers; checked against the signature of a function of C.
        machine: whose caches are simulated and under whose roofs the times are placed: one measured here
            (`rooflab.measure()`), or a name or file of one. By default this host's caches, without roofs.
        levels: other caches to simulate, near to far (`rooflab.Cache`).
        timed: compile and time the function too.
        time_limit_s: seconds after which the count is stopped; counts are then partial, and marked. None: no
            limit.
        classify: also tell compulsory, capacity and conflict misses apart, by level, array, access and line;
            counting takes several times as long.
        threads: up to how many of them a loop over prange, or of OpenMP's in C, is predicted, each on a core of
            its own, and as far as there are cores here run; as many as the machine has cores by default. Where it
            is given, what so many cores move is simulated too, as far as they share the last cache.
        advise: with a machine, also look for what would help: changed loops, simulated again, and run where the
            loop itself was timed on that machine. Of C: other flags.
        advice_s: seconds after which no further change of a Python loop is compiled and counted; the advice then
            names those that were not tried.
        told: called with the report before changes are looked for, where any are: it stands then but for them.
        cflags: flags that C is compiled with. By default those of a compile_commands.json beside the file or above
            it, else -O3 -march=native, of C++ with -std=gnu++17. Counts are those of the source whatever they are;
            times are not. Files of C among them are compiled too, each by itself, and linked.

    Raises:
        RooflabError: Python that cannot be counted or compiled (which line, and why), an access out of bounds
            (array, index, loop variables), an array of objects, an empty array; less than one thread; of C no
            compiler, what it refuses, arguments that do not fit the signature.
    """
    from msgspec.structs import replace

    from rooflab.loops import again, understanding
    from rooflab.loops.compiled.time import refusals
    from rooflab.loops.read import decorated
    from rooflab.loops.read.source import BeyondSource, Unseen, has_no_loops
    from rooflab.machines import cache_levels
    from rooflab.machines.bench.experiments import thread_teams
    from rooflab.machines.doubts import doubts, doubts_of_timing, is_here
    from rooflab.model.loop import known_flows, placement
    from rooflab.remedies.loops import advise as changes
    from rooflab.story import this_moment

    check_time_limit(time_limit_s)
    if threads is not None and threads < 1:
        raise RooflabError(f"threads is {threads}, expected 1 or more, or None for all cores")
    if cflags is not None and callable(fn):
        raise RooflabError("cflags are for a function of C, got one of Python: its options are those of njit")
    if not advice_s >= 0:
        raise RooflabError(f"advice_s is {advice_s}, expected 0 or more seconds")
    target = as_machine(machine)
    if not callable(fn) and not isinstance(fn, (str, os.PathLike)):
        kind = type(fn).__name__
        raise RooflabError(f'got a {kind}, expected a Python function, or one of C in a file: "kernel.c:triad"')
    if not callable(fn):
        return _loop_of_c(
            os.fspath(fn), args, target, levels, cflags, timed, time_limit_s, classify, advise, threads, told
        )
    understood, hint, own = None, "", None
    why = "it is compiled with options of its own" if decorated.has_options(fn) else ""
    if decorated.is_ufunc(fn):
        from rooflab.loops.lowered import ufuncs

        fn, args, own = ufuncs.as_loop(fn, args)
        why = "NumPy loops over it, and times are those of its call"
    if not why:
        try:
            understood = understanding.understand(fn, args)
        except BeyondSource as beyond:
            why = str(beyond)
            # what only the source does not show is no reason of numba's
            hint = "" if isinstance(beyond, Unseen) else why
    caches = cache_levels.choose(target, levels)
    loopless = understood is None and own is None and has_no_loops(fn)
    with thread_teams.at_most(threads), this_moment.watched(target if timed else None, args) as watch:
        if understood is None:
            from rooflab.loops.lowered import again as lowered

            try:
                report = lowered.report(
                    fn,
                    args,
                    caches,
                    time_limit_s=time_limit_s,
                    time=timed,
                    classify=classify,
                    why=why,
                    hint=hint,
                    own=own,
                )
            except RooflabError as error:
                if not loopless or not isinstance(error.__cause__, refusals()):
                    raise
                hint = f"it has no loops: rooflab.analyze({fn.__name__}, …) takes it apart as NumPy runs it"
                raise RooflabError(f"{error}; {hint}") from error
            if loopless:
                report = replace(report, warnings=(*report.warnings, *_as_numpy_runs_it(fn, args, report)))
        else:
            report = again.report(understood, caches, time_limit_s=time_limit_s, time=timed, classify=classify)
        if target is None:
            return report
        met, meanwhile = this_moment.met_by(report, target, watch)
    timing = _core_timing(report, target)
    team = thread_teams.measure() if report.regions and is_here(target) else None
    with known_flows.of_loop(report.where):
        doubted = (*meanwhile, *(doubts_of_timing(target) if report.runs else doubts(target)))
        placed = placement.place_on(report, met, timing, team, most_threads=threads, doubts=doubted)
        if threads is not None and placed.scaling:
            placed = _with_traffic(placed, fn, args, caches.caches)
        if advise and understood is not None:
            if told is not None:
                told(_under_its_roofs(placed, target, timing))
            helps = changes.advise(
                placed, understood, caches, here=is_here(target), timing=timing, team=team, patience_s=advice_s
            )
            placed = replace(placed, advice=helps)
    return _under_its_roofs(placed, target, timing)


def _with_traffic(
    placed: LoopReport, fn: Callable[..., Any], args: tuple[Any, ...], caches: Sequence[Cache]
) -> LoopReport:
    """`placed` with what its numbers of cores move over the memory and between them, where it can be simulated."""
    from msgspec.structs import replace

    from rooflab.loops import team_traffic, understanding
    from rooflab.loops.read.source import BeyondSource
    from rooflab.loops.static import dependence
    from rooflab.types.machine import is_cache

    try:
        loop = understanding.understand(fn, args)
    except BeyondSource as beyond:
        why = f"memory traffic of several cores is not simulated: {beyond}"
        return replace(placed, warnings=(*placed.warnings, why))
    tree = dependence.parallel(loop).tree
    levels = [] if placed.machine is None else [each for each in placed.machine.levels if is_cache(each)]
    if tree is None or not levels:
        return placed
    wanted = [each.threads for each in placed.scaling]
    found = team_traffic.of(loop, tree, wanted, caches, levels[-1].shared_by or 1)
    moved = {each.threads: each for each in found.traffic}
    if moved:
        last = (placed.warm or placed.simulation).levels[-1]
        moved[1] = team_traffic.TeamTraffic(1, last.read_bytes + last.write_bytes, 0)
    scaling = tuple(
        replace(each, memory_bytes=own.memory_bytes, between_bytes=own.between_bytes)
        if (own := moved.get(each.threads)) is not None
        else each
        for each in placed.scaling
    )
    return replace(placed, scaling=scaling, warnings=(*placed.warnings, *([found.why] if found.why else [])))


def _under_its_roofs(placed: LoopReport, machine: Machine, timing: CoreTiming | None) -> LoopReport:
    """A report that was predicted with what the machine does now, under the roofs that were measured of it."""
    from msgspec.structs import replace

    from rooflab.model.loop import placement

    if placed.machine is machine:
        return placed
    return replace(placed, machine=machine, points=placement.points_under(placed, machine, timing))


def _as_numpy_runs_it(fn: Callable[..., Any], args: tuple[Any, ...], report: LoopReport) -> list[str]:
    """What a function without loops of its own moves as NumPy runs it, call by call, beside numba's loops."""
    from rooflab.story.programs import analyze
    from rooflab.units import si

    said = (
        f"no loop of its own: counted as the loops that numba makes of it; rooflab.analyze({fn.__name__}, …) says"
    )
    try:
        calls = analyze(fn, *args, advice=False)
    except RooflabError as error:
        return [f"{said} what NumPy's own calls take ({error})"]
    here = report.accessed_bytes
    if not calls.rows or not calls.coverage.complete or not here or not report.complete:
        return [f"{said} what NumPy's own calls take"]
    number = f"{len(calls.rows)} call{'' if len(calls.rows) == 1 else 's'}"
    return [
        f"{said} what NumPy's own {number} take: {si(calls.nbytes, 'B')} with their temporaries,"
        f" {calls.nbytes / here:.1f} × the {si(here, 'B')} here"
    ]


def _core_timing(report: LoopReport, machine: Machine) -> CoreTiming | None:
    """What this core's operations take: as the machine's file has them, else measured; None of another machine."""
    from msgspec.structs import replace

    from rooflab.machines.bench.experiments import core_operations
    from rooflab.machines.doubts import is_here

    if not report.core_loops or not is_here(machine):
        return None
    # the clock may be another by now
    return replace(machine.core or core_operations.measure(), cycle_s=core_operations.cycle_now_s())


def _loop_of_c(
    text: str,
    args: tuple[Any, ...],
    target: Machine | None,
    levels: Sequence[Cache] | None,
    cflags: str | None,
    timed: bool,
    time_limit_s: float | None,
    classify: bool,
    advise: bool,
    threads: int | None,
    told: Callable[[LoopReport], None] | None,
) -> LoopReport:
    from msgspec.structs import replace

    from rooflab.loops.c import examine
    from rooflab.loops.c.openmp import followed
    from rooflab.machines import cache_levels
    from rooflab.machines.doubts import doubts, doubts_of_timing, is_here
    from rooflab.model.loop import known_flows, placement
    from rooflab.remedies.loops import of_c
    from rooflab.story import this_moment

    function = examine.target(text, cflags)
    caches = cache_levels.choose(target, levels)
    with this_moment.watched(target if timed else None, args) as watch:
        report = examine.report(
            function,
            args,
            caches,
            cflags=cflags,
            time_limit_s=time_limit_s,
            time=timed,
            classify=classify,
            threads=threads,
        )
        if target is None:
            return report
        met, meanwhile = this_moment.met_by(report, target, watch)
    timing = _core_timing(report, target)
    team = followed.team_timing(report) if is_here(target) else None
    with known_flows.of_loop(report.where):
        doubted = (*meanwhile, *(doubts_of_timing(target) if report.runs else doubts(target)))
        placed = placement.place_on(report, met, timing, team, most_threads=threads, doubts=doubted)
        if advise and placed.runs and is_here(target):
            if told is not None:
                told(_under_its_roofs(placed, target, timing))
            placed = replace(placed, advice=of_c.advise(placed, function, args, caches, cflags, timing))
    return _under_its_roofs(placed, target, timing)


def sweep_tiles(
    fn: Callable[..., Any],
    sizes: Mapping[str, Sequence[int]],
    *args: Any,
    machine: Machine | str | PathLike[str] | None = None,
    levels: Sequence[Cache] | None = None,
    time_limit_s: float | None = 60.0,
) -> TileSweep:
    """Traffic at every level and predicted time over tile sizes; the five most promising are timed.

    Args:
        fn: a loop (see `loop`) with its tile sizes among its parameters.
        sizes: to try, by parameter: {"bi": range(8, 257, 8)}; every combination is simulated.
        args: the other arguments in order, or all of them (those in `sizes` are then replaced).
        machine: as for `loop`; without one, the least traffic stands for the least time.
        levels: other caches to simulate.
        time_limit_s: bound on the count of each configuration, in seconds.

    Raises:
        UnknownNameError: a tile size that is no parameter of `fn`.
        RooflabError: what `loop` raises, where no configuration can be counted.
    """
    from msgspec.structs import replace

    from rooflab.loops import tiles
    from rooflab.machines import cache_levels
    from rooflab.machines.doubts import doubts_of_timing
    from rooflab.model.loop import tile_choice

    check_time_limit(time_limit_s)
    target = as_machine(machine)
    caches = cache_levels.choose(target, levels)
    every = tiles.configurations(sizes)
    reports = tiles.simulate(fn, args, every, caches, time_limit_s)
    swept = tile_choice.sweep(
        fn.__name__, every, reports, caches, target, lambda best: tiles.timed(fn, args, best)
    )
    return replace(swept, warnings=(*swept.warnings, *doubts_of_timing(target)))
