"""What PyTorch does on a CPU in steps that are no plain loop: resampling, random numbers, sorts and selections."""

from __future__ import annotations

import math

from rooflab.model.kernels.common import Specs
from rooflab.model.kernels.cpu.torch_table import (
    STEPS_SPREAD,
    Loop,
    rows,
)
from rooflab.types.work import Op


def interpolated(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """New samples between old ones: a result at a time, its places found anew in each row of the image."""
    mode, out = str(op.attrs.get("mode", "")), outputs[0]
    clocks = {"nearest": 1.5, "linear": 3.0, "bilinear": 7.0, "bicubic": 30.0, "trilinear": 18.0}.get(mode, 15.0)
    if op.name.startswith("aten.grid"):
        # Threads share out places, all channels of a place together.
        shared = shared._replace(shared=float(inputs[1].elements) / 2 if len(inputs) > 1 else 0.0)
        clocks = {"nearest": 2.3}.get(mode, 7.0)
    # Places and weights are found for each row of results and channel, and spread over the row.
    row = out.shape[-1] if out.shape else 1
    starts = 0.0 if op.name.startswith("aten.grid") else 300.0 / max(row, 1)
    return shared._replace(clocks=(clocks + starts) * out.elements, spread=0.5)


def drawn(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """Random numbers, one after the other on the calling thread."""
    name = op.name.removeprefix("aten.").rstrip("_").removesuffix("_like")
    name = {"normal": "randn", "normal_functional": "randn", "uniform": "rand", "random": "randint"}.get(
        name, name
    )
    number = rows()["draw"].get(name, rows()["draw"]["randint"])
    double = bool(outputs) and outputs[0].dtype == "fp64"
    clocks = number if not isinstance(number, list) else number[int(double)]
    spread = 0.4 if name == "bernoulli" else 0.25
    return Loop(clocks=float(clocks) * sum(spec.elements for spec in outputs[:1]), spread=spread)


def dropped(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """A truth drawn for each element, then a product."""
    return Loop(clocks=rows()["draw"]["bernoulli"] * outputs[0].elements, spread=0.4)


# Whole numbers in one row are sorted digit by digit (aten/src/ATen/native/cpu/SortingKernel.cpp, GRAIN_SIZE).
_RADIX_FROM = 32768


def sorted_rows(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """Comparisons of a sort, n log₂ n, or of a selection, 2n; each row is one thread's."""
    table, function, n = rows()["sort"], str(op.attrs["function"]), max(int(op.attrs["n"]), 1)
    x, name = inputs[0], op.name.removeprefix("aten.")
    depth = max(1.0, math.log2(n))
    if function in ("search", "interp"):
        asked = inputs[1].elements if len(inputs) > 1 else 0
        return Loop(clocks=table["search"] * asked * (depth + 1), shared=float(asked), spread=STEPS_SPREAD)
    alone = 0.0 if x.elements <= n else float(x.elements)
    if name in ("median", "nanmedian", "kthvalue", "mode"):
        return Loop(clocks=2 * table["median"] * x.elements, shared=alone, spread=STEPS_SPREAD)
    if function == "topk":
        # A heap of few, else a partition, then a sort of those found (aten/src/ATen/native/TopKImpl.h).
        k = max(float(op.attrs.get("k") or 1), 1.0)
        each = table["topk"] if k * 64 <= n else 0.8 * table["median"]
        kept = x.elements / n * k * max(math.log2(k), 1.0)
        return Loop(clocks=2 * each * x.elements + table["sort"] * kept, shared=alone, spread=STEPS_SPREAD)
    if name.startswith(("_unique", "unique")):
        return Loop(clocks=table["sort"] / 3 * x.elements * depth, shared=alone, spread=2 * STEPS_SPREAD)
    if x.dtype.startswith(("int", "uint")) and len(x.shape) == 1 and n >= _RADIX_FROM:
        return Loop(clocks=table["radix"] * x.elements, shared=float(n), spread=2 * STEPS_SPREAD)
    return Loop(clocks=table["sort"] * x.elements * depth, shared=alone, spread=STEPS_SPREAD)


def folded(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """Patches added into an image, on the calling thread."""
    return Loop(clocks=rows()["move"]["col2im"] * inputs[0].elements, spread=0.4)


def created(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """What is filled; what counts up computes each element."""
    counted = str(op.attrs.get("function", "")) in ("arange", "range", "linspace", "logspace")
    return shared._replace(clocks=rows()["move"]["counted_up"] * shared.shared * float(counted))
