"""Writes a sweep of tile sizes to files: the suffix names the format."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from pathlib import Path

from rooflab.types.loop import TileSweep
from rooflab.views import export


def save(sweep: TileSweep, *paths: str | Path) -> None:
    """Write `sweep` to each path: .json, .csv, .html, .svg, .png or .pdf.

    JSON holds everything and is read back by `TileSweep.from_dict`; CSV has a line for each configuration;
    HTML is one page that needs no network; the pictures are traffic and time over the tile size.

    Raises:
        FileError: an unknown suffix, or a path that cannot be written; nothing has been written then.
    """
    check_writable(paths)
    export.write_all(sweep, paths, _WRITERS)


def check_writable(paths: Iterable[str | Path]) -> None:
    """Return where every path has a known suffix and can be written.

    Raises:
        FileError: an unknown suffix, no such folder, or no permission to write.
    """
    export.check_writable(paths, tuple(_WRITERS), "tiles.html")


def csv_text(sweep: TileSweep) -> str:
    """A line for each configuration, in base units; unknown is empty."""
    names, served = list(sweep.tiles[0].sizes), list(sweep.tiles[0].traffic_bytes)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*names, *(f"{each}_bytes" for each in served), "predicted_s", "measured_s", "runs", "spread"])
    for tile in sweep.tiles:
        sizes, traffic = [tile.sizes[name] for name in names], [int(tile.traffic_bytes[each]) for each in served]
        measured = ("", "", "") if tile.measured_s is None else (tile.measured_s, tile.runs, tile.spread)
        writer.writerow([*sizes, *traffic, "" if tile.predicted_s is None else tile.predicted_s, *measured])
    return file.getvalue()


def _html(sweep: TileSweep) -> bytes:
    from rooflab.views import tile_page

    return tile_page.render(sweep).encode()


def _picture(draw: Callable[[dict[str, object]], bytes]) -> Callable[[TileSweep], bytes]:
    def render(sweep: TileSweep) -> bytes:
        from rooflab.views import tile_chart

        return draw(tile_chart.chart(sweep).to_dict())

    return render


_WRITERS: dict[str, Callable[[TileSweep], bytes]] = {
    ".json": lambda sweep: export.json_text(sweep.to_dict()).encode(),
    ".csv": lambda sweep: csv_text(sweep).encode(),
    ".html": _html,
    ".svg": _picture(export.svg),
    ".png": _picture(export.png),
    ".pdf": _picture(export.pdf),
}
