"""Arrays that count: an algorithm run on them tallies its own FLOP, loads, stores and touched elements."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest

from rooflab.dtypes import dtype as number_format
from rooflab.types.work import TensorSpec


class Tally:
    """Operations done so far: `vector` (add, multiply, compare) and `special` (division, exp, …)."""

    def __init__(self):
        self.vector = self.special = 0

    def number(self):
        return Number(self)

    def array(self, *shape):
        return Array(self, shape)

    def fold(self, values, step):
        """Every value folded into an accumulator that begins at the identity."""
        total = self.number()
        for value in values:
            total = step(total, value)
        return total

    def sum(self, values):
        return self.fold(values, lambda total, value: total + value)

    def largest(self, values):
        return self.fold(values, lambda total, value: total.larger(value))


class Number:
    """A number that counts what is done with it; it has no value, as counts may not depend on one."""

    def __init__(self, tally):
        self.tally = tally

    def _vector(self, other=None):
        self.tally.vector += 1
        return self

    def _special(self, other=None):
        self.tally.special += 1
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __abs__ = _vector
    __truediv__ = __rtruediv__ = _special
    larger = _vector  # max(a, b), min, and any comparison
    exp = log = sqrt = rsqrt = tanh = erf = sin = _special


class Array:
    """An array that counts loads and stores, and remembers which elements they touched."""

    def __init__(self, tally, shape):
        self.tally, self.shape = tally, shape
        self.loads = self.stores = 0
        self.read, self.written = set(), set()

    def __getitem__(self, index):
        self._check(index)
        self.loads += 1
        self.read.add(index)
        return Number(self.tally)

    def __setitem__(self, index, value):
        self._check(index)
        self.stores += 1
        self.written.add(index)

    def _check(self, index):
        index = index if isinstance(index, tuple) else (index,)
        assert len(index) == len(self.shape)
        assert all(0 <= one < size for one, size in zip(index, self.shape, strict=True)), (index, self.shape)


def every(*shape):
    """All indices of a shape."""
    return itertools.product(*map(range, shape))


def spec(*shape, dtype="fp32", nbytes=None, storage=-1):
    """A contiguous tensor."""
    full = math.prod(shape) * number_format(dtype).nbytes
    return TensorSpec(tuple(shape), dtype, full if nbytes is None else nbytes, storage=storage)


def flop(cost, engine=None):
    """FLOP of one engine, or of all."""
    return sum(one.count for one in cost.flop if engine in (None, one.engine))


@pytest.fixture(scope="session")
def by_hand():
    """Counting arrays and numbers, and descriptions of tensors, for loops that count by hand."""
    return SimpleNamespace(Tally=Tally, every=every, spec=spec, flop=flop)
