"""What a compiler changes before it fuses: common work, narrow weights, attention written out, padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rooflab.model.compiler import dataflow, dequantization
from rooflab.model.compiler.dataflow import Flow
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work.formulas.cost_terms import item_bytes

_ALIGNMENT_BYTES = 16  # of a row, for the matrix engines' loads
# Products with fewer FLOP per byte wait for memory however their rows lie: inductor leaves them
# (torch/_inductor/fx_passes/pad_mm.py, is_mm_compute_bound).
_WORTH_PADDING = 100.0
# A graph with so many operations per convolution keeps its layout (torch/_inductor/graph.py,
# decide_layout_opt).
_OPS_PER_CONV = 300
_PURE = frozenset({"pointwise", "cast", "matmul", "softmax", "norm", "reduction", "gather", "copy", "attention"})


class Program(NamedTuple):
    """A graph while it is rewritten, with sentences about what was done to it."""

    tensors: list[TensorSpec]
    ops: list[Op]
    notes: list[str]


def rewrite(graph: Graph) -> Program:
    """`graph` rewritten: each step of the list below has its own sentence."""
    program = Program(list(graph.tensors), list(graph.ops), [])
    steps = (eliminate_common, fuse_dequantization, fuse_attention, to_channels_last, pad_products)
    for each in steps:
        program = each(program)
    return program


def eliminate_common(program: Program) -> Program:
    """Operations that compute the same from the same, left out but for the first."""
    tensors, ops, notes = program
    flow = dataflow.flow(tensors, ops)
    first: dict[tuple, int] = {}
    same: dict[int, int] = {}  # operation → the one that did it before
    renamed: dict[int, int] = {}
    storage: dict[int, int] = {}
    kept = []
    for number, op in enumerate(ops):
        inputs = tuple([renamed.get(index, index) for index in op.inputs])
        op = op if inputs == op.inputs else msgspec.structs.replace(op, inputs=inputs)
        key = _key(op, number, tensors, flow, same)
        earlier = number if key is None else first.setdefault(key, number)
        if earlier == number:
            kept.append(op)
            continue
        same[number] = earlier
        for index, other in zip(op.outputs, ops[earlier].outputs, strict=True):
            renamed[index] = renamed.get(other, other)
            if op.kind != "view" and tensors[index].storage >= 0:
                storage[tensors[index].storage] = tensors[other].storage
    if storage:
        tensors = [
            msgspec.structs.replace(spec, storage=storage[spec.storage]) if spec.storage in storage else spec
            for spec in tensors
        ]
    return Program(tensors, kept, notes)


def _key(op: Op, number: int, tensors: Sequence[TensorSpec], flow: Flow, same: Mapping[int, int]) -> tuple | None:
    """What makes an operation the same as another; None where it may not be left out."""
    view = op.kind == "view"
    if (op.kind not in _PURE and not view) or op.attrs.get("in_place") or not op.outputs or not op.inputs:
        return None
    if set(op.inputs) & set(op.outputs):
        return None
    places = [flow.storage[index] for index in op.outputs]
    if not view and any(len(flow.writers.get(place, ())) != 1 for place in places):
        return None
    if not view and not dataflow.read_by(flow, number):
        return None  # a result
    written = tuple(
        [same.get(read.writer, read.writer) if read.writer is not None else None for read in flow.reads[number]]
    )
    shapes = tuple([(tensors[index].shape, tensors[index].strides) for index in op.outputs])
    # Views carry no offset: two slices of the same shape need not be the same one.
    which = op.outputs if view else ()
    key = (op.name, op.inputs, written, shapes, which, op.count, op.branch, op.phase, _attrs(op.attrs))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _attrs(attrs: Any) -> tuple:
    return tuple(sorted(attrs.items()))


def recomputed_where_used(
    ops: Sequence[Op], tensors: Sequence[TensorSpec], fusable: Sequence[bool], flow: Flow
) -> frozenset[int]:
    """Operations whose results a compiler computes anew where they are used: fills, ranges and functions of them.

    Those that a call of a library reads, that are overwritten, or that are the program's result stay.
    """
    recomputed: set[int] = set()
    for number, op in enumerate(ops):
        reads = flow.reads[number]
        starts = op.kind == "create" and not reads
        follows = op.kind in ("pointwise", "cast") and reads and all(read.writer in recomputed for read in reads)
        if (starts or follows) and all(len(flow.writers[flow.storage[index]]) == 1 for index in op.outputs):
            recomputed.add(number)
    for number in sorted(recomputed, reverse=True):
        readers = dataflow.read_by(flow, number)
        size = sum(tensors[index].nbytes for index in ops[number].outputs)
        if (not readers and size) or not all(reader in recomputed or fusable[reader] for reader in readers):
            recomputed.discard(number)
    return frozenset(recomputed)


def fuse_dequantization(program: Program) -> Program:
    """Weights in a narrow format, widened inside the product that reads them."""
    tensors, ops, count = dequantization.fuse(program.tensors, program.ops)
    note = f"{count} × weights are widened inside the product that reads them, as a compiler's own product does"
    return Program(tensors, ops, [*program.notes, note] if count else program.notes)


def fuse_attention(program: Program) -> Program:
    """softmax(q·kᵀ·scale [+ mask])·v written out, as one fused kernel of the kind "attention"."""
    tensors, ops, notes = program
    if not any(op.kind == "softmax" for op in ops):
        return program
    flow = dataflow.flow(tensors, ops)
    removed: set[int] = set()
    replaced: dict[int, list[Op]] = {}
    for number, op in enumerate(ops):
        if op.kind == "softmax" and not op.attrs.get("log"):
            match = _attention(number, tensors, ops, flow)
            if match is not None:
                members, last, replacement = match
                removed |= members
                replaced[last] = replacement
    if not replaced:
        return program
    kept: list[Op] = []
    for number, op in enumerate(ops):
        if number in replaced:
            kept.extend(replaced[number])
        elif number not in removed:
            kept.append(op)
    return Program(tensors, kept, [*notes, f"{len(replaced)} × attention written out is one fused kernel"])


def _attention(
    softmax: int, tensors: list[TensorSpec], ops: Sequence[Op], flow: Flow
) -> tuple[set[int], int, list[Op]] | None:
    """The members of one attention, the last of them, and what stands in its place."""
    before = _product_before(softmax, tensors, ops, flow)
    after = _product_after(softmax, ops, flow)
    if before is None or after is None:
        return None
    qk, between, masks = before
    pv, behind = after
    q, k = ops[qk].inputs[:2]
    v = ops[pv].inputs[1]
    out = ops[pv].outputs[0]
    size, tokens, keys = tensors[q].shape[-1], tensors[q].shape[-2], tensors[v].shape[-2]
    batch = tensors[q].elements // max(size * tokens, 1)
    if tensors[v].elements != batch * keys * tensors[v].shape[-1]:
        return None
    shapes = ((q, tokens, size), (k, keys, size), (v, keys, tensors[v].shape[-1]))
    inputs = tuple([_added(tensors, index, (1, batch, rows, columns)) for index, rows, columns in shapes])
    output = _added(tensors, out, (1, batch, tokens, tensors[v].shape[-1]))
    attrs = {"causal": False, "dropout": False, **({"mask": True} if masks else {})}
    op = msgspec.structs.replace(
        ops[pv],
        kind="attention",
        name="fused attention",
        inputs=(*inputs, *masks[:1]),
        outputs=(output,),
        attrs=attrs,
    )
    view = Op(
        name="view",
        kind="view",
        inputs=(output,),
        outputs=(out,),
        module=op.module,
        phase=op.phase,
        count=op.count,
    )
    return {qk, softmax, *between, *behind, pv}, pv, [op, view]


def _added(tensors: list[TensorSpec], index: int, shape: tuple[int, ...]) -> int:
    """The number of a new tensor: that of `index` in another shape."""
    tensors.append(msgspec.structs.replace(tensors[index], shape=shape, strides=None))
    return len(tensors) - 1


_SCALING = ("mul", "div", "mul_", "div_")
_MASKING = ("add", "sub", "add_", "where", "masked_fill", "masked_fill_")


def _product_before(
    softmax: int, tensors: Sequence[TensorSpec], ops: Sequence[Op], flow: Flow
) -> tuple[int, list[int], list[int]] | None:
    """The product that a softmax's operand comes from, what lies between, and the masks added there."""
    between: list[int] = []
    masks: list[int] = []
    here = softmax
    while True:
        reads = flow.reads[here]
        scores = [read for read in reads if read.covered and read.writer is not None]
        # Beside the scores: nothing, a scale of one element, or a mask.
        main = max(scores, key=lambda read: tensors[read.tensor].elements, default=None)
        if main is None or main.writer is None or len(dataflow.read_by(flow, main.writer)) != 1:
            return None
        others = [read.tensor for read in reads if read is not main and tensors[read.tensor].elements > 1]
        if here != softmax:
            function = str(ops[here].attrs.get("function", ops[here].kind))
            if others and function not in _MASKING:
                return None
            masks.extend(others)
        here = main.writer
        op = ops[here]
        if op.kind == "matmul":
            return (here, between, masks) if not op.attrs.get("bias") and _square(op, tensors) else None
        if op.kind == "cast" or str(op.attrs.get("function")) in (*_SCALING, *_MASKING):
            between.append(here)
            continue
        return None


def _square(op: Op, tensors: Sequence[TensorSpec]) -> bool:
    """Whether a product is one matrix times another for each head: neither operand is a weight."""
    a, b = tensors[op.inputs[0]], tensors[op.inputs[1]]
    return len(a.shape) >= 3 and len(b.shape) >= 3 and "parameter" not in (a.role, b.role)


def _product_after(softmax: int, ops: Sequence[Op], flow: Flow) -> tuple[int, list[int]] | None:
    """The product that takes a softmax's result as its first operand, and the casts between."""
    behind: list[int] = []
    here = softmax
    while True:
        readers = dataflow.read_by(flow, here)
        if len(readers) != 1:
            return None
        (reader,) = readers
        if ops[reader].kind == "matmul":
            first = flow.reads[reader][0]
            return (reader, behind) if first.writer == here and not ops[reader].attrs.get("bias") else None
        if ops[reader].kind != "cast":
            return None
        behind.append(reader)
        here = reader


def to_channels_last(program: Program) -> Program:
    """Activations of convolutions with their channels innermost, which is what the matrix engines want."""
    tensors, ops, notes = program
    convs = sum(op.kind in ("conv", "conv_backward") for op in ops)
    if not convs or len(ops) >= _OPS_PER_CONV * convs:
        return program
    flow = dataflow.flow(tensors, ops)
    inner: set[int] = set()
    for number, op in enumerate(ops):
        kinds = ("conv", "conv_backward")
        if op.kind in kinds or any(read.whole in inner for read in flow.reads[number]):
            inner.update(flow.whole[index] for index in op.outputs if len(tensors[index].shape) == 4)
    changed = [
        _channels_inner(spec) if flow.whole[index] in inner and _movable(spec) else spec
        for index, spec in enumerate(tensors)
    ]
    return Program(changed, ops, [*notes, "convolutions run channels-last: their activations need no conversion"])


def _movable(spec: TensorSpec) -> bool:
    return len(spec.shape) == 4 and spec.strides is None and spec.role in ("activation", "gradient")


def _channels_inner(spec: TensorSpec) -> TensorSpec:
    _, channels, height, width = spec.shape
    strides = (channels * height * width, 1, width * channels, channels)
    return msgspec.structs.replace(spec, strides=strides)


def pad_products(program: Program) -> Program:
    """Products whose rows are not a multiple of 16 bytes, padded where they are busy computing.

    The padded operand is given its own bytes: the copy that pads it (a weight is padded anew in each run) is
    left out, as inductor fuses it with what produces the operand where something does.
    """
    tensors, ops, notes = program
    rewritten_ops = list(ops)
    count = 0
    for number, op in reversed(list(enumerate(ops))):
        if op.kind != "matmul" or len(op.inputs) < 2 or "fma" in op.attrs:
            continue
        new = padded(op, tensors)
        if new is not None:
            rewritten_ops[number : number + 1] = new
            count += 1
    if not count:
        return program
    return Program(
        tensors, rewritten_ops, [*notes, f"{count} × a product's rows are padded to {_ALIGNMENT_BYTES} bytes"]
    )


def padded(op: Op, tensors: list[TensorSpec]) -> list[Op] | None:
    """`op` with padded rows and a view of its result, their tensors added to `tensors`; None if it stays."""
    a, b, out = (tensors[index] for index in (*op.inputs[:2], op.outputs[0]))
    k = op.attrs.get("k")
    if not k or len(b.shape) < 2 or not out.shape or out.shape[-1] != b.shape[-1]:
        return None
    step = max(int(_ALIGNMENT_BYTES / item_bytes(out)), 1)
    columns = -(-out.shape[-1] // step) * step
    flop, nbytes = 2 * out.elements * k, a.nbytes + b.nbytes + out.nbytes
    if columns == out.shape[-1] or flop < _WORTH_PADDING * nbytes:
        return None
    wide = {}
    for index, spec in ((op.inputs[1], b), (op.outputs[0], out)):
        strides = spec.strides
        if strides is not None and strides[-1] == 1 and strides[-2] == spec.shape[-1]:
            strides = None
        tensors.append(msgspec.structs.replace(spec, shape=(*spec.shape[:-1], columns), strides=strides))
        wide[index] = len(tensors) - 1
    weight, result = wide[op.inputs[1]], wide[op.outputs[0]]
    product = msgspec.structs.replace(
        op, inputs=(op.inputs[0], weight, *op.inputs[2:]), outputs=(result, *op.outputs[1:])
    )
    narrow = Op(
        name="view", kind="view", inputs=(result,), outputs=(op.outputs[0],), phase=op.phase, count=op.count
    )
    return [product, narrow]
