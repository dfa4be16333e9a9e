"""Drawings of boxes, lines and words that are no charts: one definition for a page, SVG, PNG and PDF."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import Any, Literal, NamedTuple

from rooflab.views.common import files
from rooflab.views.common.files import Writer, plain
from rooflab.views.common.style import SCREEN, Style
from rooflab.views.common.theme import BOLD, DARK, FONT, FONT_SIZE, LIGHT, Theme, shorten, text_width

Anchor = Literal["start", "middle", "end"]
# Names of colours: what `colour` knows. Drawings name a colour by its role, so that each is light and dark.
ROLES = ("paper", "ink", "muted", "grid", "cache0", "cache1", "cache2", "cache3", "memory", "point")
# What XML cannot hold at all.


class Box(NamedTuple):
    """A rectangle, from its upper left corner; `fill` and `stroke` are roles, `tint` the fill's opacity."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = "muted"
    tint: float = 1.0
    thick: float = 1.0
    dashed: bool = False
    round: float = 3.0
    tip: str = ""


class Line(NamedTuple):
    """A line through points; an arrow's head at its end where asked."""

    points: tuple[tuple[float, float], ...]
    stroke: str = "muted"
    thick: float = 1.2
    dashed: bool = False
    arrow: bool = False
    tip: str = ""
    curved: bool = False


class Text(NamedTuple):
    """Words at a point of their baseline."""

    x: float
    y: float
    text: str
    colour: str = "ink"
    size: float = FONT_SIZE
    anchor: Anchor = "start"
    bold: bool = False
    tip: str = ""

    def span(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of what is written."""
        wide = text_width(self.text, self.size) * (BOLD if self.bold else 1.0)
        left = self.x - {"start": 0.0, "middle": wide / 2, "end": wide}[self.anchor]
        return left, self.y - 0.78 * self.size, left + wide, self.y + 0.22 * self.size


Item = Box | Line | Text


class Drawing(NamedTuple):
    """A picture of a fixed size.

    Attributes:
        title: what it shows, for those who cannot see it too.
        items: back to front.
    """

    title: str
    width: float
    height: float
    items: tuple[Item, ...]

    def texts(self) -> tuple[Text, ...]:
        """Everything that is written in it."""
        return tuple(item for item in self.items if isinstance(item, Text))

    def overlaps(self) -> tuple[tuple[str, str], ...]:
        """Pairs of words that lie on each other: there should be none."""
        texts, found = [(text.text, text.span()) for text in self.texts()], []
        for number, (one, (left, top, right, bottom)) in enumerate(texts):
            for other, (left2, top2, right2, bottom2) in texts[number + 1 :]:
                if min(right, right2) - max(left, left2) > 1 and min(bottom, bottom2) - max(top, top2) > 1:
                    found.append((one, other))
        return tuple(found)


def colour(role: str, theme: Theme) -> str:
    """The colour of `role` in `theme`."""
    if role.startswith("cache"):
        return theme.caches[int(role[5:]) % len(theme.caches)]
    return theme.background if role == "paper" else getattr(theme, role)


HEAD = 22.0  # pixels from the top that a heading takes
_HEADING_SIZE = 14.0


def heading(text: str, width: float) -> Text:
    """What a drawing is of, at its top: a file needs it, a page has it already."""
    return Text(0, 15, shorten(text, width / BOLD, _HEADING_SIZE), size=_HEADING_SIZE, bold=True)


def svg(drawing: Drawing, theme: Theme | None = LIGHT, margin: float = 14, headed: bool = True) -> str:
    """The drawing as SVG.

    Args:
        drawing: to write.
        theme: its colours; None for those of the page that it is put into, which follow light and dark.
        margin: around it, on the background of the theme, as a file of its own has it; 0 for no background.
        headed: whether its heading is drawn, where it begins with one.
    """
    paint: Callable[[str], str] = (
        (lambda role: f"var(--draw-{role})") if theme is None else (lambda role: colour(role, theme))
    )
    items = drawing.items if headed else tuple(item for item in drawing.items if not _is_heading(item))
    top = 0.0 if len(items) == len(drawing.items) else HEAD
    width, height = drawing.width + 2 * margin, drawing.height - top + 2 * margin
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {_n(top)} {_n(width)} {_n(height)}" '
        f'width="{_n(width)}" height="{_n(height)}" font-family={_quoted(FONT)} role="img" '
        f"aria-label={_quoted(drawing.title)}>"
    ]
    if margin:
        parts.append(f'<rect width="100%" height="100%" fill="{paint("paper")}"/>')
        parts.append(f'<g transform="translate({margin} {margin})">')
    parts += [_WRITERS[type(item)](item, paint) for item in items]
    return "".join(parts) + ("</g></svg>" if margin else "</svg>")


def _is_heading(item: Item) -> bool:
    return isinstance(item, Text) and item.bold and item.size == _HEADING_SIZE and item.y < HEAD


class _Writer(files.Picture):
    """A writer of the drawing that `draw` makes of a result, in the look that is asked for."""

    def __call__(
        self,
        result: Any,
        style: Style = SCREEN,
        scale: float | None = None,
        drawn: dict[int, files.Drawn] | None = None,
    ) -> bytes:
        """The content of the file.

        Args:
            result: to draw.
            style: of the picture.
            scale: of a PNG: its pixels for one of the drawing's.
            drawn: not used: a drawing takes no time, and is made for each format.
        """
        draw: Callable[..., Any] = self.draw
        if style.inches is None:
            text = svg(draw(result), style.theme)
        else:
            text = svg(draw(result, width=style.pixels - 2 * _PRINTED_MARGIN), style.theme, _PRINTED_MARGIN)
        return self.render(files.Drawn(text, style, scale))


_PRINTED_MARGIN = 2  # pixels


def writers(draw: Callable[..., Drawing]) -> dict[str, Writer]:
    """Writers of the drawing that `draw` makes of a result, as wide as asked: .svg, .png and .pdf."""
    return {suffix: _Writer(draw, render) for suffix, render in files.RENDERS.items()}  # type: ignore[arg-type]


class Picture(NamedTuple):
    """A drawing on a page, under a heading: for a desk's screen and paper, and for a phone's.

    Attributes:
        notes: sentences below it.
    """

    title: str
    wide: str
    narrow: str
    notes: tuple[str, ...] = ()


def picture(title: str, wide: Drawing, narrow: Drawing | None = None, notes: Iterable[str] = ()) -> Picture:
    """What a page holds of a drawing: in colours that follow light and dark."""
    return Picture(
        title,
        svg(wide, None, 0, headed=False),
        "" if narrow is None else svg(narrow, None, 0, headed=False),
        tuple(notes),
    )


def variables(theme: Theme) -> str:
    """The colours of `theme` as variables of a style sheet."""
    return " ".join(f"--draw-{role}: {colour(role, theme)};" for role in ROLES)


THEMES = {"light": LIGHT, "dark": DARK}


def _box(box: Box, paint: Callable[[str], str]) -> str:
    fill = "none" if box.fill is None else paint(box.fill)
    parts = [
        f'<rect x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" height="{_n(box.height)}" fill="{fill}"'
    ]
    if box.fill is not None and box.tint != 1:
        parts.append(f' fill-opacity="{_n(box.tint)}"')
    if box.stroke is not None:
        parts.append(f' stroke="{paint(box.stroke)}" stroke-width="{_n(box.thick)}"')
    if box.dashed:
        parts.append(' stroke-dasharray="4 3"')
    if box.round:
        parts.append(f' rx="{_n(box.round)}"')
    return "".join(parts) + _closed("rect", box.tip)


def _line(line: Line, paint: Callable[[str], str]) -> str:
    first, *rest = line.points
    if line.curved and len(rest) == 1:
        (x0, y0), (x1, y1) = first, rest[0]
        middle = (y0 + y1) / 2
        path = f"M{_n(x0)} {_n(y0)}C{_n(x0)} {_n(middle)} {_n(x1)} {_n(middle)} {_n(x1)} {_n(y1)}"
    else:
        path = f"M{_n(first[0])} {_n(first[1])}" + "".join(f"L{_n(x)} {_n(y)}" for x, y in rest)
    dash = ' stroke-dasharray="4 3"' if line.dashed else ""
    stroke = f'stroke="{paint(line.stroke)}" stroke-width="{_n(line.thick)}"'
    drawn = f'<path d="{path}" fill="none" {stroke}{dash}' + _closed("path", line.tip)
    return drawn + (_head(line, paint) if line.arrow else "")


def _head(line: Line, paint: Callable[[str], str]) -> str:
    """A triangle at the end of a line, in its direction."""
    (x0, y0), (x1, y1) = line.points[-2:]
    if line.curved and len(line.points) == 2:
        x0 = x1  # a curve arrives from straight above or below
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or 1.0
    along, down = (x1 - x0) / length, (y1 - y0) / length
    size = 3.2 + 1.4 * line.thick
    back = (x1 - along * size * 1.6, y1 - down * size * 1.6)
    points = ((x1, y1), (back[0] - down * size / 1.6, back[1] + along * size / 1.6))
    points += ((back[0] + down * size / 1.6, back[1] - along * size / 1.6),)
    text = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
    return f'<polygon points="{text}" fill="{paint(line.stroke)}"/>'


def _text(text: Text, paint: Callable[[str], str]) -> str:
    weight = ' font-weight="600"' if text.bold else ""
    anchor = "" if text.anchor == "start" else f' text-anchor="{text.anchor}"'
    tip = f"<title>{_escaped(text.tip)}</title>" if text.tip else ""
    return (
        f'<text x="{_n(text.x)}" y="{_n(text.y)}" font-size="{_n(text.size)}" fill="{paint(text.colour)}"'
        f"{anchor}{weight}>{tip}{_escaped(text.text)}</text>"
    )


_WRITERS: dict[type, Callable[[Any, Callable[[str], str]], str]] = {Box: _box, Line: _line, Text: _text}


def _closed(tag: str, tip: str) -> str:
    return f"><title>{_escaped(tip)}</title></{tag}>" if tip else "/>"


def _escaped(text: str) -> str:
    return escape(plain(text), quote=False)


def _quoted(text: str) -> str:
    return '"' + escape(plain(text)).replace("\n", "&#10;").replace("\t", "&#9;") + '"'


def _n(value: float) -> str:
    """A coordinate: a tenth of a pixel is enough."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def extent(items: Iterable[Item]) -> tuple[float, float]:
    """The right and lower ends of what is drawn."""
    right = bottom = 0.0
    for item in items:
        if isinstance(item, Box):
            right, bottom = max(right, item.x + item.width), max(bottom, item.y + item.height)
        elif isinstance(item, Line):
            right = max(right, *(x for x, _ in item.points))
            bottom = max(bottom, *(y for _, y in item.points))
        else:
            _, _, end, low = item.span()
            right, bottom = max(right, end), max(bottom, low)
    return right, bottom
