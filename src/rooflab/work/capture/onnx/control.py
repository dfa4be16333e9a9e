"""If, Loop and Scan: the costlier branch, bodies times their trips."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from rooflab.errors import RooflabError
from rooflab.work.capture.onnx.record import Record, Scope, Visit
from rooflab.work.capture.onnx.shapes import ShapeError, title
from rooflab.work.capture.onnx.values import Value, of_constant, of_content, of_type

_MOST_UNROLLED = 10_000  # trips of a loop whose shapes change from one to the next


def branch_of_if(visit: Visit) -> None:
    """Read the branch that is taken where the condition is known, else both, of which the costlier counts."""
    record, node, inputs = visit.record, visit.node, visit.inputs
    condition = inputs[0].content if inputs and inputs[0] is not None else None
    graphs = (visit.attrs["then_branch"], visit.attrs["else_branch"])
    if condition is not None:
        chosen = graphs[0] if bool(condition.reshape(-1)[0]) else graphs[1]
        _bind(visit, _body(visit, chosen, [], visit.scope))
        return
    branches, spans = [], []
    for number, graph in enumerate(graphs, 1):
        first_op = len(record.ops)
        inner = visit.scope._replace(branch=f"{title(node)} {number} of 2")
        branches.append(_body(visit, graph, [], inner))
        spans.append(range(first_op, len(record.ops)))
    record.choices.append(spans)
    record.unknown[
        f"{title(node)}: the condition depends on data; the costlier branch counts, the other has a count of 0"
    ] = None
    for name, first, second in zip(node.output, *branches, strict=True):
        larger = first if _elements(first) >= _elements(second) else second
        if first.shape != second.shape:
            record.unknown[
                f"{title(node)}: its branches give {name!r} different shapes; the larger is assumed"
            ] = None
        visit.env[name] = larger._replace(content=None, static=False)


def loop(visit: Visit) -> None:
    """Read a Loop: the body once, times its trips; trip by trip where shapes change from one to the next."""
    record, node, scope, graph = visit.record, visit.node, visit.scope, visit.attrs["body"]
    trips = _trips(visit, graph)
    carried = [value for value in visit.inputs[2:] if value is not None]
    mark = record.mark()
    try:
        results = _once(visit, graph, carried, scope._replace(trips=scope.trips * (trips or 1)))
        changes = any(a.shape != b.shape for a, b in zip(carried, results, strict=False))
    except ShapeError:
        if not trips:
            raise
        results, changes = [], True
    if changes and trips and trips <= _MOST_UNROLLED:
        record.back_to(mark)
        results = _unrolled(visit, graph, carried, trips)
    elif changes:
        record.unknown[f"{title(node)}: shapes change from trip to trip; those of the first are counted"] = None
    if trips is None:
        record.unknown[
            f"{title(node)}: trip count depends on data; counted once (give it: --dim {_label(node)}=10)"
        ] = None
    if trips == 0:
        record.back_to(mark)
    stacked = [_stacked(record, value, 1 if trips is None else trips) for value in results[len(carried) :]]
    if trips == 0:
        results = carried
    _bind(visit, [*results[: len(carried)], *stacked])


def scan(visit: Visit) -> None:
    """Read a Scan: its trips are the size of the scanned axis."""
    record, attrs, scope = visit.record, visit.attrs, visit.scope
    graph, scanned = attrs["body"], attrs["num_scan_inputs"]
    if scope.opsets.get("", 9) < 9:
        raise RooflabError(
            f"{title(visit.node)}: Scan of opset 8 has a batch of its own; convert the model to opset 9 or later"
        )
    values = [value for value in visit.inputs if value is not None]
    states, sequences = values[: len(values) - scanned], values[len(values) - scanned :]
    axes = attrs.get("scan_input_axes") or (0,) * scanned
    trips = sequences[0].shape[axes[0]]
    slices = [
        _typed(record, value, tuple(np.delete(value.shape, axis).tolist()))
        for value, axis in zip(sequences, axes, strict=True)
    ]
    inside = [_varying(value) for value in states]
    results = _body(visit, graph, [*inside, *slices], scope._replace(trips=scope.trips * trips))
    outputs = attrs.get("scan_output_axes") or (0,) * (len(results) - len(states))
    stacked = [
        _stacked(record, value, trips, axis) for value, axis in zip(results[len(states) :], outputs, strict=True)
    ]
    _bind(visit, [*(_varying(value) for value in results[: len(states)]), *stacked])


def _trips(visit: Visit, graph: onnx.GraphProto) -> int | None:
    """Trips of a Loop: as given, else its constant limit where nothing ends it before; None where unknown."""
    stated = visit.record.sizes.get(_label(visit.node))
    if stated is not None:
        return stated
    inputs = visit.inputs
    limit, condition = inputs[0], inputs[1] if len(inputs) > 1 else None
    if condition is not None and condition.content is not None and not bool(condition.content.reshape(-1)[0]):
        return 0
    if limit is None or limit.content is None or not _goes_on(graph):
        return None
    return max(0, int(limit.content.reshape(-1)[0]))


def _goes_on(graph: onnx.GraphProto) -> bool:
    """Whether a body's condition stays true: it hands on the one it was given, or a constant."""
    name, made_by = graph.output[0].name, {out: node for node in graph.node for out in node.output}
    while name in made_by:
        node = made_by.pop(name)  # a damaged body may go round in a circle
        if node.op_type == "Constant":
            content = of_constant(name, node.attribute[0].t).content if node.attribute[0].HasField("t") else None
            return content is not None and bool(content.reshape(-1)[0])
        if node.op_type not in ("Identity", "Cast") or not node.input:
            return False
        name = node.input[0]
    return name == graph.input[1].name or any(
        one.name == name and bool(onnx.numpy_helper.to_array(one).reshape(-1)[0]) for one in graph.initializer
    )


def _once(visit: Visit, graph: onnx.GraphProto, carried: list[Value], scope: Scope) -> list[Value]:
    number = _typed(visit.record, None, ())
    condition = _typed(visit.record, None, (), onnx.TensorProto.BOOL)
    inside = [_varying(value) for value in carried]
    return [_varying(value) for value in _body(visit, graph, [number, condition, *inside], scope)[1:]]


def _unrolled(visit: Visit, graph: onnx.GraphProto, carried: list[Value], trips: int) -> list[Value]:
    values: list[Value] = list(carried)
    results: list[Value] = []
    for number in range(trips):
        first = visit.record.add(of_content("iteration", np.array(number, np.int64)))
        going = visit.record.add(of_content("condition", np.array(True)))
        results = _body(visit, graph, [first, going, *values], visit.scope)[1:]
        values = results[: len(carried)]
    return results


def _body(visit: Visit, graph: onnx.GraphProto, arguments: Sequence[Value], scope: Scope) -> list[Value]:
    """The outputs of a subgraph of the node; it sees the values around it."""
    record, inner = visit.record, dict(visit.env)
    for tensor in graph.initializer:
        inner[tensor.name] = record.add(of_constant(tensor.name, tensor))
    for one, value in zip(graph.input, arguments, strict=False):
        inner[one.name] = value
    declared = {one.name: one.type for one in (*graph.value_info, *graph.output)}
    visit.walk(record, graph.node, inner, scope._replace(declared={**scope.declared, **declared}))
    return [inner[one.name] for one in graph.output]


def _varying(value: Value) -> Value:
    """The same value, no longer known before the run: it changes from trip to trip."""
    if value.content is None and not value.static:
        return value
    return value._replace(content=None, static=False)


def _typed(
    record: Record, like: Value | None, shape: tuple[int, ...], code: int = onnx.TensorProto.INT64
) -> Value:
    """A new value of `shape`, of the number format of `like`."""
    if like is not None:
        code = like.type.tensor_type.elem_type
    return record.add(of_type("", onnx.helper.make_tensor_type_proto(code, list(shape))))


def _stacked(record: Record, value: Value, trips: int, axis: int = 0) -> Value:
    """What a body gives in each trip, put together."""
    if value.spec is None:
        return value
    shape = list(value.shape)
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, trips)
    return _typed(record, value, tuple(shape))


def _bind(visit: Visit, values: Sequence[Value]) -> None:
    visit.env.update({name: value for name, value in zip(visit.node.output, values, strict=False) if name})


def _label(node: onnx.NodeProto) -> str:
    return f"{node.name or next((one for one in node.output if one), 'Loop')}:trips"


def _elements(value: Value) -> int:
    return value.spec.elements if value.spec else 0


READERS = {"If": branch_of_if, "Loop": loop, "Scan": scan}
