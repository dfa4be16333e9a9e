"""Which columns of a table are set as text on a page."""

from __future__ import annotations

from rooflab.views.common.table import Table


def test_sentences_behind_numbers_are_set_as_text():
    long = "def namedtuple(typename, field_names, *, rename=False)"
    table = Table("", ("where", "time", "source"), (("a.py:3", "1.2 ms", "x = 1"), ("b.py:4", "3.4 ms", long)))
    assert table.texts == {2}
    assert table._replace(words=3).texts == set()  # they are words already
    assert Table("", ("where", "time"), ()).texts == set()
