"""A checkup in the terminal: by topic a line for each thing, and under it what it means and what to do."""

from __future__ import annotations

import itertools
from typing import TextIO

from rooflab.types.checkup import Checkup
from rooflab.views.checkup.sheet import consequence, sheet_of
from rooflab.views.common.console import console, paragraph

_STYLES = {"ok": "green", "limited": "yellow", "missing": "red", "unknown": "magenta"}
_INDENT = " " * 10
_LEAST_WIDTH = 40


def show(checkup: Checkup, file: TextIO | None = None) -> None:
    """Print `checkup`."""
    from rich.text import Text

    out, sheet = console(file), sheet_of(checkup)
    width = max(out.width, _LEAST_WIDTH)
    out.print(Text(sheet.name, style="bold"))
    for line in sheet.warnings:
        out.print(Text(line, style="bold red"))
    for line in sheet.sentences:
        out.print(Text(line))
    for topic, grants in itertools.groupby(checkup.grants, key=lambda each: each.topic):
        out.print(Text(f"\n{topic[:1].upper()}{topic[1:]}", style="bold"))
        for each in grants:
            first, *rest = paragraph(f"{each.name}: {each.found}", width - len(_INDENT))
            out.print(Text.assemble((f"{each.status:<{len(_INDENT)}}", _STYLES[each.status]), first))
            said = paragraph(consequence(each), width - len(_INDENT))
            for line in rest:
                out.print(Text(f"{_INDENT}{line}"))
            for line in said:
                out.print(Text(f"{_INDENT}{line}", style="dim"))
    out.print(Text(""))
    for line in sheet.notes:
        out.print(Text(f"- {line}", style="dim"))
