"""What is shown of a comparison: the verdict, conditions, totals, causes, operations; one definition for all."""

from __future__ import annotations

from collections.abc import Sequence

from rooflab import units
from rooflab.comparing.conditions import amount_text
from rooflab.types.comparison import Amount, Change, Comparison, Difference, Followed, Measure, Side, Term, Value
from rooflab.views.common.advice import once
from rooflab.views.common.lines import Lines
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table, capacity, without_empty

_PAGE_NAME, _PAGE_WHAT = 40, 48  # letters of an operation and of its shapes on a page
TOP = 20  # lines of operations; CSV and JSON have all
_VERDICTS = {
    "less": "less",
    "more": "more",
    "same": "no change",
    "unsure": "spread not known",
    "unknown": "not compared",
}


def sheet_of(comparison: Comparison, cut: int | None = None) -> Sheet:
    """What is shown of `comparison`; `cut` as `operations` takes it."""
    failed = tuple(f"{gate.condition}: {gate.outcome}" for gate in comparison.gates if gate.outcome not in _PASSED)
    notes: list[str] = []
    tables = [gates(comparison), compared(comparison)]
    for one in comparison.differences:
        of = comparison.sides[one.other].name if len(comparison.differences) > 1 else ""
        tables += [totals(comparison, one, of), followed(one, of), causes(one, of), operations(one, of, cut)]
        notes += one.notes
    warnings = (f"Failed: {'; '.join(failed)}",) if failed else ()
    return Sheet(
        comparison.name,
        "what differs",
        sentences=sentences(comparison),
        tables=tuple(table for table in tables if table.rows),
        warnings=warnings,
        notes=tuple(dict.fromkeys(notes)),
    )


_CAUSES = {
    "bytes": ("fewer bytes", "more bytes"),
    "FLOP": ("fewer FLOP", "more FLOP"),
    "roofs": ("higher roofs", "lower roofs"),
    "efficiency": ("better efficiency", "worse efficiency"),
    "launches": ("fewer launches", "more launches"),
    "overhead": ("less overhead a launch", "more overhead a launch"),
    "added": ("operations added", "operations added"),
    "removed": ("operations removed", "operations removed"),
    "at once": ("more ran at once", "less ran at once"),
}
_IDLE = "idle: "
_LITTLE = 0.5  # of either side's time with a counterpart: below it two programs are compared, not two versions
_WORDS = {"share": "floor, of time", "flop": "FLOP", "memory": "peak memory"}
_PASSED = ("passed", "within error")


def sentences(comparison: Comparison) -> tuple[str, ...]:
    """The answer for each other side: how much more or less time it takes, and the largest cause."""
    base, said = comparison.sides[0], []
    for one in comparison.differences:
        other = comparison.sides[one.other]
        said.append(sentence(base, other, one))
        said += apart(base, other, one)
    return tuple(said)


def sentence(base: Side, other: Side, one: Difference) -> str:
    """How much more or less time `other` takes than `base`, and what most of that comes from."""
    time = one.amount("time")
    if time is None:
        moved = [each for each in one.amounts if each.verdict in ("less", "more")]
        return f"{other.name}: {len(moved)} of {len(one.amounts)} numbers differ from {base.name}."
    if time.change is None or time.base is None or time.other is None:
        why = time.why or "not known"
        return f"{other.name}: its time is not compared with that of {base.name} ({why})."
    per = f" a {one.divided}" if one.divided else ""
    taken = f"{units.duration(time.base.value)} → {units.duration(time.other.value)}{per}"
    if time.verdict == "same" and not time.change:
        return f"{other.name} takes as long as {base.name}: {taken}."
    if time.verdict == "same":
        return f"{other.name} against {base.name}: {taken}, no change beyond the error bars."
    word = "less" if time.change < 0 else "more"
    share = "" if time.relative is None else f", {_relative(time.relative)[1:]} {word} time"
    bar = _bar(time)
    unsure = " (how much it varies from run to run is not known)" if time.verdict == "unsure" else ""
    cause = f"; most of it: {_cause(one)}" if one.terms else ""
    return f"{other.name} against {base.name}: {taken}{share}{bar}{unsure}{cause}."


def apart(base: Side, other: Side, one: Difference) -> tuple[str, ...]:
    """That most of the time has no counterpart on the other side, where that is so."""
    shares = one.shared()
    if shares is None or min(shares) >= _LITTLE:
        return ()
    told = [units.percent(share) if share >= 0.01 else "less than 1 %" for share in shares]
    return (
        f"They share little: operations of both take {told[0]} of the time of {base.name} and "
        f"{told[1]} of that of {other.name}; the rest is told as removed and added, not as changed.",
    )


def _bar(amount: Amount) -> str:
    if amount.low is None or amount.high is None or amount.low == amount.high:
        return ""
    return f" (a difference of {_signed(amount.low)} to {_signed(amount.high)})"


def _cause(one: Difference) -> str:
    sign = 1 if sum(term.seconds for term in one.terms) >= 0 else -1
    # The largest that goes the way of the whole: others take off from it.
    term = max(one.terms, key=lambda term: sign * term.seconds)
    return f"{_in_words(term)}, {_signed(term.seconds)}"


def _in_words(term: Term) -> str:
    """A cause as people say it, by which way it goes."""
    if term.cause.startswith(_IDLE):
        return f"{'less' if term.seconds < 0 else 'more'} idle for {term.cause.removeprefix(_IDLE)}"
    less, more = _CAUSES.get(term.cause, (term.cause, term.cause))
    return less if term.seconds < 0 else more


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '−'}{units.duration(abs(seconds))}"


def followed(one: Difference, of: str = "") -> Table:
    """A line for each advice that the base had: whether it was made, what it was to save, what was saved."""
    rows = tuple(
        (
            each.rule,
            each.status,
            f"{units.duration(each.predicted_s)}, {units.percent(each.predicted_share)}{once(each.after)}",
            _promised(each),
            UNKNOWN if each.obtained_share is None else units.percent(each.obtained_share),
        )
        for each in one.followed
    )
    columns = ("advice", "status", "predicted to save", "in 4 of 5 cases", "saved")
    note = (
        "Made: the other result is not advised so any more. Saved: by the whole, of the base's time; where "
        "several changes were made, what each saved is not known."
    )
    return Table(f"Advice rechecked{f': {of}' if of else ''}", columns, rows, words=2, note=note)


def _promised(one: Followed) -> str:
    if one.low_s is None or one.high_s is None or not one.before_s:
        return UNKNOWN
    return f"{units.percent(one.low_s / one.before_s)} to {units.percent(one.high_s / one.before_s)}"


def gates(comparison: Comparison) -> Table:
    """A line for each condition against each other side."""
    several = len(comparison.differences) > 1
    rows = tuple(
        (gate.condition, *((gate.against,) if several else ()), gate.outcome, gate.says)
        for gate in comparison.gates
    )
    columns = ("fail if", *(("against",) if several else ()), "outcome", "numbers")
    return Table("Conditions", columns, rows, words=len(columns))


def compared(comparison: Comparison) -> Table:
    """A line for each side: what it is, where it ran or was predicted."""
    rows = []
    for side in comparison.sides:
        machine = UNKNOWN if side.machine is None or side.kind == "Machine" else side.machine.name
        samples = UNKNOWN if side.samples is None else f"{side.samples:,.0f}"
        rows.append((side.name, side.kind, side.timing or UNKNOWN, machine, side.mode or UNKNOWN, samples))
    columns = ("", "is a", "times are", "on", "mode", "samples")
    return without_empty("Compared; the first is the base", columns, rows, words=5)


def totals(comparison: Comparison, one: Difference, of: str = "") -> Table:
    """A line for each number of the whole."""
    rows = []
    for each in one.amounts:
        change = UNKNOWN if each.change is None else _change(each)
        relative = UNKNOWN if each.relative is None or each.unit == "share" else _relative(each.relative)
        verdict = _VERDICTS[each.verdict]
        rows.append((_metric(each), relative, verdict, _value(each, each.base), _value(each, each.other), change))
    columns = ("", "relative", "verdict", "base", "other", "difference")
    reasons: dict[str, list[str]] = {}
    for each in one.amounts:
        if each.verdict == "unknown":
            reasons.setdefault(each.why, []).append(_WORDS.get(each.metric, each.metric))
    said = "; ".join(f"{why}: {', '.join(names)}" for why, names in reasons.items())
    note = f"Not compared, {said}." if said else ""
    return Table(f"Totals{_of(of)}", columns, tuple(rows), note=note)


def _metric(amount: Amount) -> str:
    per = " a sample" if amount.per_sample else ""
    bound = ", at most" if amount.metric == "energy" else ""
    return f"{_WORDS.get(amount.metric, amount.metric)}{per}{bound}"


def causes(one: Difference, of: str = "") -> Table:
    """What the difference in time comes from; the lines add up to the last."""
    each = (*one.terms, *one.idle)
    whole = sum(term.seconds for term in each)
    rows = [
        (_in_words(term), _signed(term.seconds), _relative(term.seconds / whole) if whole else UNKNOWN)
        for term in each
    ]
    if len(rows) > 1:
        together = "together: the devices' wall time" if one.idle else "together"
        rows.append((together, _signed(whole), "100 %" if whole else UNKNOWN))
    note = "Roofs: of the machine for the number format; efficiency: how near them. The parts add up."
    return Table(f"Where the time went{_of(of)}", ("cause", "time", "of the whole"), tuple(rows), note=note)


def operations(one: Difference, of: str = "", cut: int | None = None) -> Table:
    """The operations that differ, most time first; equal ones in alike places as one line.

    Args:
        one: what differs.
        of: the other side's name, where there are several.
        cut: letters of names and of what changed, on a narrow terminal, which then does without the cause.
    """
    lines = merged([row for row in one.rows if row.status != "matched" or row.change_s != 0])
    rows = []
    for row, times in lines[:TOP]:
        base, other = (_time(each, times) for each in (row.base, row.other))
        name, what = f"{row.name}{f' × {times}' if times > 1 else ''}", _what(row)
        cause = _in_words(row.terms[0]) if row.terms else UNKNOWN
        change = UNKNOWN if row.change_s is None else _signed(row.change_s * times)
        numbers = (change, _VERDICTS[row.verdict], base, other)
        name, what = _shortened(name, cut or _PAGE_NAME), _shortened(what, cut or _PAGE_WHAT)
        # What decides comes first: a narrow page cuts the last columns.
        rows.append((name, *numbers, what) if cut else (name, *numbers, cause, what))
    counts = [f"{one.count(status):,} {status}" for status in ("matched", "changed", "fused", "added", "removed")]
    same = len(one.rows) - sum(times for _, times in lines)
    note = f"Operations: {', '.join(counts)}; {same:,} the same in every number."
    note += f" {len(lines) - TOP:,} lines more in CSV and JSON." if len(lines) > TOP else ""
    if any("…" in row[0] or "…" in row[-1] for row in rows):
        note += " Names and shapes with … are whole in CSV and JSON."
    columns = ("operation", "difference", "verdict", "base", "other", "most of it", "shapes, what it became")
    columns = tuple(name for name in columns if not cut or name != "most of it")
    return Table(f"Operations{_of(of)}", columns, tuple(rows), note=note)


def _shortened(text: str, most: int) -> str:
    """`text` cut in its middle: both ends of a name tell."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - half]}…{text[len(text) - half :]}"


def merged(rows: Sequence[Change]) -> list[tuple[Change, int]]:
    """Rows that say the same of operations in alike places once, each with how often; most difference first."""
    alike: dict[object, list[Change]] = {}
    for row in rows:
        change = None if row.change_s is None else f"{row.change_s:.6g}"
        alike.setdefault((row.status, row.name, row.shapes, row.other_name, row.other_shapes, change), []).append(
            row
        )
    found = [(those[0], len(those)) for those in alike.values()]
    return sorted(found, key=lambda item: -abs((item[0].change_s or 0.0) * item[1]))


def _what(row: Change) -> str:
    if row.status in ("added", "removed"):
        return f"{row.status}: {row.shapes}".removesuffix(": ")
    if row.status == "fused":
        return f"became {row.other_name or row.name}"
    parts = [f"became {row.other_name}"] if row.other_name else []
    parts += [f"{row.shapes} → {row.other_shapes}"] if row.other_shapes else []
    return "; ".join(parts) or row.shapes


def _time(side: Measure | None, times: int) -> str:
    if side is None:
        return ""
    return UNKNOWN if side.time_s is None else units.duration(side.time_s * times)


def _relative(share: float) -> str:
    """A change, with its sign; nothing is no change."""
    size = f"{abs(share) * 100:.3g}" if abs(share) < 10 else f"{abs(share) * 100:,.0f}"
    return "0 %" if not share else f"{'+' if share > 0 else '−'}{size} %"


def _of(name: str) -> str:
    return f": {name}" if name else ""


def _value(amount: Amount, value: Value | None) -> str:
    return UNKNOWN if value is None else f"{'> ' if value.least else ''}{_text(amount, value.value)}"


def _text(amount: Amount, value: float) -> str:
    """`value` of the kind that `amount` is, with its unit: a cache's capacity in KiB and MiB."""
    return capacity(value) if amount.metric.endswith(" capacity") else amount_text(value, amount.unit)


def _change(amount: Amount) -> str:
    change = amount.change or 0.0
    if not change:
        return "0"
    sign = "+" if change >= 0 else "−"
    if amount.unit == "share":
        return f"{sign}{abs(change) * 100:.1f} points"
    return f"{sign}{_text(amount, abs(change))}"


def lines(comparison: Comparison) -> Lines:
    """A line for each number of the whole and each operation, in base units; unknown is empty."""
    columns = (
        "against",
        "what",
        "name",
        "module",
        "shapes",
        "other_name",
        "other_shapes",
        "unit",
        "base",
        "other",
    )
    columns += ("change", "low", "high", "verdict", "cause")
    rows: list[tuple[object, ...]] = []
    for one in comparison.differences:
        against = comparison.sides[one.other].name
        for each in one.amounts:
            known = [None if value is None else value.value for value in (each.base, each.other)]
            ends = (each.change, each.low, each.high, each.verdict, each.why)
            rows.append((against, "total", each.metric, "", "", "", "", each.unit, *known, *ends))
        rows += [
            (against, "cause", term.cause, *[""] * 4, "s", None, None, term.seconds, None, None, "", "")
            for term in one.terms
        ]
        for row in one.rows:
            base, other = (None if side is None else side.time_s for side in (row.base, row.other))
            named = (row.status, row.name, row.module, row.shapes, row.other_name, row.other_shapes, "s")
            cause = row.terms[0].cause if row.terms else ""
            rows.append((against, *named, base, other, row.change_s, row.low_s, row.high_s, row.verdict, cause))
    return Lines(columns, rows)
