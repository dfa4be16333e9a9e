"""Branches of which only one runs: the costliest counts, and it is said that the others do not."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work.costs import costs


def costliest(
    ops: Sequence[Op], tensors: Sequence[TensorSpec], choices: Sequence[Sequence[range]], framework: str
) -> list[Op]:
    """The operations with a count of 0 for every branch but the one of most FLOP, then of most bytes.

    Args:
        choices: of each choice whose outcome is unknown, the places of its branches' operations; inner ones first.
    """
    counted = list(ops)
    for branches in choices:
        weights = []
        for span in branches:
            branch = [counted[number] for number in span]
            op_costs = costs(Graph(framework=framework, tensors=tuple(tensors), ops=tuple(branch)))
            pairs = [(one, op.count) for one, op in zip(op_costs, branch, strict=True) if one is not None]
            flop = sum(one.total_flop * count for one, count in pairs)
            weights.append((flop, sum(one.compulsory.nbytes * count for one, count in pairs)))
        best = weights.index(max(weights))
        for span in (*branches[:best], *branches[best + 1 :]):
            for number in span:
                counted[number] = msgspec.structs.replace(counted[number], count=0)
    return counted
