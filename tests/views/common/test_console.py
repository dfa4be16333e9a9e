"""Text folded to the width of a terminal."""

from __future__ import annotations

import io

import pytest
from rich.text import Text

from rooflab.views.common.console import console, drawn_table, paragraph
from rooflab.views.common.table import Table


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


def test_a_name_with_control_characters_does_not_steer_the_terminal():
    file = io.StringIO()
    out = console(file)
    out.print(Text("a\x1b[31mb\u202ec"))
    for part in drawn_table(Table("Names", ("na\x07me",), (("d\x1b]0;e",),), words=1), 80):
        out.print(part)
    assert "a\ufffd[31mb\ufffdc" in file.getvalue()
    assert "na\ufffdme" in file.getvalue()
    assert "d\ufffd]0;e" in file.getvalue()
    assert all(each in "\n\ufffd" or each.isprintable() for each in file.getvalue())
