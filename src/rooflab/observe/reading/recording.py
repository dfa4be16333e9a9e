"""A trace put together event by event, for formats whose files are small enough to be read so."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from rooflab.observe.reading.columns import Table, in_order, number
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

_FLOATS = ("start_s", "duration_s", "nbytes")
_SMALL = {"kind": np.int8, "name": np.int32, "thread": np.int32, "shape": np.int32, "signature": np.int32}


class Recording:
    """Events as they are found, times in seconds of the file's own clock; `trace` sorts and joins them."""

    def __init__(self) -> None:
        self._names, self._threads, self._signatures, self._shapes = Table(), Table(), Table(), Table()
        self._kernels: list[tuple[Any, ...]] = []
        self._calls: list[tuple[Any, ...]] = []
        self._launches: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._kernels) + len(self._calls) + len(self._launches)

    @property
    def kernels(self) -> int:
        """How many activities of devices were recorded."""
        return len(self._kernels)

    def kernel(
        self,
        name: str,
        start_s: float,
        duration_s: float,
        *,
        device: int,
        stream: int = 0,
        kind: int = KERNEL,
        correlation: int = NONE,
        external: int = NONE,
        nbytes: float = math.nan,
        shape: Shape | None = None,
    ) -> None:
        """An activity of a device; arguments are the columns of `Kernels`."""
        self._kernels.append(
            (
                self._names[name],
                kind,
                start_s,
                duration_s,
                device,
                stream,
                correlation,
                external,
                nbytes,
                self._shapes[shape or Shape()],
            )
        )

    def call(
        self,
        name: str,
        start_s: float,
        duration_s: float,
        thread: tuple[str, str],
        *,
        kind: int = OPERATOR,
        external: int = NONE,
        signature: Signature | None = None,
    ) -> None:
        """A call on a thread of the host; arguments are the columns of `Calls`."""
        self._calls.append(
            (
                self._names[name],
                kind,
                start_s,
                duration_s,
                self._threads[thread],
                external,
                NONE,
                self._signatures[signature or Signature()],
            )
        )

    def launch(
        self,
        name: str,
        start_s: float,
        duration_s: float,
        thread: tuple[str, str],
        correlation: int = NONE,
        external: int = NONE,
    ) -> None:
        """A call of a device's runtime; arguments are the columns of `Launches`."""
        self._launches.append(
            (self._names[name], start_s, duration_s, self._threads[thread], correlation, external)
        )

    def trace(
        self,
        source: str,
        *,
        framework: str | None = None,
        devices: Iterable[Device] = (),
        dropped: Iterable[Dropped] = (),
        notes: Iterable[str] = (),
    ) -> Trace:
        """All that was recorded, times after the first of them."""
        several = (
            _columns(Kernels, self._kernels),
            _columns(Calls, self._calls),
            _columns(Launches, self._launches),
        )
        begin = min((float(one["start_s"].min()) for one in several if len(one["start_s"])), default=0.0)
        for one in several:
            one["start_s"] -= begin
        kernels, calls, launches = in_order(*several)
        return Trace(
            source=source,
            kernels=kernels,
            calls=calls,
            launches=launches,
            names=tuple(self._names),
            shapes=tuple(self._shapes),
            signatures=tuple(self._signatures),
            threads=tuple(self._threads),
            devices=tuple(devices),
            framework=framework,
            dropped=tuple(one for one in dropped if one.count),
            notes=tuple(notes),
        )


def times_s(start: Any, duration: Any, unit_s: float) -> tuple[float, float] | None:
    """A start and a duration of a file in seconds; None where they cannot be true."""
    begin, length = number(start), number(duration)
    if begin is None or length is None or begin < 0 or length < 0:
        return None
    return begin * unit_s, length * unit_s


def _columns(cls: type[Any], rows: list[tuple[Any, ...]]) -> dict[str, np.ndarray]:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(cls.__struct_fields__)
    return {
        name: np.array(column, np.float64 if name in _FLOATS else _SMALL.get(name, np.int64))
        for name, column in zip(cls.__struct_fields__, columns, strict=True)
    }
