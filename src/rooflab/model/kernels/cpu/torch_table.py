"""The measured clocks of PyTorch's loops on a CPU, read from their table: by function, number format and way."""

from __future__ import annotations

import functools
import math
import tomllib
from importlib import resources
from typing import Any, NamedTuple

from rooflab.dtypes import dtype as number_format
from rooflab.model.kernels.common import Specs
from rooflab.model.kernels.cpu.walk import contiguous
from rooflab.types.work import TensorSpec


class Loop(NamedTuple):
    """The loop of one operation.

    Attributes:
        clocks: all elements together, of one core.
        flop: the same of vector code, in FLOP of the core's vector unit in fp32.
        shared: elements that threads share out; 0 where the calling thread does all.
        spread: standard deviation of ln(measured / predicted) that data or an unknown algorithm add; 0 for none.
        random: accesses that no prefetcher foresees, and the bytes that they are spread over.
        blocked: whether strided operands are moved by blocks that stay in the nearest caches.
        distinct_bytes: what is read, each byte once; 0 where nothing is read twice.
        alone_clocks: further clocks of a program that has one thread.
    """

    clocks: float = 0.0
    flop: float = 0.0
    shared: float = 0.0
    spread: float = 0.0
    random: tuple[float, float] = (0.0, 0.0)
    blocked: bool = False
    distinct_bytes: float = 0.0
    alone_clocks: float = 0.0


# Where nothing is known of an operation but its bytes and FLOP, times were found 1 to 20 times as long.
UNKNOWN_SPREAD = 1.2
# Steps of an algorithm go with the data, and so does the time of one.
STEPS_SPREAD = 0.45
_LANES = {"fp32": 0, "fp64": 1, "int64": 3, "uint64": 3, "int32": 4, "uint32": 4, "int16": 4, "uint16": 4}


@functools.cache
def rows() -> dict[str, dict[str, Any]]:
    """The measured clocks, by table and name."""
    path = resources.files("rooflab.model.kernels.cpu") / "torch_loops.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def row_loop(name: str, dtype: str, elements: float, shared: Loop) -> Loop | None:
    """The measured loop of a function on so many elements; None where it has no row."""
    if name in rows()["vector"]:
        return shared._replace(flop=flop_of(name, dtype) * elements)
    if name in rows()["scalar"]:
        return shared._replace(clocks=of_format(rows()["scalar"][name], dtype) * elements)
    return None


def flop_of(name: str, dtype: str) -> float:
    """FLOP of one element of a function of the table of vector code."""
    table = rows()["vector"]
    return table["per_clock"] * of_format(table[name], dtype)


def of_format(row: list[float], dtype: str) -> float:
    """The number of a row for `dtype`; integers that it does not state are computed on as fp32."""
    lane = lane_of(dtype)
    return float(row[lane] if lane < len(row) else row[0])


def lane_of(dtype: str) -> int:
    """Which number of a row holds for `dtype`."""
    if dtype.startswith("complex"):
        return int(dtype == "complex128")
    if dtype in _LANES:
        return _LANES[dtype]
    return 2 if number_format(dtype).bits == 16 else 5


def branch(name: str, elements: float, shared: Loop) -> Loop:
    """Between one way always and a way at random; the bars hold both ends."""
    least, most = rows()["branch"][name]
    return shared._replace(clocks=math.sqrt(least * most) * elements, spread=math.log(most / least) / 2 / 1.28)


def stepped(inputs: Specs, outputs: Specs) -> float:
    """1 where an operand of the results' size steps past neighbours, so that no vector is loaded."""
    whole = max((spec.elements for spec in outputs), default=0)
    parts = [spec for spec in (*inputs, *outputs) if spec.strides and spec.elements == whole > 1]
    orders = {innermost_step(spec) for spec in (*inputs, *outputs) if spec.elements == whole}
    steps = any(innermost_step(spec)[1] > 1 for spec in parts)
    # All transposed alike is one run; a transposed operand beside a plain one is not.
    return float(steps and (len(orders) > 1 or min(step for _, step in orders) > 1))


def innermost_step(spec: TensorSpec) -> tuple[int, int]:
    """The dimension of the smallest step, and whether that is more than 1 for the last one."""
    strides = spec.strides if spec.strides is not None else contiguous(spec.shape)
    last = next((at for at in reversed(range(len(spec.shape))) if spec.shape[at] > 1), 0)
    return last, (abs(strides[last]) if strides else 1)
