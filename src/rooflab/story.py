"""The public functions, each short enough to read aloud. Heavy imports happen inside them."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rooflab.errors import RooflabError
from rooflab.machines.detect import detect, require_memory

if TYPE_CHECKING:
    from os import PathLike

    from rooflab.model.calibration import Calibration
    from rooflab.model.constants import Constants
    from rooflab.model.transfer import Transfer
    from rooflab.types.loop import LoopReport, TileSweep
    from rooflab.types.machine import Machine
    from rooflab.types.prediction import Cache, Mode, Power
    from rooflab.types.report import Report
    from rooflab.types.sharing import CoreSimulation
    from rooflab.types.simulation import Cache as CacheLevel
    from rooflab.types.simulation import MissCurve, Simulation


def measure(
    *,
    quick: bool = False,
    threads: int | None = None,
    sustained: bool = False,
    progress: Callable[[str, float, float], None] | None = None,
) -> Machine:
    """What this machine can really do: bandwidth and latency of every level, arithmetic peaks, disk, overheads.

    Needs no root, compiler, counters or network; takes under 20 s, `quick` under 6 s.

    Args:
        quick: fewer sizes and rounds, no disk.
        threads: how many of the granted hardware threads to use; one per granted core by default.
        sustained: also run the fp64 peak for 10 s, to see what power limits leave of the burst clock.
        progress: called with the stage's name, what is done and the total.

    Returns:
        The machine, with its self-checks. After Ctrl-C, `incomplete` says where it stopped.

    Raises:
        MeasureError: too little memory, more threads than granted, a kernel with a wrong result.
        KeyboardInterrupt: Ctrl-C before anything was measured.
    """
    host = detect()
    require_memory(host)
    from rooflab.machines.bench import assemble, plan, session

    chosen = plan.QUICK if quick else plan.DEFAULT
    found = session.run(host, plan.with_sustained(chosen, sustained), threads, progress)
    return assemble.assemble(found, _now())


def machine(name_or_path: str | PathLike[str]) -> Machine:
    """The machine of that name in the catalogue, or in that TOML or JSON file.

    Args:
        name_or_path: a catalogue name or alias ("h200-sxm", "NVIDIA H100 80GB HBM3"), or a path.

    Raises:
        UnknownNameError: no such machine, with near matches.
        FileError: a file that cannot be read, or that contradicts itself.
    """
    from rooflab.machines import catalog

    return catalog.find(os.fspath(name_or_path))


def analyze(
    fn_or_module: Any,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    machine: Machine | str | PathLike[str] | None = None,
    backward: bool = False,
    optimizer: Any = None,
    device: str = "cuda",
    attention: Literal["fused", "unfused"] = "fused",
    name: str | None = None,
    dims: Mapping[str, int] | None = None,
    trips: Mapping[str, int] | None = None,
    mode: Mode | None = None,
    cache: Cache = "warm",
    power: Power = "burst",
    dispatch_s: float | None = None,
    what_if: Mapping[str, Any] | str | None = None,
    constants: Constants | str | PathLike[str] | None = None,
) -> Report:
    """What a program asks for, operation by operation: FLOP, bytes, intensity, memory; no weights, no GPU.

    Args:
        fn_or_module: a PyTorch module, exported program or function, a JAX or tinygrad function, or the
            path of an ONNX file. Which it is, its inputs tell.
        args: its inputs. Tensors on PyTorch's "meta" device and `jax.ShapeDtypeStruct` need no memory.
        kwargs: its inputs by keyword.
        machine: also say what binds each operation on it: a `Machine`, or a name or file of one.
        backward: the backward pass too.
        optimizer: a step of it too: "sgd", "adam", "adamw", or a torch optimizer (PyTorch).
        device: whose kernels are counted, "cuda" or "cpu": they differ for dropout and attention (PyTorch).
        attention: "fused" as FlashAttention, or "unfused" with its scores in memory (PyTorch).
        name: of the report.
        dims: symbolic sizes of an ONNX file by name.
        trips: of JAX's while loops, by name.
        mode: "eager" (each operation dispatched by the host; what PyTorch does by itself), "graph" (kernels
            back to back, no host: CUDA graphs, engines) or "compiled" (after fusion, no host). By default
            eager for PyTorch, compiled for JAX, graph for the others.
        cache: "warm" as when it runs again and again, or "cold".
        power: "burst" or "sustained": whether power and heat limit the clock.
        dispatch_s: host seconds of one bare element-wise call in eager mode, which the times of all sorts of
            calls scale with; by default the machine's, else its family's.
        constants: a file that `rooflab calibrate` wrote, instead of the constants of the machine's family.
        what_if: changes to the machine, such as {"bandwidth": 2} or "bandwidth=2x".

    Raises:
        RooflabError: a program that needs real data, a size or an input that is missing, and the like.
        MissingExtraError: a framework that is not installed.

    >>> import torch
    >>> analyze(torch.nn.Linear(1024, 4096, bias=False), torch.empty(512, 1024)).flop
    4294967296.0
    """
    from rooflab.work import answer, front_end

    found = _machine(machine)
    settings = front_end.Settings(backward, optimizer, device, attention, dims, trips)
    graph = front_end.capture(fn_or_module, args, kwargs, settings)
    title = name or front_end.name_of(fn_or_module)
    report = answer.report(graph, title, front_end.versions(graph.framework))
    if found is None:
        return report
    return predict(
        report,
        found,
        mode=mode,
        cache=cache,
        power=power,
        dispatch_s=dispatch_s,
        what_if=what_if,
        constants=constants,
    )


def op(
    kind: str,
    *shapes: str | int | tuple[int, ...],
    dtype: str = "fp32",
    machine: Machine | str | PathLike[str] | None = None,
    cache: Cache = "warm",
    power: Power = "burst",
    constants: Constants | str | PathLike[str] | None = None,
    **attrs: Any,
) -> Report:
    """What one operation asks for, from shapes alone: FLOP, bytes, intensity; its time and bound on a machine.

    Args:
        kind: "matmul", "conv2d", "attention", "softmax", "relu", "add", "lstm", "all_reduce", "adam", …
        shapes: of the operands: (4096, 1024) or "4096x1024", or "4096x1024:int8" for a format of its own.
        dtype: number format of the operands.
        machine: the one to predict it on: a `Machine`, or a name or file of one.
        cache, power, constants: as `analyze`.
        attrs: the operation's settings: causal, window, stride, groups, hidden, ranks, …

    Raises:
        UnknownNameError: an unknown kind, setting, number format or machine, with near matches.
        RooflabError: shapes that cannot be read or do not fit each other.

    >>> op("matmul", (4096, 4096), (4096, 4096), dtype="bf16").flop
    137438953472
    """
    from rooflab.work import answer, by_hand

    found = _machine(machine)
    graph = by_hand.graph(kind, shapes, dtype=dtype, **attrs)
    report = answer.report(graph, by_hand.title(kind, shapes, dtype))
    return report if found is None else predict(report, found, cache=cache, power=power, constants=constants)


def predict(
    report: Report,
    machine: Machine | str | PathLike[str],
    *,
    mode: Mode | None = None,
    cache: Cache | None = None,
    power: Power | None = None,
    dispatch_s: float | None = None,
    what_if: Mapping[str, Any] | str | None = None,
    constants: Constants | str | PathLike[str] | None = None,
) -> Report:
    """`report` with each row and the whole program predicted on `machine` (see `analyze` for the settings).

    Raises:
        UnknownNameError: no machine, or no what-if, of that name, with near matches.
        RooflabError: a machine that lacks a number which predictions need, a factor that is not above zero.
    """
    import msgspec

    from rooflab.model import forecast, recast, whatif
    from rooflab.work import answer

    found = _machine(machine)
    assert found is not None
    change = None if what_if is None else whatif.change(what_if)
    if change is not None:
        mode, cache, power = change.mode or mode, change.cache or cache, change.power or power
    if change is not None and change.batch is not None:
        raise RooflabError(
            "what-if batch: the shapes of a captured program are fixed; analyze it again on inputs of that "
            "batch, or let `rooflab analyze FILE.py:NAME --what-if batch=N` do so"
        )
    if change is not None and change.dtype is not None:
        graph = recast.recast(report.captured or report.graph, change.dtype)
        other = answer.report(graph, f"{report.name} in {change.dtype}", report.environment)
        report = msgspec.structs.replace(other, setting=report.setting)
    factors = None if change is None else whatif.factors_on(found, change)
    setting = whatif.setting(report, mode=mode, cache=cache, power=power, dispatch_s=dispatch_s, factors=factors)
    return forecast.on(report, found, setting, _constants(constants, found))


def calibrate(
    timings: str | PathLike[str],
    machine: Machine | str | PathLike[str],
    *,
    cache: Cache = "warm",
    constants: Constants | str | PathLike[str] | None = None,
    progress: Callable[[str, float, float], None] | None = None,
) -> Calibration:
    """The fitted constants of a machine's family refitted to your own timings; what changed, whether it helps.

    Args:
        timings: a CSV or JSON file of operations with their times (`rooflab calibrate --help` shows one), or a
            report's JSON whose rows carry observed times.
        machine: the one that was timed: a `Machine`, or a name or file of one.
        cache: "warm" where the operations were run again and again, or "cold".
        constants: to start from and to stay near; those of the machine's family by default.
        progress: called with what is done, how far, and the total.

    Returns:
        Errors on rows not used in fitting before and after, each constant that moved, those that stayed. Its
        `constants` go to `analyze` and `predict`.

    Raises:
        FileError: a file that cannot be read, or without a row that can be used.
        RooflabError: fewer than 8 times.
    """
    from rooflab.model import calibration
    from rooflab.model import timings as files

    found = _machine(machine)
    assert found is not None
    read = files.read(os.fspath(timings))
    base = _constants(constants, found)
    return calibration.fit(read.timed, found, cache=cache, constants=base, dropped=read.dropped, progress=progress)


def _constants(given: Constants | str | PathLike[str] | None, machine: Machine) -> Constants | None:
    from rooflab.model import overrides

    if given is None:
        return None
    found = overrides.read(os.fspath(given)) if isinstance(given, (str, os.PathLike)) else given
    return overrides.fitting(found, machine)


def transfer(
    nbytes: float | str,
    path: Sequence[str],
    *,
    machine: Machine | str | PathLike[str] | None = None,
    host: Machine | str | PathLike[str] | None = None,
    rates: Mapping[str, str | float] | None = None,
    latencies: Mapping[str, str | float] | None = None,
    expands: Mapping[str, float] | None = None,
    threads: int | Mapping[str, int] = 1,
    chunk: float | str = "8 MB",
    overlap: bool = True,
    sample: float | str | None = None,
    device_samples_per_s: float | None = None,
) -> Transfer:
    """How long data is on its way from stage to stage, which stage binds, and how long a device waits for it.

    Args:
        nbytes: to move, or text with a unit ("150 GB").
        path: the stages in order: "network", "disk", "DRAM", "PCIe", "HBM", "internet", a level or link of the
            machine or host, or any name with a rate of its own ("decompress").
        machine: the device at the end: a `Machine`, or a name or file of one.
        host: the computer it sits in, such as one that `rooflab measure` saved.
        rates: bytes/s, or text ("10 Gbit/s"), by stage.
        latencies: seconds, or text ("1 ms"), of a request, by stage.
        expands: bytes that leave a stage per byte that enters it: {"decompress": 3}.
        threads: requests at once, of every stage or by stage.
        chunk: bytes of one request at the start of the way.
        overlap: whether the stages work side by side, or one after the other.
        sample: bytes of one training sample at the start of the way.
        device_samples_per_s: how many the device could compute; the result's `feed` says how long it waits.

    Raises:
        UnknownNameError: an unknown stage or machine, with near matches.
        RooflabError: no bytes, no known rate, a sample without the device's pace.

    >>> transfer("90 GB", ["network", "PCIe"], rates={"network": "10 Gbit/s", "PCIe": "63 GB/s"}).binds
    'network'
    """
    from rooflab import units
    from rooflab.model import transfer as model

    def bytes_of(given: float | str) -> float:
        return units.parse(given, "byte") if isinstance(given, str) else given

    stages = model.stages(
        path,
        machine=_machine(machine),
        host=_machine(host),
        rates=rates,
        latencies=latencies,
        expands=expands,
        threads=threads,
    )
    found = model.through(bytes_of(nbytes), stages, chunk_bytes=bytes_of(chunk), overlap=overlap)
    if sample is None and device_samples_per_s is None:
        return found
    if sample is None or device_samples_per_s is None:
        raise RooflabError("a feed needs both: sample, such as '150 kB', and device_samples_per_s, such as 2500")
    return found._replace(feed=model.feed(found, bytes_of(sample), device_samples_per_s))


def loop(
    fn: Callable[..., Any],
    *args: Any,
    machine: Machine | str | PathLike[str] | None = None,
    levels: Sequence[CacheLevel] | None = None,
    run: bool = True,
    limit_s: float = 60.0,
) -> LoopReport:
    """What limits a loop written in Python over NumPy arrays, at every cache level.

    Its FLOP and its traffic at every level are exact: an instrumented twin of the function runs beside a
    simulator of the caches. Then the function itself is compiled by numba, checked and timed on this host.
    The arguments are copied: what they hold is not changed.

    Args:
        fn: a plain function of loops over range; what cannot be counted is refused by line.
        args: its arguments, NumPy arrays and numbers.
        machine: whose caches are simulated and under whose roofs the times are placed: one measured here
            (`rooflab.measure()`), or a name or file of one. By default this host's caches, without roofs.
        levels: other caches to simulate, near to far (`rooflab.Cache`).
        run: compile and time the function too.
        limit_s: seconds after which the count is stopped; counts are then partial, and marked.

    Raises:
        RooflabError: Python that cannot be counted or compiled (which line, and why), an access out of bounds
            (array, index, loop variables), an array of objects, an empty array.
    """
    from rooflab.loops import caches, examine
    from rooflab.model import loop_times

    found = _machine(machine)
    known = examine.understand(fn, args)
    chosen = caches.choose(found, levels)
    report = examine.report(known, chosen, limit_s=limit_s, time=run)
    return report if found is None else loop_times.on(report, found)


def simulate(
    stream: Any,
    *args: Any,
    machine: Machine | str | PathLike[str] | None = None,
    levels: Sequence[CacheLevel] | None = None,
    tlbs: Sequence[CacheLevel] = (),
    classify: bool = False,
    exact: bool = False,
    format: str | None = None,
    instructions: Literal["skip", "load"] = "skip",
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
        format: of a trace; found by its first lines where None.
        instructions: of a trace: skip instruction fetches, or take them as loads.

    Raises:
        RooflabError: caches that do not fit together, a size of zero, a function that cannot be counted.
        FileError: a trace that cannot be read, or is of another format.

    >>> from rooflab import Cache, streams
    >>> simulate(streams.sequential(2**20), levels=[Cache(32768, 8)]).levels[0].misses
    16384
    """
    from pathlib import Path

    from rooflab.cachesim import address_traces, runs, times
    from rooflab.loops import caches

    if callable(stream):
        if tlbs or classify or exact:
            raise RooflabError("tlbs, classify and exact are for streams; a function takes machine= and levels=")
        return loop(stream, *args, machine=machine, levels=levels, run=False).simulation
    if args:
        raise RooflabError(f"{len(args)} arguments after the stream, expected none: they go with a function")
    known = _machine(machine)
    chosen = caches.choose(known, levels)
    if isinstance(stream, (str, os.PathLike)):
        found = address_traces.simulate_trace(
            Path(stream),
            chosen.caches,
            format=format,
            tlbs=tlbs,
            instructions=instructions,
            assumptions=chosen.assumptions,
        )
    else:
        found = runs.simulate_stream(
            stream, chosen.caches, tlbs=tlbs, classify=classify, exact=exact, assumptions=chosen.assumptions
        )
    return found if known is None else times.on(found, known)


def simulate_cores(
    streams: Any,
    *,
    machine: Machine | str | PathLike[str] | None = None,
    levels: Sequence[CacheLevel] | None = None,
    protocol: Literal["mesi", "moesi"] = "mesi",
    quantum: int | None = None,
    costs: Mapping[str, float] | None = None,
    races: bool = True,
) -> CoreSimulation:
    """What the caches of several cores do to each other: invalidations, true and false sharing, data races.

    Args:
        streams: one of `rooflab.core_streams`, or for each core a list of ("load", array, index),
            ("store", array, index), "atomic", "acquire" and "release" alike, and ("barrier",). A store may
            name its value: ("store", "flag", 0, 1).
        machine: whose caches: a `Machine`, or a name or file of one; this host's by default.
        levels: other caches, near to far: private ones, then the shared one (one level alone is private).
        protocol: "mesi" or "moesi".
        quantum: operations of each core's turn, 1 by default: cores take turns in order.
        costs: go by time instead, the core whose time is least first: whole numbers (of cycles or ns) by level,
            "memory", "transfer" (from another core) and what an "upgrade" adds.
        races: look for accesses that nothing orders, and for what they could see.

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
    from rooflab.cachesim import coherence, core_stream
    from rooflab.loops import caches

    found = streams if isinstance(streams, core_stream.CoreStreams) else core_stream.listed(streams)
    chosen = caches.choose(_machine(machine), levels)
    # With several cores the outer private level includes the nearer ones, which `coherence` says.
    assumed = [line for line in chosen.assumptions if "inclusion" not in line]
    return coherence.simulate(
        found,
        chosen.caches,
        protocol=protocol,
        quantum=quantum,
        costs=costs,
        races=races,
        assumptions=assumed,
    )


def miss_curve(stream: Any, *, line_bytes: int = 64) -> MissCurve:
    """The misses of `stream` in fully associative LRU caches of every capacity, in one pass (stack distances).

    Args:
        stream: one of `rooflab.streams`.
        line_bytes: of all of those caches.

    Raises:
        RooflabError: a line that is no power of two, or no stream.

    >>> from rooflab import streams
    >>> miss_curve(streams.matmul(256)).misses(16 * 2**20)
    24576
    """
    from rooflab.cachesim import reuse
    from rooflab.cachesim.stream import Stream

    if not isinstance(stream, Stream):
        raise RooflabError(f"miss_curve takes one of rooflab.streams, got {type(stream).__name__}")
    return reuse.curve_of(stream, line_bytes)


def sweep_tiles(
    fn: Callable[..., Any],
    sizes: Mapping[str, Sequence[int]],
    *args: Any,
    machine: Machine | str | PathLike[str] | None = None,
    levels: Sequence[CacheLevel] | None = None,
    limit_s: float = 60.0,
) -> TileSweep:
    """Traffic at every level and predicted time over tile sizes; the five most promising are timed.

    Args:
        fn: a loop (see `loop`) with its tile sizes among its parameters.
        sizes: to try, by parameter: {"bi": range(8, 257, 8)}; every combination is simulated.
        args: the other arguments in order, or all of them (those in `sizes` are then replaced).
        machine: as for `loop`; without one, the least traffic stands for the least time.
        levels: other caches to simulate.
        limit_s: bound on the count of each configuration.

    Raises:
        UnknownNameError: a tile size that is no parameter of `fn`.
        RooflabError: what `loop` raises, where no configuration can be counted.
    """
    from rooflab.loops import caches, tiles
    from rooflab.model import tile_choice

    found = _machine(machine)
    chosen = caches.choose(found, levels)
    every = tiles.configurations(sizes)
    reports = tiles.simulate(fn, args, every, chosen, limit_s)
    return tile_choice.sweep(fn.__name__, every, reports, chosen, found, lambda best: tiles.timed(fn, args, best))


def _machine(given: Machine | str | PathLike[str] | None) -> Machine | None:
    return machine(given) if isinstance(given, (str, os.PathLike)) else given


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
