"""Small constants worked out while the graph is read: the shapes that exporters compute with nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from rooflab.work.capture.onnx.values import SMALL, Value

Arrays = Sequence[np.ndarray]
Fold = Callable[[Arrays, Mapping[str, Any], int], Sequence[np.ndarray]]


def folded(
    op: str, inputs: Sequence[Value | None], attrs: Mapping[str, Any], outputs: int
) -> Sequence[np.ndarray] | None:
    """The outputs of a node of the standard domain whose result is known now; None where it is not.

    Shape and Size need only the shape of their input; the others need every input's content.
    """
    if op in ("Shape", "Size") and inputs and inputs[0] is not None and inputs[0].spec is not None:
        return _shape_or_size(op, inputs[0], attrs)
    if op not in FOLDS or any(value is not None and value.content is None for value in inputs):
        return None
    content = [value.content for value in inputs if value is not None and value.content is not None]
    if len(content) != len(inputs):
        return None  # an optional input left out in the middle
    try:
        results = FOLDS[op](content, attrs, outputs)
    except (ValueError, IndexError, TypeError, ZeroDivisionError):
        return None  # shape inference states what is wrong with the node
    return results if all(one.size <= SMALL for one in results) else None


def _shape_or_size(op: str, value: Value, attrs: Mapping[str, Any]) -> Sequence[np.ndarray]:
    if op == "Size":
        return [np.array(int(np.prod(value.shape)), np.int64)]
    return [np.array(value.shape[attrs.get("start", 0) : attrs.get("end")], np.int64)]


def _slice(arrays: Arrays, attrs: Mapping[str, Any], outputs: int) -> Arrays:
    data = arrays[0]
    if "starts" in attrs:  # before opset 10
        starts, ends = list(attrs["starts"]), list(attrs["ends"])
        axes, steps = list(attrs.get("axes", range(len(starts)))), [1] * len(starts)
    else:
        starts, ends = arrays[1].tolist(), arrays[2].tolist()
        axes = arrays[3].tolist() if len(arrays) > 3 else list(range(len(starts)))
        steps = arrays[4].tolist() if len(arrays) > 4 else [1] * len(starts)
    where: list[slice] = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        stop = None if step < 0 and end < -data.shape[axis] else end
        where[axis] = slice(start, stop, step)
    return [data[tuple(where)]]


def _axes(arrays: Arrays, attrs: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Axes as an attribute, or from opset 13 as an input."""
    if "axes" in attrs:
        return tuple(attrs["axes"])
    return tuple(arrays[1].tolist()) if len(arrays) > 1 else None


def _unsqueeze(arrays: Arrays, attrs: Mapping[str, Any], outputs: int) -> Arrays:
    axes = _axes(arrays, attrs) or ()
    return [np.expand_dims(arrays[0], axes)]


def _squeeze(arrays: Arrays, attrs: Mapping[str, Any], outputs: int) -> Arrays:
    return [np.squeeze(arrays[0], _axes(arrays, attrs))]


def _reshape(arrays: Arrays, attrs: Mapping[str, Any], outputs: int) -> Arrays:
    data, shape = arrays[0], arrays[1].tolist()
    if not attrs.get("allowzero"):
        shape = [data.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
    return [data.reshape(shape)]


def _cast(arrays: Arrays, attrs: Mapping[str, Any], outputs: int) -> Arrays:
    return [arrays[0].astype(onnx.helper.tensor_dtype_to_np_dtype(attrs["to"]))]


def _constant_of_shape(arrays: Arrays, attrs: Mapping[str, Any], outputs: int) -> Arrays:
    shape = arrays[0].tolist()
    if np.prod(shape) > SMALL:
        raise ValueError("large")
    tensor = attrs.get("value")
    value = np.zeros(1, np.float32) if tensor is None else onnx.numpy_helper.to_array(tensor)
    return [np.full(shape, value.reshape(-1)[0], value.dtype)]


def _divide(arrays: Arrays, attrs: Mapping[str, Any], outputs: int) -> Arrays:
    left, right = arrays
    if left.dtype.kind not in "iu":
        return [left / right]
    return [np.trunc(left / right).astype(left.dtype)]  # ONNX divides whole numbers toward zero


def _reduce(function: Callable[..., Any]) -> Fold:
    def fold(arrays: Arrays, attrs: Mapping[str, Any], outputs: int) -> Arrays:
        axes = _axes(arrays, attrs)
        if not axes and attrs.get("noop_with_empty_axes"):
            return [arrays[0]]
        return [np.asarray(function(arrays[0], axis=axes or None, keepdims=bool(attrs.get("keepdims", 1))))]

    return fold


def _split(arrays: Arrays, attrs: Mapping[str, Any], outputs: int) -> Arrays:
    sizes = attrs.get("split") or (arrays[1].tolist() if len(arrays) > 1 else None)
    axis = attrs.get("axis", 0)
    return np.split(arrays[0], np.cumsum(sizes)[:-1] if sizes else outputs, axis)


def _range(arrays: Arrays, attrs: Mapping[str, Any], outputs: int) -> Arrays:
    start, limit, delta = (one.item() for one in arrays)
    if abs((limit - start) / delta) > SMALL:
        raise ValueError("large")
    return [np.arange(start, limit, delta).astype(arrays[0].dtype)]


def _small(fold: Callable[..., Any]) -> Fold:
    """A fold that refuses to make a large array by broadcasting."""

    def careful(arrays: Arrays, attrs: Mapping[str, Any], outputs: int) -> Arrays:
        if np.prod(np.broadcast_shapes(*(one.shape for one in arrays))) > SMALL:
            raise ValueError("large")
        return [np.asarray(fold(*arrays))]

    return careful


def _expand(arrays: Arrays, attrs: Mapping[str, Any], outputs: int) -> Arrays:
    shape = np.broadcast_shapes(arrays[0].shape, tuple(arrays[1].tolist()))
    if np.prod(shape) > SMALL:
        raise ValueError("large")
    return [np.broadcast_to(arrays[0], shape)]


FOLDS: dict[str, Fold] = {
    "Gather": lambda a, attrs, _: [np.asarray(np.take(a[0], a[1], axis=attrs.get("axis", 0)))],
    "Concat": lambda a, attrs, _: [np.concatenate(list(a), attrs["axis"])],
    "Slice": _slice,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Cast": _cast,
    "Identity": lambda a, *_: [a[0]],
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Range": _range,
    "Split": _split,
    "Transpose": lambda a, attrs, _: [np.transpose(a[0], attrs.get("perm"))],
    "Add": _small(np.add),
    "Sub": _small(np.subtract),
    "Mul": _small(np.multiply),
    "Div": _divide,
    "Mod": lambda a, attrs, _: [(np.fmod if attrs.get("fmod") else np.mod)(a[0], a[1])],
    "Neg": _small(np.negative),
    "Abs": _small(np.abs),
    "Sqrt": _small(np.sqrt),
    "Floor": _small(np.floor),
    "Ceil": _small(np.ceil),
    "Min": _small(lambda *a: functools.reduce(np.minimum, a)),
    "Max": _small(lambda *a: functools.reduce(np.maximum, a)),
    "Equal": _small(np.equal),
    "Greater": _small(np.greater),
    "GreaterOrEqual": _small(np.greater_equal),
    "Less": _small(np.less),
    "LessOrEqual": _small(np.less_equal),
    "Not": _small(np.logical_not),
    "And": _small(np.logical_and),
    "Or": _small(np.logical_or),
    "Where": _small(np.where),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
}
