"""What Kineto records beside activities: what kernels exchange between ranks, and memory taken and given back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflab.observe.reading.columns import Table, number, numbers_of, whole, whole_numbers_of
from rooflab.types.trace import HOST, Allocations, Collective, Collectives

_HOST_KIND = 0  # c10's DeviceType of the host

Array = NDArray[np.float64]


class Parts:
    """What was taken so far, times in the file's unit; `args` are the arguments of events, one an event."""

    def __init__(self) -> None:
        self.told = Table()
        self._collectives: list[tuple[NDArray[Any], ...]] = []
        self._allocations: list[tuple[NDArray[Any], ...]] = []

    def kernels(self, args: Sequence[Any], starts: Array, durations: Array) -> None:
        """Keep those kernels that say what they exchange."""
        these = [at for at, one in enumerate(args) if one.collective is not None]
        if not these:
            return
        told, several = self.told, [args[at] for at in these]
        which = [
            told[
                str(one.collective),
                f"{one.group or ''} {one.members or ''}".strip(),
                whole(one.size),
                whole(one.elements),
                str(one.dtype or ""),
                whole(one.in_group),
            ]
            for one in several
        ]
        devices = whole_numbers_of([one.device for one in several])
        self._collectives.append((starts[these], durations[these], devices, np.array(which, np.int32)))

    def memory(self, args: Sequence[Any], starts: Array, threads: NDArray[np.int32]) -> int:
        """Keep what was taken and given back; how many events do not say when or how much."""
        nbytes = numbers_of([one.taken for one in args])
        good = np.isfinite(starts) & np.isfinite(nbytes)
        host = np.array([number(one.device_kind) == _HOST_KIND for one in args], bool)
        reserved = numbers_of([one.reserved for one in args])
        reserved[host] = np.nan  # the host's allocator keeps nothing back: the zero there is no count
        columns = (
            starts,
            nbytes,
            whole_numbers_of([one.address for one in args]),
            numbers_of([one.allocated for one in args]),
            reserved,
            np.where(host, HOST, whole_numbers_of([one.device_number for one in args])),
            threads,
        )
        self._allocations.append(tuple(column[good] for column in columns))
        return int(np.count_nonzero(~good))

    def first(self) -> float:
        """When the first of all was; infinite for none."""
        starts = [piece[0].min() for piece in (*self._collectives, *self._allocations) if len(piece[0])]
        return float(min(starts, default=np.inf))

    def collectives(self, begin: float, unit_s: float) -> Collectives | None:
        """By start, times in seconds after `begin`; None where nothing was recorded."""
        if not self._collectives:
            return None
        starts, durations, devices, which = _joined(self._collectives)
        return Collectives(
            start_s=(starts - begin) * unit_s,
            duration_s=durations * unit_s,
            device=devices,
            which=which,
            told=tuple(Collective(*one) for one in self.told),
        )

    def allocations(self, begin: float, unit_s: float) -> Allocations | None:
        """By time, in seconds after `begin`; None where nothing was recorded."""
        if not self._allocations:
            return None
        moments, *others = _joined(self._allocations)
        columns: list[Any] = [(moments - begin) * unit_s, *others]
        return Allocations(**dict(zip(Allocations.__struct_fields__, columns, strict=True)))


def _joined(pieces: list[tuple[NDArray[Any], ...]]) -> list[NDArray[Any]]:
    """The columns of all pieces, sorted by the first."""
    columns = [np.concatenate(several) for several in zip(*pieces, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return [column[order] for column in columns]
