"""The memory wall over the years of the catalogue as people see it: a table, a page, a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from rooflab import units
from rooflab.machines.years import MONTHS, Dated, Group, Growth
from rooflab.views.common import drawing, sheet
from rooflab.views.common.drawing import Box, Drawing, Item, Line, Text, heading, picture
from rooflab.views.common.files import Writer, json_text
from rooflab.views.common.lines import Lines, csv_text
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table
from rooflab.views.common.theme import FONT_SIZE, text_width

WIDE, NARROW = 880, 350
_LEFT, _HIGH, _GAP, _SMALL = 46.0, 250.0, 74.0, FONT_SIZE - 0.5
_ROLES = ("cache1", "memory")  # of the groups, of peak and bandwidth
# What is taught, for comparison: in 18 months.
TAUGHT = (
    "Often taught: peaks grow 2 × in 18 months, bandwidth 1.1 ×. Gholami and others (AI and Memory Wall, IEEE "
    "Micro 2024) find 3.0 × and 1.6 × in two years for servers' hardware: 2.28 × and 1.42 × in 18 months."
)


def sheet_of(groups: Sequence[Group]) -> Sheet:
    """What is shown of `groups`."""
    return Sheet(
        "The memory wall, over the years of the catalogue",
        "years",
        sentences=tuple(sentence(each) for each in groups),
        tables=(_growths(groups), *(_by_year(each) for each in groups)),
        notes=(
            "Theoretical peaks and main-memory bandwidths; ridge: peak over bandwidth, the FLOP that a byte must "
            "feed. Growth: a straight line through the logarithms over years, least squares; 95 % intervals.",
            "The catalogue is a choice of machines, no sample of a market: small cards stand beside large ones.",
            TAUGHT,
        ),
    )


def sentence(group: Group) -> str:
    """What a group's numbers say, in a sentence."""
    if group.peak is None or group.bandwidth is None or group.ridge is None:
        return f"{group.name}: too few machines or years for a growth."
    ridge = group.ridge
    said = (
        f"{group.name[0].upper()}{group.name[1:]} {ridge.first} to {ridge.last}, {ridge.machines} machines: "
        f"in {MONTHS} months the "
        f"{group.what} grew {_times(group.peak)}, memory bandwidth {_times(group.bandwidth)}, "
        f"the ridge point {_times(ridge)}"
    )
    if ridge.low <= 1 <= ridge.high:
        return f"{said}: whether it grew at all cannot be told from these."
    return f"{said}: {'the wall rises' if ridge.low > 1 else 'the wall falls'}."


def writers() -> dict[str, Writer]:
    """The files that groups are written to."""
    return {
        ".json": lambda groups: json_text(as_dict(groups)).encode(),
        ".csv": lambda groups: _csv(groups).encode(),
        ".html": lambda groups: html(groups).encode(),
        **drawing.writers(drawing_of),
    }


def html(groups: Sequence[Group]) -> str:
    """A page of the picture and the tables."""
    drawn = picture("Ridge and growth", drawing_of(groups), drawing_of(groups, width=NARROW))
    return sheet.html(sheet_of(groups), pictures=(drawn,))


def show(groups: Sequence[Group], file: TextIO | None = None) -> None:
    """Print the tables."""
    sheet.show(sheet_of(groups), file)


def as_dict(groups: Sequence[Group]) -> dict[str, Any]:
    """The groups as plain data: factors of 18 months, unknown is None."""

    def growth(each: Growth | None) -> dict[str, Any] | None:
        return None if each is None else each._asdict()

    held = [
        {
            "group": each.name,
            "peak_is": each.what,
            "months": MONTHS,
            "growth": {
                "peak": growth(each.peak),
                "bandwidth": growth(each.bandwidth),
                "ridge": growth(each.ridge),
                "best_peak": growth(each.best_peak),
                "best_bandwidth": growth(each.best_bandwidth),
            },
            "machines": [machine._asdict() | {"ridge": machine.ridge} for machine in each.machines],
        }
        for each in groups
    ]
    return {"type": "Years", "schema": 1, "groups": held}


def drawing_of(groups: Sequence[Group], *, width: int = WIDE) -> Drawing:
    """Two planes: the ridge of each machine over its year, and the growth of the first group's numbers."""
    first = groups[0]
    items: list[Item] = [heading("The memory wall over the years", width)]
    y = 34.0
    series = [(each.name, each.machines, _ridge, each.ridge, 1.0) for each in groups]
    y = _plane(items, "Ridge point: FLOP for a byte of main memory", series, width, y)
    if first.peak is not None and first.bandwidth is not None:
        series = [
            (f"{first.what}, {_factor(first.peak)}", first.machines, _peak, first.peak, first.peak.at),
            (f"bandwidth, {_factor(first.bandwidth)}", first.machines, _rate, first.bandwidth, first.bandwidth.at),
        ]
        title = f"{first.name}: times what the line has in {first.peak.first}"
        y = _plane(items, title, series, width, y + 20)
    return Drawing("Ridge points and growth over the years of the catalogue", width, y, tuple(items))


def _ridge(each: Dated) -> float:
    return each.ridge


def _peak(each: Dated) -> float:
    return each.flop_per_s


def _rate(each: Dated) -> float:
    return each.bytes_per_s


Series = tuple[str, Sequence[Dated], Callable[[Dated], float], "Growth | None", float]


def _plane(items: list[Item], title: str, series: Sequence[Series], width: float, y: float) -> float:
    """Points over years on a logarithmic axis, a fitted line for each series, the legend above: where it ends."""
    items.append(Text(0, y + 10, title, bold=True))
    y += 18
    x = 0.0
    for (name, *_), role in zip(series, _ROLES, strict=False):
        if x and x + text_width(name) + 16 > width:
            x, y = 0.0, y + 17
        items.append(Box(x, y + 1, 10, 10, role, role, 0.5, round=5 if role == _ROLES[0] else 1))
        items.append(Text(x + 15, y + 10, name))
        x += text_width(name) + 34
    top = y + 24
    every = [(each.year, value(each) / unit) for _, machines, value, _, unit in series for each in machines]
    years = [year for year, _ in every]
    low, high = min(value for _, value in every) / 1.25, max(value for _, value in every) * 1.25
    begin, end = min(years) - 0.6, max(years) + 0.6

    def at(year: float, value: float) -> tuple[float, float]:
        across = _LEFT + (year - begin) / (end - begin) * (width - _LEFT - 4)
        return across, top + _HIGH * (1 - math.log(value / low) / math.log(high / low))

    for tick in _ticks(low, high):
        _, level = at(begin, tick)
        items.append(Line(((_LEFT, level), (width - 4, level)), "grid", 1.0))
        items.append(Text(_LEFT - 6, level + 4, f"{tick:g}", "muted", _SMALL, "end"))
    step = 2 if width < 600 else 1
    for year in range(min(years), max(years) + 1, step):
        items.append(Text(at(year, low)[0], top + _HIGH + 16, str(year), "muted", _SMALL, "middle"))
    for (_, machines, value, grown, unit), role in zip(series, _ROLES, strict=False):
        for each in machines:
            beside = [other for other in machines if other.year == each.year]
            shift = (beside.index(each) - (len(beside) - 1) / 2) * min(0.07, 0.8 / len(beside))
            across, level = at(each.year + shift, value(each) / unit)
            shown = f"{each.name}, {each.year}: {_number(value, each)}"
            round_ = 4.0 if role == _ROLES[0] else 1.0
            items.append(Box(across - 4, level - 4, 8, 8, role, role, 0.45, round=round_, tip=shown))
        if grown is not None:
            ends = [at(year, grown.value(year) / unit) for year in (grown.first, grown.last)]
            items.append(Line(tuple(ends), role, 2.2, dashed=grown.low <= 1 <= grown.high))
    return top + _HIGH + 26


def _number(value: Callable[[Dated], float], each: Dated) -> str:
    if value is _ridge:
        return f"{each.ridge:.3g} FLOP/byte ({each.dtype})"
    return units.si(value(each), "FLOP/s" if value is _peak else "B/s")


def _ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 and their tens within the plane; 1 and tens alone where there would be many."""
    many = math.log10(high / low) > 2.2
    steps = (1, 3) if many else (1, 2, 5)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [
        step * 10.0**power
        for power in range(first, last + 1)
        for step in steps
        if low <= step * 10.0**power <= high
    ]


def _factor(growth: Growth | None) -> str:
    return UNKNOWN if growth is None else f"{growth.factor:.2f} × in {MONTHS} months"


def _times(growth: Growth) -> str:
    return f"{growth.factor:.2f} × (95 %: {growth.low:.2f} to {growth.high:.2f})"


def _growths(groups: Sequence[Group]) -> Table:
    rows = []
    for each in groups:
        named = (
            (f"{each.name}: {each.what}", each.peak, each.best_peak),
            (f"{each.name}: memory bandwidth", each.bandwidth, each.best_bandwidth),
            (f"{each.name}: ridge point", each.ridge, None),
        )
        for name, growth, best in named:
            between = UNKNOWN if growth is None else f"{growth.low:.2f} to {growth.high:.2f}"
            factors = [UNKNOWN if one is None else f"{one.factor:.2f} ×" for one in (growth, best)]
            rows.append((name, factors[0], between, factors[1]))
    columns = ("what", f"in {MONTHS} months", "95 %", "best of each year")
    return Table(f"Growth in {MONTHS} months", columns, tuple(rows))


def _by_year(group: Group) -> Table:
    """The ridge of each year's machines."""
    rows = []
    for year in sorted({each.year for each in group.machines}):
        found = sorted((each for each in group.machines if each.year == year), key=_ridge)
        middle = found[len(found) // 2] if len(found) % 2 else None
        value = middle.ridge if middle else (found[len(found) // 2 - 1].ridge + found[len(found) // 2].ridge) / 2
        last = found[-1]
        rows.append(
            (
                str(year),
                str(len(found)),
                f"{found[0].ridge:.3g}",
                f"{value:.3g}",
                f"{last.ridge:.3g}",
                units.si(max(map(_peak, found)), "FLOP/s"),
                units.si(max(map(_rate, found)), "B/s"),
            )
        )
    columns = ("year", "machines", "ridge, least", "median", "most", f"highest {group.what}", "highest bandwidth")
    note = "Ridge in FLOP/byte."
    return Table(f"{group.name[0].upper()}{group.name[1:]} by year", columns, tuple(rows), note=note)


def _csv(groups: Sequence[Group]) -> str:
    """A line for each machine, in base units."""
    rows = [(*machine, machine.ridge) for group in groups for machine in group.machines]
    columns = ("name", "group", "year", "dtype", "flop_per_s", "bytes_per_s", "ridge")
    return csv_text(Lines(columns, list(rows)))
