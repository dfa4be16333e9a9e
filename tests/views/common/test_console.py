"""Text folded to the width of a terminal."""

from __future__ import annotations

import pytest

from rooflab.views.common.console import paragraph


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("saves 10 ms, 94 % of it", 15, ["saves 10 ms,", "94 % of it"]),
        ("it takes 10 ms", 11, ["it takes", "10 ms"]),  # not "it takes 10"
        ("(55 % to 100 %)", 13, ["(55 % to", "100 %)"]),
        ("moves 1.0 GB/s here", 10, ["moves", "1.0 GB/s", "here"]),
        ("10 More words", 6, ["10", "More", "words"]),  # no unit
    ],
)
def test_a_number_is_not_parted_from_its_unit(text, width, lines):
    assert paragraph(text, width) == lines
