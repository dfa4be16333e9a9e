"""Sorting and searching: comparisons."""

from __future__ import annotations

import math

from rooflab.errors import UnknownNameError
from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import compute_dtype, cost_of, item_bytes, scalar_flop, total_bytes
from rooflab.work.formulas.registry import Attrs, Specs, formula

FUNCTIONS = ("sort", "argsort", "unique", "topk", "kthvalue", "median", "mode", "search", "interp")


@formula("sort")
def sort(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of ordering rows of n: values (and indices) read once, written once.

    Comparisons per row: sort n·⌈log₂ n⌉ (merge sort's bound; Knuth, TAOCP 3, 5.2.4), topk n·⌈log₂ k⌉ (a
    heap of k), at least n; kthvalue, median 1 per element of each of ⌈log₂ n⌉ halvings' sum: 2n; search:
    ⌈log₂ n⌉ + 1 per value looked for; interp: the same, and slope · (x − xp) + fp, 3 FLOP a value, with
    slopes of 3 FLOP each: of all intervals where there are no fewer values than points, else of each value's
    (NumPy's compiled_base.c). Radix sorts of GPUs compare nothing and move more. Accessed bytes: a
    load and a store per element in each of the ⌈log₂ n⌉ passes (topk and the like: one pass of loads).

    Args:
        inputs: x; search: sorted boundaries, values (interp: and what is at the boundaries). outputs: values,
            indices.
        attrs: function; n: length of a row; k (topk).
    """
    name = attrs["function"]
    if name not in FUNCTIONS:
        raise UnknownNameError("ordering", name, FUNCTIONS)
    x, n = inputs[0], attrs["n"]
    depth = _depth(n)
    write = total_bytes(outputs)
    loaded, stored = x.elements * item_bytes(x), write
    if name in ("topk",):
        comparisons = x.elements * max(1, _depth(attrs["k"]))
    elif name in ("kthvalue", "median"):
        comparisons = 2 * x.elements
    elif name == "search":
        comparisons = inputs[1].elements * (depth + 1)
        loaded = comparisons * item_bytes(x) + inputs[1].nbytes
    elif name == "interp":
        values = inputs[1].elements
        slopes = n - 1 if values >= n else values
        comparisons = values * (depth + 1 + 3) + 3 * slopes
        loaded = (values * (depth + 4) + 4 * slopes) * item_bytes(x)
    else:
        comparisons = x.elements * depth
        loaded *= max(1, depth)
        stored *= max(1, depth)
    return cost_of(
        scalar_flop(compute_dtype((x,)), comparisons),
        read=total_bytes(inputs),
        write=write,
        loaded=loaded,
        stored=stored,
        note="comparisons of a merge sort (topk: a heap); one crossing of memory",
    )


def _depth(n: int) -> int:
    """⌈log₂ n⌉, 0 for n ≤ 1."""
    return math.ceil(math.log2(n)) if n > 1 else 0
