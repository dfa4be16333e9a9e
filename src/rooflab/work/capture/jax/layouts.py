"""Where a look at an array lies in it: slices, and other shapes of the same elements."""

from __future__ import annotations

from typing import Any, NamedTuple

from rooflab.dtypes import dtype
from rooflab.types.work import TensorSpec

_SAME = {"squeeze", "expand_dims", "reshape", "name", "optimization_barrier", "device_put", "pvary"}


class Layout(NamedTuple):
    """A place in a storage, as of `TensorSpec`."""

    start_bytes: int | None = None
    strides: tuple[int, ...] | None = None


UNKNOWN = Layout()


def of_look(eqn: Any, source: TensorSpec, shape: tuple[int, ...], position: int) -> Layout:
    """Where result `position` of `eqn`, of `shape`, lies in what `source` lies in; unknown for all but slices,
    parts of a split, arrays backwards or with their dimensions exchanged, and other shapes of the same elements.
    """
    size = dtype(source.dtype).nbytes
    if source.start_bytes is None or size != int(size):
        return UNKNOWN
    name, params = eqn.primitive.name, eqn.params
    steps = source.strides if source.strides is not None else _contiguous(source.shape)
    start = source.start_bytes
    if name == "slice":
        begins, by = params["start_indices"], params.get("strides") or (1,) * len(shape)
        start += int(size) * sum(first * step for first, step in zip(begins, steps, strict=True))
        return _layout(start, shape, tuple(step * int(one) for step, one in zip(steps, by, strict=True)))
    if name == "split":
        start += int(size) * sum(params["sizes"][:position]) * steps[params["axis"]]
        return _layout(start, shape, steps)
    if name == "rev":
        backwards = params["dimensions"]
        start += int(size) * sum((source.shape[dim] - 1) * steps[dim] for dim in backwards)
        turned = tuple(-step if dim in backwards else step for dim, step in enumerate(steps))
        return _layout(start, shape, turned)
    if name == "transpose":
        return _layout(start, shape, tuple(steps[dim] for dim in params["permutation"]))
    if name in _SAME:
        if source.strides is None:
            return Layout(start)
        if shape == source.shape:
            return Layout(start, source.strides)
        long = [step for step, length in zip(steps, source.shape, strict=True) if length != 1]
        if [length for length in shape if length != 1] == [length for length in source.shape if length != 1]:
            rest = iter(long)
            return _layout(start, shape, tuple(1 if length == 1 else next(rest) for length in shape))
    return UNKNOWN


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps, step = [], 1
    for length in reversed(shape):
        steps.append(step)
        step *= length
    return tuple(reversed(steps))


def _layout(start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    usual = all(
        length == 1 or step == other
        for length, step, other in zip(shape, strides, _contiguous(shape), strict=True)
    )
    return Layout(start, None if usual else strides)
