"""Writes a machine to files: the suffix names the format, and nothing is left half-written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from rooflab.errors import FileError
from rooflab.types.machine import Machine

Subject = TypeVar("Subject")  # what is saved: a machine, a report

PNG_SCALE = 2  # pixels of the file for one pixel of the chart: sharp on dense screens


def save(machine: Machine, *paths: str | Path) -> None:
    """Write `machine` to each path: .json, .toml, .html, .svg, .png or .pdf.

    JSON and TOML hold everything and are read back by `rooflab.machine(path)`; HTML is one page that
    needs no network; SVG, PNG and PDF are the roofline chart. Each file appears whole or not at all.

    Raises:
        FileError: an unknown suffix, or a path that cannot be written; nothing has been written then.
        RooflabError: the machine has no roofline to draw.
    """
    check_writable(paths)
    write_all(machine, paths, _WRITERS)


def write_all(
    subject: Subject, paths: Iterable[str | Path], writers: Mapping[str, Callable[[Subject], bytes]]
) -> None:
    """Write `subject` to each of `paths`, as the writer of its suffix renders it; check the paths before."""
    # All are rendered before the first is written.
    made = [(Path(path), writers[Path(path).suffix.lower()](subject)) for path in paths]
    for path, content in made:
        write(path, content)


def check_writable(
    paths: Iterable[str | Path], suffixes: Collection[str] | None = None, example: str = "machine.html"
) -> None:
    """Return where every path has a known suffix (a machine's, or of `suffixes`) and can be written.

    Raises:
        FileError: an unknown suffix, no such folder, a folder where a file is expected, or no
            permission to write.
    """
    known = _WRITERS if suffixes is None else suffixes
    for path in map(Path, paths):
        folder = path.parent
        if path.suffix.lower() not in known:
            got = f"suffix {path.suffix!r}" if path.suffix else "no suffix"
            raise FileError(f"{path}: {got}, expected one of {', '.join(known)}")
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


def json_text(value: object) -> str:
    """`value` (a machine, or lists and dictionaries of them) as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n"


def vegalite_version() -> str:
    """The Vega-Lite that altair writes for, as vl-convert names it, else the newest that it brings."""
    import altair
    import vl_convert

    wanted = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    known = vl_convert.get_vegalite_versions()
    return wanted if wanted in known else known[-1]


def _json(machine: Machine) -> bytes:
    return json_text(machine).encode()


def _toml(machine: Machine) -> bytes:
    from rooflab.types import toml

    return toml.dumps(machine).encode()


def _html(machine: Machine) -> bytes:
    from rooflab.views import page

    return page.render(machine).encode()


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


def _spec(machine: Machine) -> dict[str, object]:
    from rooflab.views import chart

    return chart.roofline(machine).to_dict()


_WRITERS: dict[str, Callable[[Machine], bytes]] = {
    ".json": _json,
    ".toml": _toml,
    ".html": _html,
    ".svg": lambda machine: svg(_spec(machine)),
    ".png": lambda machine: png(_spec(machine)),
    ".pdf": lambda machine: pdf(_spec(machine)),
}


def write(path: Path, content: bytes) -> None:
    """Put `content` at `path`: first beside it, then in its place, so that it is whole at every moment."""
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


def _ordinary_mode(path: Path) -> int:
    """The mode that `path` has, or that a new file would get."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
