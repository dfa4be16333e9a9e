"""The base held against one other side: divided by what makes them alike, row by row, and as a whole."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rooflab.comparing import attribution, intervals
from rooflab.comparing.intervals import Bar
from rooflab.comparing.matched import Met, matched, summed
from rooflab.comparing.side import Metric, Read
from rooflab.errors import RooflabError
from rooflab.types.comparison import Amount, Change, Difference, Term, Value, Verdict

_MOST_SHARE = 0.9  # of the matched operations that must agree on how many runs a profile holds


class Divided(NamedTuple):
    """What the numbers of both sides are divided by, and by what in a word."""

    base: float = 1
    other: float = 1
    by: str = ""


def difference(base: Read, other: Read, number: int, per_sample: bool | None = None) -> Difference:
    """`base` against `other`, which is side `number`.

    Args:
        base, other: what was read of them.
        number: of the other side.
        per_sample: whether times and counts are divided by samples; by default where these differ.

    Raises:
        RooflabError: nothing in common, or samples that are not known where they are asked for.
    """
    met = matched(base, other)
    metrics = {one.name for one in base.metrics if one.value} & {one.name for one in other.metrics if one.value}
    both = any(each.base and each.other for each in met)
    if ((base.items or other.items) and not both) or not metrics:
        raise RooflabError(_nothing(base, other))
    divided, notes = _divided(base, other, met, per_sample)
    same_model = base.setting is not None and base.setting == other.setting
    rows = [_change(each, divided, _shared(each, base, other, same_model)) for each in met]
    amounts = _amounts(base, other, divided, rows, same_model)
    ranked = sorted(rows, key=lambda row: -abs(row.change_s or 0.0))
    notes += [*base.notes, *other.notes, *_how(base, other, same_model)]
    terms = attribution.added(row.terms for row in rows)
    return Difference(
        other=number,
        amounts=amounts,
        terms=terms,
        idle=_idle(base, other, divided, terms),
        rows=tuple(ranked),
        base_divisor=divided.base,
        other_divisor=divided.other,
        divided=divided.by,
        notes=tuple(dict.fromkeys(notes)),
    )


def _idle(base: Read, other: Read, divided: Divided, terms: Sequence[Term]) -> tuple[Term, ...]:
    """What the wall time of devices has more beside the operations: idle by cause, and what ran at once."""
    if base.span_s is None or other.span_s is None:
        return ()
    span_s = other.span_s / divided.other - base.span_s / divided.base
    ones, twos = dict(base.waits), dict(other.waits)
    changes = {
        f"idle: {cause}": twos.get(cause, 0.0) / divided.other - ones.get(cause, 0.0) / divided.base
        for cause in dict.fromkeys((*ones, *twos))
    }
    ranked = [Term(cause=cause, seconds=seconds) for cause, seconds in changes.items() if seconds]
    ranked.sort(key=lambda term: -abs(term.seconds))
    rest = span_s - math.fsum(term.seconds for term in (*terms, *ranked))
    # What is left in the last bits of the sums is nothing that ran at once.
    if abs(rest) > 1e-9 * max(base.span_s, other.span_s):
        ranked.append(Term(cause="at once", seconds=rest))
    return tuple(ranked)


def _nothing(base: Read, other: Read) -> str:
    held = []
    for one in (base, other):
        names = list(dict.fromkeys(item.name for item in one.items)) or [metric.name for metric in one.metrics]
        held.append(f"{one.side.name} has {', '.join(names[:3]) or 'nothing'}{' …' if len(names) > 3 else ''}")
    return (
        f"{base.side.name} and {other.side.name} have nothing in common: {'; '.join(held)}; expected one program"
    )


def _divided(base: Read, other: Read, met: Sequence[Met], per_sample: bool | None) -> tuple[Divided, list[str]]:
    one, two = base.side, other.side
    if per_sample and (one.samples is None or two.samples is None):
        unknown = one.name if one.samples is None else two.name
        raise RooflabError(
            f"{unknown}: how many samples it takes is not known: its inputs name no common first size"
        )
    differ = one.samples is not None and two.samples is not None and one.samples != two.samples
    if per_sample or (per_sample is None and differ):
        samples = one.samples or 1, two.samples or 1
        text = f"{one.name} takes {samples[0]:,.0f} and {two.name} {samples[1]:,.0f}"
        return Divided(*samples, "sample"), [f"per sample: {text}, by the first size of their inputs"]
    if "Profile" not in (one.kind, two.kind):
        return Divided(), []
    ratios: Counter[float] = Counter()
    for each in met:
        if each.status == "matched":
            counts = [sum(item.measure.count for item in side) for side in (each.base, each.other)]
            if all(counts):
                ratios[counts[1] / counts[0]] += 1
    if not ratios:
        return Divided(), []
    ratio, agree = ratios.most_common(1)[0]
    if ratio == 1:
        return Divided(), []
    if agree < _MOST_SHARE * ratios.total() or not (ratio.is_integer() or (1 / ratio).is_integer()):
        many = f"{one.name} and {two.name} hold operations a different number of times, not all by one factor"
        return Divided(), [f"{many}: nothing was divided"]
    more, times = (two.name, ratio) if ratio > 1 else (one.name, 1 / ratio)
    text = f"per run: {more} holds each operation {times:,.0f} times as often: its numbers are divided by that"
    return Divided(1 if ratio > 1 else times, times if ratio > 1 else 1, "run"), [text]


def _shared(met: Met, base: Read, other: Read, same_model: bool) -> bool:
    """Whether predictions of both err by the same factor: one mechanism, one format, one host in the way."""
    # A graph and a compiled program have no host in the way: a kernel of both is the same kernel.
    waits = {side.side.mode == "eager" for side in (base, other)}
    if not same_model or len(waits) > 1 or not (met.base and met.other):
        return False
    kinds = {(item.kind, item.dtype) for item in (*met.base, *met.other)}
    return len(kinds) == 1


def _change(met: Met, divided: Divided, shared: bool) -> Change:
    base, other = summed(met.base, divided.base), summed(met.other, divided.other)
    bar = intervals.of_rows(base, other, shared)
    verdict: Verdict = "unknown"
    if bar is not None:
        size = max(one.time_s or 0.0 for one in (base, other) if one is not None)
        verdict, _ = intervals.verdict(bar, size)
    shown, there = met.base or met.other, met.other or met.base
    name, other_name = _names(shown), _names(there)
    shapes, other_shapes = _shapes(shown), _shapes(there)
    return Change(
        status=met.status,
        name=name,
        module=shown[0].module,
        shapes=shapes,
        other_name="" if other_name == name else other_name,
        other_shapes="" if other_shapes == shapes else other_shapes,
        base=base,
        other=other,
        verdict=verdict,
        low_s=None if bar is None else bar.low,
        high_s=None if bar is None else bar.high,
        terms=attribution.terms_of(base, other),
    )


def _names(items) -> str:
    names = list(dict.fromkeys(item.name for item in items))
    return " + ".join(names[:4]) + (f" + {len(names) - 4} more" if len(names) > 4 else "")


def _shapes(items) -> str:
    described = [f"{item.shapes} {item.dtype}".strip() for item in items]
    return described[0] if len(set(described)) == 1 else f"{len(items)} operations"


def _amounts(
    base: Read, other: Read, divided: Divided, rows: Sequence[Change], same_model: bool
) -> tuple[Amount, ...]:
    ones, twos = ({metric.name: metric for metric in side.metrics} for side in (base, other))
    return tuple(
        _amount(name, ones.get(name), twos.get(name), divided, rows if same_model else None)
        for name in dict.fromkeys((*ones, *twos))
    )


def _amount(
    name: str, base: Metric | None, other: Metric | None, divided: Divided, rows: Sequence[Change] | None
) -> Amount:
    known = base or other
    assert known is not None
    one = _scaled(base, divided.base)
    two = _scaled(other, divided.other)
    per_sample = known.grows and divided.by == "sample"
    held = {"metric": name, "unit": known.unit, "base": one, "other": two, "per_sample": per_sample}
    if one is None or two is None:
        return Amount(verdict="unknown", why="not known on one side", **held)
    if one.least or two.least:
        return Amount(
            verdict="unknown", why="something is left out: a lower bound is not compared as a whole", **held
        )
    if name != "time":
        if one.low is None and two.low is None:
            return Amount(verdict=intervals.exact(one.value, two.value), **held)
        bar = intervals.between(one, two)
    else:
        bar = intervals.between(one, two) if rows is None else _whole(one, two, rows)
    found, why = intervals.verdict(bar, max(one.value, two.value))
    return Amount(verdict=found, why=why, low=bar.low, high=bar.high, **held)


def _scaled(metric: Metric | None, divisor: float) -> Value | None:
    if metric is None or metric.value is None:
        return None
    value, by = metric.value, divisor if metric.grows else 1
    low, high = (None if end is None else end / by for end in (value.low, value.high))
    return Value(value=value.value / by, low=low, high=high, least=value.least)


def _whole(base: Value, other: Value, rows: Sequence[Change]) -> Bar:
    """The difference of two predictions of one model: equal rows cancel, only what differs has a bar."""
    bars = [Bar(row.change_s or 0.0, row.low_s, row.high_s) for row in rows]
    bar = intervals.together(bars, None)
    change = other.value - base.value
    # A program's time may be more than its rows', where the floor of the whole is.
    low = None if bar.low is None else bar.low + change - bar.change
    return Bar(change, low, None if bar.high is None else bar.high + change - bar.change)


def _how(base: Read, other: Read, same_model: bool) -> list[str]:
    timings = {base.side.timing, other.side.timing}
    if timings == {"predicted", "measured"}:
        return [
            "predicted against measured: pauses between kernels are left out of the prediction, as a profile's "
            "kernels have none"
        ]
    if timings == {"predicted"} and same_model:
        return [
            "both are predictions of one model on one machine: operations that are the same err the same and "
            "cancel; only what differs has an error bar"
        ]
    if timings == {"predicted"}:
        return ["predictions on different machines or settings: each side errs on its own"]
    return ["measured: bars are what single executions vary by"] if timings == {"measured"} else []
