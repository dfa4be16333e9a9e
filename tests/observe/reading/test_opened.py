"""Progress of reading: told as bytes of the packed file, in any packing, and only while somebody watches."""

from __future__ import annotations

import gzip
import lzma
import random

import pytest

import rooflab
from rooflab.observe.reading.opened import chunks, content, head_of, watched
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


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_text_with_a_mark_of_byte_order_is_given_as_utf8(tmp_path, encoding):
    """Pieces of three bytes cut characters in two."""
    text = "Function    Best Rate MB/s\nTriad: 1,5 µs €\n"
    path = tmp_path / "out.txt"
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    path.write_bytes(mark + text.encode(encoding))
    assert content(path).decode() == text
    assert b"".join(chunks(path, chunk_bytes=3)).decode() == text
    assert head_of(path).decode() == text
