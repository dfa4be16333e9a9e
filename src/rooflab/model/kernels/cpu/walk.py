"""How NumPy's iterator walks the operands of a call: in one run, or row by row through a buffer.

A ufunc whose operands together are one run of memory is one inner loop. Where they are not (a broadcast, a part
of an array), the iterator runs with buffers (numpy/_core/src/umath/ufunc_object.c, NPY_ITER_BUFFERED): operands
that are no single run are copied into one, row by row, and the inner loops go over the buffers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from rooflab.dtypes import dtype as number_format
from rooflab.types.work import Op, TensorSpec

LINE_BYTES = 64
BUFFER_ELEMENTS = 8192  # np.getbufsize()


class Walk(NamedTuple):
    """What a call copies row by row: rows started, and bytes in them, of all its operands.

    Elements that lie apart count too: no vector instruction loads them, and each takes about as long as its copy.
    """

    rows: float
    nbytes: float


class Stride(NamedTuple):
    """The innermost run of an operand that is copied: its length, and bytes from one element to the next."""

    length: int
    step_bytes: int


def strides_of(spec: TensorSpec, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of `spec` in elements, one for each dimension of `shape`, to which it is broadcast."""
    own = spec.strides if spec.strides is not None else contiguous(spec.shape)
    ahead = len(shape) - len(spec.shape)
    return (0,) * max(ahead, 0) + tuple(
        0 if size == 1 else stride for size, stride in zip(spec.shape, own, strict=True)
    )


def walk(operands: tuple[TensorSpec, ...], shape: tuple[int, ...]) -> Walk:
    """The rows that a ufunc's operands are copied in, over results of `shape`; none where all are one run."""
    strides = _strides(operands, shape)
    axes = axis_order(shape, strides)
    sizes = [shape[axis] for axis in axes]
    together = loops(operands, shape)
    in_rows = len(together) > 1 and together[-1] < BUFFER_ELEMENTS  # a longer row is walked where it lies
    rows = nbytes = 0.0
    for spec, each in zip(fitting(operands, shape), strides, strict=True):
        own = _runs(sizes, [[each[axis] for axis in axes]])
        copied = in_rows and len(own) > 1
        rows += math.prod(own[:-1]) if copied else 0.0
        if copied or (axes and abs(each[axes[-1]]) > 1):
            nbytes += math.prod(shape) * number_format(spec.dtype).bits / 8
    return Walk(rows, nbytes)


def loops(operands: tuple[TensorSpec, ...], shape: tuple[int, ...]) -> list[int]:
    """Sizes of the loops that all operands share over results of `shape`, the innermost last."""
    strides = _strides(operands, shape)
    axes = axis_order(shape, strides)
    return _runs([shape[axis] for axis in axes], [[each[axis] for axis in axes] for each in strides])


def along_rows(op: Op, x: TensorSpec, out: TensorSpec) -> bool:
    """Whether a reduction sums neighbours in memory: the dimension of the smallest step is gone."""
    if op.attrs.get("dims") is not None and x.shape:
        nearest = axis_order(x.shape, [x.strides])[-1:] if x.strides is not None else []
        return (nearest[0] if nearest else len(x.shape) - 1) in op.attrs["dims"]
    kept = [size for size in out.shape if size != 1]
    return not kept or not x.shape or kept[-1] != x.shape[-1]


def innermost(spec: TensorSpec) -> Stride:
    """The run along which a copy into the usual order reads `spec`; of a whole array it is the array."""
    own = spec.strides if spec.strides is not None else contiguous(spec.shape)
    axes = [axis for axis, size in enumerate(spec.shape) if size > 1]
    if not axes:
        return Stride(1, 0)
    length, step = spec.shape[axes[-1]], own[axes[-1]]
    for axis in reversed(axes[:-1]):
        if own[axis] != step * length:
            break
        length *= spec.shape[axis]
    return Stride(length, round(abs(step) * spec.nbytes / max(spec.elements, 1)))


def _strides(operands: tuple[TensorSpec, ...], shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [strides_of(spec, shape) for spec in fitting(operands, shape)]


def fitting(operands: tuple[TensorSpec, ...], shape: tuple[int, ...]) -> list[TensorSpec]:
    """Operands that are walked: of more than one element, and of no more dimensions than the results."""
    return [spec for spec in operands if spec.elements > 1 and len(spec.shape) <= len(shape)]


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a whole array in the usual order, C's."""
    found, step = [], 1
    for size in reversed(shape):
        found.append(step)
        step *= size
    return tuple(reversed(found))


def axis_order(shape: tuple[int, ...], strides: Sequence[tuple[int, ...]]) -> list[int]:
    """Axes that have more than one element, outermost first, as NumPy's iterator sorts them.

    An insertion sort from the innermost axis on: an axis goes inside another where all operands that step along
    both take smaller steps along it; where they disagree, or take equal ones, the usual order stays.
    """
    axes: list[int] = []  # innermost first
    for axis in (at for at in reversed(range(len(shape))) if shape[at] > 1):
        place = len(axes)
        for below in reversed(range(len(axes))):
            both = [
                (abs(each[axis]), abs(each[axes[below]])) for each in strides if each[axis] and each[axes[below]]
            ]
            if not both:
                continue
            if any(mine >= other for mine, other in both):
                break
            place = below
        axes.insert(place, axis)
    return axes[::-1]


def _runs(sizes: list[int], strides: list[list[int]]) -> list[int]:
    """Sizes after neighbouring axes became one wherever every operand steps evenly over both, outermost first."""
    merged: list[int] = []
    last: list[int] = []
    for axis in reversed(range(len(sizes))):
        steps = [each[axis] for each in strides]
        if merged and all(step == below * merged[-1] for step, below in zip(steps, last, strict=True)):
            merged[-1] *= sizes[axis]
        else:
            merged.append(sizes[axis])
            last = steps
    return merged[::-1]
