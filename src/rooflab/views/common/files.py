"""Files of results: paths checked first, rendered by suffix, written whole or not at all."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rooflab.errors import FileError, RooflabError

if TYPE_CHECKING:
    import altair as alt

    Chart = alt.LayerChart | alt.VConcatChart

Writer = Callable[[Any], bytes]  # from a result to the content of a file

PNG_SCALE = 2  # pixels of the file for one pixel of the chart: sharp on dense screens


def check_paths(paths: Iterable[str | Path], suffixes: Collection[str], example: str = "result.json") -> None:
    """Return where every path has one of `suffixes` and can be written.

    Raises:
        FileError: an unknown suffix, no such folder, a folder where a file is expected, or no
            permission to write.
    """
    for path in map(Path, paths):
        folder = path.parent
        if path.suffix.lower() not in suffixes:
            got = f"suffix {path.suffix!r}" if path.suffix else "no suffix"
            raise FileError(f"{path}: {got}, expected one of {', '.join(suffixes)}")
        if path.is_dir():
            raise FileError(f"{path}: is a folder, expected the name of a file in it, such as {path / example}")
        if not folder.exists():
            raise FileError(f"{path}: there is no folder {folder}, create it first or name another")
        if not folder.is_dir():
            raise FileError(f"{path}: {folder} is a file, expected a folder")
        # Only trying tells: root is allowed everywhere, but /proc takes no file.
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            got = f"the folder {folder} is not writable ({error.strerror})"
            raise FileError(f"{path}: {got}, expected write permission or another path") from None
        # os.replace would replace a read-only file: it is left alone on purpose.
        if path.exists() and not os.access(path, os.W_OK):
            raise FileError(f"{path}: the file is read-only, expected write permission or another path")


class Written(NamedTuple):
    """Which files were written, and a sentence for each that was not."""

    paths: tuple[str, ...]
    refused: tuple[str, ...]


def write_all(result: object, paths: Iterable[str | Path], writers: Mapping[str, Writer]) -> Written:
    """Write `result` to each of `paths`, as the writer of its suffix renders it; the paths are checked before.

    A format that cannot be made of this result, such as a roofline without peaks, does not lose the others.
    """
    written, refused = [], []
    for path in map(Path, paths):
        try:
            write(path, writers[path.suffix.lower()](result))
            written.append(str(path))
        except FileError as error:
            refused.append(str(error))
        except RooflabError as error:
            refused.append(f"{path} not written: {error}")
    return Written(tuple(written), tuple(refused))


def write(path: Path, content: bytes) -> None:
    """Put `content` at `path`: first beside it, then in its place, so that it is whole at every moment.

    Raises:
        FileError: no space, no permission, no such folder.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            beside = Path(file.name)
            try:
                file.write(content)
                file.flush()
                # A temporary file is made readable by its owner alone; a result is an ordinary file.
                os.chmod(beside, _ordinary_mode(path))
                os.replace(beside, path)
            except BaseException:
                beside.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror or error}") from None


def json_text(value: object) -> str:
    """`value` (what `to_dict` returns, or lists and dictionaries of it) as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n"


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A line of names, then a line for each row: numbers in base units, unknown is empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return file.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return "" if value is None else value


def json_writer(result: Any) -> bytes:
    """Everything in `result`, as `rooflab.load` reads it back."""
    return json_text(result.to_dict()).encode()


def writers(
    html: Callable[[Any], str],
    csv_text: Callable[[Any], str] | None = None,
    chart: Callable[[Any], Chart] | None = None,
) -> dict[str, Writer]:
    """The writers of a result with that page, and those lines of numbers and that picture where there are any."""
    lines: dict[str, Writer] = {} if csv_text is None else {".csv": lambda result: csv_text(result).encode()}
    pictures = {} if chart is None else picture_writers(chart)
    return {".json": json_writer, **lines, ".html": lambda result: html(result).encode(), **pictures}


def picture_writers(draw: Callable[[Any], Chart]) -> dict[str, Writer]:
    """Writers of the chart that `draw` makes of a result: .svg, .png and .pdf."""
    return {suffix: lambda result, _as=render: _as(draw(result).to_dict()) for suffix, render in _PICTURES.items()}


def svg(spec: dict[str, object]) -> bytes:
    """The chart with that Vega-Lite definition as SVG."""
    import vl_convert

    return vl_convert.vegalite_to_svg(spec, vl_version=vegalite_version()).encode()


def png(spec: dict[str, object]) -> bytes:
    """The chart with that Vega-Lite definition as PNG."""
    import vl_convert

    return vl_convert.vegalite_to_png(spec, vl_version=vegalite_version(), scale=PNG_SCALE)


def pdf(spec: dict[str, object]) -> bytes:
    """The chart with that Vega-Lite definition as PDF."""
    import vl_convert

    return vl_convert.vegalite_to_pdf(spec, vl_version=vegalite_version())


_PICTURES: dict[str, Callable[[dict[str, object]], bytes]] = {".svg": svg, ".png": png, ".pdf": pdf}


def vegalite_version() -> str:
    """The Vega-Lite that altair writes for, as vl-convert names it, else the newest that it brings."""
    import altair
    import vl_convert

    wanted = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    brought = vl_convert.get_vegalite_versions()
    return wanted if wanted in brought else brought[-1]


def _ordinary_mode(path: Path) -> int:
    """The mode that `path` has, or that a new file would get."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
