"""What do caches make of a stream of accesses: of one core, of several, and by their capacity?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from rooflab.errors import RooflabError
from rooflab.story.loops import loop
from rooflab.story.machines import as_machine
from rooflab.timing import check_time_limit

if TYPE_CHECKING:
    from os import PathLike

    from rooflab.types.core_simulation import CoreSimulation
    from rooflab.types.machine import Machine
    from rooflab.types.simulation import Cache, MissCurve, Simulation


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
