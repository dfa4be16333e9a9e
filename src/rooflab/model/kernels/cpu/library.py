"""Products by an installed library, as it was measured on this machine: its fitted terms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rooflab.machines import products
from rooflab.machines.products import Shapes
from rooflab.model.device.cores import Cores
from rooflab.model.device.device import Device
from rooflab.model.kernels.common import Columns
from rooflab.model.kernels.cpu import core_times

# What other runs of the same machine differ by, beside what the terms miss: clocks and neighbours.
_OTHER_RUN = 0.06


class LibraryTimes(NamedTuple):
    """Rows that a library's fits know, and their seconds; each of shape (rows, settings), or (rows, 1).

    Attributes:
        known: whether the row is a product that was measured.
        compute_s, cache_s, memory_s, call_s: parts of the time, which do not overlap.
        spread: standard deviation of ln(measured / predicted).
    """

    known: np.ndarray
    compute_s: np.ndarray
    cache_s: np.ndarray
    memory_s: np.ndarray
    call_s: np.ndarray
    spread: np.ndarray


def library_times(x: Columns, device: Device, formats: tuple[str, ...]) -> LibraryTimes | None:
    """The rows of `x` that the library of this program was measured at; None where it is none.

    Args:
        formats: number formats by the column "format".
    """
    cores = core_times.cores_of_cpu(device)
    if not cores.products:
        return None
    library = next(iter(next(iter(cores.products.values())).values())).library
    shapes = _shapes(x, library)
    moved = np.zeros_like(x.hot_read_bytes)
    empty = {name: moved.copy() for name in LibraryTimes._fields}
    found = LibraryTimes(**{**empty, "known": moved > 0})
    for (routine, dtype), rows in cores.products.items():
        here = _of_routine(library, routine, shapes) & (x["plain"] > 0)
        here &= x["format"] == formats.index(dtype) if dtype in formats else False
        if not here.any():
            continue
        parts, spread = _parts(shapes, rows, cores, device)
        cold_s = _cold_s(x, shapes, rows, cores)
        values = {
            "known": np.ones_like(here),
            "compute_s": parts["compute"] / (device.factor["compute"] * device.factor["clock"]),
            "cache_s": parts["cache"] / (device.factor["cache_bandwidth"] * device.factor["clock"]),
            "memory_s": parts["memory"] / device.factor["bandwidth"] + cold_s,
            "call_s": parts["call"] * device.factor["dispatch"],
            "spread": spread,
        }
        found = LibraryTimes(*(np.where(here, values[name], each) for name, each in found._asdict().items()))
    return found


def _shapes(x: Columns, library: str) -> Shapes:
    """Products as the library sees them: NumPy multiplies each matrix of a stack by itself, PyTorch folds it."""
    outer = x["outer"] if library == "numpy" else 1.0
    return Shapes(x["batch"] * outer, x["m"] / outer, x["n"], x["k"], x["item_bytes"])


def _of_routine(library: str, routine: str, shapes: Shapes) -> np.ndarray:
    of = np.vectorize(lambda batch, m, n: products.routine_of(library, batch, m, n) == routine, otypes=[bool])
    return of(shapes.batch, shapes.m, shapes.n)


def _parts(
    shapes: Shapes, rows: products.Fits, cores: Cores, device: Device
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Seconds by what they go with, and the spread."""
    threads = int(cores.threads or max(rows))
    alone, together = rows[min(rows)], products.between(rows, threads)
    teamed = products.teamed(together, shapes) & (threads > 1)
    each = dict(_by_part(alone, shapes))
    parts = {name: np.where(teamed, value, each[name]) for name, value in _by_part(together, shapes)}
    spread = np.where(teamed, together.spread or 0.0, alone.spread or 0.0)
    return parts, np.hypot(spread, _OTHER_RUN)


def _by_part(row: products.Products, shapes: Shapes) -> Iterator[tuple[str, np.ndarray]]:
    columns = products.terms(row.routine, shapes, row.tile, row.tail, row.cache_bytes)
    named = {
        "compute": products.COMPUTING,
        "cache": products.MOVING,
        "memory": products.FROM_MEMORY,
        "call": products.CALLING,
    }
    for part, names in named.items():
        terms = (row.terms.get(name, 0.0) * columns[name] for name in names if name in columns)
        yield part, sum(terms, np.zeros_like(shapes.m))


def _cold_s(x: Columns, shapes: Shapes, rows: products.Fits, cores: Cores) -> np.ndarray:
    """Seconds of bytes from memory that the fit had in a cache, or did not know there.

    Products were timed again and again; one that finds its operands in no cache waits for memory as a stream does.
    """
    row = rows[min(rows)]
    total = np.maximum(x.read_bytes + x.write_bytes, 1.0)
    cold = 1 - (x.hot_read_bytes + x.hot_write_bytes) / total
    held = products.lost_share(shapes.footprint_bytes, row.cache_bytes[1]) if "memory_byte_s" in row.terms else 0.0
    memory = cores.tiers[-1]
    reading = np.minimum(memory.core_read * cores.units, memory.all_read)
    return np.maximum(cold - held, 0.0) * total / reading
