"""Writes a loop's report to files: the suffix names the format."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from pathlib import Path

from rooflab.types.loop import LoopReport
from rooflab.views import export


def save(report: LoopReport, *paths: str | Path) -> None:
    """Write `report` to each path: .json, .csv, .html, or a picture of it under its machine's roofs.

    JSON holds everything and is read back by `LoopReport.from_dict`; CSV has a row for each access of the source
    at each level; HTML is one page that needs no network;
    .svg, .png and .pdf are the roofline with a point for each level.

    Raises:
        FileError: an unknown suffix, or a path that cannot be written; nothing has been written then.
        RooflabError: a picture of a report without a machine, or without FLOP.
    """
    check_writable(paths)
    export.write_all(report, paths, _WRITERS)


def check_writable(paths: Iterable[str | Path]) -> None:
    """Return where every path has a known suffix and can be written.

    Raises:
        FileError: an unknown suffix, no such folder, or no permission to write.
    """
    export.check_writable(paths, tuple(_WRITERS), "loop.html")


def json_text(report: LoopReport) -> str:
    """`report` as indented JSON with a final newline."""
    return export.json_text(report.to_dict())


def csv_text(report: LoopReport) -> str:
    """A row for each access of the source at each cache level, from empty caches; unknown is empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("line", "access", "array", "level", *_COUNTS))
    for level in report.simulation.levels:
        for each in level.references:
            line, _, access = each.name.partition(": ")
            counts = (getattr(each, name) for name in _COUNTS)
            writer.writerow((line, access, each.array, level.name, *("" if n is None else n for n in counts)))
    return file.getvalue()


def _html(report: LoopReport) -> bytes:
    from rooflab.views import loop_page

    return loop_page.render(report).encode()


def _picture(draw: Callable[[dict[str, object]], bytes]) -> Callable[[LoopReport], bytes]:
    def render(report: LoopReport) -> bytes:
        from rooflab.views import loop_chart

        return draw(loop_chart.roofline(report).to_dict())

    return render


_COUNTS = (
    *("hits", "misses", "compulsory", "capacity", "conflict"),
    *("evictions", "writebacks", "read_bytes", "write_bytes"),
)
_WRITERS: dict[str, Callable[[LoopReport], bytes]] = {
    ".json": lambda report: json_text(report).encode(),
    ".csv": lambda report: csv_text(report).encode(),
    ".html": _html,
    ".svg": _picture(export.svg),
    ".png": _picture(export.png),
    ".pdf": _picture(export.pdf),
}
