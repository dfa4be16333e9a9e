"""Bytes that several looks at one storage touch together: what two of them share crosses memory once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rooflab.dtypes import dtype
from rooflab.types.work import TensorSpec


class _Look(NamedTuple):
    """What a tensor touches of its storage, in bytes: a start, and dimensions of (step, size), far steps first."""

    start: int
    dims: tuple[tuple[int, int], ...]

    @property
    def nbytes(self) -> int:
        """Bytes, those that the look meets twice counted twice."""
        count = 1
        for _, size in self.dims:
            count *= size
        return count

    @property
    def end(self) -> int:
        """The byte behind the last one."""
        return self.start + sum(step * (size - 1) for step, size in self.dims) + 1


def touched_together(specs: Iterable[TensorSpec]) -> float:
    """Bytes that a reader of all `specs` touches: each byte of a storage once.

    x and its transpose are the same bytes; x[1:] and x[:-1] share all but two elements; the q and k of a fused
    projection share none. Exact for looks that are the same, apart, or shifted along one dense run, in rows and
    blocks that they have in common; never more than their sum, nor than the range from the first byte to the
    last. A tensor without a known place is taken to be apart from all others.
    """
    total = 0.0
    groups: dict[int, list[TensorSpec]] = {}
    seen: set[int] = set()
    for spec in specs:
        if spec.storage >= 0:
            if id(spec) in seen:
                continue
            seen.add(id(spec))
            if spec.start_bytes is not None:
                groups.setdefault(spec.storage, []).append(spec)
                continue
        total += spec.nbytes
    for group in groups.values():
        total += group[0].nbytes if len(group) == 1 else _together(group)
    return total


def _together(specs: Sequence[TensorSpec]) -> float:
    looks = [_look(spec) for spec in specs]
    if any(look is None for look in looks):
        return sum(spec.nbytes for spec in specs)
    sizes: dict[_Look, float] = {}
    for look, spec in zip(looks, specs, strict=True):
        if look is not None and spec.nbytes:
            sizes[look] = min(sizes.get(look, spec.nbytes), spec.nbytes)
    return min(_union(list(sizes)), sum(sizes.values()))


def _look(spec: TensorSpec) -> _Look | None:
    """Its dimensions by step, those of step 0 and of one element left out, dense ones joined; None where odd."""
    size = _item_bytes(spec)
    if spec.start_bytes is None or size is None:
        return None
    if 0 in spec.shape:
        return _Look(spec.start_bytes, ((1, 0),))
    start, dims = spec.start_bytes, [(1, size)]
    for stride, length in zip(_strides(spec), spec.shape, strict=True):
        if stride and length > 1:
            start += min(stride, 0) * (length - 1) * size
            dims.append((abs(stride) * size, length))
    joined: list[tuple[int, int]] = []
    for stride, length in sorted(dims):
        if joined and joined[-1][0] * joined[-1][1] == stride:
            joined[-1] = (joined[-1][0], joined[-1][1] * length)
        else:
            joined.append((stride, length))
    return _Look(start, tuple(reversed(joined)))


def _strides(spec: TensorSpec) -> tuple[int, ...]:
    if spec.strides is not None:
        return spec.strides
    steps = [1]
    for length in reversed(spec.shape[1:]):
        steps.append(steps[-1] * length)
    return tuple(reversed(steps[: len(spec.shape)]))


def _item_bytes(spec: TensorSpec) -> int | None:
    """Bytes of an element as it lies in memory (a long double has 16); None where it is a part of one."""
    elements = math.prod(length for length, stride in zip(spec.shape, _strides(spec), strict=True) if stride)
    size = spec.nbytes / elements if elements else 0.0
    size = size if size >= 1 and size == int(size) else dtype(spec.dtype).nbytes
    return int(size) if size == int(size) else None


def _union(looks: Sequence[_Look]) -> float:
    """Bytes that `looks` touch, each once: by ranges that meet, by the rows that they have in common."""
    total, reach = 0.0, None
    met: list[_Look] = []
    for look in sorted(looks):
        if reach is not None and look.start >= reach:
            total += _met(met)
            met, reach = [], None
        met.append(look)
        reach = max(look.end, reach or 0)
    return total + (_met(met) if met else 0.0)


def _met(looks: Sequence[_Look]) -> float:
    """The same of looks whose ranges meet."""
    first = looks[0]
    if len(looks) == 1:
        return min(first.nbytes, first.end - first.start)
    begin, end = first.start, max(look.end for look in looks)
    if all(len(look.dims) > 1 and look.dims[0] == first.dims[0] for look in looks):
        step, rows = first.dims[0]
        within = [look._replace(dims=look.dims[1:]) for look in looks]
        if max(look.end for look in within) - begin <= step:
            return rows * _union(within)
    return min(sum(look.nbytes for look in looks), end - begin)
