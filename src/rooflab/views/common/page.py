"""The HTML page that all results share: a single file that opens without a network."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rooflab.errors import RooflabError
from rooflab.types.machine import Check, Source
from rooflab.views.common.files import vegalite_version
from rooflab.views.common.table import Table
from rooflab.views.common.theme import DARK, LIGHT

if TYPE_CHECKING:
    import altair as alt

# Plane widths in pixels: of a desk's screen and of a phone's, titles and axes come on top.
WIDE, NARROW = 810, 248
_TEMPLATE = "common/page.html.j2"
_PADDING = {"left": 0, "right": 2, "bottom": 4}  # the page has margins of its own


class Drawing(NamedTuple):
    """A chart of a page.

    Attributes:
        title: of the chart, for those who cannot see it.
        draw: takes the result, `theme`, `width` and `height`; returns None, or raises a RooflabError, where there
            is nothing to draw.
        heights: pixels of the plane on a wide and on a narrow page; None where `draw` knows by itself.
        margin: pixels of the width that a legend beside the plane takes.
    """

    title: str
    draw: Callable[..., alt.LayerChart | alt.VConcatChart | None]
    heights: tuple[int, int] | None = None
    margin: int = 0


def charts(result: object, drawings: Iterable[Drawing]) -> list[dict[str, object]]:
    """The charts that `result` has data for: the `title` of each and its `specs` by theme and width."""
    drawn = []
    for each in drawings:
        specs: dict[str, object] = {}
        for name, theme in (("light", LIGHT), ("dark", DARK)):
            for number, (size, width) in enumerate((("wide", WIDE), ("narrow", NARROW))):
                height: dict[str, Any] = {} if each.heights is None else {"height": each.heights[number]}
                try:
                    chart = each.draw(result, theme=theme, width=width - each.margin, **height)
                except RooflabError:
                    # No roofs, or nothing to place under them: the tables hold what there is.
                    chart = None
                if chart is not None:
                    specs[f"{name} {size}"] = chart.to_dict() | {"padding": _PADDING}
        if specs:
            drawn.append({"title": each.title, "specs": specs})
    return drawn


def render(
    name: str,
    what: str,
    *,
    facts: Sequence[str] = (),
    charts: Sequence[dict[str, object]] = (),
    ridge: str = "",
    tables: Sequence[Table] = (),
    checks: Sequence[Check] = (),
    environment: Table | None = None,
    sources: Sequence[Source] = (),
    template: str = _TEMPLATE,
    **more: object,
) -> str:
    """The page of the result called `name`: facts, failed checks, charts, tables, environment, sources.

    Vega is inlined and nothing is loaded from elsewhere. All text of the result is escaped.

    Args:
        name: the heading.
        what: kind of result, for the window's title.
        facts: sentences under the heading.
        charts: see `charts`.
        ridge: a note under the first chart.
        tables: those without rows are left out.
        checks: a measurement's; those that failed come first.
        environment: what was true meanwhile.
        sources: of the numbers.
        template: one that extends the common one, below `views`.
        more: what that template asks for beside these.
    """
    return _template(template).render(
        name=name,
        what=what,
        facts=facts,
        ridge=ridge,
        tables=[table for table in tables if table.rows],
        checks=sorted(checks, key=lambda check: check.ok),
        environment=environment or Table("", (), ()),
        sources=sources,
        charts=charts,
        light=LIGHT,
        dark=DARK,
        vega=_vega() if charts else "",
        **more,
    )


@functools.cache
def _template(name: str):
    """The template of all pages, or one that extends it."""
    import jinja2

    views = Path(__file__).parents[1]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(views), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    return environment.get_template(name)


@functools.cache
def _vega() -> str:
    """Vega, Vega-Lite and vega-embed as one script."""
    import vl_convert

    script = vl_convert.javascript_bundle(vl_version=vegalite_version())  # pyright: ignore[reportCallIssue] (stub lacks a default)
    # Inside <script>, only its own end tag would end it early.
    return script.replace("</script", "<\\/script")
