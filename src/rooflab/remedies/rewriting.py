"""Rules that change the program but not its results: attention fused, layouts, padding, fused optimizer steps."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rooflab.model.compiler import fusion, rewrites
from rooflab.model.compiler.rewrites import Program
from rooflab.remedies.case import Case, Change
from rooflab.types.work import Graph, Op
from rooflab.units import percent, si

_ATTENTION_CODE = "out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)"
_LAYOUT_CODE = """\
model = model.to(memory_format=torch.channels_last)
images = images.to(memory_format=torch.channels_last)"""
_OPTIMIZER_CODE = "optimizer = torch.optim.AdamW(model.parameters(), fused=True)"


def _step(rewrite: Callable[[Program], Program]) -> Callable[[Graph], Graph]:
    """A change of graphs that does one of a compiler's rewrites alone."""

    def changed(graph: Graph) -> Graph:
        program = rewrite(Program(list(graph.tensors), list(graph.ops), []))
        conventions = (*graph.conventions, *program.notes)
        return msgspec.structs.replace(
            graph, tensors=tuple(program.tensors), ops=tuple(program.ops), conventions=conventions
        )

    return changed


def fused_attention(case: Case) -> Change | None:
    """One kernel for attention that is written out, whose scores then never leave the chip."""
    if case.setting.mode == "compiled":
        return None  # a compiler finds it by itself
    soft = [op for op in case.graph.ops if op.kind == "softmax"]
    unfused = case.numbered(lambda row: row.op.kind == "attention" and row.op.attrs.get("fused") is False)
    if unfused:
        return _attention_kernel(case, unfused)
    if not soft:
        return None
    changed = _step(rewrites.fuse_attention)
    fused = changed(case.graph)
    count = sum(op.name == "fused attention" for op in fused.ops)
    if not count:
        return None
    tensors = case.graph.tensors
    scores = sum(tensors[op.outputs[0]].nbytes * op.count for op in soft)
    return Change(
        rule="fused-attention",
        text="Call fused attention instead of writing softmax(q·kᵀ)·v out: the scores stay on chip",
        evidence=(
            f"{count} × attention written out; its softmaxes alone write {si(scores, 'B')} of scores, and the "
            "product behind reads them again",
        ),
        rows=tuple(n for n, row in enumerate(case.report.rows) if row.op.kind == "softmax"),
        code=_ATTENTION_CODE if case.graph.framework == "torch" else "",
        graph=changed,
    )


def _attention_kernel(case: Case, unfused: dict) -> Change:
    def changed(graph: Graph) -> Graph:
        ops = tuple(
            msgspec.structs.replace(op, attrs={**op.attrs, "fused": True}) if op.kind == "attention" else op
            for op in graph.ops
        )
        return msgspec.structs.replace(graph, ops=ops)

    return Change(
        rule="fused-attention",
        text="Call fused attention: the scores stay on chip",
        evidence=(
            f"{len(unfused)} × attention with its scores in memory takes {percent(case.share(unfused))} of the "
            "time",
        ),
        rows=tuple(unfused),
        code=_ATTENTION_CODE if case.graph.framework == "torch" else "",
        graph=changed,
    )


def channels_last(case: Case) -> Change | None:
    """Channels innermost, as the matrix engines want convolutions' operands."""
    if case.setting.mode == "compiled" or case.machine.kind == "cpu":
        return None
    tensors = case.graph.tensors
    convs = [op for op in case.graph.ops if op.kind == "conv" and op.inputs]
    planar = [
        op for op in convs if len(tensors[op.inputs[0]].shape) == 4 and tensors[op.inputs[0]].strides is None
    ]
    if not planar:
        return None
    rows = case.numbered(lambda row: row.op.kind in ("conv", "conv_backward"))
    return Change(
        rule="channels-last",
        text="Keep images channels-last: convolutions then need no conversion of their operands",
        evidence=(
            f"{len(planar)} of {len(convs)} convolutions read planes (channels first) and convert them before and "
            f"after; convolutions take {percent(case.share(rows))} of the time",
        ),
        rows=tuple(rows),
        code=_LAYOUT_CODE if case.graph.framework == "torch" else "",
        graph=_step(rewrites.to_channels_last),
    )


def padded_products(case: Case) -> Change | None:
    """Sizes of products as multiples of 16 bytes, without which their operands are loaded in small pieces."""
    if case.setting.mode == "compiled" or case.machine.kind == "cpu":
        return None
    products = [op for op in case.graph.ops if op.kind == "matmul"]
    tensors = list(case.graph.tensors)
    odd = [op for op in products if len(op.inputs) > 1 and "fma" not in op.attrs and rewrites.padded(op, tensors)]
    if not odd:
        return None
    sizes = sorted({case.graph.tensors[op.outputs[0]].shape[-1] for op in odd})
    shown = ", ".join(map(str, sizes[:3]))
    names = {op.name for op in odd}
    rows = [n for n, row in enumerate(case.report.rows) if row.op.name in names and row.op in odd]
    return Change(
        rule="pad",
        text=f"Pad {_products(len(odd))} to a width that is a multiple of 8 elements (now {shown})",
        evidence=(f"rows of {shown} elements are no multiple of 16 bytes: they cannot be loaded in whole pieces",),
        rows=tuple(rows),
        code=f"width = -(-{sizes[0]} // 64) * 64   # {-(-sizes[0] // 64) * 64}: what is added is never asked for",
        graph=_step(rewrites.pad_products),
    )


def _products(count: int) -> str:
    return "1 product" if count == 1 else f"{count} products"


def not_materialised(case: Case) -> Change | None:
    """Element-wise work inside the sum that it feeds, where whole tensors are written only to be added up."""
    if case.setting.mode == "compiled" or not any(op.kind in ("reduction", "loss") for op in case.graph.ops):
        return None
    changed = fusion.fused_into_sums(case.graph)
    kernels = [op for op in changed.ops if len(op.attrs.get("members", ())) > 1]
    if not kernels:
        return None
    kept = {op.outputs for op in changed.ops}
    rows = case.numbered(lambda row: row.op.outputs not in kept)
    nbytes = sum(
        case.graph.tensors[index].nbytes * row.op.count for row in rows.values() for index in row.op.outputs
    )
    chain = " → ".join(kernels[0].attrs["members"])
    loss = any(op.kind == "loss" for op in kernels)
    return Change(
        rule="avoid-materialising",
        text=f"Compute what is only added up inside the sum: {chain}"
        + (f", and {len(kernels) - 1} more such" if len(kernels) > 1 else ""),
        evidence=(
            f"{si(nbytes, 'B')} are written by {len(rows)} operations, and read by the next alone: "
            f"{percent(case.share(rows))} of the time",
        ),
        rows=tuple(rows),
        code=(_LOSS_CODE if loss else _SUM_CODE) if case.graph.framework == "torch" else "",
        graph=fusion.fused_into_sums,
    )


_SUM_CODE = """\
@torch.compile                      # that function alone: one pass, nothing written between
def summed(x):
    return torch.logsumexp(x, -1)   # not x.exp().sum(-1).log()"""
_LOSS_CODE = """\
loss = torch.compile(torch.nn.functional.cross_entropy)(logits, targets)   # or Liger's fused cross-entropy"""


def contiguous(case: Case) -> Change | None:
    """Strides read where they are, where an operation only copies its operand into another layout."""
    if case.setting.mode == "compiled":
        return None
    without = _without_copies(case.graph)
    if without is case.graph:
        return None
    kept = {op.outputs for op in without.ops}
    rows = case.numbered(lambda row: row.op.outputs not in kept)
    if not rows:
        return None
    nbytes = sum(row.nbytes or 0.0 for row in rows.values())
    many = "1 copy" if len(rows) == 1 else f"{len(rows)} copies"
    return Change(
        rule="contiguous",
        text=f"Leave out {many} into another layout: read the strides, or let what comes before write them so",
        evidence=(
            f"they move {si(nbytes, 'B')} and take {percent(case.share(rows))} of the time; products, "
            "attention and "
            "element-wise work take strided operands",
            "at most: where a view needs one piece of memory, its copy stays",
        ),
        rows=tuple(rows),
        effort="rewrite",
        code=_STRIDED_CODE if case.graph.framework == "torch" else "",
        graph=_without_copies,
    )


_STRIDED_CODE = """\
torch.einsum("bhtd,hdo->bto", heads, weight)   # instead of .transpose(1, 2).contiguous().view(…) @ weight"""
_STRIDED = ("matmul", "grouped_matmul", "attention", "pointwise", "cast", "view", "reduction")


def _without_copies(graph: Graph) -> Graph:
    """`graph` without copies that only make a strided activation contiguous for operations that take strides."""
    tensors = graph.tensors
    readers: dict[int, list[Op]] = {}
    written = {index: op for op in graph.ops for index in op.outputs}
    for op in graph.ops:
        for index in dict.fromkeys(op.inputs):
            readers.setdefault(index, []).append(op)

    def only_lays_out(op: Op) -> bool:
        if (
            op.kind not in ("copy", "layout")
            or len(op.inputs) != 1
            or len(op.outputs) != 1
            or op.phase != "forward"
        ):
            return False
        source, result = tensors[op.inputs[0]], tensors[op.outputs[0]]
        if source.strides is None or result.strides is not None or source.role not in ("activation", "input"):
            return False
        if (source.dtype, source.shape) != (result.dtype, result.shape) or op.inputs[0] not in written:
            return False
        used = readers.get(op.outputs[0], [])
        return bool(used) and all(each.kind in _STRIDED for each in used)

    instead: dict[int, int] = {}
    ops = []
    for op in graph.ops:
        if only_lays_out(op):
            instead[op.outputs[0]] = instead.get(op.inputs[0], op.inputs[0])
            continue
        if any(index in instead for index in op.inputs):
            op = msgspec.structs.replace(op, inputs=tuple(instead.get(index, index) for index in op.inputs))
        ops.append(op)
    return msgspec.structs.replace(graph, ops=tuple(ops)) if instead else graph


def fused_optimizer(case: Case) -> Change | None:
    """One pass over parameters, gradients and states, where an optimizer's step is many."""
    if case.setting.mode == "compiled":
        return None
    step = [op for op in case.graph.ops if op.phase == "optimizer" and op.kind not in ("view", "create")]
    if len(step) < 2 or any(op.kind == "optimizer" for op in step):
        return None
    fused = one_step(case.graph)
    if fused is None:
        return None
    rows = case.numbered(lambda row: row.op.phase == "optimizer")
    before = sum(row.nbytes or 0.0 for row in rows.values())
    single = next(op for op in fused.ops if op.kind == "optimizer")
    after = sum(fused.tensors[index].nbytes for index in (*single.inputs, *single.outputs))
    return Change(
        rule="fused-optimizer",
        text="Let one fused kernel do the optimizer's step",
        evidence=(
            f"the step is {len(rows):,} operations that move {si(before, 'B')}; one pass moves {si(after, 'B')}",
        ),
        rows=tuple(rows),
        code=_OPTIMIZER_CODE if case.graph.framework == "torch" else "",
        graph=lambda graph: one_step(graph) or graph,
    )


def one_step(graph: Graph) -> Graph | None:
    """`graph` with its optimizer's operations as one pass over what they read from outside and what lasts."""
    kept = [op for op in graph.ops if op.phase != "optimizer"]
    step = [op for op in graph.ops if op.phase == "optimizer"]
    roles = ("parameter", "gradient", "state")
    held: dict[str, dict[int, int]] = {role: {} for role in roles}
    for op in step:
        for index in (*op.inputs, *op.outputs):
            spec = graph.tensors[index]
            if spec.role in roles and spec.elements > 1:
                held[spec.role].setdefault(spec.storage if spec.storage >= 0 else -1 - index, index)
    parameters, gradients, states = (tuple(held[role].values()) for role in roles)
    if not parameters or not gradients:
        return None
    elements = sum(graph.tensors[index].elements for index in parameters)
    of_states = sum(graph.tensors[index].elements for index in states)
    function = "adamw" if of_states >= 1.5 * elements else "sgd"
    attrs = {"function": function, "elements": elements, "momentum": function == "sgd" and bool(of_states)}
    one = Op(
        name=f"fused {function}",
        kind="optimizer",
        inputs=(*parameters, *gradients, *states),
        outputs=(*parameters, *states),
        attrs=attrs,
        phase="optimizer",
    )
    return msgspec.structs.replace(graph, ops=(*kept, one))
