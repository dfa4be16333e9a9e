"""What limits the loop I wrote, at every cache level?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from rooflab.errors import RooflabError
from rooflab.story.machines import as_machine
from rooflab.timing import check_time_limit

if TYPE_CHECKING:
    from os import PathLike

    from rooflab.types.core_simulation import CoreSimulation
    from rooflab.types.core_timing import CoreTiming
    from rooflab.types.loop import LoopReport, TileSweep
    from rooflab.types.machine import Machine
    from rooflab.types.simulation import Cache, MissCurve, Simulation


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
    cflags: str | None = None,
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
        threads: up to how many of them a loop over prange is predicted, each on a core of its own, and as far as
            there are cores here run; as many as the machine has cores by default.
        advise: with a machine, also look for what would help: changed loops, simulated again, and run where the
            loop itself was timed on that machine. Of Python.
        cflags: flags that C is compiled with. By default those of a compile_commands.json beside the file or above
            it, else -O3 -march=native. Counts are those of the source whatever they are; times are not.

    Raises:
        RooflabError: Python that cannot be counted or compiled (which line, and why), an access out of bounds
            (array, index, loop variables), an array of objects, an empty array; less than one thread; of C no
            compiler, what it refuses, arguments that do not fit the signature.
    """
    from msgspec.structs import replace

    from rooflab.loops import examine
    from rooflab.loops.lowered import examine as lowered
    from rooflab.loops.lowered import ufuncs
    from rooflab.loops.read.source import BeyondSource, has_no_loops
    from rooflab.machines import cache_levels
    from rooflab.machines.bench.experiments import thread_teams
    from rooflab.machines.doubts import doubts, doubts_of_timing, is_here
    from rooflab.model.loop import times
    from rooflab.remedies.loops import advise as changes

    check_time_limit(time_limit_s)
    if threads is not None and threads < 1:
        raise RooflabError(f"threads is {threads}, expected 1 or more, or None for all cores")
    if cflags is not None and callable(fn):
        raise RooflabError("cflags are for a function of C, got one of Python: its options are those of njit")
    if threads is not None and not callable(fn):
        raise RooflabError("threads are of loops over prange: a function of C is counted and timed on one core")
    target = as_machine(machine)
    if not callable(fn):
        return _loop_of_c(os.fspath(fn), args, target, levels, cflags, timed, time_limit_s, classify)
    understood, why, own = None, "it is compiled with options of its own" if lowered.has_options(fn) else "", None
    if ufuncs.is_one(fn):
        fn, args, own = ufuncs.as_loop(fn, args)
        why = "NumPy loops over it, and times are those of its call"
    if not why:
        try:
            understood = examine.understand(fn, args)
        except BeyondSource as beyond:
            why = str(beyond)
    caches = cache_levels.choose(target, levels)
    loopless = understood is None and own is None and has_no_loops(fn)
    with thread_teams.at_most(threads):
        if understood is None:
            try:
                report = lowered.report(
                    fn, args, caches, time_limit_s=time_limit_s, time=timed, classify=classify, why=why, own=own
                )
            except RooflabError as error:
                if not loopless:
                    raise
                hint = f"it has no loops: rooflab.analyze({fn.__name__}, …) takes it apart as NumPy runs it"
                raise RooflabError(f"{error}; {hint}") from error
            if loopless:
                report = replace(report, warnings=(*report.warnings, *_as_numpy_runs_it(fn, args, report)))
        else:
            report = examine.report(understood, caches, time_limit_s=time_limit_s, time=timed, classify=classify)
    if target is None:
        return report
    timing = _core_timing(report, target)
    team = thread_teams.measure() if report.regions and is_here(target) else None
    placed = times.place_on(report, target, timing, team, most_threads=threads)
    doubted = doubts_of_timing(target) if placed.runs else doubts(target)
    if advise and understood is not None:
        helps = changes.advise(placed, understood, caches, here=is_here(target), timing=timing, team=team)
        placed = replace(placed, advice=helps)
    return replace(placed, warnings=(*placed.warnings, *doubted))


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
) -> LoopReport:
    from msgspec.structs import replace

    from rooflab.loops.c import examine
    from rooflab.machines import cache_levels
    from rooflab.machines.doubts import doubts, doubts_of_timing
    from rooflab.model.loop import times

    function = examine.target(text, cflags)
    caches = cache_levels.choose(target, levels)
    report = examine.report(
        function, args, caches, cflags=cflags, time_limit_s=time_limit_s, time=timed, classify=classify
    )
    if target is None:
        return report
    placed = times.place_on(report, target, _core_timing(report, target))
    doubted = doubts_of_timing(target) if placed.runs else doubts(target)
    return replace(placed, warnings=(*placed.warnings, *doubted))


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


def simulate(
    stream: Any,
    *args: Any,
    machine: Machine | str | PathLike[str] | None = None,
    levels: Sequence[Cache] | None = None,
    tlbs: Sequence[Cache] = (),
    classify: bool = False,
    exact: bool = False,
    trace_format: str | None = None,
    instructions: Literal["skip", "load"] = "skip",
    flush: bool = True,
    time_limit_s: float | None = None,
    steps: bool = False,
    advise: bool = False,
) -> Simulation:
    """What caches do with a stream of accesses: hits, misses, evictions and bytes at every level, exactly.

    Args:
        stream: one of `rooflab.streams`, the path of an address trace (Dinero din or xdin, lackey, drmemtrace,
            ChampSim; .gz and .xz too), or a plain function of loops over NumPy arrays.
        args: the arguments of such a function.
        machine: whose caches to simulate, and how long each level would take for its traffic: a `Machine`, or a
            name or file of one; this host's caches by default. What is assumed of a real part is said in the
            result.
        levels: other caches, near to far: `[Cache(32 * 1024, 8), Cache(512 * 1024, 8)]`.
        tlbs: translation look-aside buffers, near to far (`rooflab.types.simulation.tlb` makes one).
        classify: also tell compulsory, capacity and conflict misses apart (slower).
        exact: make every access of a loop nest instead of counting what repeats; the counts are the same.
        trace_format: of a trace; found by its first lines where None.
        instructions: of a trace: skip instruction fetches, or take them as loads.
        flush: what is dirty at the end is written back then, through every level, and counted as bytes and
            write-backs (never as hits or misses); False leaves it in the caches.
        time_limit_s: stop soon after so many seconds; counts are then of what ran, and `complete` is False.
        steps: also keep the first 64 accesses one by one, with what every level holds after each; of a stream of
            loops, not of an irregular one, a trace or a function.
        advise: also say what would help, with what it saves: loops in another order or in tiles, arrays laid out
            otherwise, larger pages, each simulated again (a few times as long). Of a stream; `loop` does so of a
            function.

    Raises:
        RooflabError: caches that do not fit together, a size of zero, a function that cannot be counted.
        FileError: a trace that cannot be read, or is of another format.

    >>> from rooflab import Cache, streams
    >>> simulate(streams.sequential(2**20), levels=[Cache(32768, 8)]).levels[0].misses
    16384
    """
    from pathlib import Path

    from msgspec.structs import replace

    from rooflab.cachesim.run.streams import simulate_stream
    from rooflab.cachesim.run.times import time_on
    from rooflab.cachesim.streams.stream import Stream
    from rooflab.cachesim.traces.simulate import simulate_trace
    from rooflab.machines import cache_levels
    from rooflab.machines.doubts import doubts

    check_time_limit(time_limit_s)
    if advise and (callable(stream) or isinstance(stream, (str, os.PathLike))):
        raise RooflabError(
            "advise is of one of rooflab.streams: of a function `rooflab.loop` gives it, and a trace of addresses "
            "says nothing of the loops behind them"
        )
    if steps and (callable(stream) or isinstance(stream, (str, os.PathLike)) or tlbs):
        raise RooflabError("steps are of one of rooflab.streams without tlbs, not of a function or a trace")
    if callable(stream):
        if tlbs or exact or not flush:
            raise RooflabError(
                "tlbs, exact and flush are for streams; a function takes machine, levels, classify, time_limit_s"
            )
        limit_s = 60.0 if time_limit_s is None else time_limit_s
        examined = loop(
            stream,
            *args,
            machine=machine,
            levels=levels,
            timed=False,
            time_limit_s=limit_s,
            classify=classify,
            advise=False,
        )
        return replace(examined.simulation, warnings=doubts(as_machine(machine)))
    if args:
        raise RooflabError(f"{len(args)} arguments after the stream, expected none: they go with a function")
    target = as_machine(machine)
    caches = cache_levels.choose(target, levels)
    if isinstance(stream, (str, os.PathLike)):
        simulation = simulate_trace(
            Path(stream),
            caches.caches,
            format=trace_format,
            tlbs=tlbs,
            instructions=instructions,
            classify=classify,
            flush=flush,
            time_limit_s=time_limit_s,
            assumptions=caches.assumptions,
        )
    elif not isinstance(stream, Stream):
        raise RooflabError(
            f"simulate takes one of rooflab.streams, a path or a function, got {type(stream).__name__}"
        )
    else:
        simulation = simulate_stream(
            stream,
            caches.caches,
            tlbs=tlbs,
            classify=classify,
            exact=exact,
            flush=flush,
            time_limit_s=time_limit_s,
            assumptions=caches.assumptions,
        )
    if steps:
        from rooflab.cachesim.run.steps import first_steps

        assert isinstance(stream, Stream)
        simulation = replace(simulation, steps=first_steps(stream, caches.caches))
    if target is not None:
        simulation = replace(time_on(simulation, target), warnings=doubts(target))
    if not advise or not isinstance(stream, Stream):
        return simulation
    from rooflab.remedies.caches import one_core

    again = partial(simulate_stream, levels=caches.caches, flush=flush, time_limit_s=time_limit_s)
    helps = one_core.advise(simulation, stream, again, target, tuple(caches.caches))
    return replace(simulation, advice=helps)


def simulate_cores(
    streams: Any,
    *args: Any,
    cores: int | None = None,
    machine: Machine | str | PathLike[str] | None = None,
    levels: Sequence[Cache] | None = None,
    protocol: Literal["mesi", "moesi"] = "mesi",
    quantum: int | None = None,
    costs: Mapping[str, float] | None = None,
    races: bool = True,
    advise: bool = True,
) -> CoreSimulation:
    """What the caches of several cores do to each other: invalidations, true and false sharing, data races.

    Args:
        streams: one of `rooflab.core_streams`, or for each core a list of ("load", array, index),
            ("store", array, index), "atomic", "acquire" and "release" alike, and ("barrier",). A store may
            name its value: ("store", "flag", 0, 1). Or a plain function of loops over NumPy arrays, as for
            `loop`, with prange where cores share the trips.
        args: the arguments of such a function.
        cores: how many share its trips; 2 by default.
        machine: whose caches: a `Machine`, or a name or file of one; this host's by default.
        levels: other caches, near to far: private ones, then the shared one (one level alone is private).
        protocol: "mesi" or "moesi".
        quantum: operations of each core's turn, 1 by default: cores take turns in order.
        costs: go by time instead, the core whose time is least first: whole numbers (of cycles or ns) by level,
            "memory", "transfer" (from another core) and what an "upgrade" adds.
        races: look for accesses that nothing orders, and for what they could see.
        advise: where cores take each other's lines, say what would help: each change simulated again (twice or
            three times as long), with times where `machine` says how long lines travel.

    Raises:
        RooflabError: an entry that cannot be read, caches that do not fit, cores that wait for ever.
        UnknownNameError: an unknown operation, protocol or cost, with near matches.

    >>> from rooflab import Cache, core_streams
    >>> small = [Cache(32768, 8), Cache(524288, 8)]
    >>> simulate_cores(core_streams.counters(2, 1000), levels=small).false_sharing
    1999
    >>> simulate_cores(core_streams.counters(2, 1000, padding_bytes=64), levels=small).false_sharing
    0
    """
    from rooflab.cachesim.coherence import simulate as coherence
    from rooflab.cachesim.coherence.stream import CoreStreams, listed
    from rooflab.machines import cache_levels
    from rooflab.machines.doubts import doubts

    if callable(streams):
        from rooflab.loops import parallel

        chosen, assumptions = parallel.streams(streams, args, 2 if cores is None else cores), parallel.ASSUMPTIONS
    elif args or cores is not None:
        raise RooflabError(
            "arguments and cores= go with a function; streams say themselves how many cores there are"
        )
    else:
        chosen, assumptions = streams if isinstance(streams, CoreStreams) else listed(streams), ()
    target = as_machine(machine)
    caches = cache_levels.choose(target, levels)
    # With several cores the outer private level includes the nearer ones, which `coherence` says.
    said = [line for line in caches.assumptions if "inclusion" not in line]
    assumptions = (*assumptions, *said, *doubts(target))
    run = partial(coherence.simulate, levels=caches.caches, protocol=protocol, quantum=quantum, costs=costs)
    simulation = run(chosen, races=races, assumptions=assumptions)
    if not advise:
        return simulation
    from msgspec.structs import replace

    from rooflab.remedies.caches import cores as changes

    again = partial(run, races=False)
    return replace(simulation, advice=changes.advise(simulation, chosen, again, target))


def miss_curve(
    stream: Any,
    *,
    line_bytes: int = 64,
    trace_format: str | None = None,
    instructions: Literal["skip", "load"] = "skip",
) -> MissCurve:
    """The misses of `stream` in fully associative LRU caches of every capacity, in one pass (stack distances).

    Args:
        stream: one of `rooflab.streams`, or the path of an address trace (as `simulate` takes it).
        line_bytes: of all of those caches.
        trace_format, instructions: of a trace, as for `simulate`.

    Raises:
        RooflabError: a line that is no power of two, no stream, a trace of too many different lines.
        FileError: a trace that cannot be read, or is of another format.

    >>> from rooflab import streams
    >>> miss_curve(streams.matmul(256)).misses(16 * 2**20)
    24576
    """
    from pathlib import Path

    from rooflab.cachesim.run.stack_distance import curve_of
    from rooflab.cachesim.streams.stream import Stream
    from rooflab.cachesim.traces.simulate import curve_of_trace

    if isinstance(stream, (str, os.PathLike)):
        return curve_of_trace(Path(stream), line_bytes, format=trace_format, instructions=instructions)
    if not isinstance(stream, Stream):
        raise RooflabError(f"miss_curve takes one of rooflab.streams or a path, got {type(stream).__name__}")
    return curve_of(stream, line_bytes)
