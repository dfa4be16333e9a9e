"""Conditions under which a comparison fails: "time>+5%", "op:aten.mm time>+10us"; read and judged."""

from __future__ import annotations

import fnmatch
import math
import operator
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from rooflab import units
from rooflab.comparing import intervals
from rooflab.comparing.intervals import Bar
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.comparison import Amount, Change, Difference, Gate, Measure, Outcome, Value

_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_CONDITION = re.compile(
    r"""\s*(?:(?P<where>op|module|kernel)\s*:\s*(?P<name>\S+)\s+)?
        (?P<metric>[^<>=]*?)\s*(?P<op>>=|<=|>|<)\s*(?P<sign>[+-])?\s*(?P<value>[\d.,_]+(?:[eE][+-]?\d+)?\s*\S*)\s*""",
    re.VERBOSE,
)
_DIMENSIONS = {
    "s": "s",
    "B": "byte",
    "FLOP": "flop",
    "B/s": "byte/s",
    "FLOP/s": "flop/s",
    "OP/s": "op/s",
    "W": "watt",
}
# Of single operations, with their units.
ROW_METRICS = {"time": "s", "flop": "FLOP", "bytes": "B", "launches": "", "share": "share"}
_SAME = {"share of roof": "share", "share of floor": "share", "nbytes": "bytes", "peak memory": "memory"}
_EXPECTED = "expected METRIC, one of > >= < <=, and +N%, -N%, or a value with its unit: time>+5%, memory>80GB"


class Condition(NamedTuple):
    """A condition as read.

    Attributes:
        text: as written.
        where, name: "op" or "module" and a pattern, for those operations alone; "" for the whole.
        metric: in lower case.
        op: the comparison.
        basis: whether `value` is a change as a share of the base, in units, or the other side's own value.
        value: as written, without its sign.
        sign: 1 or -1.
    """

    text: str
    where: str
    name: str
    metric: str
    op: str
    basis: Literal["relative", "change", "value"]
    value: str
    sign: float


def parse(text: str) -> Condition:
    """The condition in `text`.

    Raises:
        RooflabError: of another form.
    """
    found = _CONDITION.fullmatch(text)
    if found is None or not found["metric"].strip():
        raise RooflabError(f"--fail-if {text!r}: {_EXPECTED}")
    metric = " ".join(found["metric"].casefold().split())
    value = found["value"].strip()
    signed = found["sign"] is not None
    basis = "relative" if signed and value.endswith("%") else "change" if signed else "value"
    condition = Condition(
        text, found["where"] or "", found["name"] or "", _SAME.get(metric, metric), found["op"], basis, value,
        -1.0 if found["sign"] == "-" else 1.0,
    )  # fmt: skip
    if value.endswith("%"):
        _number(value[:-1], text)
    if condition.where and condition.metric not in ROW_METRICS:
        raise UnknownNameError(f"metric of an operation in --fail-if {text!r}:", metric, ROW_METRICS)
    return condition


def check(condition: Condition, differences: Sequence[Difference]) -> None:
    """Return where what `condition` names is there, in its unit.

    Raises:
        RooflabError: no such metric or operation, with near matches, or a value in another unit.
    """
    amounts = {amount.metric.casefold(): amount for one in differences for amount in one.amounts}
    if condition.where:
        rows = [row for one in differences for row in one.rows]
        if not any(_fits(condition, row) for row in rows):
            names = dict.fromkeys(row.module if condition.where == "module" else row.name for row in rows)
            raise UnknownNameError(f"{condition.where} in --fail-if {condition.text!r}:", condition.name, names)
        unit = ROW_METRICS[condition.metric]
    elif condition.metric not in amounts:
        raise UnknownNameError(f"metric in --fail-if {condition.text!r}:", condition.metric, amounts)
    else:
        unit = amounts[condition.metric].unit
    if condition.basis != "relative":
        _threshold(condition, unit)


def judge(condition: Condition, difference: Difference, against: str) -> Gate:
    """What `condition` says of `difference`, whose other side is called `against`."""
    one, two, bar, unit, why = (_rows if condition.where else _whole)(condition, difference)
    says = f"{_name(condition)} {_text(one, unit)} → {_text(two, unit)}"
    if one is not None and two is not None and not one.least and not two.least:
        says += _change_text(one.value, two.value, unit)

    def gate(outcome: Outcome, more: str = "") -> Gate:
        said = f"{says}; {more}" if more else says
        return Gate(condition=condition.text, against=against, outcome=outcome, says=said)

    if two is None or (condition.basis != "value" and one is None):
        return gate("unknown", why or "not known")
    value, known = _held(condition, one, two, unit)
    if value is None:
        return gate("unknown", known)
    limit = _limit(condition, unit)
    holds = _OPERATORS[condition.op](value, limit) and not _level(value, limit, condition)
    # A lower bound of the other side that is over the limit already is over it whatever is left out.
    lower = two.least and not (one is not None and one.least) and condition.op in (">", ">=")
    partial = two.least or (condition.basis != "value" and one is not None and one.least)
    if partial and not (holds and lower):
        return gate("unknown", why or "something is left out of it: a lower bound is not compared as a whole")
    if holds and condition.basis != "value" and _explained(bar):
        return gate("within error", "no change beyond the error bars")
    return gate("failed" if holds else "passed")


def _explained(bar: Bar | None) -> bool:
    """Whether error bars are known and hold the difference."""
    return bar is not None and bar.low is not None and bar.high is not None and bar.low <= 0 <= bar.high


def _level(value: float, limit: float, condition: Condition) -> bool:
    """Whether a strict comparison rests on the last bits alone."""
    return condition.op in (">", "<") and math.isclose(value, limit, rel_tol=1e-9, abs_tol=1e-12 * abs(limit))


def _held(condition: Condition, one: Value | None, two: Value, unit: str) -> tuple[float | None, str]:
    """The number that is held against the limit; None with a reason where there is none."""
    if condition.basis == "value" or one is None:
        return two.value, ""
    change = two.value - one.value
    if condition.basis == "change":
        return change, ""
    if one.value == 0:
        return (math.copysign(math.inf, change), "") if change else (0.0, "")
    return change / one.value, ""


def _limit(condition: Condition, unit: str) -> float:
    if condition.basis == "relative":
        return condition.sign * _number(condition.value[:-1], condition.text) / 100
    return condition.sign * _threshold(condition, unit)


def _threshold(condition: Condition, unit: str) -> float:
    """The value of a condition that is not relative, in base units of `unit`."""
    text = condition.value
    if text.endswith("%"):
        if unit != "share":
            raise RooflabError(
                f"--fail-if {condition.text!r}: {text} of what? +{text} or -{text} is a change against the base"
            )
        return _number(text[:-1], condition.text) / 100
    if unit in _DIMENSIONS:
        try:
            return units.parse(text, _DIMENSIONS[unit])
        except RooflabError as error:
            raise RooflabError(f"--fail-if {condition.text!r}: {error}") from None
    return _number(text.removesuffix("J").strip() if unit == "J" else text, condition.text)


def _number(text: str, condition: str) -> float:
    try:
        value = float(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise RooflabError(f"--fail-if {condition!r}: {text!r} is not a number; {_EXPECTED}") from None
    if not math.isfinite(value):
        raise RooflabError(f"--fail-if {condition!r}: {text!r} is too large a number; {_EXPECTED}")
    return value


def _whole(
    condition: Condition, difference: Difference
) -> tuple[Value | None, Value | None, Bar | None, str, str]:
    amount: Amount | None = difference.amount(condition.metric)
    if amount is None:
        return None, None, None, "", "neither side has it"
    bar = None if amount.change is None else Bar(amount.change, amount.low, amount.high)
    return amount.base, amount.other, bar, amount.unit, amount.why if amount.verdict == "unknown" else ""


def _rows(condition: Condition, difference: Difference) -> tuple[Value | None, Value | None, Bar | None, str, str]:
    rows = [row for row in difference.rows if _fits(condition, row)]
    one, two = (_sum(condition.metric, [getattr(row, side) for row in rows]) for side in ("base", "other"))
    bar = None
    if condition.metric == "time" and one is not None and two is not None:
        bar = intervals.together([Bar(row.change_s or 0.0, row.low_s, row.high_s) for row in rows], None)
    return one, two, bar, ROW_METRICS[condition.metric], "" if one and two else "not known of all of them"


def _sum(metric: str, measures: Sequence[Measure | None]) -> Value | None:
    """The metric of several operations together; those that are not there add nothing."""
    there = [one for one in measures if one is not None]
    names = {"time": "time_s", "flop": "flop", "bytes": "nbytes", "launches": "launches"}
    if metric != "share":
        values = [getattr(one, names[metric]) for one in there]
        return None if None in values else Value(value=math.fsum(values))
    roofs = [None if None in (one.roof_compute_s, one.roof_memory_s) else _roof_s(one) for one in there]
    times = [one.time_s for one in there]
    if not there or None in roofs or None in times or not sum(one or 0.0 for one in times):
        return None
    return Value(value=math.fsum(one or 0.0 for one in roofs) / math.fsum(one or 0.0 for one in times))


def _roof_s(one: Measure) -> float:
    return max(one.roof_compute_s or 0.0, one.roof_memory_s or 0.0)


def _fits(condition: Condition, row: Change) -> bool:
    if condition.where == "module":
        return (
            row.module == condition.name
            or fnmatch.fnmatchcase(row.module, condition.name)
            or (row.module.startswith(f"{condition.name}."))
        )
    names = {*row.name.split(" + "), *row.other_name.split(" + ")} - {""}
    return any(name == condition.name or fnmatch.fnmatchcase(name, condition.name) for name in names)


def _name(condition: Condition) -> str:
    return f"{condition.metric} of {condition.name}" if condition.where else condition.metric


def _text(value: Value | None, unit: str) -> str:
    return "unknown" if value is None else f"{'> ' if value.least else ''}{amount_text(value.value, unit)}"


def amount_text(value: float, unit: str) -> str:
    """`value` as people read it."""
    if unit == "share":
        return units.percent(value, 1)
    if unit == "s":
        return units.duration(value)
    if unit == "":
        return f"{value:,.4g}" if value < 1e4 and value % 1 else f"{value:,.0f}"
    return units.si(value, unit)


def _change_text(base: float, other: float, unit: str) -> str:
    if not base or unit == "share":
        return ""
    return f" ({(other - base) / base * 100:+.3g} %)".replace("-", "−")
