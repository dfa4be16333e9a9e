"""The plane that a chart is drawn in: data coordinates to pixels and back, ticks, drawing helpers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rooflab.views.common.labels import Box, Placed, Vertex
from rooflab.views.common.theme import BOLD, FONT_SIZE, Theme, config, shorten, text_width

if TYPE_CHECKING:
    import altair as alt

TEXT_HEIGHT = FONT_SIZE * 1.25


class Plane(NamedTuple):
    """A chart of fixed size with fixed logarithmic (or linear) axes: angles in it are known."""

    x0: float
    x1: float
    y0: float
    y1: float
    width: float
    height: float
    log_x: bool = True
    log_y: bool = True

    def pixel(self, x: float, y: float) -> Vertex:
        """Pixels from the top left of the point (x, y)."""
        across = _share(x, self.x0, self.x1, self.log_x)
        up = _share(y, self.y0, self.y1, self.log_y)
        return across * self.width, (1 - up) * self.height

    def data(self, across: float, down: float) -> Vertex:
        """The point that lies `across` and `down` pixels from the top left."""
        return (
            _at(across / self.width, self.x0, self.x1, self.log_x),
            _at(1 - down / self.height, self.y0, self.y1, self.log_y),
        )

    def frame(self) -> Box:
        """The whole plane."""
        return Box(self.width / 2, self.height / 2, self.width, self.height)


def _share(value: float, low: float, high: float, log: bool) -> float:
    return math.log(value / low) / math.log(high / low) if log else (value - low) / (high - low)


def _at(share: float, low: float, high: float, log: bool) -> float:
    return low * (high / low) ** share if log else low + share * (high - low)


def box(text: str, x: float, y: float, angle: float = 0.0, size: float = FONT_SIZE) -> Box:
    """The box of `text` centred on pixel (x, y)."""
    return Box(x, y, text_width(text, size) + 4, size * 1.25, angle)


def around(text: str, x: float, y: float, gap: float = 8.0) -> tuple[Box, ...]:
    """Places for `text` around a mark at pixel (x, y): right, left, above, below, then further off."""
    half, places = text_width(text) / 2 + 2, []
    for away in (gap, gap * 2, gap * 3.5):
        side, over = half + away, TEXT_HEIGHT / 2 + away
        for dx, dy in ((side, 0), (-side, 0), (0, -over), (0, over)):
            places.append(box(text, x + dx, y + dy))
        for dx, dy in ((side, over), (-side, over), (side, -over), (-side, -over)):
            places.append(box(text, x + dx * 0.9, y + dy * 0.9))
    return tuple(places)


def powers(low: float, high: float, base: float = 10.0, steps: Sequence[float] = (1.0,)) -> list[float]:
    """Each step × base^n from `low` to `high`, ascending."""
    first, last = math.floor(math.log(low, base)) - 1, math.ceil(math.log(high, base)) + 1
    every = (step * base**n for n in range(first, last + 1) for step in steps)
    return sorted(value for value in every if low * (1 - 1e-9) <= value <= high * (1 + 1e-9))


def decades(low: float, high: float) -> list[float]:
    """Ticks for a logarithmic axis: 1-2-5 steps under two decades, else powers of ten."""
    return powers(low, high, 10.0, (1, 2, 5) if high / low < 100 else (1,))


def texts(placed: Sequence[Placed], plane: Plane, colours: dict[str, str], theme: Theme) -> list[alt.Chart]:
    """Layers that write each label at its place, a halo of the background under it."""
    import altair as alt

    layers = []
    for angle in dict.fromkeys(label.box.angle for label in placed):
        rows = []
        for label in placed:
            if label.box.angle == angle:
                x, y = plane.data(label.box.x, label.box.y)
                rows.append({"x": x, "y": y, "text": label.text, "colour": colours.get(label.key, theme.ink)})
        base = alt.Chart(alt.Data(values=rows)).encode(x="x:Q", y="y:Q", text="text:N")
        # Vega turns clockwise from 0 to 360.
        style: dict[str, Any] = {
            "fontSize": FONT_SIZE,
            "angle": angle % 360,
            "baseline": "middle",
            "align": "center",
        }
        halo = base.mark_text(**style, stroke=theme.background, strokeWidth=3.5, strokeJoin="round")
        fill = base.mark_text(**style).encode(color=alt.Color("colour:N", scale=None))
        layers += [halo, fill]
    return layers


def finish(
    layers: Sequence[alt.Chart], x: alt.X, y: alt.Y, title: str, subtitle: str, plane: Plane, theme: Theme
) -> alt.LayerChart:
    """The layers over each other on the axes `x` and `y`, with a title, and `subtitle` under it."""
    import altair as alt

    words = title_of(title, subtitle, plane.width)
    chart = alt.layer(*(layer.encode(x=x, y=y) for layer in layers))
    # altair's `layer` may give a facet; never of layers without one.
    return cast(
        "alt.LayerChart",
        chart.properties(width=plane.width, height=plane.height, title=words, config=config(theme)),
    )


def on(layer: Any, x: alt.X, y: alt.Y) -> Any:
    """`layer` on those axes; one with a y of its own, such as a bar's end, keeps it and takes the axis."""
    import altair as alt

    own: Any = getattr(layer.encoding, "y", alt.Undefined)
    if own is alt.Undefined:
        return layer.encode(x=x, y=y)
    fields: Any = y.to_dict()
    moved = alt.Y(own.shorthand, **{name: fields[name] for name in ("title", "scale", "axis") if name in fields})
    return layer.encode(x=x, y=moved)


TITLE_SIZE = 16.0


def title_of(title: str, subtitle: str, width: float) -> Any:
    """The title of a chart whose plane is `width` wide, in at most two lines, and `subtitle` under it."""
    import altair as alt

    bold = TITLE_SIZE * BOLD
    lines = wrap(title, width + 60, bold)
    if len(lines) > 2:
        lines = [lines[0], " ".join(lines[1:])]
    text = [shorten(line, width + 60, bold) for line in lines]
    return alt.TitleParams(
        text=text if len(text) > 1 else text[0], subtitle=wrap(subtitle, width + 50), fontSize=TITLE_SIZE
    )


def wrap(text: str, width: float, size: float = 12.0) -> list[str]:
    """`text` in lines of at most `width` pixels, broken at spaces."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


_TITLED = 260  # pixels of a plane beside which a title of the y axis has room: a phone's has not


def octaves(space: Plane) -> float:
    """Doublings from the left end of a logarithmic axis to its right end."""
    return math.log2(space.x1 / space.x0)


def roofline_axes(space: Plane, title: str, fraction: str, unit: str) -> tuple[alt.X, alt.Y]:
    """The axes of a roofline: its intensity, called `title` and written by `fraction` below one, and `unit`."""
    import altair as alt

    doublings = octaves(space)
    # A tick every second doubling, or fourth, or further apart where their numbers need it.
    needed = text_width(f"{space.x1:,.0f}", 11) + 10
    every = next((n for n in (2, 4, 8) if space.width * n / doublings >= needed), 12)
    # A narrow plane has room for the unit alone.
    if text_width(title, 12) > space.width + 20 and "(" in title:
        title = title.partition("(")[2].rstrip(")")
    x = alt.X(
        "x:Q",
        title=title,
        scale=alt.Scale(type="log", base=2, domain=[space.x0, space.x1], nice=False),
        axis=alt.Axis(values=powers(space.x0, space.x1, 2.0**every), labelExpr=fraction),
    )
    y = alt.Y(
        "y:Q",
        title="Performance" if space.width >= _TITLED else None,
        scale=alt.Scale(type="log", domain=[space.y0, space.y1], nice=False),
        axis=alt.Axis(values=decades(space.y0, space.y1), labelExpr=si_label(unit)),
    )
    return x, y


def room_right(x0: float, last: float, texts: Sequence[str], width: float) -> float:
    """Where a logarithmic axis from `x0` ends so that the longest of `texts` fits right of `last`.

    At most three fifths of the axis are given to it.
    """
    share = min(0.6, (max(map(text_width, texts), default=0.0) + 24) / width)
    return x0 * (last / x0) ** (1 / (1 - share))


PERCENT = "format(100 * datum.value, '~r') + ' %'"  # a Vega expression that writes a tick as `units.percent` does


def si_label(unit: str) -> str:
    """A Vega expression that writes a tick with an SI prefix: "100 GFLOP/s"."""
    written = f"datum.value + ' {unit}'"
    # Small to large, so that the largest prefix is asked for first.
    for prefix, size in (("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15), ("E", 1e18)):
        value = f"format(datum.value / {size:g}, '~r')"
        written = f"datum.value >= {size * 0.999:g} ? {value} + ' {prefix}{unit}' : {written}"
    return written
