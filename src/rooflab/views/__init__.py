"""What a person sees of a result: a room for each kind of result, and `common` for what they share."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from os import PathLike
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.views.common.files import Written

# Which room shows which result. Each room has `show`, `html` and `WRITERS`; it is imported when it is needed.
ROOMS = {
    "Machine": "machine",
    "Report": "report",
    "Variants": "variants",
    "LoopReport": "loop",
    "TileSweep": "tiles",
    "Simulation": "simulation",
    "CoreSimulation": "cores",
    "MissCurve": "miss_curve",
    "Transfer": "transfer",
    "Calibration": "calibration",
    "Sweep": "lab",
    "Profile": "profile",
    "Profiles": "profiles",
    "Comparison": "comparison",
}


def room(kind: str) -> ModuleType:
    """The room for results of the type called `kind`, with its `show`, `html` and `WRITERS`."""
    return import_module(f"rooflab.views.{ROOMS[kind]}")


def show(result: Any, file: TextIO | None = None, **how: Any) -> None:
    """Print `result` to `file`, stdout by default.

    Args:
        result: of any type of `types.result.RESULTS`.
        file: to print to.
        how: what that room's `show` takes beside these.
    """
    room(type(result).__name__).show(result, file, **how)


def check_paths(paths: Iterable[str | PathLike[str]], kind: str) -> None:
    """Return where a result of the type called `kind` can be written to each of `paths`: asked before any work.

    Raises:
        FileError: an unknown suffix, no such folder, or no permission to write.
    """
    paths = tuple(paths)
    if paths:
        from rooflab.views.common import files

        files.check_paths(map(str, paths), tuple(room(kind).WRITERS), f"{ROOMS[kind]}.json")


def save(result: Any, *paths: str | PathLike[str], style: str = "screen", scale: float | None = None) -> None:
    """Write `result` to each of `paths`; the suffix names the format.

    Args:
        result: of any type of `types.result.RESULTS`.
        paths: of the files.
        style: of pictures: one of `common.style.STYLES`.
        scale: pixels of a PNG for one of the chart's.

    Raises:
        UnknownNameError: no such style.
        FileError: an unknown suffix, or a path that cannot be written; nothing has been written then.
        RooflabError: no such picture of this result; the other files are written.
    """
    from rooflab.views.common import style as styles

    styles.find(style)
    styles.check_scale(scale)
    check_paths(paths, type(result).__name__)
    refused = write(result, *paths, style=style, scale=scale).refused
    if refused:
        raise RooflabError("; ".join(refused))


def write(result: Any, *paths: str | PathLike[str], style: str = "screen", scale: float | None = None) -> Written:
    """Write `result` to each of `paths`, which were checked, and say which were written and which not, and why."""
    from rooflab.views.common import files
    from rooflab.views.common import style as styles

    look = styles.find(style)
    return files.write_all(result, map(str, paths), room(type(result).__name__).WRITERS, look, scale)


def notebook_cell(result: Any) -> str:
    """HTML of a frame that holds the page of `result`."""
    from rooflab.views.common.notebook import frame

    return frame(str(result.name), room(type(result).__name__).html(result))
