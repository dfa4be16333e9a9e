"""One HTML page that shows a report: what limits it, what would help, the roofline, its operations, its totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rooflab.errors import RooflabError
from rooflab.types.machine import Machine
from rooflab.types.report import Report
from rooflab.views.common import advice as helping
from rooflab.views.common import explore
from rooflab.views.common.console import unbroken
from rooflab.views.common.explore import Column
from rooflab.views.common.table import Table
from rooflab.views.report import alike, own_times, subject, tables, verdict
from rooflab.views.report.embed import embedded, how, warnings_of

# What a page also shows of a program: today's usual machines of a kind.
ELSEWHERE = {
    "gpu": ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200"),
    "cpu": ("epyc-9654", "xeon-8480plus"),
}
FORMATS = ("bf16", "fp8")
# A prediction of as many rows takes half a second; columns of as many lines, 0.2 MB: the page stays below 3 MB.
MOST_ROWS_ELSEWHERE = 5000
MOST_LINES_ELSEWHERE = 1000

# Sliders: names of knobs, and what they say.
_SLIDERS = (
    ("bandwidth", "memory bandwidth"),
    ("compute", "arithmetic peaks"),
    ("cache_bandwidth", "cache bandwidth"),
    ("overhead", "time to start a kernel"),
    ("dispatch", "host time to dispatch"),
)
_SECONDS = ("overhead", "dispatch")  # times, not rates: more of them is slower

_COLUMNS = (
    Column("operation", "operation"),
    Column("time", "time", "number", "predicted, all its runs"),
    Column("measured", "measured", "number", "by a clock, all its runs as they were: what-ifs do not change it"),
    Column("share", "of time", "number share", "share of the sum of all operations"),
    Column("bound", "bound", "bound", "what binds it"),
    Column("floor", "× floor", "number col-b", "time over what no run can beat"),
    Column("flop", "FLOP", "number col-b", "a multiply-add is two"),
    Column("bytes", "bytes", "number col-b", "compulsory, both ways"),
    Column("intensity", "FLOP/byte", "number col-b", "FLOP per compulsory byte"),
    Column("ridge", "ridge", "number col-c", "FLOP/byte at which arithmetic takes as long as moving the bytes"),
    Column("times", "times", "number col-c", "how often it runs"),
)
_AXES = (
    ("memory", "of main memory (classic)"),
    ("levels", "of each level (hierarchical)"),
    ("accessed", "of loads and stores (cache-aware)"),
)
_WORDS = explore.Words(
    time="predicted",
    axes={
        "memory": "compulsory byte of main memory",
        "accessed": "byte that instructions load and store",
        "levels": "byte of each level, as predicted",
    },
    notes={
        "memory": (
            "The classic roofline: compulsory bytes through {main}. A mark above its roof is served by a cache."
        ),
        "accessed": (
            "The cache-aware roofline: every load and store counts, one intensity for all levels; the roof just "
            "above a mark hints at the level that serves it."
        ),
        "levels": (
            "The hierarchical roofline: a mark for each level; a mark's distance to the roof of its level is the "
            "share of the time that the level is idle."
        ),
    },
)
# Why two what-ifs of `analyze` have no slider (`model/program/tape.py`, KEPT).
_FIXED = (
    "No slider for the size of the cache or of the memory: what a cache keeps is found by going through the "
    "program again (rooflab analyze … --what-if cache_capacity=2x), and a larger memory takes no time off: it "
    "only fits more."
)
_WITH_MACHINE = ("time", "share", "bound", "floor", "ridge")


def html(report: Report) -> str:
    """The page of `report`: the verdict, totals, advice, the roofline with its operations, tables, conventions."""
    name = report.name if report.machine is None else report.machine.name
    return pages([(name, report), *elsewhere(report)], (own_times.suspects(report), own_times.table(report, 40)))


def elsewhere(report: Report) -> list[tuple[str, Report]]:
    """The report in other number formats and on other machines of its kind; none where that would take long."""
    machine = report.machine
    if machine is None or report.prediction is None or not _small(report):
        return []
    main = max((one for one in report.flop_by), key=lambda one: one.count, default=None)
    formats = [name for name in FORMATS if main is not None and name != main.dtype]
    asked: list[tuple[Machine | str, dict[str, Any]]] = [
        *((machine, {"what_if": {**_what_if(report), "dtype": name}}) for name in formats if _has(machine, name)),
        *((name, {}) for name in ELSEWHERE.get(machine.kind, ())),
    ]
    found = []
    for target, changes in asked:
        try:
            other = report.on(target, **changes)
        except RooflabError:
            # It lacks a number that this program needs: the page is of the machine that was asked for.
            continue
        if other.prediction is None or other.machine is None:
            continue
        if changes:
            found.append((f"{machine.name}, dtype={changes['what_if']['dtype']}", other))
        elif other.machine.name != machine.name:
            found.append((other.machine.name, other))
    return found


def _small(report: Report) -> bool:
    """Whether other predictions of `report` fit into its page: equal operations share their columns."""
    return _fits(len(report.rows), len(alike.lines_of(report)))


def _fits(rows: int, lines: int) -> bool:
    return rows <= MOST_ROWS_ELSEWHERE and lines <= MOST_LINES_ELSEWHERE


def _alone(named: Sequence[tuple[str, Report]], lines: int) -> str:
    """Why a page of so many lines has no other machine to choose; empty where it has, or nothing was predicted."""
    first = named[0][1]
    if len(named) > 1 or first.prediction is None or _fits(len(first.rows), lines):
        return ""
    count = f"{lines:,} distinct operations on {len(first.rows):,} rows"
    return (
        f"No other machine to choose in this file: {count} are too many. rooflab analyze … --machine A,B has both."
    )


def _what_if(report: Report) -> dict[str, float]:
    return {} if report.setting is None else report.setting.what_if


def _has(machine: Machine, dtype: str) -> bool:
    """Whether `machine` states a rate for products in that format itself: another format's would say nothing."""
    return machine.peak(dtype, engine="matrix") is not None


def pages(named: Sequence[tuple[str, Report]], first_tables: Sequence[Table] = (), name: str = "") -> str:
    """The page of the first of `named` where each of the others can be looked at; `first_tables` come first."""
    first = named[0][1]
    timed = first.time_at_least_s is not None
    labels = [label for label, _ in named]
    data = embedded(named)
    turned = {name for one in data["predictions"] if one["tape"] for name, _ in one["tape"]["knobs"]}
    observed = any(row.observation is not None for row in first.rows)
    return explore.render(
        name or first.name,
        "operations",
        data=data,
        words=_WORDS,
        own=("common/tape", "report/recompute", "report/explore"),
        columns=[
            one
            for one in _COLUMNS
            if (first.machine is not None or one.key not in _WITH_MACHINE) and (one.key != "measured" or observed)
        ],
        axes=_AXES,
        template="report/page.html.j2",
        tables=every(first),
        first_tables=[table for table in first_tables if table.rows],
        environment=Table("Environment", ("what", "value"), tuple(first.environment.items())),
        sources=() if first.machine is None else first.machine.sources,
        headline=verdict.headline(first),
        distance=unbroken(verdict.distance(first)),
        how=f"Predicted: {how(first)}." if timed and how(first) else "",
        warnings=warnings_of(first),
        facts=tuple(
            one
            for one in (
                own_times.sentence(first),
                _alone(named, len(data["programs"][0]["lines"]["name"])),
                *(tables.coverage(first) if first.coverage.complete else ()),
            )
            if one
        ),
        advice=helping.cards(first.advice, labels[0] if len(labels) > 1 else ""),
        labels=labels,
        drawn=timed,
        timed=timed,
        knobs=[
            {"name": name, "title": title, "seconds": name in _SECONDS}
            for name, title in _SLIDERS
            if name in turned
        ],
        subject=subject.line(first),
        fixed=_FIXED,
        ridge_note=tables.ridge_note(first) if first.machine else "",
        lines_note=tables.views_note(first),
    )


def every(report: Report) -> tuple[Table, ...]:
    """The tables of `report` below its operations, in reading order."""
    # The figures above the roofline follow sliders and choices; these do not.
    first = report.machine is not None and report.prediction is not None
    as_first = " as first predicted" if first else ""
    where = "" if report.machine is None else f" on {report.machine.name}"
    note = "Sliders and choices above do not change this table: the figures under the verdict do." if first else ""
    shown = [Table(f"Totals{as_first}{where}", ("", ""), tuple(tables.facts(report)), words=2, note=note)]
    reasons = tuple((reason,) for reason in tables.reasons(report))
    shown.append(Table("No bound", ("",), reasons, words=1))
    shown.append(
        Table(
            f"Conventions{' of the first prediction' if first else ''}",
            ("",),
            tuple((each,) for each in report.conventions),
        )
    )
    return tuple(table for table in shown if table.rows)
