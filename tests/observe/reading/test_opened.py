"""Progress of reading: told as bytes of the packed file, in any packing, and only while somebody watches."""

from __future__ import annotations

import gzip
import lzma
import random

import pytest

import rooflab
from rooflab.observe.reading.opened import chunks, watched
from support.observe.kineto_files import kernel, text

TEXT = random.Random(1).randbytes(300_000)


@pytest.mark.parametrize(("packed", "known"), [(bytes, True), (gzip.compress, True), (lzma.compress, False)])
def test_each_piece_is_told(tmp_path, packed, known):
    path = tmp_path / "trace.json"
    path.write_bytes(packed(TEXT))
    size = path.stat().st_size
    told = []
    with watched(lambda *one: told.append(one)):
        assert b"".join(chunks(path, chunk_bytes=50_000)) == TEXT
    assert len(told) == 6
    assert {what for what, _, _ in told} == {"reading trace.json"}
    if known:
        assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
        assert told[-1][1:] == (size, size)
        assert 0 < told[0][1] < size
    else:
        assert {one[1:] for one in told} == {(0, 0)}
    assert len(list(chunks(path))) == 1
    assert len(told) == 6


def test_load_tells_how_far_it_is(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(text(kernel(0, 10)), encoding="utf-8")
    told = []
    rooflab.load(path, progress=lambda *one: told.append(one))
    assert told[-1] == ("reading trace.json", path.stat().st_size, path.stat().st_size)
