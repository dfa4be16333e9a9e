"""Lists of objects out of broken JSON: the whole is kept, the lost is counted, no list runs into another."""

from __future__ import annotations

import pytest

from rooflab.observe.reading.json_lists import objects

TEXT = b'{"a": [{"n": 1, "in": {"x": [1, {}]}}, {"n": 2}], "b": [{"n": 3}, {"n": 4}]}'


@pytest.mark.parametrize(
    ("text", "found", "broken"),
    [
        (TEXT, [1, 2], 0),
        (TEXT[:30], [], 1),
        (TEXT[:48], [1, 2], 0),
        (TEXT.replace(b'"n": 2', b'"n": NaN'), [1, None], 0),
        (TEXT.replace(b'"n": 2', b'"n": 2.2.2'), [1], 1),
        # A brace is lost: the first object seems to hold the second, and the second list is not the first's.
        (TEXT.replace(b"{}]}}", b"{}]}"), [2], 1),
        (TEXT.replace(b'{"n": 2}]', b'{"n": 2,'), [1], 1),
        (b'{"a": 7}', [], 0),
        (b'{"a": [' + b'{"n": [' * 500, [], 1),
    ],
)
def test_objects(text, found, broken):
    several, lost = objects(text, "a", dict, ("a", "b"))
    assert ([one["n"] for one in several], lost) == (found, broken)
