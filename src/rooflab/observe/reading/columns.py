"""Columns of numbers grown piece by piece from values of any kind, as files hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflab.types.trace import NONE, Calls, Kernels, Launches

_FIRST = 2**12  # values that a column has room for at first


class Clock:
    """Times of a file as seconds after its first one, exact where the file counts nanoseconds since 1970."""

    def __init__(self) -> None:
        self._base: float | int | None = None

    def after_base(self, values: Sequence[Any]) -> NDArray[np.float64]:
        """`values` less the first ever seen, in the file's unit; NaN for what is no time."""
        times = _plain(values)
        if self._base is None:
            known = [one for one in values if number(one) is not None]
            if known:
                first = known[0]
                self._base = first if isinstance(first, int) else number(first)
        if self._base is None:
            return np.full(len(values), np.nan)
        if times is not None and times.dtype.kind == "i" and isinstance(self._base, int):
            after = (times - self._base).astype(np.float64)
            after[times <= 0] = np.nan
            return after
        numbers = times.astype(np.float64) if times is not None else numbers_of(values)
        after = numbers - float(self._base)
        # A start of 0 among others at 1e15 is that of an activity whose times were lost.
        after[~(numbers > 0)] = np.nan
        return after

    @property
    def base(self) -> float:
        """The first time, in the file's unit."""
        return float(self._base or 0)


def _plain(values: Sequence[Any]) -> NDArray[Any] | None:
    """`values` as NumPy would have them, where they are numbers of one kind."""
    try:
        found = np.array(values)
    except (OverflowError, ValueError):
        return None
    return found if found.dtype.kind in "if" and found.ndim == 1 else None


def numbers_of(values: Sequence[Any]) -> NDArray[np.float64]:
    """`values` as numbers; NaN for what is none."""
    found = _plain(values)
    if found is not None:
        return found.astype(np.float64)
    return np.array([math.nan if (one := number(each)) is None else one for each in values], np.float64)


def whole_numbers_of(values: Sequence[Any]) -> NDArray[np.int64]:
    """`values` as whole numbers; `NONE` for what is none."""
    found = _plain(values)
    if found is not None and found.dtype.kind == "i":
        return found.astype(np.int64)
    return np.array([NONE if (one := whole(each)) is None else one for each in values], np.int64)


def number(value: Any) -> float | None:
    """`value`, a number or its text, where it is a finite one."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def whole(value: Any) -> int | None:
    """`value`, a whole number or its text, where it fits 63 bits."""
    if type(value) is not int:
        found = number(value)
        if found is None or found != int(found):
            return None
        value = int(found)
    return value if -(2**63) <= value < 2**63 else None


class Columns:
    """Columns that grow piece by piece, each in one stretch of memory: pieces of their own would leave holes."""

    def __init__(self, names: Sequence[str], dtypes: Mapping[str, type]) -> None:
        """No values yet, of columns called `names`; those not in `dtypes` are of int64."""
        self._columns = {name: np.empty(0, dtypes.get(name, np.int64)) for name in names}
        self._long = 0

    def add(self, *piece: NDArray[Any]) -> None:
        """Put `piece`, an array for each column, behind what is there."""
        end = self._long + len(piece[0])
        for (name, column), values in zip(self._columns.items(), piece, strict=True):
            if end > len(column):
                # What is not written yet takes no memory.
                longer = np.empty(max(2 * len(column), end, _FIRST), column.dtype)
                longer[: self._long] = column[: self._long]
                self._columns[name] = column = longer
            column[self._long : end] = values
        self._long = end

    def taken(self) -> dict[str, NDArray[Any]]:
        """The columns by name; they are given away, and none are left here."""
        columns = {name: column[: self._long] for name, column in self._columns.items()}
        self._columns = {}
        return columns


def _sort(columns: dict[str, NDArray[Any]], keys: Sequence[str]) -> None:
    """Sort all of `columns` by those called `keys`, the first first; one after "-" from the most down."""
    # In place, as all of this: the columns of a large trace are most of what memory holds.
    down = [columns[name[1:]] for name in keys if name[0] == "-"]
    for column in down:
        np.negative(column, out=column)
    order = np.lexsort([columns[name.lstrip("-")] for name in reversed(keys)])
    for column in down:
        np.negative(column, out=column)
    if len(order) < 2**31:
        order = order.astype(np.int32)
    for name in columns:
        columns[name] = columns[name][order]


def in_order(
    kernels: dict[str, NDArray[Any]], calls: dict[str, NDArray[Any]], launches: dict[str, NDArray[Any]]
) -> tuple[Kernels, Calls, Launches]:
    """The columns of a trace, sorted as `Trace` wants each of them."""
    _sort(kernels, ("start_s",))
    _sort(calls, ("thread", "start_s", "-duration_s"))
    _sort(launches, ("thread", "start_s"))
    return Kernels(**kernels), Calls(**calls), Launches(**launches)


class Table(dict[Any, int]):
    """Distinct values numbered in the order they appear."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number
