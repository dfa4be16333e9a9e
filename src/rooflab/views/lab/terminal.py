"""A sweep of the teaching model in the terminal: both times as curves, a table, where the regime turns."""

from __future__ import annotations

import math
from typing import TextIO

from rooflab import units
from rooflab.types.lab import Memory, Sweep, System, TwoTierMemory
from rooflab.views.common.console import console, drawn_table, speaks_unicode
from rooflab.views.common.table import Table
from rooflab.views.machine.text_roofline import plotted

ROWS = 12
_LEAST = 24  # fewer columns than this show nothing
# The dots of a Braille cell by row and column: Unicode chapter 21.1, U+2800 plus one bit a dot.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_UNITS = {"bandwidth": "B/s", "intensity": "FLOP/byte"}


def show(sweep: Sweep, file: TextIO | None = None) -> None:
    """Print `sweep`: what was held fixed, the curves, the table, where it turns."""
    from rich.text import Text

    out = console(file)
    out.print(Text(sweep.name, style="bold"))
    for line in fixed(sweep):
        out.print(Text(line))
    drawn = sketch(sweep, min(out.width - 2, 76), unicode=file is None or speaks_unicode(file))
    if drawn:
        out.print(Text(f"\n{drawn}", no_wrap=True))
    out.print(Text(""))
    for part in drawn_table(table(sweep), out.width):
        out.print(part)
    roofline = as_roofline(sweep, min(out.width - 2, 76), unicode=file is None or speaks_unicode(file))
    if roofline:
        out.print(Text(f"\nAs a roofline\n{roofline}", no_wrap=True))
    elif as_roofline(sweep):
        out.print(Text("\nAs a roofline: on a wider terminal, or -o lab.html."))
    out.print(Text(f"\n{turning(sweep)}"))


def as_roofline(sweep: Sweep, width: int = 76, *, unicode: bool = True) -> str:
    """The same under its roofs: the memory's tiers, the core, the kernel at its first and last value."""
    from rooflab.views.lab.roofline import points, roofs

    every = points(sweep)
    if not every:
        return ""
    left = [(roof.value, f"{roof.name} {units.si(roof.value, 'B/s')}") for roof in roofs(sweep)]
    peak = sweep.system.core.peak_flop_per_s
    named = {0, len(every) - 1}
    marks = [
        (x, y, value_text(sweep.parameter, value) if number in named else "")
        for number, (value, x, y, _) in enumerate(every)
    ]
    return plotted(left, [(peak, f"core {units.si(peak, 'FLOP/s')}")], marks, width, unicode=unicode)


def fixed(sweep: Sweep) -> list[str]:
    """What is held fixed: the kernel, the core, the memory; the one that varies is left out."""
    kernel, system = sweep.kernel, sweep.system
    ops = "" if sweep.parameter == "intensity" else f", {kernel.ops_per_byte:g} FLOP/byte"
    access = (
        "sequential" if kernel.access_pattern == "sequential" else f"random, {kernel.access_bytes} B at a time"
    )
    how = "computes while it reads" if system.overlap else "computes when all is read"
    return [
        f"The kernel reads {units.si(kernel.nbytes, 'B')}{ops}, {access}",
        f"The core: {units.si(system.core.peak_flop_per_s, 'FLOP/s')}, {how}",
        f"The memory: {_memory(system, sweep.parameter)}",
    ]


def table(sweep: Sweep) -> Table:
    """Times and regime at each value."""
    rows = [
        (
            value_text(sweep.parameter, value),
            each.regime,
            units.si(each.memory_s, "s"),
            units.si(each.compute_s, "s"),
            units.si(each.total_s, "s"),
        )
        for value, each in zip(sweep.values, sweep.results, strict=True)
    ]
    return Table(
        "", (sweep.parameter.replace("-", " "), "regime", "memory", "compute", "total"), tuple(rows), words=2
    )


def turning(sweep: Sweep) -> str:
    """Where memory and arithmetic take the same time, in one sentence."""
    if sweep.turns_at is None:
        regimes = " or ".join(dict.fromkeys(each.regime for each in sweep.results))
        return f"It never turns within these values: {regimes} throughout."
    what = {"bandwidth": "", "intensity": "", "hit-rate": "a hit rate of "}[sweep.parameter]
    return f"Memory and arithmetic take the same time at {what}{value_text(sweep.parameter, sweep.turns_at)}."


def value_text(parameter: str, value: float) -> str:
    """`value` of `parameter` with its unit."""
    if parameter == "hit-rate":
        return f"{value:.3g}"
    if parameter == "intensity" and value >= 1000:  # nobody counts kFLOP for a byte
        return f"{value:,.0f} FLOP/byte"
    return units.si(value, _UNITS[parameter])


def _memory(system: System, parameter: str) -> str:
    memory = system.memory
    if isinstance(memory, TwoTierMemory):
        hits = "" if parameter == "hit-rate" else f"{units.percent(memory.hit_rate)} from the "
        fast = _tier(memory.fast, False)
        slow = _tier(memory.slow, parameter == "bandwidth")
        return f"{hits}fast tier ({fast}), the rest from the slow one ({slow})"
    return _tier(memory, parameter == "bandwidth")


def _tier(memory: Memory, varied: bool) -> str:
    speed = "" if varied else f"{units.si(memory.bandwidth_bytes_per_s, 'B/s')}, "
    return f"{speed}latency {units.si(memory.latency_s, 's')}"


def sketch(sweep: Sweep, width: int = 76, *, unicode: bool = True) -> str:
    """Memory, compute and total time over the parameter in at most `width` columns; empty without room."""
    # The value axis is that of the sweep: logarithmic unless it starts at zero.
    if len(sweep.values) < 2 or sweep.values[0] == sweep.values[-1]:
        return ""
    log_x = sweep.parameter != "hit-rate" and sweep.values[0] > 0
    lines = {
        name: [getattr(each, f"{name}_s") for each in sweep.results] for name in ("total", "memory", "compute")
    }
    values = [value for line in lines.values() for value in line if value > 0]
    low, high = min(values), max(values)
    gutter, margin = 10, 9
    columns = width - gutter - margin
    if columns < _LEAST or low == high:
        return ""

    def row(seconds: float) -> float:
        height = (math.log(max(seconds, low)) - math.log(low)) / (math.log(high) - math.log(low))
        return (1 - height) * (ROWS - 1) + 0.5

    across, down = (2, 4) if unicode else (1, 1)
    dots: dict[tuple[int, int], int | str] = {}
    for name, line in lines.items():
        for step in range(columns * across):
            at = int(row(_between(sweep.values, line, (step + 0.5) / columns / across, log_x)) * down)
            cell = (min(at, ROWS * down - 1) // down, step // across)
            if unicode:
                dots[cell] = int(dots.get(cell, 0)) | _DOTS[at % 4][step % 2]
            else:
                dots[cell] = name[0]
    wall, corner, floor = ("│", "└", "─") if unicode else ("|", "+", "-")
    names = _names({name: row(line[-1]) for name, line in lines.items()})
    rows = []
    for y in range(ROWS):
        cells = [dots.get((y, x), " ") for x in range(columns)]
        text = "".join(chr(0x2800 + cell) if isinstance(cell, int) else cell for cell in cells)
        edge = units.si(high if y == 0 else low, "s") if y in (0, ROWS - 1) else ""
        rows.append(f"{edge:>{gutter - 2}} {wall}{text} {names.get(y, '')}".rstrip())
    rows.append(" " * (gutter - 1) + corner + floor * columns)
    ends = [value_text(sweep.parameter, value) for value in (sweep.values[0], sweep.values[-1])]
    rows.append(" " * gutter + ends[0] + ends[1].rjust(columns - len(ends[0])))
    return "\n".join(rows)


def _between(values: tuple[float, ...], line: list[float], share: float, log_x: bool) -> float:
    """The line's value at `share` of the axis, straight between its points on logarithmic times."""
    first, last = values[0], values[-1]
    if log_x:
        x = math.exp(math.log(first) * (1 - share) + math.log(last) * share)
    else:
        x = first + share * (last - first)
    after = next((i for i, value in enumerate(values) if value >= x), len(values) - 1)
    before = max(after - 1, 0)
    if before == after or line[before] <= 0 or line[after] <= 0:
        return line[after]
    a, b = values[before], values[after]
    part = (math.log(x) - math.log(a)) / (math.log(b) - math.log(a)) if log_x else (x - a) / (b - a)
    return math.exp(math.log(line[before]) * (1 - part) + math.log(line[after]) * part)


def _names(wanted: dict[str, float]) -> dict[int, str]:
    """Each name on its own row, in the order of the lines' ends, from near its end downward."""
    taken: dict[int, str] = {}
    below = len(wanted)
    for name, at in sorted(wanted.items(), key=lambda item: item[1]):
        # Room is kept for the names that are still to come.
        taken[min(max(int(at), max(taken, default=-1) + 1), ROWS - below)] = name
        below -= 1
    return taken
