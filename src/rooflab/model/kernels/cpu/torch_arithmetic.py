"""What PyTorch computes on a CPU element by element, row by row and window by window: how long its loops take."""

from __future__ import annotations

import math

from rooflab.dtypes import dtype as number_format
from rooflab.model.kernels.common import Specs
from rooflab.model.kernels.cpu.torch_table import (
    UNKNOWN_SPREAD,
    Loop,
    branch,
    flop_of,
    lane_of,
    of_format,
    row_loop,
    rows,
    stepped,
)
from rooflab.model.kernels.cpu.walk import along_rows
from rooflab.types.work import Op, TensorSpec
from rooflab.work.formulas.functions import REAL


def pointwise(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """Functions of single elements: by their measured clocks, a vector at a time or an element."""
    function = str(op.attrs.get("function", ""))
    first = next((spec for spec in inputs if spec.elements > 1), (*inputs, *outputs)[0])
    results = float(max((spec.elements for spec in outputs), default=0))
    if function in rows()["branch"]:
        return branch(function, results, shared)
    if first.dtype.startswith("complex"):
        return _of_complex(function, first, results, shared)
    if op.name.startswith(("aten._cdist", "aten._pdist")):
        compared = outputs[0].elements * (inputs[0].shape[-1] if inputs[0].shape else 1)
        return shared._replace(clocks=rows()["scalar"]["distance"] * compared, spread=0.35)
    if op.name.startswith("aten.isin") and len(inputs) > 1:
        return _sought(inputs, shared)
    if op.name.startswith("aten.linalg_cross"):
        function = "cross"
    found = row_loop(function, first.dtype, results, shared)
    if found is None and (REAL.get(function, (1, 0))[1] > 0 or op.attrs.get("special")):
        # A function that nobody timed: as an exponential, at the least.
        found = shared._replace(flop=flop_of("exp", first.dtype) * results, spread=UNKNOWN_SPREAD)
    # Narrow formats are widened for whatever is computed, and narrowed again.
    narrow = shared._replace(clocks=0.65 * results) if number_format(first.dtype).bits == 16 else shared
    found = found or narrow
    apart = stepped(inputs, outputs)
    return found._replace(clocks=found.clocks + apart * results * rows()["move"]["strided"])


def _of_complex(function: str, first: TensorSpec, results: float, shared: Loop) -> Loop:
    if function in ("abs", "angle"):
        row = rows()["scalar"][f"complex_{function}"]
        return shared._replace(clocks=row[lane_of(first.dtype)] * results)
    if REAL.get(function, (1, 0))[1] > 0:
        return shared._replace(clocks=130.0 * results)  # two functions of the C library, with their checks
    return shared._replace(flop=32.0 * (8 if function == "div" else 0.4) * results)


def _sought(inputs: Specs, shared: Loop) -> Loop:
    """Each element against all of few, or both sorted together (aten/src/ATen/native/TensorCompare.cpp, isin)."""
    n, few = float(inputs[0].elements), float(inputs[1].elements)
    table = rows()["scalar"]
    if few < 10 * n**0.145:
        return shared._replace(clocks=table["isin"] * n * few, spread=0.35)
    return Loop(clocks=rows()["sort"]["sort"] * 2 * (n + few) * math.log2(max(n + few, 2)), spread=0.7)


_CAST_CLOCKS = {  # from (or to) what is not converted by whole vectors
    ("fp", "int64"): 2.2,
    ("fp", "byte"): 2.3,
    ("int64", "16"): 3.2,
    ("int64", "fp"): 1.3,
    ("byte", "16"): 2.5,
    ("bool", "fp"): 2.5,
    ("bool", "16"): 4.9,
    ("fp16", "other"): 3.2,
    ("int", "fp16"): 1.9,
}


def cast(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """Another number format: most by whole vectors, some an element at a time."""
    if not inputs or not outputs:
        return shared
    one, other = inputs[0].dtype, outputs[0].dtype
    apart = stepped(inputs[:1], outputs[:1]) * rows()["move"]["strided"]
    return shared._replace(clocks=(_cast_clocks(one, other) + apart) * outputs[0].elements)


def _cast_clocks(one: str, other: str) -> float:
    floats = ("fp32", "fp64", "bf16", "fp16")
    if one == "bool" and other in floats:
        return _CAST_CLOCKS["bool", "16" if other in floats[2:] else "fp"]
    if one == "fp16" and other != "fp32":
        return _CAST_CLOCKS["fp16", "other"]
    if one in floats and other in ("int64", "uint8", "int8"):
        return _CAST_CLOCKS["fp", "int64" if other == "int64" else "byte"]
    if one == "int64" and other in floats:
        return _CAST_CLOCKS["int64", "16" if other in floats[2:] else "fp"]
    if one in ("uint8", "int8") and other in floats:
        return _CAST_CLOCKS["byte", "16"]
    return _CAST_CLOCKS["int", "fp16"] if other == "fp16" and one not in floats else 0.0


def reduction(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """Sums, extremes, moments and their like: of all, of each row or of each column."""
    if not inputs:
        return shared
    out = outputs[0]
    function, x = str(op.attrs.get("function", "")), inputs[0]
    whole = out.elements == 1
    name, table = _REDUCES.get(function, function), rows()["reduction"]
    if function in ("max", "min", "median") and len(outputs) > 1:
        name = "place"
    if name == "moment" and whole and not op.attrs.get("dims"):
        name = "moment_all" if x.strides is None else name
    alone = (name == "place" and whole and len(outputs) == 1) or (name in ("norm", "norm2") and whole)
    if name == "place" and whole and len(outputs) == 1:
        name = "place_all"
    if name == "place" and x.dtype in ("fp16", "bf16") and len(outputs) == 1:
        name = "place_all"
    if name == "logsumexp":
        # Above an exponential of each element, a pass for the largest and one for the sum.
        return shared._replace(flop=flop_of(name, x.dtype) * x.elements, spread=0.3)
    row = table.get(name)
    clocks = of_format(row, x.dtype) * x.elements if row else 0.0
    if along_rows(op, x, out):
        clocks = clocks if row else 0.2 * x.elements
        clocks += (_ANY_START if name == "any" else _ROW_START) * out.elements
    elif name in ("place", "place_all") and out.elements > 1:
        clocks *= 1.5  # the rows of an array, an element of each after the other
    alone = alone or (name == "any" and not along_rows(op, x, out))
    sure = not row or (not row[0] and not clocks)
    found = shared._replace(clocks=clocks, spread=0.0 if sure else 0.35)
    return found._replace(shared=0.0) if alone else found


# Clocks that the loop over one row takes to begin.
_ROW_START, _ANY_START = 60.0, 350.0
_REDUCES = {
    **dict.fromkeys(("std", "var", "var_mean", "std_mean"), "moment"),
    **dict.fromkeys(("argmax", "argmin"), "place"),
    **dict.fromkeys(("any", "all"), "any"),
    **dict.fromkeys(("sum", "mean", "nansum"), "sum"),
}


def scan(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """Running sums and extremes: a chain in each row, and a row is one thread's."""
    if not inputs:
        return shared
    x = inputs[0]
    row = rows()["scan"].get(str(op.attrs.get("function", "")), rows()["scan"]["cumsum"])
    # One chain of sums is one thread's; the rows of a matrix are shared out.
    clocks = of_format(row, x.dtype) * x.elements
    along = op.attrs.get("dims")
    if along and along[0] != len(x.shape) - 1:
        clocks *= 1.4  # an element of each row after the other
    many = x.elements > (x.shape[along[0]] if along else max(x.shape, default=1))
    extremes = str(op.attrs.get("function", "")) in ("cummax", "cummin")
    shares = many and not extremes
    return Loop(clocks=clocks, shared=x.elements * float(shares), spread=0.9 if extremes else 0.25)


def row_wise(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """Softmax, norms and losses: passes over each row."""
    if not inputs:
        return shared
    x, kind, function = inputs[0], op.kind or "", str(op.attrs.get("function", ""))
    if kind == "loss":
        if function == "nll":
            return Loop(clocks=10.0 * inputs[1].elements) if len(inputs) > 1 else shared
        found = row_loop(function, x.dtype, float(x.elements), shared)
        return (found or shared._replace(clocks=0.6 * x.elements))._replace(spread=0.35)
    if kind == "norm" and function == "batch":
        training = op.attrs.get("training", True)
        return shared._replace(clocks=(7.0 if training else 0.6) * x.elements, spread=0.25)
    name = (
        "softmax" if kind.startswith("softmax") else function if function in ("layer", "rms", "group") else "layer"
    )
    across = op.attrs.get("dims") and op.attrs["dims"][0] != len(x.shape) - 1
    # Down the columns each pass stores what the next one loads.
    flop = flop_of(name, x.dtype) * x.elements * (1.6 if across else 1.0)
    if across:
        return shared._replace(flop=flop, blocked=True, spread=0.3)
    row = x.shape[-1] if x.shape else 1
    starts = 150.0 * x.elements / max(row, 1) if name in ("layer", "rms") else 0.0
    return shared._replace(flop=flop, clocks=starts, spread=0.3 if kind.endswith("backward") else 0.0)


def pool(op: Op, inputs: Specs, outputs: Specs, shared: Loop) -> Loop:
    """Windows, of each the largest or the mean."""
    if not inputs or not outputs:
        return shared
    window = outputs[0].elements * float(op.attrs["window"])
    largest = "max" in str(op.attrs.get("function", ""))
    if op.kind == "pool_backward":
        return shared._replace(clocks=2.5 * inputs[0].elements, spread=UNKNOWN_SPREAD / 2)
    # Whether a number is the largest yet is a branch: seldom taken in the middle of a large window.
    clocks = 12.0 if largest else 2.0 + 12.0 / max(float(op.attrs["window"]), 1.0)
    return shared._replace(clocks=clocks * window, spread=0.5 if largest else 0.35)
