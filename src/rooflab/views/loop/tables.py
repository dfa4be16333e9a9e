"""What the terminal and the page say of a loop, as plain rows of text."""

from __future__ import annotations

from rooflab.types.loop import LoopReport, Predicted, Timed
from rooflab.units import percent, si
from rooflab.views.common.table import UNKNOWN, Table, lasting


def facts(report: LoopReport) -> list[tuple[str, str]]:
    """The totals, in words."""
    flop = (
        ", ".join(f"{si(each.count, 'FLOP')} {each.dtype} {each.engine}" for each in report.flop_by) or "no FLOP"
    )
    share = "" if report.intensity is None else f"; {report.intensity:.3g} FLOP per byte of main memory"
    moved = f"{si(report.accesses, '')} loads and stores ({si(report.accessed_bytes, 'B')})"
    least = "" if report.is_whole else "more than "
    rows = [
        ("Given", "; ".join(f"{name} {value}" for name, value in report.arguments.items())),
        ("Work", f"{least}{flop}; {moved}{share}"),
        ("Loops", "; ".join(_trips(report))),
        ("Caches", f"{report.caches} (simulated)"),
    ]
    if report.runs:
        rows.append(("Measured", "; ".join(_timed(each) for each in report.runs)))
    rows.append((report.spread_by, report.parallel))
    seen = "what can be seen, " if report.unseen else ""
    rows += [("Predicted", seen + _predicted(report, each)) for each in report.predictions]
    if report.prediction is not None:
        rows.append(("Bound", bound(report)))
    if report.code is not None:
        rows.append(("Compiled", _compiled(report)))
    static = report.static
    if static is not None:
        if static.reason is None:
            agrees = "as counted" if static.agrees else "NOT as counted"
            rows.append(("Formula", f"{static.flop} FLOP; {static.accessed_bytes} B accessed ({agrees})"))
        else:
            rows.append(("Formula", f"none: {static.reason}"))
    return rows


def bound(report: LoopReport) -> str:
    """What binds the loop on one core, in one sentence."""
    prediction = report.prediction
    if prediction is None:
        if report.machine is None:
            return "No bound without a machine: give machine= (or --machine), as rooflab measure writes it."
        return f"No bound: {report.machine.name} does not state the rates of every level and of the core."
    # of the bytes that are expected to cross, not of those of a cache that keeps all or nothing
    levels_s = {
        each.level: prediction.levels_s.get(each.level, each.time_s)
        for each in report.points
        if each.time_s is not None
    }
    slowest = max(
        (each for each in report.points if each.level in levels_s), key=lambda each: levels_s[each.level]
    )
    slowest_s = levels_s[slowest.level]
    run = report.run()
    measured = "" if run is None else f" ({si(run.time_s, 's')} measured)"
    whole = f"of {si(prediction.time_s, 's')} predicted on one core{measured}"
    core, level = si(prediction.core_s, "s"), f"{si(slowest_s, 's')} for {si(slowest.nbytes, 'B')}"
    if prediction.kept_share and slowest is report.points[-1]:
        nearer = report.points[-2].level if len(report.points) > 1 else "the cache"
        level += f", {percent(prediction.kept_share)} of which {nearer} is expected to serve still"
    if prediction.binds == slowest.level and prediction.core_s > slowest_s:
        why = f"data movement dominates, mostly {slowest.level} ({level})"
        return f"{prediction.bound}: {why}, {whole}; the core takes {core} ({prediction.core_why})"
    if prediction.binds == slowest.level:
        why = f"{slowest.level} takes {level}, {whole}"
        return f"{prediction.bound}: {why}; the core takes {core} ({prediction.core_why})"
    why = f"the core takes {core} ({prediction.core_why}), {whole}"
    return f"{prediction.bound}: {why}; the slowest level, {slowest.level}, takes {level}"


def levels(report: LoopReport) -> Table | None:
    """The loop at every level of the machine; without a machine the traffic alone."""
    if not report.points:
        rows = [
            (each.level, si(each.read_bytes, "B"), si(each.write_bytes, "B"))
            for each in (report.warm or report.simulation).traffic
        ]
        note = "Give machine= (or --machine) to see its roofs: rooflab measure -o machine.toml writes this one's."
        return Table(
            f"Traffic by level that serves it ({_state(report)})",
            ("level", "read", "written"),
            tuple(rows),
            note=note,
        )
    rows = [
        (
            each.level,
            si(each.read_bytes, "B"),
            si(each.write_bytes, "B"),
            UNKNOWN if each.intensity is None else f"{each.intensity:.3g}",
            UNKNOWN if each.bytes_per_s is None else si(each.bytes_per_s, "B/s"),
            lasting(each.time_s),
            UNKNOWN if each.roof_flop_per_s is None else si(each.roof_flop_per_s, "FLOP/s"),
            UNKNOWN if each.share is None else percent(each.share),
        )
        for each in report.points
    ]
    columns = ("level", "read", "written", "FLOP/B", "bandwidth", "time", "roof", "% of roof")
    note = (
        "One core. L1: what the compiled loop loads and stores (cache-aware); others: what crosses to the nearer"
        " level (hierarchical). Bandwidth: of that level on this mix of reads and writes."
    )
    note += "".join(_remarks(report))
    return Table(f"At every level ({_state(report)})", columns, tuple(rows), note=note)


_MOST_LOOPS = 8


def core_loops(report: LoopReport) -> Table | None:
    """What the core takes for each loop of the compiled code; None where that is not known."""
    prediction = report.prediction
    if prediction is None or not prediction.loops:
        return None
    rows = []
    for each in prediction.loops[:_MOST_LOOPS]:
        more = [f"{name} {lasting(seconds)}" for name, seconds in each.calls_s.items()]
        if each.missed_s:
            where = f" of those on line {each.missed_line}" if each.missed_line else ""
            more.append(f"branches foretold wrongly {lasting(each.missed_s)}, {percent(each.missed_share)}{where}")
        if each.collided_s:
            more.append(f"loads that overtake stores {lasting(each.collided_s)}")
        rows.append(
            (
                f"line {each.line}" if each.line else "no loop",
                lasting(each.time_s),
                f"{each.busiest} {lasting(each.ports_s)}",
                f"{each.chain}{_lines(each.chain_lines)} {lasting(each.chain_s)}" if each.chain else UNKNOWN,
                "; ".join(more) or UNKNOWN,
            )
        )
    source = "timed on this core" if prediction.core_measured else "of a usual core: none was timed"
    note = (
        f"Of the compiled code, in its order of time. Operations: {source}. A loop takes the longer of its busiest"
    )
    note += " resource and its chain; calls and branches foretold wrongly come on top."
    if len(prediction.loops) > _MOST_LOOPS:
        note += f" {len(prediction.loops) - _MOST_LOOPS} more take less."
    return Table("In the core", ("loop", "takes", "busiest", "chain", "on top"), tuple(rows), note=note)


def _lines(lines: tuple[int, ...]) -> str:
    if not lines:
        return ""
    return f" (line{'s' if len(lines) > 1 else ''} {', '.join(str(each) for each in lines)})"


def scaling(report: LoopReport) -> Table | None:
    """Predicted speed-up over numbers of threads, beside those that were run; None without prange."""
    if not report.scaling:
        return None
    one = report.run()
    rows, simulated = [], any(each.memory_bytes is not None for each in report.scaling)
    for each in report.scaling:
        measured = None if one is None or not each.measured_s else one.time_s / each.measured_s
        limit = f"{each.limit} {lasting(each.lost_s[each.limit])}" if each.limit else UNKNOWN
        rows.append(
            (
                str(each.threads),
                lasting(each.time_s),
                lasting(each.measured_s),
                f"{each.speedup:.3g} ×",
                UNKNOWN if measured is None else f"{measured:.3g} ×",
                limit,
                *([_moved(each.memory_bytes), _moved(each.between_bytes)] if simulated else []),
            )
        )
    entries = sum(each.entries for each in report.regions)
    best = max(report.scaling, key=lambda each: each.speedup)
    note = f"{report.spread_by}: {report.parallel}; teams of threads start {entries:,} times a run."
    note += " Each thread on a core of its own. Lost: beyond one thread's time ÷ threads."
    if best.threads < report.scaling[-1].threads:
        note += f" No faster beyond {best.threads} threads."
    columns = ["threads", "predicted", "measured", "speed-up", "measured", "most is lost to"]
    if simulated:
        columns += ["memory traffic", "between cores"]
        note += " Traffic: of one warm run of so many simulated cores, kept coherent."
    return Table("Over cores", tuple(columns), tuple(rows), words=1, note=note)


def _moved(nbytes: int | None) -> str:
    return UNKNOWN if nbytes is None else si(nbytes, "B")


_WAITS = 1.2  # a level that takes longer than that many times its bytes ÷ bandwidth waits for something else


def _remarks(report: LoopReport) -> list[str]:
    """What the columns do not say by themselves: times above bytes ÷ bandwidth, and points above their roof."""
    found = []
    for each in report.points:
        if not each.time_s or not each.bytes_per_s:
            continue
        moved = (each.read_bytes + each.write_bytes) / each.bytes_per_s
        if each.time_s > _WAITS * moved:
            found.append(
                f" {each.level}: {lasting(moved)} of its {lasting(each.time_s)} are bytes ÷ bandwidth, the rest"
                " waiting for the latency of scattered lines."
            )
    above = [each.level for each in report.points if each.share is not None and each.share > 1.05]
    if above:
        found.append(
            f" Above the roof ({', '.join(above)}): the time is of this host, the roof of the machine's file;"
            " where they are two machines, rooflab measure -o machine.toml writes this host's."
        )
    return found


def lines(report: LoopReport) -> Table | None:
    """FLOP, accesses and misses of each line of the source that has any."""
    if not report.lines:
        return None
    names = [level.name for level in report.simulation.levels]
    columns = ("line", "source", "FLOP", "accesses", *(f"{name} misses" for name in names))
    rows = tuple(
        (
            str(each.line),
            each.text,
            short(each.flop),
            short(each.accesses),
            *(short(each.misses.get(name, 0)) for name in names),
        )
        for each in report.lines
    )
    return Table("By line, from empty caches", columns, rows, words=2)


def short(count: int) -> str:
    """`count` to three digits: "1.30 M"."""
    return si(count, "").strip()


def _state(report: LoopReport) -> str:
    return "steady state, warm caches" if report.warm is not None else "from empty caches"


def _trips(report: LoopReport) -> list[str]:
    return [f"{each.variable or 'while'} (line {each.line}) {each.trips:,} trips" for each in report.loops]


def _timed(run: Timed) -> str:
    who = "one core" if run.threads == 1 else f"{run.threads} threads"
    beside = ", disturbed: something else took part of the cores" if run.disturbed else ""
    return (
        f"{who}, {run.cache} {si(run.median_s, 's')} (best {si(run.best_s, 's')}, spread {percent(run.spread)}"
        f" of {run.runs}{beside})"
    )


def _predicted(report: LoopReport, prediction: Predicted) -> str:
    who = "one core" if prediction.threads == 1 else f"{prediction.threads} threads"
    sentence = (
        f"{who} {si(prediction.time_s, 's')}{_bar(prediction)}: {si(prediction.overlapped_s, 's')} where all"
        f" overlaps, {si(prediction.serial_s, 's')} where nothing does; the core alone "
        f"{si(prediction.core_s, 's')} ({prediction.core_why})"
    )
    run = report.run(prediction.threads)
    return (
        sentence
        if run is None or not prediction.time_s
        else f"{sentence}; measured {run.time_s / prediction.time_s:.2f} ×"
    )


def _bar(prediction: Predicted) -> str:
    if prediction.low_s is None or prediction.high_s is None:
        return ""
    most = next(iter(prediction.errors), "")
    why = f", most of that by {most}" if most else ""
    if prediction.errors and not prediction.core_measured:
        why += "; wider as this core's operations were not timed"
    return f" ({si(prediction.low_s, 's')} to {si(prediction.high_s, 's')}{why})"


def _compiled(report: LoopReport) -> str:
    code = report.code
    assert code is not None
    how = f"vectorised, {code.lanes} lanes" if code.vectorised else f"not vectorised: {code.why_not}"
    sentence = f"{how}; a pass of the inner loop has {code.loads} loads, {code.stores} stores and {code.flop} FLOP"
    if code.read_bytes is None or code.write_bytes is None:
        return sentence
    left = (code.read_bytes + code.write_bytes) / report.accessed_bytes
    if left > 0.995:
        return f"{sentence}; all of the source's accesses are left"
    return f"{sentence}; {percent(left)} of the source's accessed bytes are left, the rest stays in registers"


def conditions(report: LoopReport) -> tuple[str, ...]:
    """What must stay in which cache; empty where the nest is not affine."""
    return () if report.static is None else report.static.conditions
