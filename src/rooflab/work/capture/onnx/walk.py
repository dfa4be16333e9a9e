"""Nodes in their order: constants folded, shapes worked out, functions opened, operations recorded."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from rooflab.errors import RooflabError
from rooflab.types.work import TensorSpec
from rooflab.work import vocabulary
from rooflab.work.capture.onnx import control
from rooflab.work.capture.onnx.fold import folded
from rooflab.work.capture.onnx.load import opsets
from rooflab.work.capture.onnx.node import MissingInputError, Node, NodeOp
from rooflab.work.capture.onnx.recipes import ops_of
from rooflab.work.capture.onnx.record import Env, Record, Scope, Visit
from rooflab.work.capture.onnx.shapes import ShapeError, output_types, title
from rooflab.work.capture.onnx.values import Value, attributes, of_constant, of_content, of_type

_STANDARD = ("", "ai.onnx")
_VIEWS = ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout", "BitCast")
# Computed anew in each run although the weights are known: random numbers, and weights that stay packed.
_NEVER_AT_LOAD = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli")
_PACKED = ("DequantizeLinear",)
# What a node gives rise to that lacks an attribute, or has one of another type: a damaged file, as a rule.
_DAMAGED = (AttributeError, IndexError, KeyError, StopIteration, TypeError, ValueError)


def walk(record: Record, nodes: Sequence[onnx.NodeProto], env: Env, scope: Scope) -> None:
    """Read `nodes`: their operations into `record`, their outputs into `env`.

    Raises:
        RooflabError: a value that no node made, a shape that cannot be worked out, a missing input.
    """
    for node in nodes:
        try:
            _read(record, node, env, scope)
        except _DAMAGED as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise RooflabError(
                f"{title(node)}: cannot be read ({reason}); check the file with onnx.checker.check_model"
            ) from error


def _read(record: Record, node: onnx.NodeProto, env: Env, scope: Scope) -> None:
    """Read one node."""
    function = record.functions.get((node.domain, node.op_type))
    if function is not None:
        _call(record, node, function, env, scope)
        return
    inputs = tuple(_lookup(node, name, env) if name else None for name in node.input)
    visit = Visit(record, node, inputs, attributes(node), env, scope, walk)
    if not _at_load(visit):
        _run(visit)


def module_path(node: onnx.NodeProto, scope: Scope) -> str:
    """The module that a node came from: what its exporter wrote, else the folders of its name."""
    for one in node.metadata_props:
        if one.key == "pkg.torch.onnx.name_scopes":
            names = _names(one.value)
            return _join(scope.module, names[-2] if len(names) > 1 else "")
    folders = [part for part in node.name.split("/")[:-1] if part]
    return _join(scope.module, ".".join(folders))


def _names(text: str) -> list[str]:
    """The names in a list that was written as text; none where it is damaged."""
    try:
        return list(ast.literal_eval(text))
    except (SyntaxError, TypeError, ValueError):
        return []


def _join(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _lookup(node: onnx.NodeProto, name: str, env: Mapping[str, Value]) -> Value:
    if name not in env:
        raise RooflabError(
            f"{title(node)}: no node and no input makes its input {name!r}; the graph is incomplete"
        )
    return env[name]


def _at_load(visit: Visit) -> bool:
    """Whether the node is worked out when the model is loaded; its outputs are in `visit.env` then."""
    record, node, inputs, attrs, env, scope, _ = visit
    standard = node.domain in _STANDARD
    if standard and node.op_type == "Constant":
        env[node.output[0]] = record.add(_constant(node, attrs))
        return True
    if standard:
        contents = folded(node.op_type, inputs, attrs, len(node.output))
        if contents is not None:
            for name, content in zip(node.output, contents, strict=False):
                env[name] = record.add(of_content(name, content))
            record.folded += 1
            return True
    present = [value for value in inputs if value is not None]
    if not present or not all(value.static for value in present) or node.op_type in _NEVER_AT_LOAD + _PACKED:
        return False
    if standard and node.op_type in control.READERS:
        return False
    for name, kind in output_types(node, inputs, attrs, scope.opsets, scope.declared, record.sizes).items():
        env[name] = record.add(of_type(name, kind, "parameter")._replace(static=True))
    record.folded += 1
    return True


def _constant(node: onnx.NodeProto, attrs: Mapping[str, Any]) -> Value:
    """The value of a Constant node, whichever of its attributes holds it."""
    name, tensor = node.output[0], attrs.get("value")
    if tensor is not None:
        return of_constant(name, tensor)
    key, value = next((key, value) for key, value in attrs.items() if key.startswith("value_"))
    if key.startswith("value_string"):
        shape = () if key == "value_string" else (len(value),)
        kind = onnx.helper.make_tensor_type_proto(onnx.TensorProto.STRING, shape)
        return of_type(name, kind, "constant")._replace(static=True)
    return of_content(name, np.array(value, np.float32 if key.startswith("value_float") else np.int64))


def _run(visit: Visit) -> None:
    """Record what the node asks for."""
    record, node, inputs, attrs, env, scope, _ = visit
    standard = node.domain in _STANDARD
    if standard and node.op_type in control.READERS:
        control.READERS[node.op_type](visit)
        return
    types = output_types(node, inputs, attrs, scope.opsets, scope.declared, record.sizes)
    shared = inputs[0].spec if inputs and inputs[0] is not None and node.op_type in _VIEWS and standard else None
    for name, kind in types.items():
        value = of_type(name, kind)
        storage = shared.storage if shared is not None and _same_bytes(shared, value.spec) else -1
        env[name] = record.add(value, storage)
    name = node.op_type if standard else f"{node.domain}.{node.op_type}"
    entry = vocabulary.load("onnx").get(name) or (
        vocabulary.load("onnx").get(node.op_type) if _misplaced(node, scope) else None
    )
    read = Node(
        op=node.op_type,
        name=node.name or next((one for one in node.output if one), node.op_type),
        inputs=tuple(inputs),
        outputs=tuple(env[one] if one else None for one in node.output),
        attrs=attrs,
        row=entry.attrs if entry else {},
        opset=scope.opsets.get("" if standard else node.domain, 1),
    )
    shown = name.removeprefix("com.microsoft.")
    module = module_path(node, scope)
    if entry is None:
        record.emit(read, NodeOp(None, read.present(), read.results()), shown, scope, module)
        return
    try:
        for op in ops_of(read, entry.kind, entry.recipe):
            record.emit(read, op, shown, scope, module)
    except MissingInputError as error:
        raise RooflabError(f"{error}; the node is incomplete") from None
    except _DAMAGED as error:
        shapes = ", ".join(str(list(value.shape)) for value in inputs if value is not None)
        reason = f"{type(error).__name__}: {error}"
        raise ShapeError(f"{title(node)}: inputs {shapes} and attributes do not fit ({reason})") from error


def _same_bytes(source: TensorSpec, view: TensorSpec | None) -> bool:
    return view is not None and view.nbytes == source.nbytes


def _misplaced(node: onnx.NodeProto, scope: Scope) -> bool:
    """Whether an operator stands in a domain other than its own, as older exporters wrote some."""
    return node.domain == "com.microsoft" and onnx.defs.has(node.op_type, scope.opsets.get("", 1), "")


def _call(record: Record, node: onnx.NodeProto, function: onnx.FunctionProto, env: Env, scope: Scope) -> None:
    """Read the body of one of the model's own functions with the node's inputs and attributes."""
    inner: Env = {}
    for position, name in enumerate(function.input):
        outer = node.input[position] if position < len(node.input) else ""
        if outer:
            inner[name] = _lookup(node, outer, env)
    values = {one.name: one for one in function.attribute_proto}
    values.update({one.name: one for one in node.attribute})
    body = [_bound(one, values, inner.keys(), set(function.input)) for one in function.node]
    declared = {one.name: one.type for one in function.value_info}
    module = _join(module_path(node, scope), "" if node.name else function.name)
    walk(record, body, inner, scope._replace(opsets=opsets(function), declared=declared, module=module))
    for name, inside in zip(node.output, function.output, strict=False):
        if name and inside in inner:
            env[name] = inner[inside]


def _bound(
    node: onnx.NodeProto, values: Mapping[str, onnx.AttributeProto], passed: Iterable[str], formal: set[str]
) -> onnx.NodeProto:
    """A node of a function's body: attributes filled in, inputs that the caller left out taken away."""
    left_out = formal - set(passed)
    refers = any(one.ref_attr_name or one.type == onnx.AttributeProto.GRAPH for one in node.attribute)
    if not refers and not left_out.intersection(node.input):
        return node
    bound = onnx.NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:]
    for one in node.attribute:
        if not one.ref_attr_name:
            copy = bound.attribute.add()
            copy.CopyFrom(one)
            if one.type == onnx.AttributeProto.GRAPH:
                inside = [_bound(each, values, passed, formal) for each in one.g.node]
                del copy.g.node[:]
                copy.g.node.extend(inside)
        elif one.ref_attr_name in values:
            copy = bound.attribute.add()
            copy.CopyFrom(values[one.ref_attr_name])
            copy.name = one.name
    for position, name in enumerate(bound.input):
        if name in left_out:
            bound.input[position] = ""
    return bound
