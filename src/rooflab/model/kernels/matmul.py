"""Products of matrices on GPUs: tiles in waves over the units, fed through L2, from memory.

A library tiles the result, gives each tile (or, with split-K, a part of its k) to a block of threads and
runs the blocks in waves over the units. The time of one choice follows from its mechanism; the library is
taken to choose about the best one.
"""

from __future__ import annotations

import numpy as np

from rooflab.model.device import Device, Number
from rooflab.model.kernels.common import Columns, Features, Kernels, Mechanism, Specs
from rooflab.types.work import Cost, Op, TensorSpec
from rooflab.work.formulas.parts import item_bytes

# Which unit's constants a number format takes: the place of its name in this tuple is the column `unit`.
UNITS = ("half", "byte", "tf32", "fp32", "fp64")
_UNIT = {
    "fp16": "half",
    "bf16": "half",
    "tf32": "tf32",
    "fp32": "fp32",
    "fp64": "fp64",
    "complex64": "fp32",
    "complex128": "fp64",
}
_COLUMNS = ("m", "n", "k", "batch", "item", "weight_item", "out_item", "aligned", "unit")


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """The columns of one product (see `_COLUMNS`); None where its operands are not two matrices or more."""
    if len(inputs) < 2 or not outputs:
        return None
    a, b, out = inputs[0], inputs[1], outputs[0]
    fma = op.attrs.get("fma") or out.elements * op.attrs.get("k", 0)
    if not fma or not out.elements:
        return None
    k = fma / out.elements
    n = out.shape[-1] if len(b.shape) > 1 and out.shape else 1
    rows = out.elements / n
    batch = 1.0
    # One matrix b for each of the leading sizes of b; the rows of several a's against one b are one product.
    if len(b.shape) > 2:
        batch = float(np.prod(b.shape[:-2]))
    if op.kind == "grouped_matmul":
        batch = min(float(op.attrs.get("active", batch)), batch, rows)
    m = max(rows / batch, 1.0)
    bits = op.attrs.get("weight_bits")
    unit = _UNIT.get(str(op.attrs.get("compute") or a.dtype), "byte" if item_bytes(a) <= 1 else "half")
    return (
        m,
        float(n),
        k,
        batch,
        item_bytes(a),
        bits / 8 if bits else item_bytes(b),
        item_bytes(out),
        float(min(_alignment(each) for each in (a, b, out))),
        float(UNITS.index(unit)),
    )


def _alignment(spec: TensorSpec) -> int:
    """Largest power of two, 16 at most, that divides the bytes from one row (or column) to the next."""
    sizes = [stride * item_bytes(spec) for stride in spec.strides[-2:] if stride > 1] if spec.strides else []
    if not sizes:
        sizes = [spec.shape[-1] * item_bytes(spec)] if len(spec.shape) > 1 else [16]
    common = int(np.gcd.reduce([int(size) for size in sizes] + [16]))
    return common or 16


def time(x: Columns, device: Device) -> Kernels:
    """The best of a family's tiles, each with and without split-K: see `_choice`."""
    c = device.constants
    launch = c("matmul.launch_s") * device.factor["overhead"]
    cold = x.read_bytes + x.write_bytes - x.hot_read_bytes - x.hot_write_bytes
    memory = cold / (device.memory_bytes_per_s * c("matmul.memory_share"))
    best = None
    tiles = c.many("matmul.tiles")
    for tm, tn in zip(tiles[::2], tiles[1::2], strict=True):
        for split in (False, True):
            found = _choice(x, device, memory, tm, tn, split)
            if best is None:
                best = found
            else:
                better = found[0] < best[0]
                best = tuple(np.where(better, new, old) for new, old in zip(found, best, strict=True))
    assert best is not None  # every family has tiles
    time_s, compute, cache, fixed = best
    zero = np.zeros_like(time_s)
    return Kernels(
        time_s=time_s + launch,
        compute_s=compute + zero,
        near_s=zero,
        cache_s=cache + zero,
        memory_s=memory + zero,
        overhead_s=fixed + launch + zero,
        spread=c("matmul.spread") + zero,
        kernels=zero + 1,
    )


def _choice(x: Columns, device: Device, memory: np.ndarray, tm: float, tn: float, split: bool) -> tuple:
    """Time, arithmetic, cache traffic and fixed costs in seconds, with tiles of tm × tn."""
    c = device.constants
    m, n, k, batch = x["m"], x["n"], x["k"], x["batch"]
    tick = 1.0 / device.clock_hz
    down, across = np.ceil(m / tm), np.ceil(n / tn)
    tiles = down * across * batch
    parts: Number = 1.0
    fixed: Number = 0.0
    if split:
        parts = np.clip(np.floor(device.units / tiles), 1.0, np.floor(k / c("matmul.split_k_least")))
        parts = np.maximum(parts, 1.0)
        workspace = 8.0 * parts * m * n * batch
        fixed = np.where(
            parts > 1,
            c("matmul.split_s") * device.factor["overhead"] + workspace / device.cache_bytes_per_s,
            0.0,
        )
    depth = k / parts
    each = np.ceil(tiles * parts / device.units)
    turns = np.ceil(each * (tm * tn / c("matmul.unit_elements")))
    fma_s = x.flop_floor_s * device.units / (m * n * k * batch * _share(x, c))
    busy = each * depth * (tm * tn) * fma_s
    feed = each * depth * (tm + tn) * x["item"] * (tick / c("matmul.feed_bytes_per_clock"))
    chain = turns * (depth * x["item"] * (tick * c("matmul.step_clocks") / 128.0))
    drain = (
        turns * (tick * c("matmul.tile_clocks"))
        + each * (tm * tn * tick / c("matmul.drain_bytes_per_clock")) * x["out_item"]
    )
    cache = (across * m + down * n) * k * batch * x["item"] / (device.cache_bytes_per_s * c("matmul.cache_share"))
    body = _soft(_soft(busy, feed), chain) + drain
    return _soft(_soft(body, cache), memory) + fixed, busy, cache, fixed + drain


def _share(x: Columns, c) -> np.ndarray:
    return np.array([c(f"matmul.share_{unit}") for unit in UNITS])[x["unit"].astype(int)]


def _soft(a: Number, b: Number) -> Number:
    """Between the greater and the sum of both: they overlap, but not wholly."""
    a, b = a * a, b * b
    return np.sqrt(np.sqrt(a * a + b * b))


MECHANISM = Mechanism("matmul", ("gpu",), ("matmul", "grouped_matmul"), _COLUMNS, features, time)
