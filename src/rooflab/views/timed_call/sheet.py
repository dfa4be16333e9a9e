"""What is shown of a timed call: its times and what they are worth, what it asks for, what went on beside."""

from __future__ import annotations

from collections.abc import Iterator

from rooflab.types.own_time import OwnTime
from rooflab.types.timed_call import CallTimes, Surroundings, TimedCall
from rooflab.units import duration, percent, si
from rooflab.views.common.lines import Lines
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table, lasting, quantity, without_empty

_LONGEST = 70  # letters of a name in a heading
_OPERATIONS = 12


def sheet_of(timed: TimedCall) -> Sheet:
    """What is shown of `timed`."""
    from rooflab.views.report import own_times, tables

    report, operations, suspects = timed.report, (), Table("", (), ())
    if report is not None:
        if len(report.rows) > 1:
            by = "bytes" if report.time_at_least_s is None else "time"
            operations = (tables.operations(report, by, _OPERATIONS),)
        suspects = own_times.suspects(report)
    return Sheet(
        _headline(timed),
        "a timed call",
        sentences=tuple(_sentences(timed)),
        tables=(_times(timed), suspects, *operations, _around(timed)),
        warnings=(*timed.warnings, *(() if report is None else report.warnings)),
        notes=tuple(_notes(timed)),
        advice=None if report is None else report.advice,
    )


def _headline(timed: TimedCall) -> str:
    name = timed.name if len(timed.name) <= _LONGEST else f"{timed.name[: _LONGEST - 1]}…"
    cold = "" if timed.cold is None else f"; {duration(timed.cold.median_s)} with cold caches"
    return f"{name}: {duration(timed.time_s)}{_between(timed.warm)}{cold}"


def _between(one: CallTimes) -> str:
    return "" if one.low_s is None or one.high_s is None else f" ({duration(one.low_s)} to {duration(one.high_s)})"


def _sentences(timed: TimedCall) -> Iterator[str]:
    report = timed.report
    if timed.returns_s is not None:
        returns = duration(timed.returns_s)
        yield f"It returns after {returns}; the rest of its work is done later, and was waited for."
    if report is None:
        yield f"Not counted: {timed.uncounted}."
        return
    from rooflab.views.report import tables, verdict

    if report.machine is None or report.prediction is None:
        yield f"It asks for {_asks(timed)}."
    if report.prediction is not None:
        yield f"{verdict.headline(report)}."
    for one in timed.states:
        if one.own is not None and report.machine is not None:
            yield _judged(one, one.own)
    if not report.coverage.complete:
        yield from tables.coverage(report)


def _asks(timed: TimedCall) -> str:
    """FLOP and bytes, and how many a second that is."""
    report = timed.report
    assert report is not None
    if not report.coverage.counted:
        return "what is not known: no operation was counted"
    least = "" if report.coverage.complete else "more than "
    parts = []
    for value, unit in ((report.flop, "FLOP"), (report.nbytes, "B")):
        if value:
            rate = f" ({least}{si(value / timed.time_s, f'{unit}/s')})" if timed.time_s else ""
            parts.append(f"{least}{si(value, unit)}{rate}")
    return " and ".join(parts) or "no FLOP and no bytes"


def _judged(one: CallTimes, own: OwnTime) -> str:
    """One state's time beside its prediction and its nearest roof."""
    said = []
    if own.of_prediction is not None and own.predicted_s is not None:
        where = {
            "inside": "within its bar",
            "slower": "slower than its bar",
            "faster": "faster than its bar",
            "below floor": "below its floor: other work was timed, or the machine's rates are too low",
        }[own.verdict]
        said.append(f"{own.of_prediction:.3g} × the predicted {duration(own.predicted_s)}, {where}")
    if own.of_roof is not None:
        above = {
            "warm": ", which it cannot have gone through: a cache held the data",
            "cold": ", more than the machine is said to do: measure it again",
        }[one.caches]
        over = above if own.of_roof > 1 else ""
        said.append(f"{own.of_roof * 100:.3g} % of its nearest roof, {own.roof}{over}")
    return f"{one.caches.capitalize()}, {duration(one.median_s)}: {'; '.join(said) or 'no prediction'}."


def _times(timed: TimedCall) -> Table:
    report = timed.report
    whole = report is not None and report.coverage.complete
    rows = []
    for one in timed.states:
        own = one.own
        flop = (
            report.flop / one.median_s if report is not None and whole and report.flop and one.median_s else None
        )
        moved = (
            report.nbytes / one.median_s
            if report is not None and whole and report.nbytes and one.median_s
            else None
        )
        rows.append(
            (
                one.caches,
                duration(one.median_s),
                lasting(one.low_s),
                lasting(one.high_s),
                duration(one.best_s),
                f"{one.calls:,}",
                lasting(None if own is None else own.predicted_s),
                lasting(None if own is None else own.floor_s),
                quantity(flop, "FLOP/s"),
                quantity(moved, "B/s"),
            )
        )
    columns = ("caches", "median", "from", "to", "best", "calls", "predicted", "floor", "FLOP/s", "B/s")
    note = "from, to: the medians of its quickest and its slowest block, 1 % beyond."
    return without_empty("One call", columns, rows, note=note)


def _around(timed: TimedCall) -> Table:
    around = timed.surroundings
    rows = [
        ("work is done by", timed.device),
        ("first call timed", duration(timed.first_s)),
        ("warm-up", f"{timed.warm_up_calls:,} calls in {duration(timed.warm_up_s)}{_stable(timed)}"),
        ("clock of a core under load", _clock(around)),
        ("other processes", _share(around.others_share, around)),
        ("other guests of the host", _share(around.stolen_share, around)),
    ]
    rows += [(f"threads of {name}", str(count)) for name, count in around.threads.items()]
    return Table("Beside it", ("what", ""), tuple(row for row in rows if row[1] != UNKNOWN), words=2)


def _stable(timed: TimedCall) -> str:
    if timed.stable is None:
        return ""
    return ", stable" if timed.stable else ", not stable"


def _clock(around: Surroundings) -> str:
    known = [one for one in (around.clock_before_hz, around.clock_after_hz) if one]
    return ", then ".join(si(one, "Hz") for one in known) or UNKNOWN


def _share(share: float | None, around: Surroundings) -> str:
    cpus = f"{around.cpus} CPU{'s' if around.cpus > 1 else ''}"
    return UNKNOWN if share is None else f"{percent(share, 1)} of the time of {cpus}"


def _notes(timed: TimedCall) -> Iterator[str]:
    yield from timed.notes
    if timed.report is not None:
        yield from timed.report.conventions


def lines(timed: TimedCall) -> Lines:
    """A line for each state of the caches, in base units; unknown is empty."""
    columns = ("caches", "median_s", "low_s", "high_s", "best_s", "calls")
    more = ("predicted_s", "floor_s", "roof", "of_roof", "verdict")
    report = timed.report
    whole = report is not None and report.coverage.complete
    rows = [
        (
            timed.name,
            *(getattr(one, name) for name in columns),
            *(None if one.own is None else getattr(one.own, name) for name in more),
            report.flop if report is not None and whole else None,
            report.nbytes if report is not None and whole else None,
        )
        for one in timed.states
    ]
    return Lines(("name", *columns, *more, "flop", "bytes"), rows)
