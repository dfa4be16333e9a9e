"""The cost of every operation of a graph, each distinct one computed once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rooflab.errors import RooflabError
from rooflab.types.work import Cost, Graph, Op, TensorSpec
from rooflab.work.formulas import cost


def costs(graph: Graph) -> tuple[Cost | None, ...]:
    """The cost of one execution of each of `graph.ops` (not times `Op.count`), in their order.

    None where no formula knows the operation: see `uncosted`. Operations that agree in kind, shapes,
    number formats, bytes and attributes share one `Cost`.
    """
    return tuple(result if isinstance(result, Cost) else None for result in _results(graph))


def uncosted(graph: Graph) -> dict[str, str]:
    """Why operations of `graph` have no cost: by the name their framework gives them, the first reason."""
    reasons: dict[str, str] = {}
    for op, result in zip(graph.ops, _results(graph), strict=True):
        if isinstance(result, str):
            reasons.setdefault(op.name, result)
    return reasons


def _results(graph: Graph) -> list[Cost | str]:
    """The cost of each operation, or the reason why it has none."""
    numbers: dict[tuple, int] = {}
    tensors = [
        numbers.setdefault((spec.shape, spec.dtype, spec.nbytes, spec.storage < 0), len(numbers))
        for spec in graph.tensors
    ]
    computed: dict[tuple, Cost | str] = {}
    attrs_keys: dict[int, tuple | None] = {}  # captures share attrs between equal operations
    results: list[Cost | str] = []
    for op in graph.ops:
        shared = id(op.attrs)
        if shared not in attrs_keys:
            attrs_keys[shared] = _attrs_key(op.attrs)
        attrs_key = attrs_keys[shared]
        if attrs_key is None:
            results.append(_result(op, graph.tensors))
            continue
        inputs = op.inputs
        key = (
            op.kind,
            attrs_key,
            tuple([tensors[index] for index in inputs]),
            tuple([tensors[index] for index in op.outputs]),
            # which inputs are the same tensor, read once
            tuple([inputs.index(index) for index in inputs]) if len(set(inputs)) < len(inputs) else None,
            _places(inputs, graph.tensors) if len(inputs) > 1 else None,
            _places(op.outputs, graph.tensors) if len(op.outputs) > 1 else None,
        )
        result = computed.get(key)
        if result is None:
            result = computed[key] = _result(op, graph.tensors)
        results.append(result)
    return results


def _places(indices: tuple[int, ...], tensors: tuple[TensorSpec, ...]) -> tuple | None:
    """Which tensors lie in one storage, and where: what they share counts once. None where all are apart."""
    specs = [tensors[index] for index in dict.fromkeys(indices)]
    storages = [spec.storage for spec in specs if spec.start_bytes is not None and spec.storage >= 0]
    if len(set(storages)) == len(storages):
        return None
    return tuple(
        (storages.index(spec.storage), spec.start_bytes, spec.strides)
        for spec in specs
        if spec.start_bytes is not None and spec.storage >= 0
    )


def _result(op: Op, tensors: tuple[TensorSpec, ...]) -> Cost | str:
    if op.kind is None:
        return "not in the vocabulary"
    if op.kind == "opaque":
        return "opaque: what it computes is not visible"
    try:
        return cost(op.kind, _specs(op.inputs, tensors), _specs(op.outputs, tensors), op.attrs)
    except RooflabError as err:
        return str(err)
    except KeyError as err:
        return f"{op.kind}: attribute {err} is missing"
    except IndexError:
        return f"{op.kind}: {len(op.inputs)} inputs and {len(op.outputs)} outputs are too few"


def _specs(indices: tuple[int, ...], tensors: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    """The tensors at `indices`: the same object only where the index is the same."""
    specs: dict[int, TensorSpec] = {}
    taken: set[int] = set()
    for index in indices:
        if index in specs:
            continue
        spec = tensors[index]
        if id(spec) in taken:  # a capture may reuse one description for two tensors
            spec = msgspec.structs.replace(spec)
        taken.add(id(spec))
        specs[index] = spec
    return tuple(specs[index] for index in indices)


def _attrs_key(attrs: Mapping[str, Any]) -> tuple | None:
    """The attributes as a key; None where a value cannot be one."""
    key = tuple(sorted(attrs.items()))
    try:
        hash(key)
    except TypeError:
        return None
    return key
