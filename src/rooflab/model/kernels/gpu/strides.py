"""What strides cost: sectors that are loaded for a few of their bytes, and memory bursts read in vain."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import msgspec

from rooflab.types.work import TensorSpec
from rooflab.work.formulas.cost_terms import item_bytes

SECTOR_BYTES = 32  # what NVIDIA's L2 hands out and AMD's and others' caches at least do
BURST_BYTES = 64  # what a burst of HBM or GDDR delivers: with it come the neighbours


class Strides(NamedTuple):
    """How a kernel walks over one operand in the order of its result.

    Attributes:
        plain: whether it is read as it lies, each address once.
        sector_bytes: that the last cache hands out where a warp's addresses lie apart; else 0.
        waste_bytes: that memory delivers beyond the operand's own.
        dimensions: that remain when those that lie one after the other are taken as one: each costs a
            division per element.
    """

    plain: bool
    sector_bytes: float = 0.0
    waste_bytes: float = 0.0
    dimensions: int = 1


_PLAIN = Strides(True)


def walk(spec: TensorSpec, out: TensorSpec) -> Strides:
    """How `spec`, broadcast to the shape of `out`, is walked over in the order in which `out` lies."""
    strides = spec.strides
    if strides is None and out.strides is None and spec.shape == out.shape:
        return _PLAIN
    if strides == out.strides and spec.shape == out.shape:
        return _PLAIN
    if not spec.shape or spec.elements == 1:
        return _PLAIN  # a scalar travels with the kernel's arguments
    mine, theirs = aligned(spec, out), contiguous(out.shape) if out.strides is None else out.strides
    order = sorted(
        (number for number, size in enumerate(out.shape) if size > 1), key=lambda number: theirs[number]
    )
    if not order or all(mine[number] == theirs[number] for number in order):
        return _PLAIN
    first, item, many = mine[order[0]], item_bytes(spec), float(out.elements)
    dimensions = _merged(out.shape, mine, theirs, order)
    if first <= 1:
        return Strides(False, dimensions=dimensions)
    sparse = all(mine[number] != 1 for number in order)  # what lies between is never asked for
    if first * item <= SECTOR_BYTES // 2:  # a warp's addresses share sectors
        return Strides(False, 0.0, many * item * (first - 1) if sparse else 0.0, dimensions)
    waste = many * (min(BURST_BYTES, first * item) - item) if sparse else 0.0
    return Strides(False, many * min(SECTOR_BYTES, first * item), waste, dimensions)


def _merged(shape: tuple[int, ...], mine: tuple[int, ...], theirs: tuple[int, ...], order: list[int]) -> int:
    """How many dimensions remain when neighbours that lie one after the other in both operands are merged."""
    count = 1
    for inner, outer in itertools.pairwise(order):
        size = shape[inner]
        if mine[outer] != size * mine[inner] or theirs[outer] != size * theirs[inner]:
            count += 1
    return count


def repacked(spec: TensorSpec) -> TensorSpec:
    """The same elements, one after the other."""
    return spec if spec.strides is None else msgspec.structs.replace(spec, strides=None)


def laid_like(spec: TensorSpec, out: TensorSpec) -> TensorSpec:
    """The elements of `spec` one after the other, its dimensions in the order in which those of `out` lie."""
    if out.strides is None or len(out.shape) != len(spec.shape):
        return repacked(spec)
    steps, step, theirs = [0] * len(spec.shape), 1, out.strides
    for number in sorted(range(len(theirs)), key=lambda number: (theirs[number], -number)):
        steps[number] = step
        step *= spec.shape[number]
    return msgspec.structs.replace(spec, strides=tuple(steps))


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a tensor of `shape` laid out row by row."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def aligned(spec: TensorSpec, out: TensorSpec) -> tuple[int, ...]:
    """Strides of `spec` in the dimensions of `out`: 0 where it is broadcast."""
    own = contiguous(spec.shape) if spec.strides is None else spec.strides
    missing = len(out.shape) - len(spec.shape)
    if missing < 0:  # more dimensions than the result: their order is all that is known
        return tuple(own[-len(out.shape) :]) if out.shape else ()
    kept = tuple(
        0 if size == 1 and whole != 1 else step
        for size, step, whole in zip(spec.shape, own, out.shape[missing:], strict=True)
    )
    return (0,) * missing + kept
