"""Several looks at one storage: what they touch together, beside sets of bytes."""

from itertools import product

import numpy as np
import pytest

from rooflab.types.work import TensorSpec
from rooflab.work.shared_bytes import touched_together


def _spec(shape, strides, start=0, dtype="fp64", item=8, storage=0):
    elements = int(np.prod([size for size, step in zip(shape, strides, strict=True) if step or not size]))
    return TensorSpec(
        tuple(shape), dtype, float(elements * item), storage, tuple(strides), start_bytes=start * item
    )


def _bytes(spec, item=8):
    """The bytes that a tensor touches, one by one."""
    found = set()
    for places in product(*(range(size) for size in spec.shape)):
        first = spec.start_bytes + item * sum(p * s for p, s in zip(places, spec.strides, strict=True))
        found.update(range(first, first + item))
    return found


@pytest.mark.parametrize(
    ("looks", "elements"),
    [
        ([_spec((9,), (1,), 1), _spec((9,), (1,), 0)], 10),  # x[1:], x[:-1]
        ([_spec((8,), (1,), 2), _spec((8,), (1,), 1), _spec((8,), (1,), 0)], 10),  # three points of a stencil
        ([_spec((4, 6), (6, 1)), _spec((6, 4), (1, 6))], 24),  # x and its transpose
        ([_spec((5,), (2,), 0), _spec((5,), (2,), 1)], 10),  # x[::2], x[1::2]: apart
        ([_spec((5,), (2,), 0), _spec((5,), (2,), 0)], 5),
        ([_spec((4, 3), (6, 1), 0), _spec((4, 3), (6, 1), 3)], 24),  # halves of rows: apart
        ([_spec((4, 3), (100, 1), 1), _spec((4, 3), (100, 1), 0)], 16),  # shifted within wide rows: 4 of each
        ([_spec((4, 5), (5, 1)), _spec((20,), (1,))], 20),  # another shape of the same
        ([_spec((10,), (-1,), 9), _spec((10,), (1,))], 10),  # backwards
        ([_spec((7, 10), (0, 1)), _spec((10,), (1,))], 10),  # expanded
        ([_spec((0,), (1,)), _spec((10,), (1,))], 10),
        ([_spec((10,), (1,)), _spec((10,), (1,), storage=1)], 20),  # another storage
    ],
)
def test_each_byte_of_a_storage_is_counted_once(looks, elements):
    assert touched_together(looks) == 8 * elements


def test_places_that_are_not_known_are_apart():
    looks = [TensorSpec((4,), "fp32", 16.0, 0), TensorSpec((4,), "fp32", 16.0, 0)]
    assert touched_together(looks) == 32
    assert touched_together([looks[0], looks[0]]) == 16  # the same tensor twice


def test_it_is_never_less_than_what_is_touched_nor_more_than_the_sum():
    rng = np.random.default_rng(0)
    for _ in range(300):
        looks = []
        for _ in range(int(rng.integers(2, 5))):
            shape, strides = rng.integers(1, 5, 2), rng.choice([1, 2, 3, 5, 8, 10], 2, replace=False)
            look = _spec(shape.tolist(), strides.tolist(), int(rng.integers(0, 8)))
            looks.append(look)
        truth = len(set().union(*map(_bytes, looks)))
        each = [len(_bytes(look)) for look in looks]
        assert truth <= touched_together(looks) <= sum(look.nbytes for look in looks), looks
        assert touched_together(looks) >= max(each)
