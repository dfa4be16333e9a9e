"""Writes a report to files: the suffix names the format, and nothing is left half-written."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from pathlib import Path

from rooflab.types.report import Report, Row
from rooflab.views import export


def save(report: Report, *paths: str | Path) -> None:
    """Write `report` to each path: .json, .csv, .html, .svg, .png or .pdf.

    JSON holds everything and is read back by `Report.from_dict`; CSV has a line for each operation; HTML
    is one page that needs no network; SVG, PNG and PDF are the roofline of its machine with the
    operations on it. Each file appears whole or not at all.

    Raises:
        FileError: an unknown suffix, or a path that cannot be written; nothing has been written then.
        RooflabError: a picture of a report without a machine.
    """
    check_writable(paths)
    export.write_all(report, paths, _WRITERS)


def check_writable(paths: Iterable[str | Path]) -> None:
    """Return where every path has a known suffix and can be written.

    Raises:
        FileError: an unknown suffix, no such folder, or no permission to write.
    """
    export.check_writable(paths, tuple(_WRITERS), "report.html")


def json_text(report: Report) -> str:
    """`report` as indented JSON with a final newline."""
    return export.json_text(report.to_dict())


def _predicted(name: str) -> Callable[[Row], object]:
    return lambda row: None if row.prediction is None else getattr(row.prediction, name)


_COLUMNS: tuple[tuple[str, Callable[[Row], object]], ...] = (
    ("name", lambda row: row.op.name),
    ("kind", lambda row: row.op.kind),
    ("module", lambda row: row.op.module),
    ("where", lambda row: row.op.where),
    ("phase", lambda row: row.op.phase),
    ("branch", lambda row: row.op.branch),
    ("count", lambda row: row.op.count),
    ("flop", lambda row: row.flop),
    ("macs", lambda row: row.macs),
    ("read_bytes", lambda row: row.read_bytes),
    ("write_bytes", lambda row: row.write_bytes),
    ("accessed_bytes", lambda row: row.accessed_bytes),
    ("wire_bytes", lambda row: None if row.cost is None else row.cost.wire_bytes * row.op.count),
    ("intensity", lambda row: row.intensity),
    ("ridge", lambda row: row.ridge),
    ("time_s", _predicted("time_s")),
    ("low_s", _predicted("low_s")),
    ("high_s", _predicted("high_s")),
    ("floor_s", _predicted("floor_s")),
    ("bound", lambda row: row.bound),
    ("binds", lambda row: row.binds),
    ("note", lambda row: row.unbound if row.cost is None else row.cost.note),
)


def csv_text(report: Report) -> str:
    """A line for each operation, numbers of all its executions in base units; unknown is empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([name for name, _ in _COLUMNS])
    for row in report.rows:
        writer.writerow([_cell(read(row)) for _, read in _COLUMNS])
    return file.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return "" if value is None else value


def _html(report: Report) -> bytes:
    from rooflab.views import report_page

    return report_page.render(report).encode()


def _picture(draw: Callable[[dict[str, object]], bytes]) -> Callable[[Report], bytes]:
    def render(report: Report) -> bytes:
        from rooflab.views import report_chart

        return draw(report_chart.roofline(report).to_dict())

    return render


_WRITERS: dict[str, Callable[[Report], bytes]] = {
    ".json": lambda report: json_text(report).encode(),
    ".csv": lambda report: csv_text(report).encode(),
    ".html": _html,
    ".svg": _picture(export.svg),
    ".png": _picture(export.png),
    ".pdf": _picture(export.pdf),
}
