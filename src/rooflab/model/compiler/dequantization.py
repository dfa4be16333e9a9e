"""Weights kept in a narrower format than a product computes in: their unpacking computed inside the product.

A compiler's own product (inductor's Triton template, with its prologues and epilogues) loads the narrow weights
and scales and widens them in registers; what follows element by element is done before the result is stored.
Unfused, a library's product reads a widened copy from memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rooflab.model.compiler import dataflow
from rooflab.model.compiler.dataflow import Flow
from rooflab.types.work import Op, TensorSpec

_PRODUCTS = ("matmul", "grouped_matmul")
_ELEMENTWISE = ("pointwise", "cast", "copy", "layout", "create", "scatter")
_EPILOGUE = ("pointwise", "cast")
_KEPT = ("parameter", "buffer")


class _Unpacking(NamedTuple):
    """Operations that make one tensor from weights alone, and the weights that they begin with."""

    members: frozenset[int]
    leaves: tuple[int, ...]


def fuse(tensors: list[TensorSpec], ops: Sequence[Op]) -> tuple[list[TensorSpec], list[Op], int]:
    """Products that read narrow weights themselves, and how many of them there are."""
    if not any(op.kind in _PRODUCTS for op in ops):
        return tensors, list(ops), 0
    flow = dataflow.flow(tensors, ops)
    removed: set[int] = set()
    replaced: dict[int, Op] = {}
    count = 0
    for number, op in enumerate(ops):
        if op.kind not in _PRODUCTS or len(op.inputs) < 2 or "weight_bits" in op.attrs:
            continue
        weight = op.inputs[1]
        unpacking = _unpacking(weight, number, tensors, ops, flow)
        if unpacking is None or not _narrower(unpacking, weight, tensors):
            continue
        product = _reading(op, unpacking, tensors)
        place, absorbed, product = _with_epilogue(number, product, tensors, ops, flow)
        removed |= unpacking.members | absorbed | {number}
        replaced[place] = product
        count += 1
    kept = [
        replaced.get(number, op) for number, op in enumerate(ops) if number in replaced or number not in removed
    ]
    return tensors, kept, count


def _unpacking(
    tensor: int, reader: int, tensors: Sequence[TensorSpec], ops: Sequence[Op], flow: Flow
) -> _Unpacking | None:
    """What makes `tensor`, an operand of `reader`, from weights alone, element by element, for it alone."""
    read = next((one for one in flow.reads[reader] if one.tensor == tensor), None)
    if read is None or read.writer is None:
        return None
    members: set[int] = set()
    leaves: dict[int, None] = {}
    waiting = [read.writer]
    while waiting:
        number = waiting.pop()
        if number in members:
            continue
        op = ops[number]
        if op.kind not in _ELEMENTWISE or op.phase != ops[reader].phase:
            return None
        members.add(number)
        for one in flow.reads[number]:
            if one.writer is not None:
                waiting.append(one.writer)
            elif tensors[one.whole].role in _KEPT:
                leaves[one.whole] = None
            else:
                return None
    if any(not dataflow.read_by(flow, number) <= members | {reader} for number in members):
        return None
    return _Unpacking(frozenset(members), tuple(leaves))


def _narrower(unpacking: _Unpacking, weight: int, tensors: Sequence[TensorSpec]) -> bool:
    return bool(unpacking.leaves) and sum(tensors[one].nbytes for one in unpacking.leaves) < tensors[weight].nbytes


def _reading(op: Op, unpacking: _Unpacking, tensors: list[TensorSpec]) -> Op:
    """`op` with the weights as they are stored, and their scales as further operands."""
    packed = max(unpacking.leaves, key=lambda one: tensors[one].nbytes)
    wide, stored = tensors[op.inputs[1]], tensors[packed]
    tensors.append(
        msgspec.structs.replace(
            wide,
            dtype=stored.dtype,
            nbytes=stored.nbytes,
            storage=stored.storage,
            role=stored.role,
            name=stored.name,
        )
    )
    scales = [one for one in unpacking.leaves if one != packed]
    bits = 8 * stored.nbytes / max(wide.elements, 1)
    attrs = {**op.attrs, "weight_bits": bits, "compute": op.attrs.get("compute") or wide.dtype}
    return msgspec.structs.replace(
        op, inputs=(op.inputs[0], len(tensors) - 1, *op.inputs[2:], *scales), attrs=attrs
    )


def _with_epilogue(
    number: int, product: Op, tensors: Sequence[TensorSpec], ops: Sequence[Op], flow: Flow
) -> tuple[int, set[int], Op]:
    """The product with the scaling and casts that follow it: where it ends, what it takes in, what it becomes."""
    absorbed: set[int] = set()
    place = number
    elements = tensors[product.outputs[0]].elements
    while True:
        readers = dataflow.read_by(flow, place)
        if len(readers) != 1:
            return place, absorbed, product
        (reader,) = readers
        op = ops[reader]
        follows = op.kind in _EPILOGUE and len(op.outputs) == 1 and tensors[op.outputs[0]].elements == elements
        beside = [one for one in flow.reads[reader] if one.writer != place]
        made = [_unpacking(one.tensor, reader, tensors, ops, flow) for one in beside]
        large = any(
            tensors[one.tensor].elements >= elements and unpacking is None and tensors[one.whole].role not in _KEPT
            for one, unpacking in zip(beside, made, strict=True)
        )
        if not follows or large or op.attrs.get("in_place"):
            return place, absorbed, product
        inputs = list(product.inputs)
        for one, unpacking in zip(beside, made, strict=True):
            inputs.extend([one.tensor] if unpacking is None else unpacking.leaves)
            absorbed |= unpacking.members if unpacking is not None else frozenset()
        product = msgspec.structs.replace(product, inputs=tuple(inputs), outputs=op.outputs)
        absorbed.add(reader)
        place = reader
