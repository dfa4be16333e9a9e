"""From a file to its graph: sizes of the inputs, weights by shape, then node by node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx

from rooflab.errors import FileError, RooflabError
from rooflab.types.work import Graph
from rooflab.work.capture.onnx.dims import asked_names, input_sizes, symbols
from rooflab.work.capture.onnx.load import TESTED_OPSET, load, opsets
from rooflab.work.capture.onnx.record import Record, Scope
from rooflab.work.capture.onnx.values import Value, of_constant, of_type
from rooflab.work.capture.onnx.walk import walk


def graph_of(path: Path, stated_sizes: Mapping[str, int]) -> Graph:
    """The graph of the model in the file at `path`; see `capture`."""
    model = load(path)
    graph = model.graph
    weights = {one.name for one in graph.initializer} | {one.values.name for one in graph.sparse_initializer}
    inputs = [one for one in graph.input if one.name not in weights]
    stated = (*graph.value_info, *graph.output)
    others = {name for one in stated for name in symbols(one)}
    sizes, shapes = input_sizes(path, inputs, stated_sizes, others, asked_names(model))
    record = Record(sizes, {(one.domain, one.name): one for one in model.functions})
    env: dict[str, Value] = {}
    try:
        _add_weights(record, graph, env)
        for one in inputs:
            env[one.name] = record.add(of_type(one.name, _with_sizes(one.type, shapes.get(one.name)), "input"))
        walk(record, graph.node, env, Scope(opsets(model), {one.name: one.type for one in stated}))
    except RecursionError:
        raise FileError(f"{path}: functions or subgraphs without end; export the model again") from None
    except RooflabError as error:
        raise FileError(f"{path}: {error}") from None
    return record.graph(_conventions(model, record, sizes, stated_sizes))


def _add_weights(record: Record, graph: onnx.GraphProto, env: dict[str, Value]) -> None:
    for tensor in graph.initializer:
        env[tensor.name] = record.add(of_constant(tensor.name, tensor))
    for sparse in graph.sparse_initializer:
        kind = onnx.helper.make_tensor_type_proto(sparse.values.data_type, tuple(sparse.dims))
        env[sparse.values.name] = record.add(of_type(sparse.values.name, kind, "parameter")._replace(static=True))


def _with_sizes(kind: onnx.TypeProto, shape: tuple[int, ...] | None) -> onnx.TypeProto:
    if shape is None:
        return kind
    return onnx.helper.make_tensor_type_proto(kind.tensor_type.elem_type, list(shape))


def _conventions(
    model: onnx.ModelProto, record: Record, sizes: Mapping[str, int], stated_sizes: Mapping[str, int]
) -> tuple[str, ...]:
    versions = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(opsets(model).items()))
    lines = [f"opsets: {versions}; weights not loaded"]
    if opsets(model).get("", 0) > TESTED_OPSET:
        lines.append(
            f"opset {opsets(model)['']} is newer than {TESTED_OPSET}, the newest that rooflab is tested with"
        )
    assumed = sorted(sizes.keys() - stated_sizes.keys())
    lines += [f"dimension {name}: 1, a batch that was not given (--dim {name}=8)" for name in assumed]
    if record.folded:
        lines.append(f"{record.folded} nodes of constants and shapes are worked out at load time, so not counted")
    lines.append("Slice, Split and Concat are copies, as ONNX Runtime runs them; Reshape and its kin are views")
    return tuple(lines)
