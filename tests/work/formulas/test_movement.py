"""What is moved, picked or added to its place, against loops that touch each element."""

from __future__ import annotations

import itertools

import pytest

from rooflab.work.formulas import cost


def test_folding_columns_reads_and_adds_every_element_of_them(by_hand):
    side, kernel = 5, 3
    steps = side - kernel + 1
    tally = by_hand.Tally()
    columns, image = tally.array(kernel * kernel, steps * steps), tally.array(side, side)
    for y, x in by_hand.every(side, side):
        total = tally.number()
        for dy, dx in by_hand.every(kernel, kernel):
            if 0 <= y - dy < steps and 0 <= x - dx < steps:
                total = total + columns[dy * kernel + dx, (y - dy) * steps + x - dx]
        image[y, x] = total
    found = cost("fold", (by_hand.spec(1, 9, 9),), (by_hand.spec(1, 1, 5, 5),), {})
    assert found.total_flop == tally.vector == 81
    assert found.compulsory.read_bytes == found.accessed.read_bytes == 4 * columns.loads
    assert found.compulsory.write_bytes == 4 * image.stores


@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_bag_reads_and_combines_every_row_in_it(by_hand, reduce, weighted):
    bags, rows, width = 3, 4, 5
    tally = by_hand.Tally()
    table, out = tally.array(20, width), tally.array(bags, width)
    for bag, column in by_hand.every(bags, width):
        total = tally.number()
        for row in range(rows):
            value = table[(bag * rows + row) % 20, column]
            value = value * tally.number() if weighted else value
            total = total.larger(value) if reduce == "max" else total + value
        out[bag, column] = total * tally.number() if reduce == "mean" else total
    indices = by_hand.spec(bags * rows, dtype="int64")
    inputs, outputs = (by_hand.spec(20, width), indices), (by_hand.spec(bags, width),)
    found = cost("gather", inputs, outputs, {"reduce": reduce, "weighted": weighted})
    assert found.total_flop == tally.vector
    assert found.compulsory.read_bytes == 4 * table.loads + 8 * bags * rows
    assert found.compulsory.write_bytes == 4 * out.stores


def test_a_trace_reads_the_diagonal_alone(by_hand):
    found = cost("reduction", (by_hand.spec(6, 9),), (by_hand.spec(),), {"function": "sum", "elements": 6})
    assert (found.total_flop, found.compulsory.read_bytes, found.accessed.read_bytes) == (6, 24, 24)


def test_looking_for_what_is_not_zero_reads_all_of_it(by_hand):
    mask, places = by_hand.spec(1000, dtype="bool"), by_hand.spec(3, 1, dtype="int64")
    found = cost("copy", (mask,), (places,), {"whole": True})
    assert (found.compulsory.read_bytes, found.compulsory.write_bytes) == (1000, 24)


@pytest.mark.parametrize("taps", [(4, 4), (2, 6), (3, 3, 3)])
def test_resampling_against_aliasing_sums_rows_then_their_sums(by_hand, taps):
    tally = by_hand.Tally()
    x = tally.array(*(2 * one for one in taps))

    def summed(before, left):
        if not left:
            return x[before]
        parts = [summed((*before, place), left[1:]) for place in range(left[0])]
        return tally.sum(part * tally.number() for part in parts)

    summed((), taps)
    image, out = by_hand.spec(*(2 * one for one in taps)), by_hand.spec(1)
    found = cost("interpolate", (image,), (out,), {"mode": "bilinear", "taps": taps})
    # the last dimension is summed first, and each dimension before it over the sums of what follows
    products = sum(2 * one for one in itertools.accumulate(taps, lambda a, b: a * b))
    assert tally.vector == products
    assert found.total_flop <= products
    assert found.accessed.read_bytes == 4 * x.loads
