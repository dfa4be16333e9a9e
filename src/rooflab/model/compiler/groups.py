"""Which operations a compiler puts into one kernel: element-wise work with what it feeds and what feeds it.

The rules are those of PyTorch's inductor as far as they decide about bytes (torch/_inductor/scheduler.py,
ir.py and lowering.py, 2.11): element-wise work is computed where it is used; a reduction takes in what
produces its input and what consumes its rows in the same order; products, convolutions, attention, sorts
and the like are calls of a library, which nothing is fused into.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rooflab.model.compiler.dataflow import Flow, Read, read_by
from rooflab.types.work import Op, TensorSpec

MAX_FUSED_OPS = 64  # operations in one kernel: torch._inductor.config.max_fusion_size

# One value per element of the result, each from few elements of the operands.
_ELEMENTWISE = frozenset({"pointwise", "cast", "dropout", "random", "create", "copy", "layout", "gather"})
# A value from a row (or column) of them.
_REDUCING = frozenset({"norm", "softmax", "reduction", "loss", "norm_backward", "softmax_backward"})
# Element-wise to what comes after, but several elements of a neighbourhood are read for one: computed anew
# for each, so nothing is fused into it.
_WINDOWED = frozenset({"pool", "interpolate"})


class Extent(NamedTuple):
    """What a kernel loops over.

    Attributes:
        elements: all of them.
        rows: sums that run side by side, each over elements / rows; 0 where it sums nothing.
        takes_producers: whether what produces its operands can be computed inside it.
        takes_consumers: whether what consumes its result can be.
    """

    elements: int
    rows: int = 0
    takes_producers: bool = True
    takes_consumers: bool = True


class Group(NamedTuple):
    """Operations in one kernel.

    Attributes:
        members: numbers of operations, in order.
        extent: what it loops over; None for a call of a library.
        needs: operations outside that must come before it.
        before: the groups that must, directly or not, as bits.
    """

    members: tuple[int, ...]
    extent: Extent | None
    needs: frozenset[int]
    before: int


def extent(op: Op, tensors: Sequence[TensorSpec]) -> Extent | None:
    """What `op` loops over; None for one that is a kernel (or several) of its own."""
    outputs = [tensors[index] for index in op.outputs]
    inputs = [tensors[index] for index in op.inputs]
    largest = max((spec.elements for spec in outputs), default=0)
    if op.kind == "norm" and op.attrs.get("function") == "batch" and not op.attrs.get("training", True):
        return Extent(outputs[0].elements)
    if op.kind in _ELEMENTWISE:
        return Extent(sum(spec.elements for spec in outputs) if op.attrs.get("foreach") else largest)
    if op.kind in _WINDOWED:
        return Extent(largest, takes_producers=False)
    if op.kind == "scatter":
        return Extent(max((spec.elements for spec in inputs[1:]), default=0), takes_consumers=False)
    if op.kind in _REDUCING and inputs:
        return Extent(max(spec.elements for spec in inputs), _rows(op, inputs, outputs))
    return None


def _rows(op: Op, inputs: list[TensorSpec], outputs: list[TensorSpec]) -> int:
    x = inputs[1] if op.kind == "norm_backward" and len(inputs) > 1 else inputs[0]
    if op.kind == "reduction":
        return max(outputs[0].elements, 1)
    if op.kind == "loss":
        return x.shape[0] if x.shape else 1
    function = op.attrs.get("function")
    if function == "batch" and len(x.shape) > 1:
        return x.shape[1]
    if function in ("group", "instance") and len(x.shape) > 1:
        return x.shape[0] * int(op.attrs.get("groups") or x.shape[1])
    if "rows" in op.attrs:
        return int(op.attrs["rows"])
    return x.elements // max(x.shape[-1], 1) if x.shape else 1


def grouped(
    ops: Sequence[Op], extents: Sequence[Extent | None], flow: Flow, skipped: frozenset[int]
) -> list[tuple[int, ...]]:
    """The numbers of `ops` by kernel, in an order that respects what needs what.

    Args:
        ops: all operations.
        extents: what each loops over; None for one that stays alone.
        flow: of the same operations.
        skipped: operations that need no kernel; views need none either.
    """
    groups: dict[int, Group] = {}
    of: dict[int, int] = {}  # operation → the group it is in
    for number, op in enumerate(ops):
        if op.kind == "view" or number in skipped:
            continue
        needs = frozenset(flow.after[number] - skipped)
        before = 0
        for group in {of[each] for each in needs}:
            before |= groups[group].before | 1 << group
        of[number] = number
        groups[number] = Group((number,), extents[number], needs, before)
        for producer in _producers(flow.reads[number], of):
            loops = _fused_extent(groups[producer], groups[of[number]], flow)
            _fuse(groups, of, producer, of[number], ops, loops)
    _fuse_horizontally(groups, of, ops, flow)
    return _ordered(groups, of)


def _producers(reads: Iterable[Read], of: dict[int, int]) -> list[int]:
    """The groups that operands come from, the one made last first."""
    producers = {of[read.writer] for read in reads if read.covered and read.writer in of}
    return sorted(producers, reverse=True)


def _fuse_horizontally(groups: dict[int, Group], of: dict[int, int], ops: Sequence[Op], flow: Flow) -> None:
    """Joins groups that read the same tensor and loop alike, neither needing the other: it crosses once."""
    readers: dict[tuple[int, int | None], list[int]] = {}
    for number in sorted(of):
        # Gathers from one table take rows of their own.
        for read in () if ops[number].kind in ("gather", "scatter") else flow.reads[number]:
            readers.setdefault((read.whole, read.writer), []).append(number)
    for numbers in readers.values():
        for one, other in itertools.pairwise(numbers):
            a, b = groups[of[one]], groups[of[other]]
            if a.extent is None or b.extent is None or a.extent.elements != b.extent.elements:
                continue
            if a.needs.isdisjoint(b.members) and b.needs.isdisjoint(a.members) and _same_rows(a.extent, b.extent):
                loops = a.extent._replace(rows=a.extent.rows or b.extent.rows)
                _fuse(groups, of, of[one], of[other], ops, loops)


def _fuse(
    groups: dict[int, Group], of: dict[int, int], one: int, other: int, ops: Sequence[Op], loops: Extent | None
) -> None:
    """Makes one group of two where one kernel can do both, looping over `loops`: it takes the earlier's number."""
    if loops is None or one == other:
        return
    a, b = groups[one], groups[other]
    if len(a.members) + len(b.members) > MAX_FUSED_OPS or not _alike(ops[a.members[0]], ops[b.members[0]]):
        return
    if _between(groups, of, one, other) or _between(groups, of, other, one):
        return
    first, second = sorted((one, other))
    members = tuple(sorted(a.members + b.members))
    before = (a.before | b.before) & ~(1 << first | 1 << second)
    groups[first] = Group(members, loops, (a.needs | b.needs) - set(members), before)
    del groups[second]
    of.update(dict.fromkeys(members, first))
    both = 1 << first | 1 << second
    for number, group in groups.items():
        if group.before & both:
            groups[number] = group._replace(before=(group.before | before | 1 << first) & ~(1 << second))


def _alike(a: Op, b: Op) -> bool:
    return (a.count, a.branch, a.phase) == (b.count, b.branch, b.phase)


def _fused_extent(a: Group, b: Group, flow: Flow) -> Extent | None:
    """What one kernel of a producer `a` and its consumer `b` would loop over; None where none can be."""
    produced, consumed = a.extent, b.extent
    if produced is None or consumed is None or not produced.takes_consumers or not consumed.takes_producers:
        return None
    inside = set(a.members)
    if not all(read.covered for number in b.members for read in flow.reads[number] if read.writer in inside):
        return None
    one = Extent(
        produced.elements, produced.rows or consumed.rows, produced.takes_producers, consumed.takes_consumers
    )
    if produced.elements == consumed.elements and _same_rows(produced, consumed):
        return one
    if produced.rows and not consumed.rows and consumed.elements == produced.rows:
        return one  # work on the sums: one element per row
    inside.update(b.members)
    if not produced.rows and all(read_by(flow, number) <= inside for number in a.members):
        # Computed where it is used, and nowhere else: broadcast, concatenated or sliced there.
        return consumed
    return None


def _same_rows(a: Extent, b: Extent) -> bool:
    return not (a.rows and b.rows) or a.rows == b.rows


def _between(groups: dict[int, Group], of: dict[int, int], first: int, last: int) -> bool:
    """Whether a third group must come after `first` and before `last`."""
    others = {of[number] for number in groups[last].needs} - {first, last}
    return any(groups[other].before >> first & 1 for other in others)


def _ordered(groups: dict[int, Group], of: dict[int, int]) -> list[tuple[int, ...]]:
    """The members of each group, a group after all that it needs, else in the order in which they end."""
    placed: set[int] = set()
    kernels: list[tuple[int, ...]] = []
    for root in sorted(groups, key=lambda number: groups[number].members[-1]):
        stack = [root]
        while stack:
            here = stack[-1]
            missing = {of[number] for number in groups[here].needs} - placed - {here}
            if here not in placed and missing:
                stack.extend(sorted(missing, reverse=True))
                continue
            stack.pop()
            if here not in placed:
                placed.add(here)
                kernels.append(groups[here].members)
    return kernels
