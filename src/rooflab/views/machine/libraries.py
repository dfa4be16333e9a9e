"""What the installed libraries attain at products of matrices, and how far translations reach, as rows of text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rooflab import units
from rooflab.machines import products as model
from rooflab.types.machine import Machine, Products
from rooflab.views.common.table import UNKNOWN, Table, lasting, without_empty

_WHO = {"numpy": "NumPy", "torch": "PyTorch"}
# The products whose predicted speed stands in the table: small, middling, large squares, and a long thin one.
_SHOWN = ((1, 32, 32, 32), (1, 256, 256, 256), (1, 2048, 2048, 2048), (1, 2048, 8, 512))
_ITEM_BYTES = {"fp32": 4, "fp64": 8}


def every(machine: Machine) -> tuple[Table, ...]:
    """Both tables of `machine`; without rows where nothing was measured."""
    return (products(machine), reach(machine))


def products(machine: Machine) -> Table:
    """FLOP/s of products by size, as the fitted times have them, with their error."""
    rows = []
    for row, fits in _fits(machine.products):
        speeds = [_speed(fits, row, shape) for shape in _SHOWN]
        error = UNKNOWN if row.error is None else units.percent(row.error)
        rows.append((_WHO.get(row.library, row.library), row.dtype, str(row.threads), *speeds, error))
    columns = ("library", "format", "threads", *map(_title, _SHOWN), "error")
    return without_empty("Products of matrices", columns, rows, words=2, note=_note(machine.products))


def _fits(listed: tuple[Products, ...]) -> Iterator[tuple[Products, model.Fits]]:
    """Each fit of whole products with those of the same library and format by number of threads."""
    whole = [row for row in listed if row.routine == model.PRODUCT]
    for row in sorted(whole, key=lambda one: (one.library, one.dtype, one.threads)):
        same = [one for one in whole if (one.library, one.dtype) == (row.library, row.dtype)]
        yield row, {one.threads: one for one in same}


def _speed(fits: model.Fits, row: Products, shape: tuple[int, int, int, int]) -> str:
    item_bytes = _ITEM_BYTES.get(row.dtype)
    if item_bytes is None:
        return UNKNOWN
    seconds = float(model.library_seconds(fits, row.threads, model.shapes_of([shape], item_bytes))[0])
    return units.si(units.FLOP_PER_FMA * float(np.prod(shape)) / seconds, "FLOP/s") if seconds > 0 else UNKNOWN


def _title(shape: tuple[int, int, int, int]) -> str:
    _, m, n, k = shape
    return f"{m}³" if m == n == k else f"{m}×{k} · {k}×{n}"


def _note(listed: tuple[Products, ...]) -> str:
    """Which library computes, with whose kernels and under which settings, for each that calls one."""
    said = ["As fitted to products timed here; error: the median miss on products that the fit had not seen."]
    for row in {one.library: one for one in listed}.values():
        kernels = f", kernels for {row.kernels}" if row.kernels else ""
        told = "".join(f", {name}={value}" for name, value in row.environment.items())
        said.append(
            f"{_WHO.get(row.library, row.library)}: {row.blas or 'a library that is silent'}{kernels}{told}."
        )
    return " ".join(said)


def reach(machine: Machine) -> Table:
    """Pages that the buffers of address translations hold, and what a load waits beyond them."""
    rows = []
    for each in machine.tlbs:
        page = units.iec(each.page_bytes)
        for number, (entries, miss_s) in enumerate(zip(each.entries, each.miss_s, strict=True), start=1):
            covered = units.iec(entries * each.page_bytes)
            rows.append((page, f"{number}", f"{entries:,}", covered, lasting(miss_s)))
        if not each.entries:
            rows.append(
                (page, UNKNOWN, f"> {each.held_pages:,}" if each.held_pages else UNKNOWN, UNKNOWN, UNKNOWN)
            )
    columns = ("page", "level", "pages held", "reach", "a miss costs")
    notes = dict.fromkeys(each.note for each in machine.tlbs if each.note)
    return without_empty("Translations of addresses (TLB)", columns, rows, note=" ".join(notes))
