"""Arrays of a file's function lie where malloc puts large ones, with all that they hold and share."""

from __future__ import annotations

import numpy as np

from rooflab.cli.settled import settled


def test_small_arrays_begin_as_far_into_a_line_as_large_ones():
    given = [np.arange(n, dtype=kind) for n in range(1, 40) for kind in ("f8", "f4", "u1")]
    made = settled(tuple(given))
    assert {each.ctypes.data % 64 for each in made} == {16}
    for one, other in zip(given, made, strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()


def test_what_is_one_array_stays_one_and_views_stay_with_theirs():
    whole, twice, view = np.zeros(9), np.zeros(5), np.zeros(7)
    made = settled((whole, twice, twice, view[1:], view, (whole, 3), "text", None, 2.5))
    assert made[1] is made[2]
    assert made[0] is made[5][0]
    assert np.shares_memory(made[3], made[4])
    assert made[6:] == ("text", None, 2.5)


def test_order_and_read_only_are_kept():
    square = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    fixed = np.arange(3)
    fixed.flags.writeable = False
    made = settled((square, fixed, np.array([None]), np.zeros(0), np.arange(20)[::2].copy()))
    assert made[0].flags.f_contiguous
    assert made[0].tolist() == square.tolist()
    assert not made[1].flags.writeable
