"""What PyTorch moves on a CPU: copies into another order, rows and elements that indices pick, write or add to."""

from __future__ import annotations

import math

from rooflab.model.kernels.common import Specs
from rooflab.model.kernels.cpu.torch_table import (
    UNKNOWN_SPREAD,
    Loop,
    branch,
    innermost_step,
    rows,
)
from rooflab.types.work import Op, TensorSpec


def moved(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """Copies into another order, joined or cut."""
    if not inputs or not outputs:
        return shared
    first = inputs[0]
    table, name, out = rows()["move"], op.name.removeprefix("aten."), outputs[0]
    if op.attrs.get("whole"):
        return branch("nonzero", float(first.elements), shared)
    if name in ("stack", "cat") and len(inputs) > 1:
        return _joined(inputs, out, shared)
    if name in table:
        return shared._replace(clocks=table[name] * out.elements, spread=0.3)
    x = first if first.strides is not None else out
    if name in _MOVED_WHOLE:
        # Filled first, or copied as often as it is repeated, row by row.
        again = 0.0 if name in ("flip", "roll", "rot90") else 0.4
        return shared._replace(clocks=again * out.elements, spread=0.4 if again else 0.0)
    if x.strides is None:
        return shared
    steps = [abs(step) if size > 1 else math.inf for size, step in zip(x.shape, x.strides, strict=True)]
    nearest = min(range(len(steps)), key=lambda at: (steps[at], -at), default=0)
    last, step = innermost_step(x)
    run = table["run"] / max(x.shape[last] if x.shape else 1, 1)
    if steps and steps[nearest] == 0:  # spread over a dimension
        return shared._replace(clocks=(0.3 + run) * out.elements, spread=0.4)
    if step <= 1:  # a loop is begun for each run of neighbours
        return shared._replace(clocks=run * out.elements, spread=0.25)
    if len(x.shape) == 2 and nearest == 0 and min(x.shape) >= 60 and out.elements == x.elements:
        # Two dimensions exchanged: by blocks, on one thread (aten/src/ATen/native/Copy.cpp, copy_transpose_valid).
        return Loop(clocks=table["transposed"] * out.elements, spread=0.25, blocked=True)
    return shared._replace(clocks=table["strided"] * out.elements, spread=0.25)


def _joined(inputs: Specs, out: TensorSpec, shared: Loop) -> Loop:
    """Tensors next to each other: slices of each are copied in turn, or by each thread a strided share."""
    first = inputs[0]
    if len(out.shape) > len(first.shape):
        at = next((k for k, size in enumerate(out.shape) if first.shape[k:] == out.shape[k + 1 :]), 0)
        slice_elements = math.prod(first.shape[at:])
    else:
        differs = [k for k, size in enumerate(out.shape) if first.shape[k : k + 1] != (size,)]
        slice_elements = math.prod(first.shape[differs[0] :]) if differs else first.elements
    slices = out.elements / max(slice_elements, 1)
    if slices <= len(inputs):
        return shared
    # Several threads copy each input with its steps; one alone begins a copy for each slice (cat_serial_kernel).
    together = (rows()["move"]["strided"] if slice_elements < 4 else 0.3) * out.elements
    alone = max(rows()["move"]["slice"] * slices - together, 0.0)
    return Loop(clocks=together, shared=out.elements, spread=0.4, alone_clocks=alone)


_MOVED_WHOLE = (
    *("flip", "roll", "rot90", "constant_pad_nd", "repeat", "repeat_interleave"),
    *("reflection_pad1d", "reflection_pad2d", "reflection_pad3d"),
    *("replication_pad1d", "replication_pad2d", "replication_pad3d"),
)


def picked(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """Elements or rows that indices pick: whole rows are copied, of others each element has its place found."""
    table, name = rows()["pick"], op.name.removeprefix("aten.").rstrip("_").removeprefix("_unsafe_")
    if not inputs or not outputs:
        return shared
    x, out = inputs[0], float(sum(spec.elements for spec in outputs[:1]))
    index = inputs[1] if len(inputs) > 1 else x
    last = len(x.shape) - 1 in op.attrs.get("dims", (len(x.shape) - 1,))
    width = next(iter(reversed(x.shape)), 1)
    row = 1 if last else width
    if name in ("index", "masked_select") and index.dtype in ("bool", "uint8"):
        found = branch("mask", float(index.elements), shared)
        return found._replace(clocks=found.clocks + (0.0 if last else table["index_rows"] * out))
    # An index along the last dimension alone stays in its row, if there are others before it.
    item = x.nbytes / max(x.elements, 1)
    in_row = last and len(x.shape) > 1 and len(op.attrs.get("dims", ())) == 1
    random = (out / max(row, 1), width * item if in_row else float(x.nbytes))
    shared = shared._replace(distinct_bytes=x.nbytes + sum(spec.nbytes for spec in inputs[1:]))
    if name == "index":
        each = table["index"] + table["further_index"] * (len(inputs) - 2) if last else table["index_rows"]
        return shared._replace(clocks=each * out, spread=0.3, random=random, blocked=not last)
    if name == "index_select" and last:
        each = table["index_select" if x.dtype == "fp32" else "index_select_other"]
        return Loop(clocks=each * out, spread=0.6, random=random)
    if name in ("gather", "take"):
        if name == "gather" and not last:
            random = (out, float(x.nbytes))
        return shared._replace(clocks=table[name] * out, spread=0.35, random=random)
    picked = (float(index.elements), float(x.nbytes))
    return shared._replace(clocks=8.0 * index.elements, spread=0.3, random=picked)


def scattered(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """Elements written or added where indices say: sums on the calling thread, as two may meet."""
    table, name = rows()["pick"], op.name.removeprefix("aten.").rstrip("_").removeprefix("_unsafe_")
    if not inputs or not outputs:
        return shared
    last = inputs[-1]
    base, values = outputs[0], float(op.attrs.get("elements", last.elements))
    sums = bool(op.attrs.get("accumulate"))
    if name in ("bincount", "histc"):
        return Loop(clocks=table[name] * inputs[0].elements, spread=0.3)
    flat = len(base.shape) < 2
    by_rows = not flat and last.shape[-1:] == base.shape[-1:]
    in_row = name.startswith("scatter") and op.attrs.get("dims") == (len(base.shape) - 1,)
    reach = base.nbytes * base.shape[-1] / max(base.elements, 1) if in_row else float(base.nbytes)
    random = (values / (base.shape[-1] if by_rows and not name.startswith("scatter") else 1), reach)
    if name.startswith("index_"):
        if name == "index_put":
            each = table["put_sum"] if sums else table["put"] if flat or not by_rows else table["put_rows"]
        else:
            each = table["index_add_rows"] if by_rows else table["index_add"] * (2.7 if flat else 1.0)
        many = float(by_rows or not sums)
        return Loop(clocks=each * values, shared=values * many, spread=0.5, random=random)
    if name.startswith("scatter"):
        each = table["scatter_sum" if sums else "scatter"]
        return Loop(clocks=each * values, shared=values * float(not flat), spread=0.4, random=random)
    return Loop(
        clocks=table["put"] * values, shared=0.0 if sums else values, spread=UNKNOWN_SPREAD / 2, random=random
    )
