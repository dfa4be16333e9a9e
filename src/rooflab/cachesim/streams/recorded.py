"""A stream of accesses that somebody else recorded: arrays of addresses, sizes, and which are stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rooflab.cachesim.streams.stream import Arena, Stream, positive
from rooflab.errors import RooflabError

_END = 1 << 62  # of the addresses that are simulated


def recorded(
    addresses: Sequence[int], stores: Sequence[bool] | None = None, nbytes: int | Sequence[int] = 8
) -> Stream:
    """The accesses at `addresses`, in order: loads, but where `stores` is true, of `nbytes` each or one by one."""
    import numpy as np

    where = np.asarray(addresses)
    if where.ndim != 1 or where.size == 0 or where.dtype.kind not in "iu":
        raise RooflabError(f"recorded: addresses is {_shape(where)}, expected one row of whole numbers")
    written, sizes = np.asarray([] if stores is None else stores), np.asarray(nbytes)
    if stores is not None and (written.shape != where.shape or written.dtype != bool):
        raise RooflabError(f"recorded: stores is {_shape(written)}, expected a truth value for each address")
    if sizes.ndim == 0:
        positive("recorded", nbytes=sizes.item())
        sizes = np.full(where.shape, sizes, np.int64)
    if sizes.shape != where.shape or sizes.dtype.kind not in "iu" or int(sizes.min()) < 1:
        raise RooflabError(f"recorded: nbytes is {_shape(sizes)}, expected a number above zero for each address")
    low, end = int(where.min()), int(where.max()) + int(sizes.max())
    if low < 0 or end > _END:
        raise RooflabError(f"recorded: an access ends at {end:#x} or begins at {low:#x}, expected 0 to 2**62")
    kept = (np.ascontiguousarray(where, np.int64), np.ascontiguousarray(sizes, np.int64))
    flags = written.astype(np.int64) if stores is not None else np.zeros(where.shape, np.int64)
    arena = Arena(bases={"accesses": low}, sizes={"accesses": end - low}, kept=[*kept, flags])
    for name in ("loads", "stores"):
        arena.reference(name)
    table = (len(where), *(each.ctypes.data for each in (*kept, flags)))
    return arena.irregular(f"{len(where):,} recorded accesses", "recorded", table, len(where), int(sizes.sum()))


def _shape(array: Any) -> str:
    return f"an array of {array.dtype}, {' × '.join(str(each) for each in array.shape) or 'one number'}"
