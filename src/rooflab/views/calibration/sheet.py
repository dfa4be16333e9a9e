"""What is shown of a calibration: how well it predicts what it did not see, what moved, what stayed."""

from __future__ import annotations

from rooflab.types.calibration import Calibration, Errors
from rooflab.units import percent
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import Table

_SHOWN = 5  # rows left out that are named


def sheet_of(calibration: Calibration) -> Sheet:
    """What is shown of `calibration`."""
    sentences = []
    if calibration.dropped:
        more = f"; and {len(calibration.dropped) - _SHOWN} more" if len(calibration.dropped) > _SHOWN else ""
        sentences.append(
            f"{len(calibration.dropped)} rows left out: {'; '.join(calibration.dropped[:_SHOWN])}{more}"
        )
    if not calibration.helps:
        sentences.append("No gain on rows not used in fitting: the old constants predict them as well.")
    return Sheet(
        calibration.name,
        "a calibration",
        sentences=tuple(sentences),
        tables=(errors(calibration), changes(calibration)),
        notes=(
            f"Not moved by these times: {', '.join(calibration.unmoved) or 'none'}.",
            f"No time depends on: {', '.join(calibration.unseen) or 'none'}.",
        ),
    )


def errors(calibration: Calibration) -> Table:
    """|predicted / measured − 1| before and after."""

    def row(name: str, each: Errors) -> tuple[str, ...]:
        return name, percent(each.median, 1), percent(each.p90, 1)

    rows = (
        row("before", calibration.before),
        row("after, rows not used in fitting", calibration.after),
        row("after, rows used", calibration.fitted),
    )
    note = (
        f"Each {calibration.folds}th of the rows predicted by a fit on the others; then a fit on all, "
        "which is kept."
    )
    return Table("Error", ("", "median", "90 % within"), rows, note=note)


def changes(calibration: Calibration) -> Table:
    """The constants that moved."""
    rows = tuple(
        (
            each.name,
            f"{each.before:.4g}",
            f"{each.after:.4g}",
            f"{each.after / each.before - 1:+.0%}".replace("-", "−").replace("%", " %"),
            str(each.rows),
        )
        for each in calibration.changes
    )
    return Table("Constants that changed", ("constant", "before", "after", "change", "times"), rows)
