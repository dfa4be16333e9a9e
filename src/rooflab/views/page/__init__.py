"""One HTML page that shows a machine: a single file that opens without a network."""

from __future__ import annotations

import functools
from pathlib import Path

from rooflab.types.machine import Check, Machine
from rooflab.views import tables
from rooflab.views.theme import DARK, LIGHT

# Plane widths in pixels: of a desk's screen and of a phone's, titles and axes come on top.
WIDE, NARROW = 810, 262
_TEMPLATE = "machine.html.j2"


def render(machine: Machine) -> str:
    """The page of `machine`: charts, tables, failed checks first, environment and sources.

    Vega is inlined and nothing is loaded from elsewhere. All text from the machine is escaped.
    """
    return template().render(
        machine=machine,
        what="roofs",
        facts=tables.facts(machine),
        ridge=tables.ridge_sentence(machine),
        tables=tables.every(machine),
        checks=failed_first(machine.checks),
        environment=tables.environment(machine),
        sources=tables.sources(machine),
        charts=charts(machine),
        light=LIGHT,
        dark=DARK,
        vega=vega(),
    )


def failed_first(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """The checks with those that failed in front, else in order."""
    return tuple(sorted(checks, key=lambda check: check.ok))


def charts(machine: Machine) -> list[dict[str, object]]:
    """Each chart that `machine` has data for: its `title` and its `specs` by theme and width."""
    from rooflab.errors import RooflabError
    from rooflab.views import chart, curves

    made = []
    for title, draw, heights in (
        ("Roofline", chart.roofline, (460, 330)),
        ("Bandwidth over working set", curves.bandwidth, (340, 280)),
        ("Latency over working set", curves.latency, (340, 280)),
        ("Thread scaling", curves.scaling, (220, 200)),
    ):
        specs = {}
        for name, theme in (("light", LIGHT), ("dark", DARK)):
            for size, width, height in (("wide", WIDE, heights[0]), ("narrow", NARROW, heights[1])):
                try:
                    drawn = draw(machine, theme=theme, width=width, height=height)
                except RooflabError:
                    # A system or a storage device may have no roofline: its page has the tables.
                    drawn = None
                if drawn is not None:
                    # The page has margins of its own.
                    specs[f"{name} {size}"] = drawn.to_dict() | {"padding": {"left": 0, "right": 2, "bottom": 4}}
        if specs:
            made.append({"title": title, "specs": specs})
    return made


@functools.cache
def template(name: str = _TEMPLATE):
    """The template of all pages, or one that extends it."""
    import jinja2

    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    return environment.get_template(name)


@functools.cache
def vega() -> str:
    """Vega, Vega-Lite and vega-embed as one script."""
    import vl_convert

    from rooflab.views.export import vegalite_version

    script = vl_convert.javascript_bundle(vl_version=vegalite_version())  # pyright: ignore[reportCallIssue] (stub lacks a default)
    # Inside <script>, only its own end tag would end it early.
    return script.replace("</script", "<\\/script")
