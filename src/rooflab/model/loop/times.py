"""How long a run of a loop would take on a machine, one core or several.

Traffic by level comes from the simulation, rates from the machine. The time is that of the execution-cache-memory
model (Stengel, Treibig, Hager, Wellein, "Quantifying performance bottlenecks of stencil computations using the
ECM model", ICS 2015): what the core computes goes on beside the data; the data's way takes the sum of its steps.
Bandwidths of a level are measured with all nearer ones in the way, so that those add what more they move. Accesses
that no prefetcher foresees wait for the latency of what serves them, several at once.
"""

from __future__ import annotations

import msgspec

from rooflab.machines import microarchitecture
from rooflab.model.loop import (
    bars,
    blas_calls,
    composed,
    cores,
    crossings,
    in_core,
    kept,
    late_branches,
    main_loop,
    picked,
    rates,
    reordered,
    teams,
    waiting,
)
from rooflab.model.roofline.roofline import BALANCED
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import LoopReport, LoopTime, Predicted
from rooflab.types.machine import Machine, Scope, is_main_memory
from rooflab.types.prediction import Bound
from rooflab.types.team_timing import TeamTiming

_NS = 1e-9
_TURNS = 1  # of what is kept and how long it takes
_CROWD = 1.4  # what a shared cache keeps changes with its neighbours: as if by so much less or more to keep


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
    if threads > 1 and report.team_loops:
        own = msgspec.structs.replace(report, core_loops=report.team_loops, team_loops=())

        def of(one: LoopReport, count: int) -> Predicted | None:
            return predict(one, machine, count, past_caches=past_caches, timing=timing, team=team)

        return teams.with_own_code(of(own, threads), of(report, 1), of(own, 1), report.spread_by)
    report = reordered.as_compiled(report)

    def with_kept(share: kept.Kept) -> Predicted | None:
        counted = kept.expected(report, share)
        found = _predicted(counted, machine, threads, past_caches, timing, team)
        return None if found is None else msgspec.structs.replace(found, kept_share=share.missed)

    share = kept.of_run(report, machine, 0.0, threads)
    predicted = with_kept(share)
    for _ in range(0 if share.is_all else _TURNS):
        if predicted is not None:
            # what is kept depends on how long it is kept, and that on what is
            predicted = with_kept(kept.of_run(report, machine, predicted.time_s, threads))
    if predicted is None or share.is_all or predicted.low_s is None or predicted.high_s is None:
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
    terms, whole = [], report
    # what data pick is no stream: it is looked at beside the core's own work
    report = picked.without(report)
    for number, (name, _, _) in enumerate(crossings.of(report)):
        seconds = rates.level_s(report, machine, number, "core", 1, past_caches, timing)
        if seconds is None:
            return None
        level = crossings.level(machine, name)
        terms.append(main_loop.Term(name if level is None else level.name, seconds))
    hertz = main_loop.clock_hz(machine)
    row = microarchitecture.stated(machine.environment)
    known = timing or machine.core
    if known is None and hertz is not None:
        known = cores.usual(1 / hertz) if row is None else cores.of_microarchitecture(row, 1 / hertz)
    if known is not None and row is not None:
        known = cores.with_room_of(row, known)
    if known is not None:
        known = blas_calls.with_calls(report, machine, known)
    profiled = report.core_loops and known is not None
    loops: tuple[LoopTime, ...] = ()
    cycles: tuple[in_core.LoopCycles, ...] = ()
    if profiled and known is not None:
        late = late_branches.cycles_by_line(whole, machine, known.cycle_s)
        cycles = in_core.of_loops(report.core_loops, known, late)
        loops = in_core.times_of(cycles, known.cycle_s, 1)
        why = max(cycles, key=lambda each: each.total).why
        core: main_loop.Term | None = main_loop.Term(why, sum(each.time_s for each in loops))
        # its loads and stores are among the core's resources
        terms[0] = terms[0]._replace(seconds=0.0)
    else:
        core = main_loop.in_core(report, machine, 1)
    if core is None:
        return None
    busy = sum(each.throughput + blas_calls.busy_cycles(each.calls) for each in cycles)
    busy_s = 0.0 if known is None else busy * known.cycle_s
    window_s = 0.0 if known is None else _window_s(report, known, core.seconds)
    beside = _beside(report, machine, terms, busy_s, core.seconds, window_s)
    # without a clock the cycle of the latencies' own unit does
    waits = picked.waits(whole, machine, cycles, known or cores.usual(_NS))
    beside = beside._replace(picked_s=waits.seconds)
    measured = bool(loops) and known is not None and known.measured
    how: bars.Core = "measured" if measured else "usual" if row is None else "by_table"
    # what data pick comes no sooner than bytes of a stream do
    as_bytes = [] if report is whole else _as_bytes(whole, machine, past_caches)
    if threads > 1:
        found = _on_threads(report, machine, threads, terms, core, loops, team, past_caches, how, beside, waits)
        if not as_bytes or found is None:
            return found
        streams, plain = msgspec.structs.replace(whole, gathered={}, chased={}), beside._replace(picked_s=0.0)
        nothing = picked.Waits({})
        other = _on_threads(
            streams, machine, threads, as_bytes, core, loops, team, past_caches, how, plain, nothing
        )
        return found if other is None or other.time_s < found.time_s else other
    shown = _with_waits(terms, machine, waits)
    overlapped_s, serial_s = _ends(shown, core.seconds, beside.walks_s)
    streamed_s = _data_movement_s(report, terms) + beside.walks_s
    memory_s = streamed_s + waits.seconds
    parts = composed.parts_of(report, loops)
    time_s, beside_s = composed.of(core.seconds, _moved_s(report, terms), beside, parts)
    if as_bytes:
        moved_s, in_turn = _moved_s(whole, as_bytes), composed.parts_of(whole, loops)
        time_s = max(time_s, composed.of(core.seconds, moved_s, beside._replace(picked_s=0.0), in_turn).time_s)
        if sum(moved_s) > memory_s:
            memory_s, shown = sum(moved_s), as_bytes
    team_s = teams.alone_s(report, machine, team)
    time_s += team_s
    nearest = core if core.seconds > memory_s else max(shown, key=lambda each: each.seconds)
    outside = team_s > max(core.seconds, memory_s)
    predicted = Predicted(
        threads=1,
        core_s=core.seconds,
        core_why=core.name,
        overlapped_s=overlapped_s + team_s,
        serial_s=serial_s + team_s,
        time_s=time_s,
        bound="overhead-bound" if outside else _bound(memory_s, core.seconds),
        binds="fork and join" if outside else nearest.name,
        loops=loops,
        core_measured=measured,
        levels_s={each.name: each.seconds for each in shown[1:]},
        team_s=team_s,
    )
    waiting_s = min(memory_s, streamed_s * (1 - beside.streamed) + waits.seconds)
    taken = bars.Taken(time_s, loops, core.seconds, memory_s, waiting_s, beside_s, team_s)
    return _with_bars(predicted, taken, how, rates.attained(report, machine, "core")) if profiled else predicted


def _with_bars(predicted: Predicted, taken: bars.Taken, how: bars.Core, rates_measured: bool) -> Predicted:
    return bars.around(predicted, bars.errors(bars.parts(taken), how, rates_measured=rates_measured))


def _as_bytes(report: LoopReport, machine: Machine, past_caches: bool) -> list[main_loop.Term]:
    """What each level takes for all bytes that cross, those too that data pick; what L1 gives is the core's."""
    streams = msgspec.structs.replace(report, gathered={}, chased={})
    terms = [main_loop.Term("L1", 0.0)]
    for number, (name, _, _) in list(enumerate(crossings.of(report)))[1:]:
        level = crossings.level(machine, name)
        seconds = rates.level_s(streams, machine, number, "core", 1, past_caches)
        terms.append(main_loop.Term(name if level is None else level.name, seconds or 0.0))
    return terms


def _with_waits(terms: list[main_loop.Term], machine: Machine, waits: picked.Waits) -> list[main_loop.Term]:
    """`terms` of streams with what picked places wait for at each level."""
    by_name: dict[str, float] = {}
    for name, seconds in waits.by_level.items():
        level = crossings.level(machine, name)
        by_name[name if level is None else level.name] = seconds
    return [each._replace(seconds=each.seconds + by_name.get(each.name, 0.0)) for each in terms]


def _window_s(report: LoopReport, known: CoreTiming, core_s: float) -> float:
    """How long the core goes on with what it has begun, in the mean."""
    instructions = sum(each.operations.get("slot", 0.0) for each in report.core_loops)
    return known.window / instructions * core_s if instructions else 0.0


def _beside(
    report: LoopReport,
    machine: Machine,
    terms: list[main_loop.Term],
    busy_s: float,
    core_s: float,
    window_s: float,
) -> composed.Beside:
    memory_s = _data_movement_s(report, terms)
    streamed = _streamed_share(report, machine, terms, "core")
    name, _, _ = crossings.of(report)[0]
    _, read, written = crossings.of(report)[1] if len(terms) > 1 else ("", 0.0, 0.0)
    nearest, plain_s = crossings.level(machine, name), 0.0
    if nearest is not None and read + written:
        rate = rates.bytes_per_s(nearest, "core", written / (read + written), nearest=True)
        plain_s = (read + written) / rate if rate else 0.0
    more = max(0.0, busy_s - plain_s) / core_s if core_s else 0.0
    far = min(1.0, streamed * terms[-1].seconds / memory_s) if memory_s else 0.0
    walks_s = waiting.walks_s(report, machine)
    jumps_s = waiting.jumps_s(report, machine, window_s)
    return composed.Beside(busy_s / core_s if core_s else 0.0, streamed, more, far, walks_s, jumps_s)


def _on_threads(
    report: LoopReport,
    machine: Machine,
    threads: int,
    terms: list[main_loop.Term],
    core: main_loop.Term,
    loops: tuple[LoopTime, ...],
    team: TeamTiming | None,
    past_caches: bool,
    how: bars.Core,
    beside: composed.Beside,
    waits: picked.Waits,
) -> Predicted | None:
    """The same on so many threads, from what one core takes for its loops and each level."""
    split = teams.of_core(report, loops, threads)
    crowded = teams.slowed_by(loops, teams.crowding(machine, threads))
    alone, together = core.seconds * (1 - split.inside), core.seconds * split.inside
    in_turn = composed.parts_of(report, loops)
    outside: list[main_loop.Term] = []
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
        one = rates.bytes_per_s(level, "core", write / nbytes, **mix)
        if one is None:
            return None
        several = teams.rate_of(
            level, machine, threads, one, rates.bytes_per_s(level, "all", write / nbytes, **mix)
        )
        waiting = max(0.0, term.seconds - nbytes / one)
        share = part.inside
        moved.append(
            (
                term.name,
                teams.Crossing(share * nbytes / one, share * nbytes / several, share * waiting, part.largest),
            )
        )

    def inside(*, even: bool, limited: bool, crowd: bool) -> composed.Composed:
        core_s = together * (1 / threads if even else split.largest) * (crowded if crowd else 1.0)
        parts = [main_loop.Term(name, each.seconds(threads, even=even, limited=limited)) for name, each in moved]
        mine = 1 / threads if even else split.largest
        walked = beside._replace(walks_s=beside.walks_s * mine, jumps_s=beside.jumps_s * mine)
        walked = walked._replace(picked_s=beside.picked_s * mine)
        return composed.of(core_s, _moved_s(report, parts), walked, in_turn)

    by_one = beside._replace(walks_s=0.0, jumps_s=0.0, picked_s=0.0)
    before = composed.of(alone, _moved_s(report, outside), by_one, in_turn)
    before_s = before.time_s
    team_s = split.entries * teams.fork_s(machine, threads, team)
    shared = inside(even=False, limited=True, crowd=True)
    shared_s = shared.time_s
    taken_s = teams.shared_lines_s(report, machine, threads)
    handed_s = teams.handed_out_s(report, threads, team)
    parts = [main_loop.Term(name, each.seconds(threads, even=False, limited=True)) for name, each in moved]
    core_s = alone + together * split.largest * crowded
    levels = [a._replace(seconds=a.seconds + b.seconds) for a, b in zip(outside, parts, strict=True)]
    mine = picked.Waits({name: each * split.largest for name, each in waits.by_level.items()})
    memory_s = _data_movement_s(report, levels) + mine.seconds
    levels = _with_waits(levels, machine, mine)
    slowest = max(levels, key=lambda each: each.seconds)
    overlapped_s, serial_s = _ends(levels, core_s, beside.walks_s * split.largest)
    ideal = inside(even=True, limited=False, crowd=False).time_s
    crowd_s, even_s = (
        inside(even=True, limited=False, crowd=True).time_s,
        inside(even=True, limited=True, crowd=True).time_s,
    )
    binds = "fork and join" if team_s > max(core_s, memory_s) else core.name if core_s > memory_s else slowest.name
    predicted = Predicted(
        threads=threads,
        core_s=core_s,
        core_why=core.name,
        overlapped_s=overlapped_s + team_s,
        serial_s=serial_s + team_s,
        time_s=before_s + shared_s + handed_s + taken_s + team_s,
        bound="overhead-bound" if team_s > max(core_s, memory_s) else _bound(memory_s, core_s),
        binds=binds,
        loops=teams.divided(report, loops, threads, crowded),
        core_measured=how == "measured",
        levels_s={each.name: each.seconds for each in levels[1:]},
        team_s=team_s,
        lost_s={
            "fork and join": team_s,
            f"outside of {report.spread_by}": before_s * (1 - 1 / threads),
            "shared cores or lower clocks": crowd_s - ideal,
            slowest.name: even_s - crowd_s,
            "uneven shares": shared_s - even_s,
            "pieces handed out": handed_s,
            "lines taken from one another": taken_s,
        },
    )
    if not loops:
        return predicted
    taken = bars.Taken(
        predicted.time_s,
        predicted.loops,
        core_s,
        memory_s,
        (memory_s - mine.seconds) * (1 - beside.streamed) + mine.seconds,
        before.beside_s + shared.beside_s,
        team_s,
        max(0.0, shared_s - ideal) + handed_s + taken_s,
    )
    return _with_bars(predicted, taken, how, rates.attained(report, machine, "all"))


def _ends(levels: list[main_loop.Term], core_s: float, walks_s: float) -> tuple[float, float]:
    """The time where core and levels all overlap, and where nothing does; walks of page tables are in both."""
    longest_s = max((each.seconds for each in levels), default=0.0)
    return max(core_s, longest_s + walks_s), core_s + walks_s + sum(each.seconds for each in levels)


def _data_movement_s(report: LoopReport, terms: list[main_loop.Term]) -> float:
    """Seconds of the data's way from memory to the registers."""
    return sum(_moved_s(report, terms))


def _moved_s(report: LoopReport, terms: list[main_loop.Term]) -> list[float]:
    """Of them those of each crossing: of each nearer level, what more it moves."""
    crossing = [read + write for _, read, write in crossings.of(report)]
    found = [terms[0].seconds]
    for number in range(1, len(terms)):
        beyond = max(crossing[number + 1 :], default=0.0)
        more = max(0.0, 1 - beyond / crossing[number]) if crossing[number] else 0.0
        found.append(terms[number].seconds * more)
    return found


def _streamed_share(report: LoopReport, machine: Machine, terms: list[main_loop.Term], scope: Scope) -> float:
    """The share of the levels' time that is that of their bytes alone, without waiting for irregular misses."""
    total = sum(each.seconds for each in terms[1:])
    bytes_s = 0.0
    for number, (name, read, write) in enumerate(crossings.of(report)[1:], 1):
        level = crossings.level(machine, name)
        rate = level and read + write and rates.bytes_per_s(level, scope, write / (read + write), nearest=False)
        bytes_s += min((read + write) / rate, terms[number].seconds) if rate else 0.0
    return bytes_s / total if total else 1.0


def _bound(memory_s: float, core_s: float) -> Bound:
    if min(memory_s, core_s) >= BALANCED * max(memory_s, core_s):
        return "balanced"
    return "memory-bound" if memory_s > core_s else "compute-bound"
