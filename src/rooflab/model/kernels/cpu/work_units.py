"""What an operation on a CPU computes beside moving its bytes: the sort of work, and how many units of it."""

from __future__ import annotations

import math

from rooflab.model.kernels.common import Specs
from rooflab.model.kernels.cpu import fourier, picks
from rooflab.model.kernels.cpu.walk import along_rows
from rooflab.types.work import Cost, Op, TensorSpec
from rooflab.work.formulas.functions import REAL

# What one unit of work costs beside its bytes: FLOP of a core's vector unit (a polynomial's multiply-adds), or
# clocks where the loop is a chain or not vectorised. Each is a constant of each framework.
_LAPACK = ("factor", "eigen")
IN_FLOP = ("divide", "root", "exp", "log", "trig", "trig64", "convert", "softmax", "norm", "stencil", *_LAPACK)
# Algorithms whose steps their own formulas count; what a step takes differs more than an element of a stream does.
ALGORITHMS = ("compare", "order", "part", "search", "transform", "draw", "tally", "at")
# A row that an index picks; what NumPy has loops of its own for: an element of one dimension, a run of a mask.
PICKED = ("piece", "element", "run")
IN_CLOCKS = (
    "libm",
    "reduce",
    "chain",
    "find",
    "half",
    "einsum",
    "scan",
    "select",
    "transpose",
    *PICKED,
    *ALGORITHMS,
)
# FLOP that somebody counted of an operation of their own: at the peak, which is the least that is known of them.
COUNTED = "counted"
WORK = ("nothing", *IN_FLOP, *IN_CLOCKS, COUNTED)

_FUNCTIONS = {
    name: work
    for work, names in {
        "divide": "div reciprocal floor_divide fmod remainder addcdiv softsign hypot",
        "root": "sqrt rsqrt",
        "exp": "exp exp2 expm1 sigmoid silu gelu elu selu celu silu_mul gelu_mul",
        "log": "log log2 log10 log1p softplus log_sigmoid",
        "trig": "sin cos tanh erf gelu_tanh gelu_tanh_mul mish",
        "select": "where masked_fill tril triu",
    }.items()
    for name in names.split()
}
# NumPy computes these in double precision with the C library, an element at a time; those below in any.
_SCALAR64 = frozenset(["sin", "cos"])
_SCALAR = frozenset(["floor_divide", "remainder", "fmod", "hypot", "logaddexp", "logaddexp2"])
# Where there is AVX-512, NumPy has these from a vector library (loops_umath_fp.dispatch.c.src).
_SVML = "exp2 log2 log10 expm1 log1p cbrt tan asin acos atan sinh cosh asinh acosh atanh atan2 pow"
_AVX512 = frozenset(_SVML.split())
_OF_TRUTHS = frozenset(["any", "all", "count_nonzero"])


def work_of(op: Op, inputs: Specs, outputs: Specs, cost: Cost, elements: int, torch: bool) -> tuple[str, float]:
    """One of `WORK`, and how many units of it; `elements` of the largest tensor."""
    if op.kind == "custom":
        return "einsum" if op.name == "numpy.einsum" else COUNTED, sum(each.count for each in cost.flop)
    steps = _steps(op, inputs, outputs, cost)
    return _once(op, inputs, outputs, elements, torch) if steps is None else steps


def _once(op: Op, inputs: Specs, outputs: Specs, elements: int, torch: bool) -> tuple[str, float]:
    """What is computed as it goes through its elements once, and how often."""
    kind, function = op.kind, str(op.attrs.get("function", ""))
    if kind == "pointwise":
        work = _function(function, inputs)
        if work not in ("nothing", "divide", "select") and inputs and _complex(inputs[0]):
            # about two real functions of the C library: exp and a sine with its cosine
            return "libm", 2.0 * elements
        return work, float(elements)
    if kind == "cast":
        narrow = _narrow((*inputs, *outputs))
        return ("half" if narrow else "nothing"), float(elements)
    if kind == "copy" and op.attrs.get("whole"):
        return "find", float(sum(spec.elements for spec in inputs))
    if kind == "reduction" and inputs[0].dtype == "bool" and function in _OF_TRUTHS:
        return "nothing", 0.0  # whole vectors of bytes at a time
    if kind == "reduction" and function == "prod" and along_rows(op, inputs[0], outputs[0]):
        return "chain", float(elements)
    if kind == "reduction":
        return ("reduce" if along_rows(op, inputs[0], outputs[0]) else "nothing"), float(elements)
    if kind in ("gather", "scatter"):
        return picks.way(op, inputs, torch), picks.picked(op, inputs)
    if kind == "conv" and not torch:
        # BLAS's dot product takes about half as long as a pairwise sum.
        return "reduce", outputs[0].elements * 0.5 * math.prod(op.attrs.get("kernel", (1,)))
    if kind == "conv":
        return "stencil", 2.0 * outputs[0].elements * math.prod(op.attrs.get("kernel", (1,)))
    if kind == "norm" and function == "batch" and not op.attrs.get("training", True):
        return "nothing", 0.0  # scaled and shifted by what is known
    return _KINDS.get(kind or "", "nothing"), float(elements)


def _steps(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> tuple[str, float] | None:
    """The steps of an algorithm; None for what goes through its elements once."""
    kind, flop = op.kind or "", sum(each.count for each in cost.flop)
    if kind == "sort" and inputs:
        function, n = op.attrs["function"], op.attrs["n"]
        depth = max(1.0, math.log2(max(n, 2)))
        if function in ("search", "interp"):
            return "search", inputs[1].elements * (depth + 1) if len(inputs) > 1 else 0.0
        if function in ("kthvalue", "median", "topk"):
            return "part", 2.0 * inputs[0].elements
        return ("order" if function == "argsort" else "compare"), inputs[0].elements * depth
    if kind == "scatter" and op.attrs.get("accumulate"):
        indexed = not op.name.endswith(".at") or len(inputs[0].shape) == 1
        return ("tally" if indexed else "at"), float(op.attrs.get("elements", inputs[-1].elements))
    if kind == "random":
        return "draw", float(sum(spec.elements for spec in outputs))
    if kind == "fft":
        return "transform", flop * fourier.beyond_formula(op)
    return (BY_STEPS[kind], flop) if kind in BY_STEPS else None


BY_STEPS = {
    "fft": "transform",
    **dict.fromkeys(
        (
            *("solve", "lu", "ldl", "cholesky", "cholesky_solve", "cholesky_inverse", "qr", "apply_q", "lstsq"),
            *("triangular_solve", "matrix_exp"),
        ),
        "factor",
    ),
    **dict.fromkeys(("eigh", "eig", "svd", "pinv"), "eigen"),
}

_KINDS = {
    "layout": "transpose",
    "scan": "scan",
    "softmax": "softmax",
    "softmax_backward": "softmax",
    "loss": "softmax",
    "norm": "norm",
    "norm_backward": "norm",
}


def _function(function: str, inputs: Specs) -> str:
    work = _FUNCTIONS.get(function)
    double = bool(inputs) and inputs[0].dtype == "fp64"
    by_a_number = function == "floor_divide" and len(inputs) == 1
    if by_a_number and inputs[0].dtype.startswith(("int", "uint")):
        return "divide"  # a multiplication and a shift
    if function in _SCALAR:
        return "libm"
    if function in _AVX512:
        return "trig64" if double else "trig"
    if work is None:
        work = "nothing" if REAL.get(function, (1, 0))[1] == 0 else "libm"
    elif work == "trig" and double:
        work = "libm" if function in _SCALAR64 else "trig64"
    return work


def _complex(spec: TensorSpec) -> bool:
    return spec.dtype.startswith("complex")


def _narrow(specs: Specs) -> bool:
    """Whether elements are computed in another format than they are stored in."""
    return any(spec.dtype in ("bf16", "fp16", "fp8") for spec in specs)


ALIKE = (*ALGORITHMS, *_LAPACK)
