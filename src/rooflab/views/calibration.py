"""A calibration in the terminal: how well it predicts what it did not see, what moved, what stayed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from rooflab.model.calibration import FOLDS, Calibration, Errors
from rooflab.views.tables import Table
from rooflab.views.terminal import console, drawn_table

if TYPE_CHECKING:
    from rich.console import RenderableType

_SHOWN = 5  # rows left out that are named


def show(found: Calibration, file: TextIO | None = None) -> None:
    """Print `found`."""
    out = console(file)
    for part in pages(found, out.width):
        out.print(part)


def pages(found: Calibration, width: int = 80) -> list[RenderableType]:
    """What `show` prints, in order."""
    from rich.text import Text

    made: list[RenderableType] = [
        Text(f"{found.machine}: constants of {found.family} refitted to {found.rows} times", style="bold"),
        *_dropped(found.dropped),
        Text(""),
        *drawn_table(errors(found), width),
        Text(""),
    ]
    if not found.helps:
        made += [Text("No gain on rows not used in fitting: the old constants predict them as well."), Text("")]
    if found.changes:
        made += [*drawn_table(changes(found), width), Text("")]
    made.append(_listed("Not moved by these times", found.unmoved))
    made.append(_listed("No time depends on", found.unseen))
    return made


def errors(found: Calibration) -> Table:
    """|predicted / measured − 1| before and after."""

    def row(name: str, each: Errors) -> tuple[str, ...]:
        return name, f"{each.median:.1%}", f"{each.p90:.1%}"

    rows = (
        row("before", found.before),
        row("after, rows not used in fitting", found.after),
        row("after, rows used", found.fitted),
    )
    note = f"Each {FOLDS}th of the rows predicted by a fit on the others; then a fit on all, which is kept."
    return Table("Error", ("", "median", "90 % within"), rows, note=note)


def changes(found: Calibration) -> Table:
    """The constants that moved."""
    rows = tuple(
        (
            each.name,
            f"{each.before:.4g}",
            f"{each.after:.4g}",
            f"{each.after / each.before - 1:+.0%}",
            str(each.rows),
        )
        for each in found.changes
    )
    return Table("Constants that changed", ("constant", "before", "after", "change", "times"), rows)


def _dropped(dropped: Sequence[str]) -> list[RenderableType]:
    from rich.text import Text

    if not dropped:
        return []
    more = f"; and {len(dropped) - _SHOWN} more" if len(dropped) > _SHOWN else ""
    return [Text(f"{len(dropped)} rows left out: {'; '.join(dropped[:_SHOWN])}{more}")]


def _listed(title: str, names: Sequence[str]) -> RenderableType:
    from rich.text import Text

    return Text(f"{title}: {', '.join(names) or 'none'}.", style="dim")
