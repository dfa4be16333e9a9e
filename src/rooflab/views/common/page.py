"""The HTML page that all results share: a single file that opens without a network."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rooflab.errors import RooflabError
from rooflab.types.machine import Check, Source
from rooflab.views.common.drawing import Picture, variables
from rooflab.views.common.drawn import Drawing as Drawing  # asked for here, with what draws it
from rooflab.views.common.files import svg_text, vegalite_version
from rooflab.views.common.table import Table
from rooflab.views.common.theme import DARK, LIGHT

if TYPE_CHECKING:
    import markupsafe

# Plane widths in pixels of a desk's screen, of a tablet or paper, and of a phone; titles and axes come on top.
WIDE, MEDIUM, NARROW = 810, 540, 248
SIZES = {"wide": WIDE, "medium": MEDIUM, "narrow": NARROW}
_TEMPLATE = "common/page.html.j2"
_PADDING = {"left": 0, "right": 2, "bottom": 4}  # the page has margins of its own


_STILL = contextvars.ContextVar("still", default=False)


@contextlib.contextmanager
def still() -> Iterator[None]:
    """Pages that are made inside hold charts as pictures, which need no script, and no drawings: for notebooks."""
    token = _STILL.set(True)
    try:
        yield
    finally:
        _STILL.reset(token)


def is_still() -> bool:
    """Whether pages are made without scripts (see `still`)."""
    return _STILL.get()


def charts(result: object, drawings: Iterable[Drawing]) -> list[dict[str, Any]]:
    """The charts that `result` has data for: the `title` of each, what it `says`, and its `specs` by width.

    A chart's own title names the result, as a file of its own must; on the page that is said once, and headings
    say what each chart shows. Colours are the light ones.
    """
    drawn = []
    for each in drawings:
        specs: dict[str, object] = {}
        says = ""
        for size, width in [("medium", MEDIUM)] if _STILL.get() else SIZES.items():
            height: dict[str, Any] = {}
            if each.heights is not None:
                wide, narrow = each.heights
                height = {"height": {"wide": wide, "medium": (wide + narrow) // 2, "narrow": narrow}[size]}
            try:
                chart = each.draw(result, theme=LIGHT, width=width, **height)
            except RooflabError:
                # No roofs, or nothing to place under them: the tables hold what there is.
                chart = None
            if chart is not None:
                spec: dict[str, Any] = chart.to_dict() | {"padding": _PADDING}
                words = spec.pop("title", {})
                says = says or " ".join(words.get("subtitle", ()))
                specs[size] = spec
        if specs:
            drawn.append({"title": each.title, "says": says, "specs": specs})
    return drawn


def stills(result: object, drawings: Iterable[Drawing]) -> list[dict[str, str]]:
    """The charts that `result` has data for as pictures, for a page that is drawn otherwise.

    The `title` of each, what it `says`, and the address of its picture `wide` and `narrow`.
    """
    return [
        _still(chart, {"wide": chart["specs"]["wide"], "narrow": chart["specs"]["narrow"]})
        for chart in charts(result, drawings)
        if {"wide", "narrow"} <= set(chart["specs"])
    ]


def to_dark() -> dict[str, str]:
    """The colour of the dark theme for each of the light one."""
    pairs: dict[str, str] = {}
    for name in LIGHT._fields:
        light, dark = getattr(LIGHT, name), getattr(DARK, name)
        pairs |= zip(light, dark, strict=True) if isinstance(light, tuple) else {light: dark}
    return pairs


def render(
    name: str,
    what: str,
    *,
    heading: str = "",
    facts: Sequence[str] = (),
    charts: Sequence[dict[str, object]] = (),
    pictures: Sequence[Picture] = (),
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
        name: of the result.
        what: kind of result, for the window's title.
        heading: what the page says, where a bare name does not; else the name.
        facts: sentences under the heading.
        charts: see `charts`.
        pictures: drawings after the charts.
        ridge: a note under the first chart.
        tables: those without rows are left out.
        checks: a measurement's; those that failed come first.
        environment: what was true meanwhile.
        sources: of the numbers.
        template: one that extends the common one, below `views`.
        more: what that template asks for beside these.
    """
    pictured = [_pictured(chart) for chart in charts] if _STILL.get() else []
    return _template(template).render(
        name=name,
        what=what,
        heading=heading,
        facts=facts,
        ridge=ridge,
        tables=[table for table in tables if table.rows],
        checks=sorted(checks, key=lambda check: check.ok),
        environment=environment or Table("", (), ()),
        sources=sources,
        charts=() if pictured else charts,
        pictured=pictured,
        pictures=() if _STILL.get() else pictures,
        draw_light=variables(LIGHT),
        draw_dark=variables(DARK),
        light=LIGHT,
        dark=DARK,
        to_dark=to_dark(),
        vega=_vega() if charts and not pictured else "",
        **more,
    )


def _pictured(chart: Mapping[str, Any]) -> dict[str, str]:
    """The `title` of a chart, what it `says`, and its picture as an `address` that holds it."""
    (spec,) = chart["specs"].values()
    return _still(chart, {"address": spec})


def _still(chart: Mapping[str, Any], specs: Mapping[str, Any]) -> dict[str, str]:
    """The `title` of a chart, what it `says`, and a picture of each of `specs` by name, as an address."""
    return {"title": chart["title"], "says": chart["says"]} | {
        name: _address(spec) for name, spec in specs.items()
    }


def _address(spec: Mapping[str, Any]) -> str:
    """An address that holds the picture that `spec` describes."""
    import base64

    drawn = svg_text({**spec, "background": "transparent"})
    # A hundredth of a pixel is enough: Vega writes fifteen digits.
    text = _LONG.sub(lambda found: f"{float(found[0]):.2f}", drawn)
    # Clips are counted over all pictures of a process: within one they begin anew.
    names: dict[str, str] = {}
    text = _CLIP.sub(lambda found: names.setdefault(found[0], f"clip{len(names)}"), text)
    return f"data:image/svg+xml;base64,{base64.b64encode(text.encode()).decode()}"


_CLIP = re.compile(r"\bclip\d+\b")
_LONG = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")


@functools.cache
def _template(name: str):
    """The template of all pages, or one that extends it."""
    import jinja2

    views = Path(__file__).parents[1]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(views), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.globals["inline"] = _inline
    environment.filters["prose"] = prose
    return environment.get_template(name)


def prose(text: object) -> markupsafe.Markup:
    """`text` escaped, what stands between backticks as code: `rooflab doctor`."""
    import markupsafe

    return markupsafe.Markup(_CODE.sub(r"<code>\1</code>", str(markupsafe.escape(text))))  # escaped before


_CODE = re.compile(r"`([^`\n]+)`")


@functools.cache
def _inline(name: str):
    """The style or script in the file `name` below `views`, as it stands in a page."""
    import markupsafe

    text = (Path(__file__).parents[1] / name).read_text(encoding="utf-8")
    return markupsafe.Markup(text)  # our own file, and a test holds that no end tag is in it


@functools.cache
def _vega() -> str:
    """Vega, Vega-Lite and vega-embed as one script."""
    import vl_convert

    script = vl_convert.javascript_bundle(vl_version=vegalite_version())  # pyright: ignore[reportCallIssue] (stub lacks a default)
    # Inside <script>, only its own end tag would end it early.
    return script.replace("</script", "<\\/script")
