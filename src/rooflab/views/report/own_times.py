"""Times of the user's own beside the predicted ones: what each is a share of, and what would explain it."""

from __future__ import annotations

from collections import Counter

from rooflab.types.own_time import OwnTime, Suspect
from rooflab.types.report import Report
from rooflab.units import duration, si
from rooflab.views.common.table import UNKNOWN, Table

ROWS = 12  # lines of the table of times where none are asked for
_SENTENCES = 4  # that explain a time
_NEAREST = 3  # suspects that are shown although they do not explain the time
_VERDICTS = {
    "inside": "within its bar",
    "slower": "outside its bar, slower",
    "faster": "outside its bar, faster",
    "below floor": "outside its bar and below its floor, which no run can beat: something else was timed",
    "unknown": "no prediction to hold it against",
}


def facts(report: Report, suspects: bool = True) -> tuple[tuple[str, str], ...]:
    """The whole program's measured time: beside the prediction, the floor and each roof; what would explain it."""
    rows = [*_whole(report, suspects), *_together(report)]
    if report.measurement is not None:
        rows += [("" if rows else "measured", f"{note}.") for note in report.measurement.notes]
    return tuple(rows)


def sentence(report: Report) -> str:
    """The program's measured time in a sentence: beside prediction and nearest roof, and what would explain it."""
    own = next((one for one in report.own_times if len(one.rows) == len(report.rows)), None)
    if own is None:
        return ""
    roof = "" if own.of_roof is None else f"; {_percent(own.of_roof)} of its nearest roof, {own.roof}"
    rules = [one.rule for one in own.explained_by]
    why = f". It would be explained by: {', '.join(rules)}" if rules else ""
    return f"Measured {duration(own.time_s)}: {_beside(own)}{roof}{why}."


def _whole(report: Report, suspects: bool) -> list[tuple[str, str]]:
    if report.measured_s is None:
        return []
    from rooflab.model.roofline.timed import attained  # with NumPy, which the others do without

    own = next((one for one in report.own_times if len(one.rows) == len(report.rows)), None)
    beside = "" if own is None else f": {_beside(own)}"
    rows = [("measured", f"{duration(report.measured_s)}{beside}")]
    for one in attained(report):
        unit = "B/s" if one.per_s == "byte" else "FLOP/s"
        doubt = "; above a roof: it did not go through it, or did not take that time" if one.share > 1 else ""
        rows.append(
            ("", f"{si(one.value, unit)}, {one.share * 100:.3g} % of {one.roof}'s {si(one.peak, unit)}{doubt}")
        )
    if own is not None and own.of_floor is not None and own.floor_s is not None:
        rows.append(("", f"{_percent(own.of_floor)} of the speed at its floor, {duration(own.floor_s)}"))
    if own is not None and (suspects or not own.suspects):
        rows += [("" if number else "suspects", line) for number, line in enumerate(explained(own))]
    return rows


def _beside(own: OwnTime) -> str:
    if own.of_prediction is None:
        return _VERDICTS[own.verdict]
    return f"{own.of_prediction:.3g} × the prediction, {_VERDICTS[own.verdict]}"


def explained(own: OwnTime) -> list[str]:
    """What would explain `own`, a sentence each; without any, that nothing does and what comes nearest."""
    if own.verdict in ("inside", "unknown"):
        return []
    explaining = own.explained_by[:_SENTENCES]
    held = [f"it would be explained if {one.says}: {_bar(one)}; {one.hint}" for one in explaining]
    left = len(own.explained_by) - len(explaining)
    if held:
        return [*held, f"{left} more would explain it too (.json has them)"] if left else held
    near = own.suspects[:_NEAREST]
    if own.verdict == "below floor" and own.of_floor:
        part = _percent(1 / own.of_floor)
        return [
            f"in that time no run does more than {part} of this work, and no suspect that can be predicted "
            "explains it: other shapes, a mask, sparse operands, or work that was skipped"
        ]
    if not near:
        return ["nothing that can be predicted explains it: check what was timed, its shapes and the timer"]
    told = "; ".join(f"if {one.says}: {_bar(one)}" for one in near)
    return [f"nothing that can be predicted explains it alone; nearest: {told}"]


def _bar(one: Suspect) -> str:
    return f"{duration(one.time_s)} ({duration(one.low_s)} to {duration(one.high_s)})"


def _together(report: Report) -> list[tuple[str, str]]:
    """What the rows' measured times add up to, beside the program's."""
    measured = [row for row in report.rows if row.observation is not None]
    if not measured or len(report.rows) < 2:
        return []
    asked = sum(row.takes_time for row in report.rows)
    rows_s = report.measured_rows_s or 0.0
    whole = not report.unmeasured
    line = f"{len(measured):,} of {asked:,} operations: {'' if whole else '> '}{duration(rows_s)} together"
    # Against the same rows' predictions alone: what was not measured is in neither sum.
    predicted = [row.prediction.time_s for row in measured if row.prediction is not None]
    if len(predicted) == len(measured):
        line += f", predicted {duration(sum(predicted))}"
    rows = [("operations", line)]
    if report.measured_s is not None and whole and rows_s <= report.measured_s:
        rest_s = report.measured_s - rows_s
        share = _percent(rest_s / report.measured_s)
        rows.append(("", f"the rest of the program's time, {duration(rest_s)} ({share}), lies between them"))
    reasons = Counter(row.unobserved for row in report.rows if row.unobserved is not None)
    rows += [("", f"not timed, {count:,}: {reason}") for reason, count in reasons.items()]
    return rows


def table(report: Report, top: int | None = ROWS) -> Table:
    """The times of rows, those that are the most seconds off their predictions first; empty without any."""
    own = [one for one in report.own_times if len(one.rows) < len(report.rows)]
    own.sort(key=lambda one: -abs(one.time_s - (one.predicted_s or 0.0)))
    rows = [
        (
            one.name.partition(" (row ")[0],
            str(one.rows[0]) if len(one.rows) == 1 else f"{len(one.rows)} rows",
            duration(one.time_s),
            UNKNOWN if one.predicted_s is None else duration(one.predicted_s),
            UNKNOWN if one.of_prediction is None else f"{one.of_prediction:.3g} ×",
            UNKNOWN if one.of_roof is None else f"{_percent(one.of_roof)} of {one.roof}",
            UNKNOWN if one.of_floor is None else _percent(one.of_floor),
            one.verdict if one.verdict != "unknown" else UNKNOWN,
            _rules(one),
        )
        for one in own[:top]
    ]
    columns = ("timed", "row", "measured", "predicted", "ratio", "of its roof", "of floor", "bar", "explained by")
    left = 0 if top is None else len(own) - top
    note = f"{left:,} more are in the JSON file." if left > 0 else ""
    return Table("Your times, the furthest off first", columns, tuple(rows), note=note)


def _rules(one: OwnTime) -> str:
    rules = [suspect.rule for suspect in one.explained_by]
    more = f" +{len(rules) - 1}" if len(rules) > 1 else ""
    return f"{rules[0]}{more}" if rules else UNKNOWN


def suspects(report: Report) -> Table:
    """What would explain the program's time, or not: each with the time that is predicted; empty without any."""
    own = next((one for one in report.own_times if len(one.rows) == len(report.rows)), None)
    shown = () if own is None else (*own.explained_by, *[one for one in own.suspects if not one.holds][:_NEAREST])
    rows = tuple((one.rule, _told(one)) for one in shown)
    title = "" if own is None else f"What would explain {duration(own.time_s)}"
    note = f"{explained(own)[0]}." if own is not None and shown and not own.explained_by else ""
    return Table(title, ("suspect", "if"), rows, words=2, note=note[:1].upper() + note[1:])


def _told(one: Suspect) -> str:
    said = f"{one.says}: {_bar(one)}"
    return f"{said}. That explains it: {one.hint}." if one.holds else f"{said}. That does not explain it."


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %"
