"""Rules about number formats: what results cost that are rounded more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from rooflab.dtypes import dtype as number_format
from rooflab.model.program.precision import change_dtype
from rooflab.model.roofline.per_operation import peak_of
from rooflab.remedies.case import Case, Change, Unasked
from rooflab.types.machine import Machine
from rooflab.types.report import Row
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.units import percent, si

_PRODUCTS = ("matmul", "grouped_matmul", "conv", "conv_backward", "attention", "attention_backward")
_WEIGHTED = ("matmul", "grouped_matmul")
_KEPT = ("parameter", "buffer")

_BF16_CODE = """\
with torch.autocast("cuda", dtype=torch.bfloat16):
    out = model(x)          # or model.to(torch.bfloat16) where nothing is trained"""
_TF32_CODE = 'torch.set_float32_matmul_precision("high")'
_FP8_CODE = """\
from torchao.float8 import convert_to_float8_training       # inference: torchao.quantization
model = convert_to_float8_training(model)"""
_INT_CODE = """\
from torchao.quantization import Int{bits}WeightOnlyConfig, quantize_
quantize_(model, Int{bits}WeightOnlyConfig())"""


def tf32(case: Case) -> Change | None:
    """fp32 products on matrix engines that stand unused: their operands rounded to 10 bits of mantissa."""
    if not _multiplies(case.machine, "tf32"):
        return None
    rows = case.numbered(lambda row: _computes(row, ("fp32",)))
    if not rows:
        return None

    def changed(graph: Graph) -> Graph:
        ops = tuple(
            msgspec.structs.replace(op, attrs={**op.attrs, "compute": "tf32"})
            if op.kind in _PRODUCTS
            and op.inputs
            and graph.tensors[op.inputs[0]].dtype == "fp32"
            and "compute" not in op.attrs
            else op
            for op in graph.ops
        )
        return msgspec.structs.replace(graph, ops=ops)

    many = "product in fp32 takes" if len(rows) == 1 else "products in fp32 take"
    return Change(
        rule="tf32",
        text="Let fp32 products run on the matrix engines as TF32: they stand unused",
        evidence=(
            f"{len(rows):,} {many} {percent(case.share(rows))} of the time on the ordinary units"
            f"{_peaks(case.machine, 'tf32', 'fp32')}",
        ),
        rows=tuple(rows),
        effort="setting",
        price="numbers",
        code=_TF32_CODE if case.graph.framework == "torch" else "",
        graph=changed,
    )


def half(case: Case) -> Change | Unasked | None:
    """bf16 (fp16 where there is no bf16) instead of fp32: half the bytes, and the matrix engines."""
    to = next((name for name in ("bf16", "fp16") if _multiplies(case.machine, name)), None)
    main = _main(case.graph.tensors)
    if to is None or main not in ("fp32", "fp64"):
        return None
    if case.asking_host():
        return Unasked("half", f"{', '.join(case.asking_host())}: libraries have no {to} form")
    return Change(
        rule="half",
        text=f"Compute in {to} instead of {main}: half the bytes and the matrix engines' own format",
        evidence=(
            f"most tensors are {main}: {_bytes(case.graph.tensors, main)}{_peaks(case.machine, to, str(main))}",
        ),
        price="numbers",
        code=_BF16_CODE if case.graph.framework == "torch" else "",
        graph=lambda graph: change_dtype(graph, to),
        keywords={"what_if": {"dtype": to}},
    )


def eight_bits(case: Case) -> Change | None:
    """fp8 operands of products, where the machine multiplies them faster and the products compute."""
    if not _multiplies(case.machine, "fp8") or _main(case.graph.tensors) not in ("bf16", "fp16"):
        return None
    rows = case.numbered(lambda row: row.op.kind in _WEIGHTED and row.bound == "compute-bound")
    if case.share(rows) < 0.1:
        return None
    main = str(_main(case.graph.tensors))
    return Change(
        rule="fp8",
        text="Multiply in fp8: operands of products scaled and rounded to 8 bits",
        evidence=(
            f"{len(rows)} products that are bound by the matrix engines take {percent(case.share(rows))} of "
            "the time"
            f"{_peaks(case.machine, 'fp8', main)}",
        ),
        rows=tuple(rows),
        effort="rewrite",
        price="numbers",
        code=_FP8_CODE if case.graph.framework == "torch" else "",
        graph=lambda graph: change_dtype(graph, "fp8"),
        keywords={"what_if": {"dtype": "fp8"}},
    )


def weight_only(case: Case) -> Change | None:
    """Weights kept in 4 or 8 bits and widened inside the product, where products wait for them."""
    main = _main(case.graph.tensors)
    if main not in ("bf16", "fp16"):
        return None
    rows = case.numbered(lambda row: _waits_for_weights(row, case.graph.tensors))
    if case.share(rows) < 0.1:
        return None
    bits = 4 if case.machine.kind == "gpu" else 8
    nbytes = sum(case.report.graph.tensors[row.op.inputs[1]].nbytes * row.op.count for row in rows.values())

    def changed(graph: Graph) -> Graph:
        return narrow_weights(graph, bits)

    return Change(
        rule="weight-only",
        text=f"Keep weights in {bits} bits and widen them inside the products",
        evidence=(
            f"{len(rows)} products take {percent(case.share(rows))} of the time waiting for {si(nbytes, 'B')} of "
            f"weights; in {bits} bits, a scale for each 128, these are {si(nbytes * bits / 16 * 1.03, 'B')}",
        ),
        rows=tuple(rows),
        effort="line",
        price="numbers",
        code=_INT_CODE.format(bits=bits) if case.graph.framework == "torch" else "",
        graph=changed,
    )


def narrow_weights(graph: Graph, bits: int) -> Graph:
    """`graph` with the weights of its products in `bits`, and a scale in 16 bits for each 128 of them."""
    tensors = list(graph.tensors)
    narrow: dict[int, int] = {}
    ops = []
    for op in graph.ops:
        if op.kind not in _WEIGHTED or len(op.inputs) < 2 or "weight_bits" in op.attrs or op.phase != "forward":
            ops.append(op)
            continue
        index = op.inputs[1]
        spec = graph.tensors[index]
        if spec.role not in _KEPT:
            ops.append(op)
            continue
        if index not in narrow:
            scale = (bits + 16 / 128) / 8 / number_format(spec.dtype).nbytes
            narrow[index] = len(tensors)
            tensors.append(msgspec.structs.replace(spec, dtype=f"int{bits}", nbytes=spec.nbytes * scale))
        attrs = {**op.attrs, "weight_bits": bits, "compute": op.attrs.get("compute") or spec.dtype}
        inputs = (op.inputs[0], narrow[index], *op.inputs[2:])
        ops.append(msgspec.structs.replace(op, inputs=inputs, attrs=attrs))
    return msgspec.structs.replace(graph, tensors=tuple(tensors), ops=tuple(ops))


def narrow_cache(case: Case) -> Change | None:
    """Keys and values kept in fp8, where attention waits for what earlier tokens left."""
    rows = case.numbered(lambda row: _reads_cache(row.op, case.report.graph.tensors))
    if case.share(rows) < 0.1 or case.machine.kind != "gpu":
        return None
    tensors = case.report.graph.tensors
    nbytes = sum(sum(tensors[i].nbytes for i in row.op.inputs[1:3]) * row.op.count for row in rows.values())

    def changed(graph: Graph) -> Graph:
        return _narrow_cache(graph)

    return Change(
        rule="kv-cache",
        text="Keep keys and values in 8 bits (fp8, or int8 with scales)",
        evidence=(
            f"{len(rows)} × attention of few queries takes {percent(case.share(rows))} of the time reading "
            f"{si(nbytes, 'B')} of keys and values; in 8 bits half of it",
        ),
        rows=tuple(rows),
        effort="rewrite",
        price="numbers",
        code="# vLLM: --kv-cache-dtype fp8; TensorRT-LLM: quantisation of the KV cache" if rows else "",
        graph=changed,
    )


def _narrow_cache(graph: Graph) -> Graph:
    tensors = list(graph.tensors)
    ops = []
    for op in graph.ops:
        if not _reads_cache(op, graph.tensors):
            ops.append(op)
            continue
        inputs = list(op.inputs)
        for place in (1, 2):
            spec = graph.tensors[inputs[place]]
            inputs[place] = len(tensors)
            tensors.append(msgspec.structs.replace(spec, dtype="fp8", nbytes=spec.nbytes / 2))
        ops.append(msgspec.structs.replace(op, inputs=tuple(inputs)))
    return msgspec.structs.replace(graph, tensors=tuple(tensors), ops=tuple(ops))


def _reads_cache(op: Op, tensors: Sequence[TensorSpec]) -> bool:
    """Attention of a query or a few over many keys in 16 bits: what decoding does."""
    if op.kind != "attention" or len(op.inputs) < 3:
        return False
    query, keys = tensors[op.inputs[0]], tensors[op.inputs[1]]
    return keys.dtype in ("bf16", "fp16") and keys.elements >= 16 * query.elements / _shared(query, keys)


def _shared(query: TensorSpec, keys: TensorSpec) -> float:
    """Query heads that share a head of keys: a bound, where layouts differ."""
    return max(1.0, query.shape[-3] / keys.shape[-3]) if min(len(query.shape), len(keys.shape)) >= 3 else 1.0


def _waits_for_weights(row: Row, tensors: Sequence[TensorSpec]) -> bool:
    op = row.op
    if op.kind not in _WEIGHTED or op.phase != "forward" or len(op.inputs) < 2 or "weight_bits" in op.attrs:
        return False
    # `row` is of the report's own graph, whose tensors begin as the captured ones do.
    spec = tensors[op.inputs[1]] if op.inputs[1] < len(tensors) else None
    return spec is not None and spec.role in _KEPT and row.bound == "memory-bound"


def _computes(row: Row, formats: tuple[str, ...]) -> bool:
    if row.cost is None or row.op.kind not in _PRODUCTS:
        return False
    return any(one.dtype in formats and one.engine == "matrix" for one in row.cost.flop)


def _main(tensors: Iterable[TensorSpec]) -> str | None:
    """The floating format of most bytes; None without any."""
    nbytes: Counter[str] = Counter()
    for spec in tensors:
        if spec.dtype in ("fp64", "fp32", "tf32", "bf16", "fp16"):
            nbytes[spec.dtype] += int(spec.nbytes) or 1
    return nbytes.most_common(1)[0][0] if nbytes else None


def _bytes(tensors: Iterable[TensorSpec], name: str) -> str:
    return si(sum(spec.nbytes for spec in tensors if spec.dtype == name), "B")


def _multiplies(machine: Machine, name: str) -> bool:
    """Whether the machine has matrix engines for that format, not just vector units that stand in."""
    rate, unit = peak_of(machine, "matrix", name)
    return rate is not None and unit == f"{name} matrix"


def _peaks(machine: Machine, faster: str, now: str) -> str:
    """The two peaks side by side, where the machine states both."""
    other, own = peak_of(machine, "matrix", faster)[0], peak_of(machine, "matrix", now)[0]
    if other is None or own is None:
        return ""
    return f"; {machine.name} does {si(other.value, 'FLOP/s')} in {faster}, {si(own.value, 'FLOP/s')} in {now}"
