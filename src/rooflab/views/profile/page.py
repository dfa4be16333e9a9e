"""One HTML page that shows a profile: what limited it, what would help, its operations, its time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rooflab.types.profile import Profile
from rooflab.units import duration
from rooflab.views.common import advice as helping
from rooflab.views.common import explore
from rooflab.views.common.explore import Column
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import Table
from rooflab.views.profile import matching, verdict
from rooflab.views.profile.embed import embedded
from rooflab.views.profile.sheet import run, sheet_of

_COLUMNS = (
    Column("operation", "operation"),
    Column("time", "measured", "number", "all its executions"),
    Column("share", "of time", "number share", "share of the measured time of all operations"),
    Column("bound", "bound", "bound", "what binds it: as counted, else as predicted"),
    Column("expected", "predicted", "number col-b", "kernels alone, without the pauses between them"),
    Column("against", "× predicted", "number col-b", "measured over predicted"),
    Column("floor", "× floor", "number col-b", "measured over what no run can beat"),
    Column("rate", "FLOP/s", "number col-b", "FLOP over measured time"),
    Column(
        "moved", "B/s", "number col-b", "bytes over measured time; those of a cache may pass main memory's roof"
    ),
    Column("intensity", "FLOP/byte", "number col-c", "FLOP per byte of main memory"),
    Column("times", "times", "number col-c", "how often it ran"),
)
_AXES = (("memory", "of main memory (classic)"), ("levels", "of each level (hierarchical)"))
_WORDS = explore.Words(
    time="measured",
    axes={
        "memory": "byte of main memory",
        "levels": "byte of each level, counted where it was, else predicted",
    },
    notes={
        "memory": (
            "Each operation as it was measured, through {main}: bytes that its shapes ask for, else those that "
            "were counted. Bars: 10th to 90th percentile of single executions. A mark above its roof is served by "
            "a cache, or moved fewer bytes."
        ),
        "levels": (
            "A mark for each level: a mark's distance to the roof of its level is the share of the time that the "
            "level was idle."
        ),
    },
    roofless=True,
    left="their FLOP or bytes are not known",
)
# Tables of a sheet that the page shows otherwise: cards, bars, a tree, the table of operations.
_OTHERWISE = ("What would help", "What was found", "Operations by measured time", "Modules by measured time")
_FIRST = ("What limited it",)
_WITH_TIMELINE = ("Idle time by cause", "Steps")


def html(profile: Profile) -> str:
    """The page of `profile`."""
    return pages(profile.name, "a profile", (profile,), sheet_of(profile))


def pages(
    name: str, what: str, profiles: Sequence[Profile], sheet: Sheet, stills: Sequence[Mapping[str, str]] = ()
) -> str:
    """The page of `profiles`, of which each can be looked at; `sheet` and the pictures `stills` are of all."""
    first = profiles[0]
    data = embedded(profiles)
    several = len(profiles) > 1
    shown = [table for table in sheet.tables if several or table.title not in _OTHERWISE]
    notes = Table("Conventions and assumptions", ("",), tuple((line,) for line in sheet.notes))
    return explore.render(
        name,
        what,
        data=data,
        words=_WORDS,
        own=("profile/verdict",),
        columns=[column for column in _COLUMNS if _known(column.key, data)],
        axes=_AXES,
        template="profile/page.html.j2",
        bars_by=_groups(data),
        headline=verdict.headline(first),
        distance=verdict.distance(first),
        how=verdict.how(first, several),
        warnings=verdict.warnings(first),
        facts=sheet.sentences if several else (*run(first), *matching.sentences(first)),
        labels=[profile.name for profile in profiles],
        chosen_by="File",
        reading=sheet.notes,
        first_tables=[table for table in shown if several or table.title in _FIRST],
        stills=stills,
        timeline_tables=[] if several else [table for table in shown if table.title in _WITH_TIMELINE],
        tables=[
            *([] if several else [one for one in shown if one.title not in (*_FIRST, *_WITH_TIMELINE)]),
            notes,
        ],
        advice=None if several else helping.cards(first.advice),
        causes=[] if several else _causes(first),
        drawn=any(profile.time_s for profile in profiles),
        timed=True,
        ridge_note="",
    )


def _known(key: str, data: dict[str, list[dict]]) -> bool:
    """Whether any line has something in that column."""
    columns = [one["columns"] for one in data["predictions"]]
    lines = [one["lines"] for one in data["programs"]]
    asked = {
        "expected": ("expected_s",),
        "against": ("expected_s",),
        "floor": ("floor_s",),
        "rate": ("flop",),
        "moved": ("bytes",),
        "intensity": ("flop", "bytes"),
        "bound": ("bound",),
    }.get(key, ())
    return all(
        any(each is not None for held in (*columns, *lines) for each in held.get(name) or ()) for name in asked
    )


def _groups(data: dict[str, list[dict]]) -> tuple[str, ...]:
    """What bars can be grouped by: what tells operations apart."""
    lines = [one["lines"] for one in data["programs"]]
    ranges = any(label for one in lines for label in one["label"])
    phases = len({phase for one in lines for phase in one["phase"]}) > 1
    return ("operation", "kind", "bound", *(("phase",) if phases else ()), *(("range",) if ranges else ()))


def _causes(profile: Profile) -> list[dict[str, str]]:
    """What a rule found, with the operations that it was found at."""
    found = []
    for one in profile.findings:
        if one.kind != "cause":
            continue
        names = set(one.rows)
        numbers = [
            number
            for number, row in enumerate(profile.rows)
            if row.name in names or any(kernel.name in names for kernel in row.observation.kernels)
        ]
        found.append(
            {
                "rule": one.rule,
                "time": duration(one.time_s) if one.time_s else "",
                "says": one.says,
                "hint": one.hint,
                "rows": json.dumps(numbers) if numbers else "",
            }
        )
    return found
