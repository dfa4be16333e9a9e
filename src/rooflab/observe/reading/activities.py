"""A trace from columns as files hold them: times that count from anywhere, any order, some columns missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflab.observe.reading.columns import Table, in_order
from rooflab.types.trace import (
    KERNEL,
    NONE,
    OPERATOR,
    Calls,
    Device,
    Dropped,
    Kernels,
    Launches,
    Shape,
    Signature,
    Trace,
)

Columns = Mapping[str, NDArray[Any]]

# Values of a column that a file does not have, and the types of columns.
_ABSENT: dict[str, tuple[float, type]] = {
    "name": (0, np.int32),
    "kind": (0, np.int8),
    "start_s": (np.nan, np.float64),
    "duration_s": (np.nan, np.float64),
    "device": (NONE, np.int64),
    "stream": (NONE, np.int64),
    "correlation": (NONE, np.int64),
    "external": (NONE, np.int64),
    "sequence": (NONE, np.int64),
    "nbytes": (np.nan, np.float64),
    "shape": (0, np.int32),
    "signature": (0, np.int32),
    "thread": (0, np.int32),
}
_KINDS: dict[type, int] = {Kernels: KERNEL, Calls: OPERATOR}


class Activities:
    """Pieces of a trace's columns as a reader finds them, times in whole units of the file's clock.

    Attributes:
        names, shapes, threads, signatures: what the columns number.
        bad_times: activities that were left out for a start or an end that cannot be true.
    """

    def __init__(self, unit_s: float = 1e-9) -> None:
        self.names, self.shapes, self.threads, self.signatures = Table(), Table(), Table(), Table()
        # Number 0 is what nothing is known of.
        _ = self.shapes[Shape()], self.signatures[Signature()]
        self.bad_times = 0
        self._unit_s = unit_s
        self._pieces: dict[type, list[dict[str, NDArray[Any]]]] = {Kernels: [], Calls: [], Launches: []}

    def add(self, to: type, start: NDArray[np.int64], end: NDArray[np.int64], columns: Columns) -> None:
        """Keep activities of the kind `to` (`Kernels`, `Calls` or `Launches`).

        Args:
            to: where they belong.
            start, end: in units of the clock; `NONE` for what is no time.
            columns: the others, of the same length, by their names in `to`; those missing are not recorded.
        """
        good = (start >= 0) & (end >= start)
        if not good.all():
            self.bad_times += int(np.count_nonzero(~good))
        if good.any():
            piece = {name: column[good] for name, column in columns.items()}
            self._pieces[to].append(piece | {"start": start[good], "end": end[good]})

    @property
    def empty(self) -> bool:
        """Whether nothing was kept."""
        return not any(self._pieces.values())

    def has(self, kind: type) -> bool:
        """Whether anything of `kind` (`Kernels`, `Calls` or `Launches`) was kept."""
        return bool(self._pieces[kind])

    def trace(
        self,
        source: str,
        *,
        thread: Callable[[Any], tuple[str, str]] = lambda one: (str(one[0]), str(one[1])),
        devices: Iterable[Device] = (),
        framework: str | None = None,
        dropped: Iterable[Dropped] = (),
        notes: Iterable[str] = (),
    ) -> Trace:
        """Everything, times in seconds after the first activity; `thread` gives process and thread of a number."""
        starts = [int(piece["start"].min()) for pieces in self._pieces.values() for piece in pieces]
        begin = min(starts, default=0)
        kernels, calls, launches = in_order(*(self._joined(to, begin) for to in (Kernels, Calls, Launches)))
        return Trace(
            source=source,
            kernels=kernels,
            calls=calls,
            launches=launches,
            names=tuple(self.names),
            shapes=tuple(self.shapes),
            signatures=tuple(self.signatures),
            threads=tuple(map(thread, self.threads)),
            devices=tuple(devices),
            framework=framework,
            dropped=(*self._dropped(), *dropped),
            notes=tuple(notes),
        )

    def _dropped(self) -> tuple[Dropped, ...]:
        """What was left out, where something was."""
        why = "without a start or an end that can be true"
        return (Dropped(self.bad_times, why),) if self.bad_times else ()

    def _joined(self, to: type, begin: int) -> dict[str, NDArray[Any]]:
        pieces = self._pieces[to]
        # Differences of whole numbers are exact: clocks that count from 1970 are past what a float holds.
        for piece in pieces:
            piece["start_s"] = (piece["start"] - begin) * self._unit_s
            piece["duration_s"] = (piece["end"] - piece["start"]) * self._unit_s
        columns = {}
        for name in to.__struct_fields__:
            value, dtype = _ABSENT[name]
            value = _KINDS.get(to, value) if name == "kind" else value
            parts = [
                piece[name].astype(dtype) if name in piece else np.full(len(piece["start"]), value, dtype)
                for piece in pieces
            ]
            columns[name] = np.concatenate(parts) if parts else np.empty(0, dtype)
        return columns


def numbered(table: Table, values: Sequence[Any]) -> NDArray[np.int32]:
    """The numbers of `values` in `table`."""
    return np.array([table[one] for one in values], np.int32)


def numbered_by(table: Table, codes: NDArray[np.int64], meaning: Callable[[int], Any]) -> NDArray[np.int32]:
    """The numbers in `table` of what `codes` mean: each distinct code is looked up once."""
    distinct, places = np.unique(codes, return_inverse=True)
    return np.array([table[meaning(int(one))] for one in distinct], np.int32)[places]
