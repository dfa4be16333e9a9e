"""Small kernel files: lists, sizes, and what is missing, malformed or unreadable."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.machines.detect.files import Tree, parse_cpu_list, parse_size_bytes


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-3,8", (0, 1, 2, 3, 8)),
        ("0", (0,)),
        ("8,0-1\n", (0, 1, 8)),  # ascending, whatever the order
        ("0-1,1-2", (0, 1, 2)),  # each once
        ("", ()),
        ("\n", ()),
    ],
)
def test_a_list_of_cpus_is_read_as_the_kernel_writes_it(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_cpu_list(text) == numbers


@pytest.mark.parametrize("text", ["3-1", "a", "0-", "-1", "0-99999999999", "1;2"])
def test_cpu_list_refuses(text: str) -> None:
    # "0-" is a file cut off: reading it as "0" would lose CPUs without a word.
    with pytest.raises(ValueError, match=r"invalid literal|is not a range of CPU numbers"):
        parse_cpu_list(text)


@given(st.sets(st.integers(0, 4095)))
def test_cpu_list_reads_what_is_listed(numbers: set[int]) -> None:
    assert parse_cpu_list(",".join(map(str, numbers))) == tuple(sorted(numbers))


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("32K", 32 * 1024),
        ("1024K", 1024**2),
        ("32M", 32 * 1024**2),
        ("16 MB", 16 * 1024**2),
        ("64", 64),
        ("8388608 kB", 8 * 1024**3),
    ],
)
def test_a_size_is_read_as_the_kernel_writes_it(text: str, nbytes: int) -> None:
    assert parse_size_bytes(text) == nbytes


@pytest.mark.parametrize("text", ["", "K", "3.5M", "-1", "12X"])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size_bytes(text)


def test_missing_is_none_without_a_note(tmp_path: Path) -> None:
    tree = Tree.at(tmp_path)
    assert tree.text("proc/nothing") is None
    assert tree.names("proc") == ()
    assert tree.notes == []


def test_malformed_is_a_note_that_says_where_and_what(tmp_path: Path) -> None:
    (tmp_path / "size").write_text("lots\n")
    tree = Tree.at(tmp_path)
    assert tree.size_bytes("size") is None
    assert tree.notes == ["/size: got 'lots', expected a size such as '32K'; left unknown"]


def test_unreadable_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()  # reading a directory fails for every user, root included
    tree = Tree.at(tmp_path)
    assert tree.text("file") is None
    assert tree.notes == ["/file cannot be read (Is a directory); what it says is left unknown"]


def test_a_note_is_kept_once(tmp_path: Path) -> None:
    (tmp_path / "level").write_text("one")
    tree = Tree.at(tmp_path)
    assert [tree.integer("level"), tree.integer("level")] == [None, None]
    assert len(tree.notes) == 1


def test_long_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("x" * 200_000)  # more than one piece of 64 KiB
    assert len(Tree.at(tmp_path).text("cpuinfo") or "") == 200_000
