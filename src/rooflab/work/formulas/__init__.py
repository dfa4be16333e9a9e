"""Exact FLOP and bytes of each kind of operation, from shapes, number formats and attributes alone."""

from __future__ import annotations

from rooflab.work.formulas import (  # noqa: F401  (each registers its formulas)
    attention,
    collective,
    conv,
    ctc,
    custom,
    eigen,
    fft,
    fused,
    gather,
    kernel,
    linalg,
    loss,
    matmul,
    movement,
    norm,
    optimizer,
    pointwise,
    pooling,
    reduction,
    rnn,
    sort,
)
from rooflab.work.formulas.registry import Attrs, Formula, Specs, cost, formula, kinds

__all__ = ["Attrs", "Formula", "Specs", "cost", "formula", "kinds"]
