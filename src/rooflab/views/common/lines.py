"""Rows of plain numbers under named columns: what CSV, Parquet and data frames are made of."""

from __future__ import annotations

import csv
import importlib.util
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rooflab.errors import MissingExtraError

if TYPE_CHECKING:
    import pyarrow


class Lines(NamedTuple):
    """Rows under `columns`: numbers in base units, words, truth; None is unknown."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]


class LinesWriter(NamedTuple):
    """A writer of the `lines` of a result, rendered by `render`."""

    lines: Callable[[Any], Lines]
    render: Callable[[Lines], bytes]

    def __call__(self, result: Any) -> bytes:
        """The content of the file."""
        return self.render(self.lines(result))


def writers(lines: Callable[[Any], Lines]) -> dict[str, LinesWriter]:
    """The writers of a result that has lines: .csv and .parquet."""
    return {suffix: LinesWriter(lines, render) for suffix, render in _RENDERERS.items()}


def csv_text(lines: Lines) -> str:
    """A line of names, then a line for each row; unknown is empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(lines.columns)
    writer.writerows([_cell(value) for value in row] for row in lines.rows)
    return file.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return "" if value is None else value


def table(lines: Lines) -> pyarrow.Table:
    """An Arrow table with the same columns: whole numbers, numbers, truth or words, and null where unknown.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise MissingExtraError("pyarrow", "arrow", "a table of Arrow (Parquet, data frames)") from None
    columns = list(zip(*lines.rows, strict=True)) or [()] * len(lines.columns)
    arrays = [_array(pyarrow, values) for values in columns]
    return pyarrow.table(arrays, names=list(lines.columns))


def check_installed(suffix: str) -> None:
    """Return where what writes files of that suffix is installed: asked before any work.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    if suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError("pyarrow", "arrow", "a table of Arrow (Parquet, data frames)")


_MOST = 2**63 - 1  # what a whole number of Arrow holds


def _array(arrow: Any, values: tuple[object, ...]) -> Any:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return arrow.array(values, arrow.bool_())
    if known and all(isinstance(value, int) and abs(value) <= _MOST for value in known):
        return arrow.array(values, arrow.int64())
    if known and all(isinstance(value, (int, float)) for value in known):
        plain = [None if value is None else float(value) for value in values]  # type: ignore[arg-type]
        return arrow.array(plain, arrow.float64())
    return arrow.array([None if value is None else str(value) for value in values], arrow.string())


def _parquet(lines: Lines) -> bytes:
    made = table(lines)
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(made, file, compression="zstd")
    return file.getvalue()


_RENDERERS: dict[str, Callable[[Lines], bytes]] = {
    ".csv": lambda lines: csv_text(lines).encode(),
    ".parquet": _parquet,
}
