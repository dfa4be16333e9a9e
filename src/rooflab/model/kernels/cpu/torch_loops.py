"""What PyTorch's own loops on a CPU do with an element: vector code, one at a time, a branch, one thread or all.

PyTorch compiles its element-wise functions, reductions and copies for vectors (aten/src/ATen/native/cpu), where
somebody wrote them so. Others go an element at a time: what chooses by a condition, looks for the place of the
largest, picks by an index, or steps past neighbours. Their clocks are measured (torch_loops.toml); how far each
goes with what is computed on, and whether threads share it, is said here.
"""

from __future__ import annotations

from rooflab.model.kernels.common import Specs
from rooflab.model.kernels.cpu import fourier, torch_arithmetic, torch_moves, torch_steps
from rooflab.model.kernels.cpu.torch_table import STEPS_SPREAD, UNKNOWN_SPREAD, Loop
from rooflab.types.work import Cost, Op

_BY_KIND = {
    "pointwise": torch_arithmetic.pointwise,
    "cast": torch_arithmetic.cast,
    "reduction": torch_arithmetic.reduction,
    "scan": torch_arithmetic.scan,
    **dict.fromkeys(("softmax", "softmax_backward", "norm", "norm_backward", "loss"), torch_arithmetic.row_wise),
    **dict.fromkeys(("pool", "pool_backward"), torch_arithmetic.pool),
    **dict.fromkeys(("layout", "copy"), torch_moves.moved),
    "fold": torch_steps.folded,
    "gather": torch_moves.picked,
    "scatter": torch_moves.scattered,
    "interpolate": torch_steps.interpolated,
    "random": torch_steps.drawn,
    "dropout": torch_steps.dropped,
    "sort": torch_steps.sorted_rows,
    "create": torch_steps.created,
}
# Algorithms whose FLOP their formulas count, products, depthwise convolutions, and what a user counted.
_KNOWN_ELSEWHERE = frozenset(
    (
        *("solve", "lu", "ldl", "cholesky", "cholesky_solve", "cholesky_inverse", "qr", "apply_q", "lstsq"),
        *("triangular_solve", "matrix_exp", "eigh", "eig", "svd", "pinv"),
        *("conv", "custom", "optimizer", "matmul", "attention", "view", "collective", "rnn"),
    )
)


def loop_of(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Loop | None:
    """The loop of `op`; None for what other models know (linear algebra, counted work)."""
    elements = max((spec.elements for spec in (*inputs, *outputs)), default=0)
    shared = Loop(shared=float(elements))
    kind = op.kind or ""
    if kind == "fft":
        flop = sum(each.count for each in cost.flop) * fourier.beyond_formula(op)
        return shared._replace(clocks=flop * fourier.torch_clocks(op, outputs[0].elements), spread=STEPS_SPREAD)
    if kind in _BY_KIND and outputs:
        return _BY_KIND[kind](op, inputs, outputs, shared)
    return None if kind in _KNOWN_ELSEWHERE else shared._replace(spread=UNKNOWN_SPREAD)
