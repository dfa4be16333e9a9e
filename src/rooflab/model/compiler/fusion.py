"""A program as a compiler would run it: operations fused into kernels, never more bytes than before.

`fused` takes a graph to a graph. Held against PyTorch's inductor in tests/model/test_inductor.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rooflab.model.compiler import dataflow, groups, rewrites
from rooflab.model.compiler.dataflow import Flow
from rooflab.model.compiler.groups import Extent
from rooflab.types.work import Cost, Graph, Op, TensorSpec
from rooflab.work.costs import costs
from rooflab.work.shared_bytes import touched_together

CONVENTION = (
    "compiled: element-wise work and reductions are fused as PyTorch's inductor does, products and "
    "convolutions stay calls of a library, attention written out is one kernel"
)

# Which member says how a kernel of several behaves: the first of these kinds that it holds.
_LEADS = (
    "softmax",
    "softmax_backward",
    "norm_backward",
    "norm",
    "loss",
    "reduction",
    "scatter",
    "pool",
    "interpolate",
)


_SUMS = ("norm", "norm_backward", "reduction", "softmax", "softmax_backward", "loss")
_BESIDE = ("norm", "pool", "dropout", "loss")  # kinds whose further results serve their gradients
_WINDOWED = ("pool", "interpolate")
# Attributes of one operation that do not hold for a kernel of several.
_NOT_OF_A_KERNEL = ("foreach", "function", "in_place", "vector", "special")
_PERSISTENT = ("parameter", "buffer", "input", "state")


class Edges(NamedTuple):
    """What enters and leaves one kernel: tensors with the bytes that cross."""

    reads: dict[int, float]
    writes: dict[int, float]


def fused(graph: Graph) -> Graph:
    """`graph` with each operation standing for one kernel of a compiler, views folded into their readers.

    Compulsory bytes never grow, and the FLOP of matrix products stay as they are (a padded product computes
    its padding too: under 1 %). Operations without a cost stay alone. A graph does not say which tensors are
    its results: those that nobody reads are taken to be, one that is also read inside its kernel is not.
    """
    rewritten = rewrites.rewrite(graph)
    tensors, ops = tuple(rewritten.tensors), tuple(rewritten.ops)
    flow = dataflow.flow(tensors, ops)
    op_costs = costs(msgspec.structs.replace(graph, tensors=tensors, ops=ops))
    extents = [
        None if cost is None or op.kind == "view" else groups.extent(op, tensors)
        for op, cost in zip(ops, op_costs, strict=True)
    ]
    recomputed = rewrites.recomputed_where_used(ops, tensors, [each is not None for each in extents], flow)
    persistent = frozenset(flow.storage[index] for index, spec in enumerate(tensors) if spec.role in _PERSISTENT)
    program = _Program(tensors, ops, flow, op_costs, recomputed, persistent, tuple(extents))
    kernels = [_kernel(members, program) for members in groups.grouped(ops, extents, flow, recomputed)]
    return msgspec.structs.replace(
        graph, tensors=tensors, ops=tuple(kernels), conventions=(*graph.conventions, CONVENTION, *rewritten.notes)
    )


def fused_into_sums(graph: Graph) -> Graph:
    """`graph` where element-wise work that only feeds a sum or a loss is computed inside it, all else as it is.

    What is fused is what a compiler would fuse (`groups.grouped`), where little more than sums is left of it.
    """
    tensors, ops = graph.tensors, graph.ops
    flow = dataflow.flow(tensors, ops)
    op_costs = costs(graph)
    extents = [
        groups.extent(op, tensors) if cost is not None and op.kind in _INTO_SUMS else None
        for op, cost in zip(ops, op_costs, strict=True)
    ]
    persistent = frozenset(flow.storage[index] for index, spec in enumerate(tensors) if spec.role in _PERSISTENT)
    program = _Program(tensors, ops, flow, op_costs, frozenset(), persistent, tuple(extents))
    kernels: dict[int, Op] = {}
    dropped: set[int] = set()
    for members in groups.grouped(ops, extents, flow, frozenset()):
        if len(members) < 2 or not any(ops[number].kind in ("reduction", "loss") for number in members):
            continue
        readers = {each for number in members for each in dataflow.read_by(flow, number)} - set(members)
        if any(each < members[-1] for each in readers):
            continue  # someone needs a part of it before the whole is there
        kernel = _kernel(members, program)
        if kernel.attrs["write_bytes"] > _LITTLE * kernel.attrs["read_bytes"]:
            continue
        kernels[members[-1]] = kernel
        dropped.update(members[:-1])
    kept = tuple(kernels.get(number, op) for number, op in enumerate(ops) if number not in dropped)
    return msgspec.structs.replace(graph, ops=kept) if kernels else graph


_LITTLE = 0.1  # of what is read: what is written then is sums
_INTO_SUMS = ("pointwise", "cast", "softmax", "reduction", "loss")


class _Program(NamedTuple):
    """A program taken apart: what `_kernel` puts together again.

    Attributes:
        recomputed: operations that are computed where they are used.
        persistent: storages that outlive the program.
        extents: what each operation loops over; None for a call of a library.
    """

    tensors: tuple[TensorSpec, ...]
    ops: tuple[Op, ...]
    flow: Flow
    costs: tuple[Cost | None, ...]
    recomputed: frozenset[int]
    persistent: frozenset[int]
    extents: tuple[Extent | None, ...]


def _kernel(members: tuple[int, ...], program: _Program) -> Op:
    """One operation that stands for all of `members`; a call of a library stays as it is."""
    tensors, ops, op_costs = program.tensors, program.ops, program.costs
    number = _lead(members, program)
    lead, loops = ops[number], program.extents[number]
    if loops is None:
        return lead
    edges = _edges(members, program)
    flop: dict[tuple, float] = {}
    for number in members:
        cost = op_costs[number]
        for one in cost.flop if cost else ():
            key = (one.engine, one.dtype, one.accumulate)
            flop[key] = flop.get(key, 0) + one.count
    alone = len(members) == 1 or lead.kind in _SUMS
    names = tuple(dict.fromkeys(ops[number].name.removeprefix("aten.") for number in members))
    attrs = {
        **{name: value for name, value in lead.attrs.items() if name not in _NOT_OF_A_KERNEL or alone},
        "members": names,
        "flop": tuple((engine, dtype, count, sums) for (engine, dtype, sums), count in flop.items()),
        "read_bytes": sum(edges.reads.values()),
        "write_bytes": sum(edges.writes.values()),
        "access": _access(members, program),
        **({"rows": loops.rows} if loops.rows else {}),
    }
    shape = tensors[lead.inputs[0]].shape if lead.inputs else ()
    return msgspec.structs.replace(
        lead,
        kind="pointwise" if _pointwise_norm(lead) or lead.kind in _WINDOWED else lead.kind,
        name=lead.name if len(members) == 1 else "fused " + "+".join(names),
        inputs=_ordered(edges.reads, lead.inputs[1:], shape, tensors),
        outputs=_ordered(edges.writes, (), tensors[lead.outputs[0]].shape, tensors),
        attrs=attrs,
    )


def _lead(members: tuple[int, ...], program: _Program) -> int:
    """The member whose kind says how the kernel behaves."""
    for kind in _LEADS:
        for number in reversed(members):
            if program.ops[number].kind == kind and not _pointwise_norm(program.ops[number]):
                return number
    # Element-wise work, if any of it computes; else what moves last.
    pointwise = [n for n in members if program.ops[n].kind == "pointwise" or _pointwise_norm(program.ops[n])]
    return pointwise[-1] if pointwise else members[-1]


def _pointwise_norm(op: Op) -> bool:
    """Whether `op` normalises with statistics that are given: no sums."""
    return op.kind == "norm" and op.attrs.get("function") == "batch" and not op.attrs.get("training", True)


def _access(members: tuple[int, ...], program: _Program) -> str:
    """The access pattern of the member that moves most."""
    member_costs = [cost for number in members if (cost := program.costs[number]) is not None]
    return max(member_costs, key=lambda cost: cost.compulsory.nbytes).access


def _edges(members: tuple[int, ...], program: _Program) -> Edges:
    """What `members` read that none of them made, and what they write that somebody else reads."""
    tensors, ops, flow, op_costs, recomputed = program[:5]
    inside = set(members)
    reads: dict[int, tuple[int, float]] = {}
    writes: dict[int, tuple[int, float]] = {}
    for number in members:
        cost = op_costs[number]
        assert cost is not None  # what has no cost stays alone
        size = _read_sizes(ops[number], cost, tensors)
        for read in flow.reads[number]:
            if read.writer in recomputed or (read.covered and read.writer in inside):
                continue
            first, read_bytes = reads.get(read.whole, (read.tensor, 0.0))
            part, whole = size[read.tensor], tensors[read.tensor].nbytes
            # Two gathers from one table take rows of their own; all of a tensor is read once.
            reads[read.whole] = (first, min(read_bytes + part, whole) if part < whole else part)
        beyond = max(cost.compulsory.write_bytes - sum(tensors[i].nbytes for i in set(ops[number].outputs)), 0.0)
        for index in dict.fromkeys(ops[number].outputs):
            if _leaves(number, index, inside, program):
                written = min(tensors[index].nbytes, cost.compulsory.write_bytes)
                writes[flow.whole[index]] = (index, written + beyond)
                beyond = 0.0
    return Edges(_each_byte_once(dict(reads.values()), program), dict(writes.values()))


def _each_byte_once(reads: dict[int, float], program: _Program) -> dict[int, float]:
    """`reads` without what several looks at one storage share: the points of a stencil are read once."""
    places: dict[int, list[int]] = {}
    for index in reads:
        places.setdefault(program.flow.storage[index], []).append(index)
    for looks in places.values():
        if len(looks) > 1:
            left = touched_together(program.tensors[index] for index in looks)
            for index in looks:
                reads[index] = min(reads[index], left)
                left -= reads[index]
    return reads


def _read_sizes(op: Op, cost: Cost, tensors: Sequence[TensorSpec]) -> dict[int, float]:
    """Bytes read of each operand; where an operation reads less than all (a gather), less of the largest."""
    sizes = {index: tensors[index].nbytes for index in op.inputs}
    excess = sum(sizes.values()) - cost.compulsory.read_bytes
    if excess > 0:
        largest = max(sizes, key=sizes.__getitem__)
        sizes[largest] = max(sizes[largest] - excess, 0.0)
    return sizes


def _leaves(number: int, index: int, inside: set[int], program: _Program) -> bool:
    """Whether a result is needed outside the kernel of the operations `inside`."""
    flow, ops = program.flow, program.ops
    place = flow.storage[index]
    writers = flow.writers[place]
    if not inside.issuperset(writers) or place in program.persistent:
        return True
    if any(not flow.readers[writer].get(place, inside) <= inside for writer in writers):
        return True
    if flow.readers[writers[-1]].get(place):
        return False
    # Nobody reads it: a result of the program; but statistics, indices and masks are there for gradients alone.
    op = ops[number]
    beside = index != op.outputs[0] and op.kind in _BESIDE
    return not beside and not any(flow.readers[number].get(flow.storage[other]) for other in op.outputs)


def _ordered(
    crossing: dict[int, float], then: Sequence[int], shape: tuple[int, ...], tensors: Sequence[TensorSpec]
) -> tuple[int, ...]:
    """The tensors in `crossing`: one like `shape` (kernel models look at it), those of `then`, the others."""
    size = math.prod(shape)

    def unlike(index: int) -> tuple[bool, bool, float]:
        spec = tensors[index]
        return spec.elements != size, spec.shape[-1:] != shape[-1:], -spec.nbytes

    first, *others = sorted(crossing, key=unlike) or (None,)
    if first is None:
        return ()
    following = [index for index in dict.fromkeys(then) if index in crossing and index != first]
    return (first, *following, *(index for index in others if index not in following))
