"""Times of the user's own, laid on the rows of a report: which is whose, and what each says."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.own_time import Measurement, Observed, OwnTime
from rooflab.types.report import Report
from rooflab.units import duration, parse

if TYPE_CHECKING:
    from rooflab.types.report import Row

_EXPLAINED = 8  # rows whose times are asked what would explain them: those that are the most seconds off
_LEAST_S = 1e-12  # a clock of 1 THz
_ADDS = 1.02  # rows that add up to so much of the program's time agree with it


class Given(NamedTuple):
    """One time that was given: of which rows together, and what to call them."""

    name: str
    rows: tuple[int, ...]
    time_s: float


def with_times(
    report: Report, times: Any, *, total: Any = None, sums: bool = False, explain: bool = True
) -> Report:
    """See `Report.with_times`."""
    if report.machine is None:
        raise RooflabError(
            f"with_times: {report.name} is on no machine, expected a predicted report: report.on('h200-sxm')"
        )
    if isinstance(times, (Mapping, Sequence)) and not isinstance(times, (str, bytes)):
        given = _by_row(report, times, sums)
    elif total is not None:
        raise RooflabError("with_times: got a time and total=, expected times by row where there is a total")
    else:
        given, total = [], times
    whole_s = None if total is None else seconds(total, "with_times")
    return laid(report, given, whole_s, Measurement(by="given"), explain=explain)


def laid(
    report: Report,
    given: Sequence[tuple[str, tuple[int, ...], float] | Given],
    whole_s: float | None,
    measurement: Measurement,
    *,
    observed: Mapping[int, Observed] | None = None,
    missing: Mapping[int, str] | None = None,
    explain: bool = True,
) -> Report:
    """`report` with the times `given` (name, rows, seconds) and `whole_s` of the program, each judged.

    Args:
        observed: by row, where more than its seconds is known.
        missing: by row, why it has no time.
    """
    known = dict(observed or {})
    timed = [Given(*one) for one in given]
    # A time of all rows is one of the program.
    every = [one for one in timed if len(one.rows) == len(report.rows)]
    if every and whole_s is None:
        whole_s = every[0].time_s
        timed = [one for one in timed if one not in every]
    for one in timed:
        if len(one.rows) == 1:
            known.setdefault(one.rows[0], Observed(time_s=one.time_s))
    alone = [number for number, row in enumerate(report.rows) if row.takes_time]
    if whole_s is not None and len(alone) == 1 and measurement.by == "given":
        known.setdefault(alone[0], Observed(time_s=whole_s))
    rows = tuple(
        msgspec.structs.replace(row, observation=known.get(number), unobserved=(missing or {}).get(number))
        for number, row in enumerate(report.rows)
    )
    notes = (*measurement.notes, *_more_than_whole(timed, whole_s))
    measurement = msgspec.structs.replace(measurement, notes=notes)
    report = msgspec.structs.replace(report, rows=rows, measured_s=whole_s, measurement=measurement)
    return msgspec.structs.replace(report, own_times=tuple(_judged(report, timed, whole_s, explain)))


def _judged(report: Report, timed: Sequence[Given], whole_s: float | None, explain: bool) -> list[OwnTime]:
    from rooflab.model.suspects import rules

    here = report.measurement is not None and report.measurement.by == "timed here"
    found = []
    everything = tuple(range(len(report.rows)))
    if whole_s is not None:
        found.append(rules.own_time(report, report.name, everything, whole_s, explain, here))
    first = [rules.own_time(report, one.name, one.rows, one.time_s, explain=False) for one in timed]
    outside = [n for n, one in enumerate(first) if one.verdict not in ("inside", "unknown")]
    worst = sorted(outside, key=lambda n: -abs(first[n].time_s - (first[n].predicted_s or 0.0)))
    for number in worst[:_EXPLAINED] if explain else ():
        one = timed[number]
        first[number] = rules.own_time(report, one.name, one.rows, one.time_s, here=here)
    return found + first


def _more_than_whole(timed: Sequence[Given], whole_s: float | None) -> tuple[str, ...]:
    rows_s = sum(one.time_s for one in timed)
    if whole_s is None or rows_s <= whole_s * _ADDS:
        return ()
    return (
        f"the rows' times add up to {duration(rows_s)}, more than the {duration(whole_s)} of the program: they "
        "ran side by side there, or timing them one by one adds to each",
    )


def _by_row(report: Report, times: Any, sums: bool) -> list[Given]:
    if isinstance(times, Mapping):
        given = [one for key, value in times.items() for one in _of_key(report, key, value, sums)]
    else:
        if len(times) != len(report.rows):
            raise RooflabError(
                f"with_times: {len(times)} times for {len(report.rows)} rows of {report.name}, expected one for "
                "each, None where it is not known"
            )
        given = [
            _row(report, number, value, f"times[{number}]")
            for number, value in enumerate(times)
            if value is not None
        ]
    if not given:
        raise RooflabError(f"with_times: no time for any of {report.name}'s rows, expected at least one")
    seen: dict[int, str] = {}
    for one in given:
        for number in one.rows:
            if number in seen:
                raise RooflabError(
                    f"with_times: row {number} ({report.rows[number].op.name}) has two times, in {seen[number]!r} "
                    f"and {one.name!r}: expected one for each"
                )
            seen[number] = one.name
    return given


def _of_key(report: Report, key: Any, value: Any, sums: bool) -> list[Given]:
    if isinstance(key, numbers.Integral) and not isinstance(key, bool):
        number = int(key)
        if not 0 <= number < len(report.rows):
            raise RooflabError(
                f"with_times: row {number}, expected 0 to {len(report.rows) - 1}, the rows of {report.name}"
            )
        return [_row(report, number, value, f"row {number}")]
    if not isinstance(key, str):
        raise RooflabError(f"with_times: got the key {key!r:.60}, expected a row's number, a name or a module")
    named = [number for number, row in enumerate(report.rows) if row.op.name == key and timeable(row)]
    if not named:
        inside = _of_module(report, key)
        if not inside:
            raise _unknown(report, key)
        return [Given(key, tuple(inside), seconds(value, key))]
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        if len(value) != len(named):
            raise RooflabError(
                f"with_times: {len(value)} times for {key}, which {len(named)} rows have ({_few(named)}): "
                "expected one for each, in their order, None where it is not known"
            )
        pairs = zip(named, value, strict=True)
        return [_row(report, number, one, f"{key} (row {number})") for number, one in pairs if one is not None]
    if len(named) > 1 and not sums:
        raise RooflabError(
            f"with_times: one time for {key}, which {len(named)} rows have ({_few(named)}): give a list of "
            f"{len(named)} in their order, {{row's number: time}}, or sums=True where it is of all together"
        )
    return [Given(key, tuple(named), seconds(value, key))]


def _row(report: Report, number: int, value: Any, where: str) -> Given:
    row = report.rows[number]
    if not timeable(row):
        raise RooflabError(
            f"with_times: {where} is {row.op.name}, which runs no kernel: it has no time of its own; leave it out"
        )
    return Given(name_of(report, number), (number,), seconds(value, where))


def name_of(report: Report, number: int) -> str:
    """What a time of that row alone is called."""
    name = report.rows[number].op.name
    return f"{name} (row {number})" if len(report.rows) > 1 else name


def timeable(row: Row) -> bool:
    """Whether it can have a time: a view has none, and what is in a branch that never runs neither."""
    return row.op.kind != "view" and row.op.count > 0


def _of_module(report: Report, path: str) -> list[int]:
    return [
        number
        for number, row in enumerate(report.rows)
        if (row.op.module == path or row.op.module.startswith(path + ".")) and path and timeable(row)
    ]


def _unknown(report: Report, key: str) -> UnknownNameError:
    names = [row.op.name for row in report.rows if timeable(row)]
    parts = [row.op.module.split(".") for row in report.rows if row.op.module]
    modules = [".".join(part[:depth]) for part in parts for depth in range(1, len(part) + 1)]
    return UnknownNameError(f"operation or module of {report.name}", key, [*names, *modules])


def _few(rows: Sequence[int]) -> str:
    shown = ", ".join(map(str, rows[:6]))
    return f"rows {shown}, …" if len(rows) > 6 else f"rows {shown}"


def seconds(value: Any, where: str) -> float:
    """The seconds that `value` says: text with its unit, or a number of seconds.

    Raises:
        RooflabError: text without a unit or in another one, and what is no time above zero.
    """
    expected = "expected a time above zero with its unit, such as '660 us'"
    if isinstance(value, str):
        try:
            number = parse(value, "s")
        except RooflabError as error:
            reason = "has no unit" if "has no unit" in str(error) else str(error).removeprefix(repr(value)).strip()
            raise RooflabError(f"{where}: {value!r} {reason.split(', expected')[0]}, {expected}") from None
    elif isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = float(value)
    else:
        raise RooflabError(f"{where}: got {value!r:.60}, {expected}, or seconds as a number")
    if not (math.isfinite(number) and number > 0):
        raise RooflabError(f"{where}: got {value!r}, {expected}")
    if number < _LEAST_S:
        raise RooflabError(f"{where}: got {value!r}, less than any clock can tell, {expected}")
    return number
