"""The label placer: nothing it places overlaps, and the same input gives the same picture."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.views.common.labels import Box, Label, _Taken, crosses, inside, overlap, place
from rooflab.views.common.theme import shorten, text_width

FRAME = Box(100, 100, 200, 200)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (Box(0, 0, 10, 10), Box(5, 5, 10, 10), True),
        (Box(0, 0, 10, 10), Box(10, 0, 10, 10), False),  # only an edge in common
        (Box(0, 0, 10, 10), Box(0, 30, 10, 10), False),
        (Box(0, 0, 100, 2, 45), Box(30, 30, 4, 4), True),  # on the diagonal
        (Box(0, 0, 100, 2, 45), Box(30, -30, 40, 40), False),  # in the corner that a turned box leaves free
        (Box(0, 0, 100, 2, 90), Box(0, 40, 4, 4), True),  # turned upright
    ],
)
def test_overlap(a, b, expected):
    assert overlap(a, b) is expected
    assert overlap(b, a) is expected


def test_a_line_crosses_the_box_it_enters():
    assert crosses(Box(5, 5, 4, 4), ((0, 0), (10, 10)))
    assert not crosses(Box(9, 1, 1, 1), ((0, 0), (10, 10)))


def test_the_first_free_place_is_taken():
    here, there = Box(50, 50, 40, 10), Box(50, 80, 40, 10)
    placed = place([Label("a", (("first", (here, there)),)), Label("b", (("other", (here, there)),))], [], FRAME)
    assert [label.box for label in placed] == [here, there]


def test_a_place_off_the_lines_is_preferred():
    on, off = Box(50, 50, 40, 10), Box(50, 80, 40, 10)
    (label,) = place([Label("a", (("text", (on, off)),))], [], FRAME, [((0, 50), (200, 50))])
    assert label.box == off


def test_a_label_without_room_is_shortened_then_left_out():
    wall, wide, narrow = Box(70, 50, 20, 40), Box(50, 50, 40, 10), Box(45, 50, 20, 10)
    (label,) = place([Label("a", (("DRAM 38 GB/s", (wide,)), ("DRAM", (narrow,))))], [wall], FRAME)
    assert (label.text, label.box) == ("DRAM", narrow)
    assert place([Label("a", (("DRAM 38 GB/s", (wide,)),))], [wall], FRAME) == ()


boxes = st.builds(
    Box, st.floats(0, 200), st.floats(0, 200), st.floats(5, 80), st.floats(5, 20), st.sampled_from([0, -35, 20])
)


@pytest.mark.slow
@given(st.lists(st.lists(boxes, min_size=1, max_size=4), max_size=8), st.lists(boxes, max_size=3))
def test_whatever_is_placed_is_apart_and_inside(candidates, obstacles):
    wanted = [Label(str(i), (("some text", tuple(each)),)) for i, each in enumerate(candidates)]
    placed = place(wanted, obstacles, FRAME)
    for i, label in enumerate(placed):
        assert inside(label.box, FRAME)
        assert not any(overlap(label.box, other) for other in obstacles)
        assert not any(overlap(label.box, other.box) for other in placed[:i])
    assert place(wanted, obstacles, FRAME) == placed


def test_text_is_cut_to_its_width():
    assert shorten("short", 100, 12) == "short"
    cut = shorten("a very long name of a machine", 80, 12)
    assert cut.endswith("…")
    assert text_width(cut, 12) <= 80


@given(st.lists(boxes, max_size=40), boxes)
def test_the_grid_finds_what_every_box_asked_in_turn_finds(taken, asked):
    assert _Taken(taken).meets(asked) == any(overlap(asked, other) for other in taken)
