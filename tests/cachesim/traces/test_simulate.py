"""Address traces: what each format's lines mean, and what becomes of lines that mean nothing."""

from __future__ import annotations

import gzip
import lzma
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab.cachesim.traces import parsers, simulate
from rooflab.cachesim.traces.files import Buffers
from rooflab.errors import FileError, RooflabError, UnknownNameError
from rooflab.types.simulation import Cache, tlb
from support.cachesim.hierarchy_oracle import Level

LEVELS = [Cache(1024, 2, 64)]
DIN = "0 1000\n1 1004\n2 400\n\n0 xyz\n9 10\n0 2000 a comment\nhello\n0 3000"
XDIN = "r 1000 8\nw 0x1008 4\ni 400 4\nm 1 1\nr zz 4\nr 10 0\nr 10\n"
LACKEY = "==123== Lackey\nI  04001000,3\n L 1fff000758,8\n S 1fff000750,8\n M 0421c7cc,4\n L bad,8x\nxx\n"
DRMEMTRACE = (
    "Output format:\n           1           0:     1234 <marker: version 4>\n"
    "  25  16:  1234 write  8 byte(s) @ 0x00007ffd00000008 by PC 0x1\n"
    "  26  17:  1234 read  4 byte(s) @ 0x10 by PC 0x00007f\n"
    "  27  18:  1234 ifetch  4 byte(s) @ 0x0000000000400000 non-branch\n"
)


def counted(path, **more):
    found = simulate.simulate_trace(path, LEVELS, **more)
    return found.accesses, found.levels[0].hits, found.levels[0].misses, sum(found.dropped.values())


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        # reads of 1000, 2000, 3000 and a write beside the first; xyz, label 9 and hello mean nothing
        ("din", DIN, (4, 1, 3, 3)),
        # a read, a write beside it; no address, a size of zero, and a size that is missing
        ("xdin", XDIN, (2, 1, 1, 3)),
        # a load and a store of one line, then a load and a store of another
        ("lackey", LACKEY, (4, 2, 2, 2)),
        ("drmemtrace", DRMEMTRACE, (2, 0, 2, 0)),
    ],
)
def test_each_format_is_known_by_its_lines(tmp_path, name, text, wanted):
    path = tmp_path / "trace"
    path.write_text(text)
    assert counted(path) == wanted == counted(path, format=name)
    (tmp_path / "packed").write_bytes(gzip.compress(text.encode()))
    assert counted(tmp_path / "packed") == wanted
    (tmp_path / "tight").write_bytes(lzma.compress(text.encode()))
    assert counted(tmp_path / "tight") == wanted


@pytest.mark.slow
def test_champsim_records(tmp_path):
    records = np.zeros((100, 8), np.uint64)
    records[:, 0] = 0xFFFF800000000000  # where the instruction lies
    records[:, 2] = np.arange(1, 101) * 8  # the first destination
    records[:, 4] = np.arange(1, 101) * 64 + (1 << 40)  # the first source
    path = tmp_path / "trace.champsim"
    path.write_bytes(records.tobytes() + b"abc")
    # 100 reads of lines of their own; writes of 800 bytes from 8 on: 13 lines, but the reads push them out
    found = simulate.simulate_trace(path, LEVELS)
    assert (found.accesses, found.dropped) == (200, {"an unfinished record at the end": 1})
    assert found.levels[0].references[0].misses == 100


def test_instructions_are_loads_where_that_is_asked_for(tmp_path):
    path = tmp_path / "trace"
    path.write_text(LACKEY)
    assert counted(path, instructions="load")[0] == 5


@pytest.mark.parametrize("name", ["din", "champsim"])
def test_records_may_break_at_the_edge_of_a_block(tmp_path, name):
    path = tmp_path / "trace"
    entries = np.zeros((1000, 8), np.uint64)
    entries[:, 4] = np.arange(1000) * 64 + 64
    lines = "".join(f"0 {64 * i:x}\n" for i in range(1000))
    path.write_bytes(entries.tobytes() if name == "champsim" else lines.encode())
    buffers = Buffers(head_bytes=77, block_bytes=37)  # one record, or some lines, and a part
    assert counted(path, buffers=buffers) == (1000, 0, 1000, 0)


def test_lines_that_never_end_are_dropped(tmp_path):
    path = tmp_path / "trace"
    path.write_text("0 1000\n" * 7 + "x" * 149 + "\n0 2000\n")
    # 50 bytes are 7 lines and an x; with 100 more it is over a block, and dropped; the 48 left are one more line
    assert counted(path, buffers=Buffers(head_bytes=50, block_bytes=100)) == (8, 6, 2, 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty, expected an address trace"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\0", "it looks like a PNG picture"),
        (b'{"traceEvents": []}', "it looks like JSON"),
        (b"a,b,c\n1,2,3\n", "it begins with 'a,b,c'"),
        (bytes(range(256)), "it is a binary file"),
    ],
)
def test_another_kind_of_file_is_named(tmp_path, content, message):
    path = tmp_path / "trace"
    path.write_bytes(content)
    with pytest.raises(FileError, match=message):
        counted(path)


def test_a_file_of_another_format_than_said(tmp_path):
    path = tmp_path / "trace"
    path.write_text("some words\nthat are no trace\n")
    with pytest.raises(
        FileError, match=r"no line reads as lackey \(' L 1fff000758,8'\); it begins with 'some words'"
    ):
        counted(path, format="lackey")
    with pytest.raises(UnknownNameError, match="unknown trace format 'lacky'; did you mean lackey"):
        counted(path, format="lacky")
    with pytest.raises(FileError, match="no such file"):
        counted(tmp_path / "none")


@pytest.mark.parametrize("broken", [lambda packed: packed[:-20], lambda packed: packed[:200] + b"xxxx" * 200])
def test_a_packed_file_that_breaks_off_or_is_damaged(tmp_path, broken):
    path = tmp_path / "trace.gz"
    path.write_bytes(broken(gzip.compress(b"0 1000\n" * 100_000)))
    with pytest.raises(FileError, match="cannot be unpacked"):
        counted(path)


# What a line means, in words of its own: the reason it is dropped for, "skipped", or its accesses.
NOT_A_LINE, NO_ADDRESS, BAD_SIZE, _ = simulate.REASONS
NUMBER = r"(?:0[xX]|(?!0[xX]))[0-9a-fA-F]+"


def sized(letter, address, size, kinds):
    reference = kinds[letter]
    if reference is None:
        return "skipped"
    if not 0 < size <= 4096:
        return BAD_SIZE
    return [(each, int(address, 16) % (1 << 61), size) for each in reference]


def meaning_of_din(line):
    if not re.match(r"[0-4][ \t]", line):
        return NOT_A_LINE
    found = re.match(rf".[ \t]+({NUMBER})(?=[ \t]|\r?$)", line)
    kinds = {"0": (0,), "1": (1,), "2": None, "3": None, "4": None}
    return sized(line[0], found[1], 4, kinds) if found else NO_ADDRESS


def meaning_of_xdin(line):
    if not re.match(r"[rwimcv][ \t]", line, re.IGNORECASE):
        return NOT_A_LINE
    if not re.match(rf".[ \t]+{NUMBER}", line):
        return NO_ADDRESS
    found = re.match(rf".[ \t]+({NUMBER})[ \t]+({NUMBER})[ \t]*\r?$", line)
    kinds = {"r": (0,), "w": (1,), "i": None, "m": None, "c": None, "v": None}
    return sized(line[0].lower(), found[1], int(found[2], 16), kinds) if found else NOT_A_LINE


def meaning_of_lackey(line):
    if line.startswith("="):
        return "skipped"
    if not re.match("[ILSM]", line):
        return NOT_A_LINE
    if not re.match(rf".[ \t]*{NUMBER}", line):
        return NO_ADDRESS
    found = re.match(rf".[ \t]+({NUMBER}),([0-9]*)[ \t]*\r?$", line)
    kinds = {"I": None, "L": (0,), "S": (1,), "M": (0, 1)}
    return sized(line[0], found[1], int(found[2] or 0), kinds) if found else NOT_A_LINE


def meaning_of_drmemtrace(line):
    before, sign, after = line.partition("@")
    found = re.match(rf"[ \t]*({NUMBER})", after)
    if not sign:
        return "skipped"
    if not found:
        return NO_ADDRESS
    told = re.search(r" (read|write)[ \t]*([0-9]*)[ \t]*byte\(s\)[ \t]*$", before)
    return sized(told[1], found[1], int(told[2] or 0), {"read": (0,), "write": (1,)}) if told else "skipped"


MEANINGS = {
    "din": (meaning_of_din, "012345r"),
    "xdin": (meaning_of_xdin, "rWimCvx"),
    "lackey": (meaning_of_lackey, "ILSM=x"),
    "drmemtrace": (meaning_of_drmemtrace, ["12: 34 write", "1 read", " ifetch", "pread", "writes", "marker"]),
}
BLANKS = st.sampled_from([" ", "  ", "\t", ""])
NUMBERS = st.one_of(
    st.sampled_from(["0", "8", "40", "1000", "1001", "5000", "0x", "0X10", "zz", "", "-1"]),
    st.integers(0, (1 << 64) - 1).map(lambda number: f"{number:x}"),
    st.integers(0, 1 << 40).map(lambda number: f"0x{number:016x}"),
    st.text("0123456789abcdefABCDEF", min_size=14, max_size=40),
)


def lines(name):
    """Lines of a format, right or wrong in any place."""
    blank, number, end = BLANKS, NUMBERS, st.sampled_from(["", "", " ", "\r", " x"])
    letter = st.sampled_from(MEANINGS[name][1])
    unit, sign = st.sampled_from(["byte(s)", "byte"]), st.sampled_from(["@", "@", ""])
    parts = {
        "din": (blank, letter, blank, number, end),
        "xdin": (blank, letter, blank, number, blank, number, end),
        "lackey": (blank, letter, blank, number, st.sampled_from([",", ",", " "]), number, end),
        "drmemtrace": (blank, letter, blank, number, blank, unit, blank, sign, blank, number, end),
    }
    return st.lists(
        st.one_of(st.tuples(*parts[name]).map("".join), st.text(" \t@0=Lrx\r", max_size=70)), max_size=30
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name == "din" else pytest.param(name, marks=pytest.mark.slow) for name in MEANINGS]
)
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_lines_of_any_kind_mean_what_a_plain_reader_makes_of_them(name, data):
    given_lines = data.draw(lines(name))
    meant = [MEANINGS[name][0](line.lstrip(" \t")) for line in given_lines if not re.fullmatch(r"[ \t]*\r?", line)]
    wanted = [access for each in meant if isinstance(each, list) for access in each]
    dropped = Counter(each for each in meant if isinstance(each, str))
    got, totals = noted("\n".join(given_lines).encode() + b"\n", name)
    assert got == wanted
    skipped, *by_reason = totals
    assert skipped == dropped.pop("skipped", 0)
    assert {why: n for why, n in zip(simulate.REASONS, by_reason, strict=True) if n} == dropped


def noted(text, name):
    """The accesses that the parser notes: reference, address, size; and its totals."""
    room = b"\0" * 64 + text + b"\0" * 64
    held = np.frombuffer(room, np.uint8)
    begin, end = held.ctypes.data + 64, held.ctypes.data + 64 + len(text)
    kinds = parsers.kinds(name, instructions=False)
    addresses, words, totals = np.zeros(20, np.int64), np.zeros(20, np.int64), np.zeros(5, np.int64)
    found = []
    while begin < end:
        batch = parsers.Batch(
            kinds.ctypes.data, 4, addresses.ctypes.data, words.ctypes.data, 20, totals.ctypes.data
        )
        begin, count = parsers.PARSERS[name](begin, end, batch)
        for address, word in zip(addresses[:count].tolist(), words[:count].tolist(), strict=True):
            assert (word & 1) == (word >> 1 & 3)  # a store has the row of stores, a load that of loads
            found.append((word >> 1 & 3, address, word >> 3))
    return found, totals.tolist()


def din(records):
    return "".join(f"{int(store)} {address:x}\n" for store, address in records)


records = st.lists(st.tuples(st.booleans(), st.integers(0, 1 << 14)), min_size=1, max_size=300)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("traces") / "trace.din"


def stack_distances(units):
    """Misses of any capacity, and those of each number of lines, by a list in order of last use."""
    stack, distances, cold = [], Counter(), 0
    for unit in units:
        if unit in stack:
            distances[stack.index(unit)] += 1
            stack.remove(unit)
        else:
            cold += 1
        stack.insert(0, unit)
    return cold, dict(sorted(distances.items()))


@pytest.mark.slow
@given(trace=records, room=st.sampled_from([7, 100, 1 << 12]), first=st.sampled_from([1, 7, 4096]))
@settings(max_examples=100, deadline=None)
def test_a_curve_of_a_trace_is_that_of_a_list(place, trace, room, first):
    place.write_text(din(trace), encoding="utf-8")
    curve = simulate.curve_of_trace(place, buffers=Buffers(accesses=room, first_units=first))
    units = [unit for _, at in trace for unit in range(at // 64, (at + 3) // 64 + 1)]  # 4 bytes each
    cold, distances = stack_distances(units)
    assert (curve.requests, curve.compulsory) == (len(units), cold)
    assert dict(zip(curve.distances, curve.counts, strict=True)) == distances


@pytest.mark.slow
@given(trace=records, room=st.sampled_from([7, 1 << 12]), first=st.sampled_from([1, 4096]))
@settings(max_examples=100, deadline=None)
def test_misses_of_a_trace_are_told_apart_as_the_oracle_does(place, trace, room, first):
    levels = [Cache(512, 2), Cache(2048, 2, 128)]
    place.write_text(din(trace), encoding="utf-8")
    buffers = Buffers(accesses=room, first_units=first)
    found = simulate.simulate_trace(place, levels, classify=True, tlbs=[tlb(2)], buffers=buffers)
    far = Level(levels[1])
    near = Level(levels[0], far)
    for store, at in trace:
        for unit in range(at // 64, (at + 3) // 64 + 1):
            begin, end = max(at, unit * 64), min(at + 4, unit * 64 + 64)
            near.ask("store" if store else "load", begin, end - begin)
    for level, plain in zip(found.levels, (near, far), strict=True):
        counted = (level.hits, level.misses, level.compulsory, level.capacity, level.conflict)
        assert counted == tuple(plain.n[each] for each in ("hits", "misses", "compulsory", "capacity", "conflict"))


def test_too_many_lines_to_keep_apart(place):
    buffers = Buffers(accesses=16, most_units=100)
    place.write_text(din([(False, 64 * i) for i in range(1000)]), encoding="utf-8")
    with pytest.raises(RooflabError, match="touches over 100 different units of 64 bytes"):
        simulate.curve_of_trace(place, buffers=buffers)
    with pytest.raises(RooflabError, match="touches over 100 different units of 64 bytes"):
        simulate.simulate_trace(place, LEVELS, classify=True, buffers=buffers)


def test_champsim_records_have_a_curve(tmp_path):
    entries = np.zeros((1000, 8), np.uint64)
    entries[:, 4] = np.arange(1, 1001) * 64  # a source of each: 1,000 lines
    entries[:, 2] = 64  # a destination: one line, one other line between two uses (none before the second)
    path = tmp_path / "trace.champsim"
    path.write_bytes(entries.tobytes())
    curve = simulate.curve_of_trace(path)
    assert (curve.requests, curve.compulsory) == (2000, 1000)
    assert dict(zip(curve.distances, curve.counts, strict=True)) == {0: 1, 1: 999}


def test_a_trace_that_is_cut_short_says_so(place):
    place.write_text("0 100000\n" * 10_000, encoding="utf-8")
    buffers = Buffers(head_bytes=700, block_bytes=1 << 10)
    found = simulate.simulate_trace(place, LEVELS, time_limit_s=1e-9, buffers=buffers)
    # The first block: 700 bytes are 77 lines of 9.
    assert (found.complete, found.accesses) == (False, 77)
    assert simulate.simulate_trace(place, LEVELS, time_limit_s=100).accesses == 10_000
