"""A sweep of the teaching model as a roofline: its tiers of memory, its core, and the kernel at each value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rooflab.errors import RooflabError
from rooflab.types.lab import Sweep, TwoTierMemory
from rooflab.units import si
from rooflab.views.common import axes, labels, roof_labels
from rooflab.views.common import marks as drawing
from rooflab.views.common.axes import Plane
from rooflab.views.common.marks import Dot
from rooflab.views.common.theme import LIGHT, Theme, config
from rooflab.views.lab import terminal
from rooflab.views.lab.chart import chart as times

if TYPE_CHECKING:
    import altair as alt

_SHARE = 0.06  # of the largest mark's area: all alike
_FRACTION = "datum.value < 0.9 ? '1/' + format(1 / datum.value, ',.0f') : format(datum.value, ',.0f')"


class Roof(NamedTuple):
    """A slanted roof: what it is called, and bytes a second."""

    name: str
    value: float


def roofs(sweep: Sweep) -> tuple[Roof, ...]:
    """The memory's tiers; one that is swept at its first and last value."""
    memory = sweep.system.memory
    two = isinstance(memory, TwoTierMemory)
    swept, name = memory.slow if isinstance(memory, TwoTierMemory) else memory, "slow tier" if two else "memory"
    rates = [swept.bandwidth_bytes_per_s]
    if sweep.parameter == "bandwidth":
        rates = list(dict.fromkeys((sweep.values[0], sweep.values[-1])))
    found = [Roof(name, rate) for rate in rates]
    if isinstance(memory, TwoTierMemory):
        found.append(Roof("fast tier", memory.fast.bandwidth_bytes_per_s))
    return tuple(sorted(found, key=lambda roof: -roof.value))


def points(sweep: Sweep) -> list[tuple[float, float, float, str]]:
    """(value, FLOP/byte, FLOP/s, regime) of each value; a kernel without FLOP has no place."""
    found = []
    for value, each in zip(sweep.values, sweep.results, strict=True):
        intensity = value if sweep.parameter == "intensity" else sweep.kernel.ops_per_byte
        if intensity > 0 and each.total_s > 0:
            found.append((value, intensity, intensity * sweep.kernel.nbytes / each.total_s, each.regime))
    return found


def roofline(sweep: Sweep, *, theme: Theme = LIGHT, width: int = 720, height: int = 380) -> alt.LayerChart:
    """The kernel at each value under the roofs of its memory and core.

    A kernel that computes only when all is read lies under both roofs, at a ridge at half their height.

    Raises:
        RooflabError: no value has FLOP.
    """
    import altair as alt

    every = points(sweep)
    if not every:
        raise RooflabError(f"{sweep.name}: no FLOP at any value, so no roofline")
    slanted, peak = roofs(sweep), sweep.system.core.peak_flop_per_s
    space = plane_of(sweep, width, height)
    placed = written(sweep, space)
    rows = []
    for number, (line, colour, tip) in enumerate(_lines(slanted, peak, space, theme)):
        for end in line:
            x, y = space.data(*end)
            rows.append({"x": x, "y": y, "line": number, "colour": colour, "roof": tip})
    base = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2.2, clip=True)
    lines = base.encode(detail="line:N", color=alt.Color("colour:N", scale=None), tooltip=alt.Tooltip("roof:N"))
    dots = [
        Dot(
            x,
            y,
            0.06,
            regime,
            {sweep.parameter: terminal.value_text(sweep.parameter, value), "attains": si(y, "FLOP/s")},
        )
        for value, x, y, regime in every
    ]
    colours = drawing.bound_colours(theme)
    layers: list[Any] = [lines, *drawing.dots(dots, colours, theme, space.width, legend=True)]
    ink = {f"roof {number}": _colour(roof, theme) for number, roof in enumerate(slanted)}
    layers += roof_labels.leaders(placed, space, theme)
    layers += axes.texts(placed, space, ink, theme)
    x, y = axes.roofline_axes(space, "Arithmetic intensity (FLOP per byte read)", _FRACTION, "FLOP/s")
    drawn: Any = axes.finish(
        layers, x, y, f"{sweep.name}: as a roofline", "; ".join(terminal.fixed(sweep)), space, theme
    )
    return drawn.resolve_scale(color="independent", shape="independent")


def with_times(sweep: Sweep, *, theme: Theme = LIGHT, width: int = 720, height: int = 380) -> Any:
    """The picture of a file: times over the parameter, and under it the roofline where there is one."""
    import altair as alt

    upper: Any = times(sweep, theme=theme, width=width, height=height)
    try:
        lower: Any = roofline(sweep, theme=theme, width=width, height=height)
    except RooflabError:
        return upper
    upper.config = lower.config = alt.Undefined  # of the whole alone
    both: Any = alt.vconcat(upper, lower, spacing=30).resolve_scale(color="independent", shape="independent")
    return both.properties(config=config(theme))


def plane_of(sweep: Sweep, width: int, height: int) -> Plane:
    """Axes that hold every roof and point."""
    every, slanted, peak = points(sweep), roofs(sweep), sweep.system.core.peak_flop_per_s
    ridges = [peak / roof.value for roof in slanted]
    xs = [x for _, x, _, _ in every]
    x0 = min([*ridges, *xs]) / 4
    room = axes.room_right(x0, max([*ridges, *xs]), [_peak_text(peak)], width)
    x1 = max(4 * max([*ridges, *xs]), room)
    low = min([y for _, _, y, _ in every] + [peak / 30])
    return Plane(x0, x1, low / 2, peak * 3, width, height)


def written(sweep: Sweep, space: Plane) -> tuple[labels.Placed, ...]:
    """The names of the roofs, and of the first and last value beside its mark."""
    slanted, peak, every = roofs(sweep), sweep.system.core.peak_flop_per_s, points(sweep)
    lines = [_slanted(roof.value, peak, space) for roof in slanted]
    flat = _flat(slanted[0].value, peak, space)
    wanted = [roof_labels.flat("peak", (_peak_text(peak),), flat)]
    for number, (roof, line) in enumerate(zip(slanted, lines, strict=True)):
        texts = (f"{roof.name} {si(roof.value, 'B/s')}", roof.name)
        wanted.append(roof_labels.slanted(f"roof {number}", texts, line, lines[-1]))
    for number in dict.fromkeys((0, len(every) - 1)):
        value, x, y, _ = every[number]
        text = terminal.value_text(sweep.parameter, value)
        spots = axes.around(text, *space.pixel(x, y), 9)[:16]
        wanted.append(labels.Label(f"value {number}", ((text, spots),), needed=False))
    taken = [labels.Box(*space.pixel(x, y), 12, 12) for _, x, y, _ in every]
    return labels.place(wanted, taken, space.frame(), [*lines, flat])


def _lines(slanted: tuple[Roof, ...], peak: float, space: Plane, theme: Theme) -> list[tuple[Any, str, str]]:
    found: list[tuple[Any, str, str]] = [
        (_slanted(roof.value, peak, space), _colour(roof, theme), f"{roof.name} {si(roof.value, 'B/s')}")
        for roof in slanted
    ]
    return [*found, (_flat(slanted[0].value, peak, space), theme.ink, _peak_text(peak))]


def _slanted(value: float, peak: float, space: Plane) -> tuple[labels.Vertex, labels.Vertex]:
    start = max(space.x0, space.y0 / value)
    return space.pixel(start, start * value), space.pixel(peak / value, peak)


def _flat(fastest: float, peak: float, space: Plane) -> tuple[labels.Vertex, labels.Vertex]:
    return space.pixel(peak / fastest, peak), space.pixel(space.x1, peak)


def _colour(roof: Roof, theme: Theme) -> str:
    return theme.caches[1] if roof.name == "fast tier" else theme.memory


def _peak_text(peak: float) -> str:
    return f"core {si(peak, 'FLOP/s')}"
