"""A schedule of tinygrad's as operations: each kernel lowered and counted over its loops."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import vocabulary
from rooflab.work.capture.tinygrad.library import Library

_NAMES = {
    "double": "fp64",
    "float": "fp32",
    "half": "fp16",
    "__bf16": "bf16",
    "bfloat16": "bf16",
    "fp8e4m3": "fp8",
    "fp8e5m2": "fp8",
    "long": "int64",
    "unsigned long": "int64",
    "ulong": "int64",
    "int": "int32",
    "unsigned int": "int32",
    "uint": "int32",
    "short": "int16",
    "unsigned short": "int16",
    "ushort": "int16",
    "signed char": "int8",
    "char": "int8",
    "unsigned char": "int8",
    "uchar": "int8",
    "bool": "bool",
}

CONVENTIONS = (
    "an operation is one of tinygrad's kernels, fused as it schedules them: bytes between kernels only",
    "accessed bytes: the kernel's plain loops, before tinygrad optimises them",
    "all live tensors count as given: what computes them is not part of the work",
)


class Counts(NamedTuple):
    """What a kernel does, in all.

    Attributes:
        other: integer and logical operations on data.
        read, written: distinct bytes by the number of the argument.
        unknown: names of operations that the vocabulary does not have.
    """

    vector: float
    special: float
    other: float
    loaded: float
    stored: float
    dtype: str | None
    read: Mapping[int, float]
    written: Mapping[int, float]
    unknown: tuple[str, ...]


def dtype_name(dtype: Any) -> str:
    """The name in `rooflab.dtypes` of a number format of tinygrad's."""
    return _NAMES.get(str(dtype.name), str(dtype.name))


def graph(lib: Library, linear: Any, specs: Mapping[Any, TensorSpec], unknown: tuple[str, ...]) -> Graph:
    """The kernels of a schedule as operations, its buffers as tensors; `specs` describes some of them."""
    tensors: list[TensorSpec] = []
    indices: dict[tuple[Any, float], int] = {}
    storages: dict[Any, int] = {}
    renderer = lib.device["NULL"].renderer

    def index(uop: Any, nbytes: float | None = None) -> int:
        """The tensor of a kernel's argument, `nbytes` of which it touches."""
        base = uop.base
        while base.op.name not in ("BUFFER", "PARAM") and base.src:
            base = base.src[0].base
        full = math.prod(int(length) for length in uop.shape) * uop.dtype.itemsize
        size = full if nbytes is None else nbytes
        if (uop, size) not in indices:
            spec = specs.get(base)
            if spec is None or spec.nbytes != full:
                spec = TensorSpec(tuple(int(length) for length in uop.shape), dtype_name(uop.dtype), full)
            storage = storages.setdefault(base, len(storages))
            tensors.append(TensorSpec(spec.shape, spec.dtype, size, storage, None, spec.role, spec.name))
            indices[uop, size] = len(tensors) - 1
        return indices[uop, size]

    ops = []
    for call in linear.src:
        body, arguments = call.src[0], [uop for uop in call.src[1:] if not uop.is_bound_var]
        if body.op is lib.ops.SINK:
            ops.append(_kernel(lib, body, arguments, renderer, index))
        else:
            kind = "copy" if body.op is lib.ops.COPY else "opaque"
            sources, results = arguments[1:], arguments[:1]
            ops.append(
                Op(
                    name=body.op.name,
                    kind=kind,
                    inputs=tuple(map(index, sources)),
                    outputs=tuple(map(index, results)),
                )
            )
    return Graph(
        framework="tinygrad", tensors=tuple(tensors), ops=tuple(ops), unknown=unknown, conventions=CONVENTIONS
    )


def _kernel(
    lib: Library, body: Any, arguments: Sequence[Any], renderer: Any, index: Callable[[Any, float | None], int]
) -> Op:
    """One kernel as an operation."""
    program = lib.program(body, renderer)
    counts = _counts(lib, program.src[1].src)
    products, dtype = _products(lib, body)
    fma = products if 2 * products <= counts.vector else 0
    attrs: dict[str, Any] = {
        "dtype": dtype if fma else counts.dtype,
        "fma": fma,
        "vector": counts.vector - 2 * fma,
        "special": counts.special,
        "other": counts.other,
        "loaded": counts.loaded,
        "stored": counts.stored,
    }
    reduces = any(uop.op is lib.ops.REDUCE for uop in body.toposort())
    form = "matmul" if fma else "reduction" if reduces else "pointwise"
    name = re.sub(r"\x1b\[[0-9;]*m", "", program.arg.name)
    return Op(
        name=f"{form} {name}",
        kind=None if counts.unknown else "kernel",
        inputs=tuple(index(arguments[slot], size) for slot, size in sorted(counts.read.items())),
        outputs=tuple(index(arguments[slot], size) for slot, size in sorted(counts.written.items())),
        attrs=attrs,
    )


def _counts(lib: Library, uops: Sequence[Any]) -> Counts:
    """Operations and bytes of a lowered kernel: each instruction times the trips of the loops around it.

    The rules are those of tinygrad's Estimates.from_uops with index arithmetic left out.
    """
    ops, entries = lib.ops, vocabulary.load("tinygrad")
    addressing: set[Any] = set()
    for uop in uops:
        if uop.op in (ops.INDEX, ops.SHRINK):
            addressing |= set(lib.uop.sink(*uop.src[1:]).toposort(lambda one: one.op is not ops.END))
    totals = {"vector": 0.0, "special": 0.0, "logic": 0.0}
    moved: dict[Any, dict[int, float]] = {ops.LOAD: {}, ops.STORE: {}}
    accesses = {ops.LOAD: 0.0, ops.STORE: 0.0}
    formats: dict[str, float] = {}
    unknown: list[str] = []
    trips, outer = 1, []
    for uop in uops:
        if uop.op is ops.RANGE:
            outer.append(trips)
            trips *= int(uop.src[0].ssimplify())
        elif uop.op is ops.END:
            trips = outer.pop()
        elif uop.op is ops.SPECIAL:
            trips *= int(uop.src[0].ssimplify())
        elif uop.op in moved:
            _access(lib, uop, trips, moved[uop.op], accesses)
        elif uop.op.name in entries and uop not in addressing:
            runs = trips * uop.max_numel()
            engine = entries[uop.op.name].attrs["engine"]
            dtype = dtype_name(uop.src[-1].dtype if uop.op.name.startswith("CMP") else uop.dtype)
            floating = dtype.startswith(("fp", "bf"))
            totals[engine if floating else "logic"] += runs * (2 if uop.op.name == "MULACC" else 1)
            if floating and engine != "logic":
                formats[dtype] = formats.get(dtype, 0.0) + runs
        elif uop.op.name == "WMMA":
            unknown.append(uop.op.name)
    return Counts(
        totals["vector"],
        totals["special"],
        totals["logic"],
        accesses[ops.LOAD],
        accesses[ops.STORE],
        max(formats, key=lambda name: formats[name]) if formats else None,
        moved[ops.LOAD],
        moved[ops.STORE],
        tuple(unknown),
    )


def _access(lib: Library, uop: Any, trips: int, moved: dict[int, float], accesses: dict[Any, float]) -> None:
    """Add a load or store: its bytes, and the distinct ones, of which a buffer has no more than it is large."""
    place = uop.src[0]
    if place.addrspace.name == "REG":
        return
    dtype = uop.dtype if uop.op is lib.ops.LOAD else uop.src[1].dtype
    accesses[uop.op] += uop.max_numel() * dtype.itemsize * trips
    buffer = place
    while buffer.src and buffer.op is not lib.ops.PARAM:
        buffer = buffer.src[0]
    if buffer.op is lib.ops.PARAM:
        slot = int(buffer.arg.slot)
        touched = moved.get(slot, 0.0) + place.max_numel() * place.dtype.itemsize * trips
        moved[slot] = min(touched, buffer.max_numel() * buffer.dtype.itemsize)


def _products(lib: Library, body: Any) -> tuple[int, str | None]:
    """Multiply-adds of the sums of products of two loads in a kernel, and the number format of the factors."""
    total, dtype = 0, None
    for uop in body.toposort():
        if uop.op is not lib.ops.REDUCE or uop.arg[0] is not lib.ops.ADD:
            continue
        product = uop.src[0]
        while product.op is lib.ops.CAST:
            product = product.src[0]
        if product.op is not lib.ops.MUL:
            continue
        factors = [_loaded(lib, factor) for factor in product.src]
        if any(factor is None for factor in factors) or factors[0] is factors[1]:
            continue
        ranges = [one for one in product.toposort() if one.op is lib.ops.RANGE]
        total += math.prod(int(one.src[0].ssimplify()) for one in ranges)
        dtype = dtype_name(factors[0].dtype)
    return total, dtype


def _loaded(lib: Library, uop: Any) -> Any:
    """The load that `uop` is, through casts and the selection that makes padding; None for anything else."""
    while uop.op in (lib.ops.CAST, lib.ops.WHERE, lib.ops.LOAD):
        if uop.op is lib.ops.WHERE:
            loads = [one for one in (_loaded(lib, src) for src in uop.src[1:]) if one is not None]
            return loads[0] if len(loads) == 1 else None
        uop = uop.src[0]
    return uop if uop.op is lib.ops.INDEX else None
