"""Factorisations and solves whose number of operations is fixed: leading terms of LAPACK's algorithms.

LAPACK Working Note 41 (Blackford and Dongarra, 1999), appendix C. Iterative ones (eigenvalues, singular
values) depend on the data and have no formula. The work is products of blocks, so the matrix engine's.
"""

from __future__ import annotations

import math

from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import cost_of, item_bytes, matrix, total_bytes
from rooflab.work.formulas.registry import Attrs, Specs, formula


@formula("cholesky")
def cholesky(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of A = L·Lᵀ: n³/3 FLOP. inputs: a (…, n, n). outputs: l."""
    n = inputs[0].shape[-1]
    return _factor(inputs, outputs, n**3 / 6, "n³/3")


@formula("lu")
def lu(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of P·A = L·U: 2n³/3 FLOP of a square matrix. inputs: a (…, m, n). outputs: lu[, pivots …]."""
    m, n = inputs[0].shape[-2:]
    k = min(m, n)
    return _factor(inputs, outputs, m * n * k - (m + n) * k**2 / 2 + k**3 / 3, "2mnk − (m + n)k² + 2k³/3")


@formula("qr")
def qr(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of Householder's A = Q·R: 2mn² − 2n³/3 FLOP, and as many again to form Q.

    Args:
        inputs: a (…, m, n); to form Q alone: reflectors (…, m, n), factors (…, k). outputs: as asked for.
        attrs: parts: "r" (reflectors and R), "q" (Q from reflectors) or "qr" (both, the default).
    """
    m, n = inputs[0].shape[-2:]
    k = inputs[1].shape[-1] if attrs.get("parts") == "q" and len(inputs) > 1 else min(m, n)
    times = 2 if attrs.get("parts", "qr") == "qr" else 1
    fma = times * (2 * m * n * k - (m + n) * k**2 + 2 * k**3 / 3)
    return _factor(inputs, outputs, fma, f"{times} × (4mnk − 2(m + n)k² + 4k³/3)")


@formula("triangular_solve")
def triangular_solve(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of solving with a triangle: n² FLOP per right side. inputs: a (…, n, n), b. outputs: x."""
    n = inputs[0].shape[-1]
    return _cost(inputs, outputs, n * outputs[0].elements / 2, "n² per right side; the triangle read whole")


def _factor(inputs: Specs, outputs: Specs, fma: float, note: str) -> Cost:
    return _cost(inputs, outputs, fma * math.prod(inputs[0].shape[:-2]), note)


def _cost(inputs: Specs, outputs: Specs, fma: float, note: str) -> Cost:
    return cost_of(
        matrix(fma, inputs[0].dtype),
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=2 * fma * item_bytes(inputs[0]),
        note=f"{note}: leading terms",
    )
