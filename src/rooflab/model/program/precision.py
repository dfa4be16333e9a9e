"""The same program in another number format: what changing the precision would ask for."""

from __future__ import annotations

from collections import Counter

import msgspec

from rooflab.dtypes import dtype as number_format
from rooflab.errors import RooflabError
from rooflab.types.work import Graph, Op, TensorSpec

_WHOLE = ("fp64", "fp32", "fp16", "bf16")  # formats that every operation can have
_PRODUCTS = ("fp8", "fp6", "fp4", "int8", "int4")  # formats of the operands of matrix products alone
_FLOATS = ("fp64", "fp32", "tf32", "fp16", "bf16")
_KINDS = ("matmul", "grouped_matmul", "conv", "attention")


def change_dtype(graph: Graph, dtype: str) -> Graph:
    """`graph` in `dtype`.

    fp64, fp32, fp16, bf16: every tensor of the program's main floating format changes to it. Narrower
    formats: the operands of matrix products do, parameters in memory with them; results and everything
    else stay as they are, and converting activations is taken to happen where they are made.

    Raises:
        RooflabError: a format that programs cannot be changed to, or a program without floating tensors.
    """
    name = number_format(dtype).name
    if name not in (*_WHOLE, *_PRODUCTS):
        raise RooflabError(f"dtype={dtype}: a program can be changed to {', '.join((*_WHOLE, *_PRODUCTS))}")
    main = _main_format(graph)
    if name in _WHOLE:
        tensors = tuple(_as(spec, name) if spec.dtype == main else spec for spec in graph.tensors)
        note = f"number format: {name} instead of {main}"
        return msgspec.structs.replace(graph, tensors=tensors, conventions=(*graph.conventions, note))
    return _narrow_products(graph, main, name)


def _main_format(graph: Graph) -> str:
    nbytes: Counter[str] = Counter()
    for spec in graph.tensors:
        if spec.dtype in _FLOATS:
            nbytes[spec.dtype] += int(spec.nbytes) or 1
    if not nbytes:
        raise RooflabError("dtype: the program has no floating-point tensor to change")
    return nbytes.most_common(1)[0][0]


def _narrow_products(graph: Graph, main: str, name: str) -> Graph:
    tensors = list(graph.tensors)
    narrow: dict[int, int] = {}
    # A parameter that only products read is stored in the narrow format, however it is looked at (a transpose);
    # others are read in it.
    readers, read = Counter[int](), Counter[int]()
    for op in graph.ops:
        readers.update(_memory(graph, index) for index in op.inputs if op.kind != "view")
        read.update(_memory(graph, index) for index in op.inputs if index in _operands(op, graph, main))
    for index, spec in enumerate(graph.tensors):
        place = _memory(graph, index)
        if spec.role == "parameter" and spec.dtype == main and read[place] and readers[place] == read[place]:
            tensors[index] = _as(spec, name)
            narrow[index] = index
    ops = []
    for op in graph.ops:
        inputs = list(op.inputs)
        for index in _operands(op, graph, main):
            if index not in narrow:
                spec = _as(graph.tensors[index], name)
                place = _memory(graph, index)
                if spec.role == "input" and spec.storage < 0 and readers[place] == read[place]:
                    tensors[index] = spec
                    narrow[index] = index
                else:
                    narrow[index] = len(tensors)
                    # Made where the operand is made, in its place in memory: it needs no room of its own.
                    tensors.append(msgspec.structs.replace(spec, role="activation", name=None))
            inputs = [narrow[index] if each == index else each for each in inputs]
        ops.append(op if tuple(inputs) == op.inputs else msgspec.structs.replace(op, inputs=tuple(inputs)))
    note = f"number format: operands of matrix products in {name}, the rest in {main}"
    return msgspec.structs.replace(
        graph, tensors=tuple(tensors), ops=tuple(ops), conventions=(*graph.conventions, note)
    )


def _memory(graph: Graph, index: int) -> int:
    """The storage of that tensor, or a number below zero of its own where none is known."""
    storage = graph.tensors[index].storage
    return storage if storage >= 0 else -1 - index


def _operands(op: Op, graph: Graph, main: str) -> list[int]:
    """The operands of a product that may be narrower: a and b, or q, k and v."""
    if op.kind not in _KINDS:
        return []
    count = 3 if op.kind == "attention" else 2
    return [index for index in dict.fromkeys(op.inputs[:count]) if graph.tensors[index].dtype == main]


def _as(spec: TensorSpec, name: str) -> TensorSpec:
    scale = number_format(name).nbytes / number_format(spec.dtype).nbytes
    return msgspec.structs.replace(spec, dtype=name, nbytes=spec.nbytes * scale)
