"""Where a loop lies under a machine's roofs, and how long a run of it would take there.

Traffic by level comes from the simulation, rates from the machine. The time is that of the execution-cache-memory
model (Stengel, Treibig, Hager, Wellein, "Quantifying performance bottlenecks of stencil computations using the
ECM model", ICS 2015): what the core computes goes on beside the data; the data's way takes the sum of its steps.
Bandwidths of a level are measured with all nearer ones in the way, so that those add what more they move. Accesses
that no prefetcher foresees wait for the latency of what serves them, several at once. The roofline at every level
follows Ilic, Pratas, Sousa (cache-aware, CAL 2014) at L1 and Koskela et al. (hierarchical, ISC 2018) beyond.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from rooflab.errors import RooflabError
from rooflab.machines import microarchitecture
from rooflab.model.device.constants import load_family
from rooflab.model.loop import bars, blas_calls, composed, crossings, in_core, kept, late_branches, teams, waiting
from rooflab.model.roofline.roofline import BALANCED
from rooflab.types.constants import Constants
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import Code, LoopReport, LoopTime, Point, Predicted, Timed
from rooflab.types.machine import Level, Machine, Rate, Scope, is_main_memory
from rooflab.types.prediction import Bound
from rooflab.types.team_timing import TeamTiming
from rooflab.units import si

# Share of writes in all bytes that cross, and bytes that cross per byte named. Beyond L1 an ordinary store
# reads its line first: triad names 24 bytes and moves 32, copy 16 and 24, write 8 and 16.
_BEYOND = (("read", 0.0, 1.0), ("triad", 1 / 4, 4 / 3), ("copy", 1 / 3, 3 / 2), ("write", 1 / 2, 2.0))
_AT_L1 = (("read", 0.0, 1.0), ("triad", 1 / 3, 1.0), ("copy", 1 / 2, 1.0), ("write", 1.0, 1.0))
# Non-temporal stores read nothing: beyond L1 too each kernel moves the bytes that it names.
_PAST_CACHES = _AT_L1


_TURNS = 1  # of what is kept and how long it takes
_CROWD = 1.4  # what a shared cache keeps changes with its neighbours: as if by so much less or more to keep
_FAR, _SHORT_S = 2.0, 1e-5  # measured ÷ predicted that is said first; what is shorter is mostly the call itself


class _Term(NamedTuple):
    """A part of the time: `seconds`, and what it is called."""

    name: str
    seconds: float


def place_on(
    report: LoopReport,
    machine: Machine,
    timing: CoreTiming | None = None,
    team: TeamTiming | None = None,
    *,
    most_threads: int | None = None,
) -> LoopReport:
    """`report` with its points under the roofs of `machine` and the predicted times of a warm run.

    Args:
        report: of a loop.
        machine: a CPU.
        timing: how long its core's operations take, where that was measured.
        team: how long its teams of threads take to start, where that was measured.
        most_threads: up to how many prange is predicted; as many as the machine has cores by default.

    Raises:
        RooflabError: a machine that is not a CPU.
    """
    if machine.kind != "cpu":
        raise RooflabError(
            f"{machine.name} is a {machine.kind}; a Python loop runs on a CPU: measure one, or give"
            " the name of one"
        )
    points = _points(report, machine, "core", report.run())
    predictions = []
    for run in (report.run(), report.run(threads=2)):
        threads = 1 if run is None else run.threads
        predicted = predict(report, machine, threads, timing=timing, team=team)
        if predicted is not None and threads not in [each.threads for each in predictions]:
            predictions.append(predicted)
    # of another machine than the one that ran it, that is no surprise
    far = () if timing is None else _far_off(predictions, report.run())
    warnings = (*far, *teams.left_to_the_scheduler(report, team), *report.warnings)
    scaling = teams.scaling(
        report,
        machine,
        lambda threads: predict(report, machine, threads, timing=timing, team=team),
        most_threads,
    )
    return msgspec.structs.replace(
        report,
        machine=machine,
        points=points,
        predictions=tuple(predictions),
        scaling=scaling,
        warnings=warnings,
    )


def _far_off(predictions: list[Predicted], run: Timed | None) -> tuple[str, ...]:
    """A sentence where the measured time lies so far from the predicted that the bound cannot be trusted."""
    one = next((each for each in predictions if each.threads == 1), None)
    if one is None or run is None or not run.median_s:
        return ()
    ratio = run.median_s / one.time_s if one.time_s else 0.0
    low, high = one.low_s or one.time_s / _FAR, one.high_s or one.time_s * _FAR
    if not one.time_s or run.median_s < _SHORT_S or (run.best_s <= high and run.median_s >= low):
        return ()
    bar = f"{si(run.median_s, 's')} measured, {si(low, 's')} to {si(high, 's')} predicted"
    if ratio > 1:
        return (
            f"{bar}: something outside of the model takes the rest. That {one.binds} limits it is not shown,"
            " and what would help that may not help",
        )
    return (f"{bar}: it runs faster than {one.binds} allows by the model, which that rules out as its limit",)


def bytes_per_s(
    level: Level, scope: Scope, write_share: float, *, nearest: bool, past_caches: bool = False
) -> float | None:
    """What `level` attains where `write_share` of the bytes that cross are written; None where not known.

    Between the measured mixes the seconds per byte are interpolated; theory stands in where nothing was
    measured, for any mix. `past_caches`: with non-temporal stores.
    """
    mixes = []
    for what, share, factor in _PAST_CACHES if past_caches else _AT_L1 if nearest else _BEYOND:
        stores = None if what == "read" else "nontemporal" if past_caches else "ordinary"
        rate = level.rate(what, scope=scope, basis="attained", stores=stores)
        if rate is not None:
            mixes.append((share, 1 / (rate.value * factor)))
    if not mixes:
        theory = level.rate(scope=scope) or level.rate("any", scope=scope)
        return None if theory is None else theory.value
    below = max((each for each in mixes if each[0] <= write_share), default=mixes[0])
    above = min((each for each in mixes if each[0] >= write_share), default=mixes[-1])
    if above[0] == below[0]:
        return 1 / below[1]
    part = (write_share - below[0]) / (above[0] - below[0])
    return 1 / (below[1] + part * (above[1] - below[1]))


def _points(report: LoopReport, machine: Machine, scope: Scope, run: Timed | None) -> tuple[Point, ...]:
    peak = _peak(report, machine, scope)
    points = []
    for number, (name, read, write) in enumerate(crossings.of(report)):
        level = crossings.level(machine, name)
        nbytes = read + write
        rate = None
        if level is not None and nbytes:
            rate = bytes_per_s(level, scope, write / nbytes, nearest=number == 0)
        intensity = report.flop / nbytes if nbytes else None
        roof = share = None
        if rate is not None and intensity is not None and report.flop and peak is not None:
            roof = min(intensity * rate, peak.value)
        if run is not None and run.median_s:
            if roof:
                share = report.flop / run.median_s / roof
            elif rate and not report.flop:
                share = nbytes / run.median_s / rate
        points.append(
            Point(
                level=name if level is None else level.name,
                read_bytes=read,
                write_bytes=write,
                bytes_per_s=rate,
                time_s=_level_s(report, machine, number, scope, 1),
                intensity=intensity,
                roof_flop_per_s=roof,
                share=share,
            )
        )
    return tuple(points)


def _level_s(
    report: LoopReport,
    machine: Machine,
    number: int,
    scope: Scope,
    threads: int,
    past_caches: bool = False,
    timing: CoreTiming | None = None,
) -> float | None:
    """Seconds of the level that serves crossing `number`; None where its rate is not known."""
    name, read, write = crossings.of(report)[number]
    level = crossings.level(machine, name)
    nbytes = read + write
    if nbytes == 0:
        return 0.0
    if level is None:
        return None
    past = past_caches and is_main_memory(level)
    rate = bytes_per_s(level, scope, write / nbytes, nearest=number == 0, past_caches=past)
    if rate is None:
        return None
    if number == 0:
        return nbytes / rate
    return nbytes / rate + waiting.seconds(report, machine, level, number, rate, timing) / threads


def predict(
    report: LoopReport,
    machine: Machine,
    threads: int = 1,
    *,
    past_caches: bool = False,
    timing: CoreTiming | None = None,
    team: TeamTiming | None = None,
) -> Predicted | None:
    """What a warm run takes on so many threads; None where a rate is not known.

    Args:
        report: of a loop.
        machine: a CPU.
        threads: each on a core of its own; what does not lie in prange runs on one of them.
        past_caches: its counts are those of non-temporal stores, which cross to the memory alone.
        timing: how long its core's operations take; those of a usual core by default.
        team: how long its teams of threads take to start; a usual time by default.
    """

    def with_kept(share: kept.Kept) -> Predicted | None:
        counted = kept.expected(report, share)
        found = _predicted(counted, machine, threads, past_caches, timing, team)
        return None if found is None else msgspec.structs.replace(found, kept_share=share.missed)

    share = kept.of_run(report, machine, 0.0, threads)
    predicted = with_kept(share)
    for _ in range(_TURNS if share != kept.AS_SIMULATED else 0):
        if predicted is not None:
            # what is kept depends on how long it is kept, and that on what is
            predicted = with_kept(kept.of_run(report, machine, predicted.time_s, threads))
    if predicted is None or share == kept.AS_SIMULATED or predicted.low_s is None or predicted.high_s is None:
        return predicted
    fewer, more = (
        with_kept(kept.of_run(report, machine, predicted.time_s, threads, crowd=crowd))
        for crowd in (1 / _CROWD, _CROWD)
    )
    return bars.widened(predicted, fewer and fewer.time_s, more and more.time_s)


def _predicted(
    report: LoopReport,
    machine: Machine,
    threads: int,
    past_caches: bool,
    timing: CoreTiming | None,
    team: TeamTiming | None,
) -> Predicted | None:
    """The same of a report whose counts are those expected."""
    terms = []
    for number, (name, _, _) in enumerate(crossings.of(report)):
        seconds = _level_s(report, machine, number, "core", 1, past_caches, timing)
        if seconds is None:
            return None
        level = crossings.level(machine, name)
        terms.append(_Term(name if level is None else level.name, seconds))
    hertz = _clock_hz(machine)
    row = microarchitecture.stated(machine.environment)
    known = timing or machine.core
    if known is None and hertz is not None:
        known = in_core.usual(1 / hertz) if row is None else in_core.of_microarchitecture(row, 1 / hertz)
    if known is not None and row is not None:
        known = in_core.with_room_of(row, known)
    if known is not None:
        known = blas_calls.with_calls(report, machine, known)
    profiled = report.core_loops and known is not None
    loops: tuple[LoopTime, ...] = ()
    cycles: tuple[in_core.LoopCycles, ...] = ()
    if profiled and known is not None:
        late = late_branches.cycles_by_line(report, machine, known.cycle_s)
        cycles = in_core.of_loops(report.core_loops, known, late)
        loops = in_core.times_of(cycles, known.cycle_s, 1)
        why = max(cycles, key=lambda each: each.total).why
        core: _Term | None = _Term(why, sum(each.time_s for each in loops))
        # its loads and stores are among the core's resources
        terms[0] = terms[0]._replace(seconds=0.0)
    else:
        core = _in_core(report, machine, 1)
    if core is None:
        return None
    busy = sum(each.throughput + blas_calls.busy_cycles(each.calls) for each in cycles)
    busy_s = 0.0 if known is None else busy * known.cycle_s
    beside = _beside(report, machine, terms, busy_s, core.seconds)
    measured = bool(loops) and known is not None and known.measured
    if threads > 1:
        return _on_threads(report, machine, threads, terms, core, loops, team, past_caches, measured, beside)
    every = [*terms, core]
    memory_s = _data_movement_s(report, terms) + beside.walks_s
    parts = composed.parts_of(report, loops)
    time_s, beside_s = composed.of(core.seconds, _moved_s(report, terms), beside, parts)
    half_s = None
    if profiled:
        waiting_s = memory_s * (1 - beside.streamed)
        half_s = bars.half_width_s(loops, time_s, core.seconds, memory_s, waiting_s, beside_s)
    return Predicted(
        threads=1,
        core_s=core.seconds,
        core_why=core.name,
        overlapped_s=max(each.seconds for each in every),
        serial_s=sum(each.seconds for each in every),
        time_s=time_s,
        low_s=None if half_s is None else max(time_s - half_s, 0.1 * time_s),
        high_s=None if half_s is None else time_s + half_s,
        bound=_bound(memory_s, core.seconds),
        binds=(core if core.seconds > memory_s else max(terms, key=lambda each: each.seconds)).name,
        loops=loops,
        core_measured=measured,
        levels_s={each.name: each.seconds for each in terms[1:]},
    )


def _beside(
    report: LoopReport, machine: Machine, terms: list[_Term], busy_s: float, core_s: float
) -> composed.Beside:
    memory_s = _data_movement_s(report, terms)
    streamed = _streamed_share(report, machine, terms, "core")
    name, _, _ = crossings.of(report)[0]
    _, read, written = crossings.of(report)[1] if len(terms) > 1 else ("", 0.0, 0.0)
    nearest, plain_s = crossings.level(machine, name), 0.0
    if nearest is not None and read + written:
        rate = bytes_per_s(nearest, "core", written / (read + written), nearest=True)
        plain_s = (read + written) / rate if rate else 0.0
    more = max(0.0, busy_s - plain_s) / core_s if core_s else 0.0
    far = min(1.0, streamed * terms[-1].seconds / memory_s) if memory_s else 0.0
    walks_s = waiting.walks_s(report, machine)
    return composed.Beside(busy_s / core_s if core_s else 0.0, streamed, more, far, walks_s)


def _on_threads(
    report: LoopReport,
    machine: Machine,
    threads: int,
    terms: list[_Term],
    core: _Term,
    loops: tuple[LoopTime, ...],
    team: TeamTiming | None,
    past_caches: bool,
    measured: bool,
    beside: composed.Beside,
) -> Predicted | None:
    """The same on so many threads, from what one core takes for its loops and each level."""
    split = teams.of_core(report, loops, threads)
    crowded = teams.slowed_by(loops, teams.crowding(machine, threads))
    alone, together = core.seconds * (1 - split.inside), core.seconds * split.inside
    in_turn = composed.parts_of(report, loops)
    outside: list[_Term] = []
    moved: list[tuple[str, teams.Crossing]] = []
    for number, ((name, read, write), term) in enumerate(zip(crossings.of(report), terms, strict=True)):
        nbytes, level = read + write, crossings.level(machine, name)
        near = None if number == 0 else (report.warm or report.simulation).levels[number - 1].name
        part = teams.of_level(report, near, threads)
        outside.append(term._replace(seconds=term.seconds * (1 - part.inside)))
        if not term.seconds or level is None or not nbytes:
            moved.append((term.name, teams.Crossing(0.0, 0.0, 0.0, part.largest)))
            continue
        past = past_caches and is_main_memory(level)
        mix = {"nearest": number == 0, "past_caches": past}
        one = bytes_per_s(level, "core", write / nbytes, **mix)
        if one is None:
            return None
        several = teams.rate_of(level, machine, threads, one, bytes_per_s(level, "all", write / nbytes, **mix))
        waiting = max(0.0, term.seconds - nbytes / one)
        share = part.inside
        moved.append(
            (
                term.name,
                teams.Crossing(share * nbytes / one, share * nbytes / several, share * waiting, part.largest),
            )
        )

    def inside_s(*, even: bool, limited: bool, crowd: bool) -> float:
        core_s = together * (1 / threads if even else split.largest) * (crowded if crowd else 1.0)
        parts = [_Term(name, each.seconds(threads, even=even, limited=limited)) for name, each in moved]
        walked = beside._replace(walks_s=beside.walks_s * (1 / threads if even else split.largest))
        return composed.of(core_s, _moved_s(report, parts), walked, in_turn).time_s

    before_s = composed.of(alone, _moved_s(report, outside), beside._replace(walks_s=0.0), in_turn).time_s
    team_s = split.entries * teams.fork_s(machine, threads, team)
    shared_s = inside_s(even=False, limited=True, crowd=True)
    parts = [_Term(name, each.seconds(threads, even=False, limited=True)) for name, each in moved]
    core_s = alone + together * split.largest * crowded
    levels = [a._replace(seconds=a.seconds + b.seconds) for a, b in zip(outside, parts, strict=True)]
    memory_s = _data_movement_s(report, levels)
    slowest = max(levels, key=lambda each: each.seconds)
    every = [*levels, core._replace(seconds=core_s)]
    ideal = inside_s(even=True, limited=False, crowd=False)
    crowd_s, even_s = (
        inside_s(even=True, limited=False, crowd=True),
        inside_s(even=True, limited=True, crowd=True),
    )
    binds = "fork and join" if team_s > max(core_s, memory_s) else core.name if core_s > memory_s else slowest.name
    return Predicted(
        threads=threads,
        core_s=core_s,
        core_why=core.name,
        overlapped_s=max(each.seconds for each in every) + team_s,
        serial_s=sum(each.seconds for each in every) + team_s,
        time_s=before_s + shared_s + team_s,
        bound="overhead-bound" if team_s > max(core_s, memory_s) else _bound(memory_s, core_s),
        binds=binds,
        loops=teams.divided(report, loops, threads, crowded),
        core_measured=measured,
        levels_s={each.name: each.seconds for each in levels[1:]},
        team_s=team_s,
        lost_s={
            "fork and join": team_s,
            "outside of prange": before_s * (1 - 1 / threads),
            "shared cores or lower clocks": crowd_s - ideal,
            slowest.name: even_s - crowd_s,
            "uneven shares": shared_s - even_s,
        },
    )


def _data_movement_s(report: LoopReport, terms: list[_Term]) -> float:
    """Seconds of the data's way from memory to the registers."""
    return sum(_moved_s(report, terms))


def _moved_s(report: LoopReport, terms: list[_Term]) -> list[float]:
    """Of them those of each crossing: of each nearer level, what more it moves."""
    crossing = [read + write for _, read, write in crossings.of(report)]
    found = [terms[0].seconds]
    for number in range(1, len(terms)):
        beyond = max(crossing[number + 1 :], default=0.0)
        more = max(0.0, 1 - beyond / crossing[number]) if crossing[number] else 0.0
        found.append(terms[number].seconds * more)
    return found


def _streamed_share(report: LoopReport, machine: Machine, terms: list[_Term], scope: Scope) -> float:
    """The share of the levels' time that is that of their bytes alone, without waiting for irregular misses."""
    total = sum(each.seconds for each in terms[1:])
    bytes_s = 0.0
    for number, (name, read, write) in enumerate(crossings.of(report)[1:], 1):
        level = crossings.level(machine, name)
        rate = level and read + write and bytes_per_s(level, scope, write / (read + write), nearest=False)
        bytes_s += min((read + write) / rate, terms[number].seconds) if rate else 0.0
    return bytes_s / total if total else 1.0


def _bound(memory_s: float, core_s: float) -> Bound:
    if min(memory_s, core_s) >= BALANCED * max(memory_s, core_s):
        return "balanced"
    return "memory-bound" if memory_s > core_s else "compute-bound"


def _in_core(report: LoopReport, machine: Machine, threads: int) -> _Term | None:
    """What the arithmetic, the loads and the chains of one iteration after the other take, from the main loop."""
    hertz = _clock_hz(machine)
    peak = _peak(report, machine, "core" if threads == 1 else "all")
    code = report.code
    terms = [_Term("nothing to compute", 0.0)]
    vector = sum(each.count for each in report.flop_by if each.engine == "vector")
    special = sum(each.count for each in report.flop_by if each.engine == "special")
    if peak is not None and report.flop:
        # numba joins no product and sum without fastmath: half of the FMA rate, as each is one instruction.
        terms.append(_Term(f"{peak.dtype} {peak.engine or 'vector'}", vector / (peak.value / 2)))
    elif report.flop and hertz is None:
        return None
    if hertz is not None:
        constant = load_family("cpu")
        lanes = 1 if code is None else code.lanes
        called = code is not None and any(name != "sqrt" for name in code.calls)
        cycles = constant("loop.call_cycles") if called else constant("loop.special_cycles") / lanes
        terms.append(_Term("division and functions", special * cycles / hertz / threads))
        if code is not None and code.chain:
            latency = code.chain * _add_latency(machine) / _chains_at_once(code, constant) / hertz / threads
            terms.append(_Term("a chain of additions", latency))
        if code is not None and code.passes:
            cycles = _instruction_cycles(code, code.passes, constant)
            terms.append(_Term("instructions", cycles / hertz / threads))
    return max(terms, key=lambda each: each.seconds)


def _chains_at_once(code: Code, constant: Constants) -> float:
    """How many entries of a short loop a core works on at once: each begins a chain of its own."""
    if not (code.passes and code.entries and code.instructions):
        return 1.0
    return max(1.0, constant("loop.window_instructions") / (code.instructions * code.passes / code.entries))


def _instruction_cycles(code: Code, passes: float, constant: Constants) -> float:
    """Cycles to issue the instructions of the innermost loop: whole passes, what each entry leaves, entries."""
    cycles = max(
        code.instructions / constant("loop.instructions_per_cycle"),
        code.loads / constant("loop.loads_per_cycle"),
        code.stores / constant("loop.stores_per_cycle"),
    )
    if not code.entries or not code.trips:
        return passes * cycles
    each, unrolled = code.trips / code.entries, code.trips / passes
    whole = each // unrolled
    # What no pass holds runs element by element.
    single = (each - whole * unrolled) * cycles * min(code.lanes / unrolled, 1.0)
    return code.entries * (whole * cycles + single + constant("loop.entry_cycles"))


def _peak(report: LoopReport, machine: Machine, scope: Scope) -> Rate | None:
    """The peak of the number format that most FLOP are in, on the unit that the compiled loop uses."""
    if not report.flop_by:
        return None
    dtype = {"complex64": "fp32", "complex128": "fp64"}.get(report.flop_by[0].dtype, report.flop_by[0].dtype)
    scalar = report.code is not None and not report.code.vectorised
    for engine in ("scalar", "vector") if scalar else ("vector",):
        same = [each for each in machine.peaks if each.engine == engine and each.what in ("fma", "fma+add", "any")]
        chosen = msgspec.structs.replace(machine, peaks=tuple(same))
        rate = chosen.peak(dtype, scope=scope, basis="attained") or chosen.peak(dtype, scope=scope)
        if rate is not None:
            return rate
    return machine.peak(dtype, scope=scope)


def _clock_hz(machine: Machine) -> float | None:
    rates = [each for each in machine.clocks if each.basis == "attained"] or list(machine.clocks)
    return max((each.value for each in rates), default=None)


def _add_latency(machine: Machine) -> float:
    row_of_table = microarchitecture.stated(machine.environment)
    latency = None if row_of_table is None else row_of_table.add_latency_cycles
    return load_family("cpu")("loop.add_latency_cycles") if latency is None else float(latency)
