"""Files of results: paths checked first, rendered by suffix, written whole or not at all."""

from __future__ import annotations

import inspect
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rooflab.errors import FileError, RooflabError
from rooflab.views.common import lines
from rooflab.views.common.lines import Lines
from rooflab.views.common.style import POINTS_AN_INCH, SCREEN, Style, printed, size_of, with_dpi

if TYPE_CHECKING:
    import altair as alt

    Chart = alt.LayerChart | alt.VConcatChart

Writer = Callable[[Any], bytes]  # from a result to the content of a file

PNG_SCALE = 2.0  # pixels of the file for one pixel of the chart: sharp on dense screens
PIXELS_AN_INCH = 96.0  # of a chart on a screen, as CSS has it


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
        lines.check_installed(path.suffix.lower())
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


def write_all(
    result: object,
    paths: Iterable[str | Path],
    writers: Mapping[str, Writer],
    style: Style = SCREEN,
    scale: float | None = None,
) -> Written:
    """Write `result` to each of `paths`, as the writer of its suffix renders it; the paths are checked before.

    Pictures are drawn in `style`, a PNG at `scale`.

    A format that cannot be made of this result, such as a roofline without peaks, does not lose the others.
    """
    written, refused = [], []
    drawn: dict[int, Drawn] = {}
    for path in map(Path, paths):
        try:
            writer = writers[path.suffix.lower()]
            if not isinstance(writer, Picture):
                content = writer(result)
            elif type(writer) is Picture:
                content = writer(result, style, scale, drawn)
            else:  # a drawing is made by a writer of its own sort
                content = writer(result, style, scale)
            write(path, content)
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


def json_writer(result: Any) -> bytes:
    """Everything in `result`, as `rooflab.load` reads it back."""
    return json_text(result.to_dict()).encode()


def writers(
    html: Callable[[Any], str],
    lines_of: Callable[[Any], Lines] | None = None,
    chart: Callable[..., Chart] | None = None,
    markdown: Callable[[Any], str] | None = None,
) -> dict[str, Writer]:
    """The writers of a result with that page, and with those of lines, a picture and Markdown where it has any."""
    rows = {} if lines_of is None else lines.writers(lines_of)
    pictures = {} if chart is None else picture_writers(chart)
    text = {} if markdown is None else {".md": lambda result: markdown(result).encode()}
    return {".json": json_writer, **rows, ".html": lambda result: html(result).encode(), **text, **pictures}


class Picture(NamedTuple):
    """A writer of the chart that `draw` makes of a result, rendered by `render` in the look that is asked for."""

    draw: Callable[..., Chart]
    render: Callable[[Drawn], bytes]

    def __call__(
        self,
        result: Any,
        style: Style = SCREEN,
        scale: float | None = None,
        drawn: dict[int, Drawn] | None = None,
    ) -> bytes:
        """The content of the file.

        Args:
            result: to draw.
            style: of the picture.
            scale: of a PNG: its pixels for one of the chart's.
            drawn: charts of the same result in the same style, by what draws them: drawn once for all formats.
        """
        held = {} if drawn is None else drawn
        if id(self.draw) not in held:
            held[id(self.draw)] = Drawn(svg_text(_spec(self.draw, result, style)), style, scale)
        return self.render(held[id(self.draw)])


class Drawn(NamedTuple):
    """A picture as SVG, from which the other formats are made, and how it is rendered."""

    svg: str
    style: Style
    scale: float | None


def picture_writers(draw: Callable[..., Chart]) -> dict[str, Writer]:
    """Writers of the chart that `draw` makes of a result: .svg, .png and .pdf."""
    return {suffix: Picture(draw, render) for suffix, render in RENDERS.items()}


def _spec(draw: Callable[..., Chart], result: Any, style: Style) -> dict[str, Any]:
    """The chart of `result` in `style`: one that is printed is as wide as that style has pixels, type and all."""
    from altair.utils import schemapi

    # Held against its schema our own definition takes longer than drawing it; tests hold it against that.
    with schemapi.debug_mode(False):
        return _unchecked(draw, result, style)


def _unchecked(draw: Callable[..., Chart], result: Any, style: Style) -> dict[str, Any]:
    if style.inches is None:
        return draw(result, theme=style.theme).to_dict(validate=False)
    spec: dict[str, Any] = {}
    tall = "height" in inspect.signature(draw).parameters
    width = style.pixels - _AROUND
    for _ in range(3):  # labels of the axes change with the width: seldom more than one correction
        size = {"width": width, "height": round(width * _HIGH[style.pixels > _COLUMN])}
        chart = draw(result, theme=style.theme, **(size if tall else {"width": width}))
        spec = chart.to_dict(validate=False) | {"padding": _MARGIN}
        over = size_of(svg_text(spec))[0] - style.pixels
        if abs(over) < 2:
            break
        width = max(round(width - over), _LEAST)
    return spec


_AROUND, _LEAST = 90, 160  # pixels that axes take at first, and the narrowest plane
_COLUMN, _HIGH = 500, (0.95, 0.6)  # height of a plane for its width: of one column, of two
_MARGIN = 3


def svg_text(spec: Mapping[str, Any]) -> str:
    """The chart that `spec` defines, as Vega draws it.

    What no SVG can hold, such as a control character in a name, is replaced: it would end the process.
    """
    import vl_convert

    try:
        written = msgspec.json.encode(spec).decode()
    except UnicodeEncodeError:  # half of a surrogate pair
        written = ""
    if not written or _UNWRITABLE.search(written) or _ESCAPED.search(written):
        written = msgspec.json.encode(_plain(spec)).decode()
    return vl_convert.vegalite_to_svg(written, vl_version=vegalite_version())


def plain(text: str) -> str:
    """`text` with what no SVG can hold made visible."""
    return _UNWRITABLE.sub("\ufffd", text)


_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ESCAPED = re.compile(r"\\u00[01]")  # control characters as JSON writes them


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {plain(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def _svg(drawn: Drawn) -> bytes:
    return (drawn.svg if drawn.style.inches is None else printed(drawn.svg, drawn.style.inches)).encode()


def _png(drawn: Drawn) -> bytes:
    import vl_convert

    scale, style = drawn.scale or PNG_SCALE, drawn.style
    dpi = PIXELS_AN_INCH * scale
    if style.inches is not None:
        per_pixel = style.inches / size_of(drawn.svg)[0]
        scale = drawn.scale or per_pixel * style.dpi
        dpi = scale / per_pixel
    return with_dpi(vl_convert.svg_to_png(drawn.svg, scale=scale), dpi)


def _pdf(drawn: Drawn) -> bytes:
    import vl_convert

    if drawn.style.inches is None:
        return vl_convert.svg_to_pdf(drawn.svg)
    # A pixel becomes a point.
    return vl_convert.svg_to_pdf(printed(drawn.svg, drawn.style.inches * POINTS_AN_INCH, ""))


RENDERS: dict[str, Callable[[Drawn], bytes]] = {".svg": _svg, ".png": _png, ".pdf": _pdf}


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
