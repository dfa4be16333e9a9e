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
    from rooflab.views.common.lines import Lines

# Which room shows which result. Each room has `show`, `html` and `WRITERS`, and `cell` where a notebook's cell
# holds less than its page; it is imported when it is needed.
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
    "Run": "run",
    "Hotspots": "hotspots",
    "Checkup": "checkup",
    "TimedCall": "timed_call",
    "Fleet": "fleet",
    "Serving": "serving",
    "ServingPlan": "serving_plan",
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


def lines(result: Any) -> Lines:
    """The rows of `result`, as its CSV file has them.

    Raises:
        RooflabError: a result without rows.
    """
    from rooflab.views.common.lines import LinesWriter

    kind = type(result).__name__
    writer = room(kind).WRITERS.get(".csv")
    if not isinstance(writer, LinesWriter):
        raise RooflabError(f"{kind}: has no rows; .to_dict() and .json hold all of it")
    return writer.lines(result)


def arrow(result: Any) -> Any:
    """The rows of `result` as a table of Arrow (see `Result.to_arrow`)."""
    from rooflab.views.common import lines as tables

    return tables.table(lines(result))


def pandas(result: Any) -> Any:
    """The rows of `result` as a data frame of pandas (see `Result.to_pandas`)."""
    table = arrow(result)
    try:
        import pandas
    except ModuleNotFoundError:
        raise RooflabError("to_pandas needs pandas: python -m pip install pandas") from None
    # Arrow's own types: whole numbers stay whole where some are unknown.
    return table.to_pandas(types_mapper=pandas.ArrowDtype)


def polars(result: Any) -> Any:
    """The rows of `result` as a data frame of polars (see `Result.to_polars`)."""
    table = arrow(result)
    try:
        import polars
    except ModuleNotFoundError:
        raise RooflabError("to_polars needs polars: python -m pip install polars") from None
    return polars.from_arrow(table)


def notebook_cell(result: Any) -> str:
    """HTML of a frame that holds the page of `result`, its charts as pictures."""
    from rooflab.views.common import page
    from rooflab.views.common.notebook import frame

    own = room(type(result).__name__)
    with page.still():
        shown = (getattr(own, "cell", None) or own.html)(result)
    return frame(str(result.name), shown)
