"""What all formats must hold: known by exactly one, and damaged files that never end in a traceback.

A sample of a format lies in tests/samples/profiles/FORMAT/, named by its module; those of the H200 beside what was
measured on it. Each sample is tested here without a line of its own.
"""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

import rooflab
from rooflab import views
from rooflab.errors import FileError
from rooflab.observe.importers import formats
from rooflab.observe.reading.opened import content, head_of

_TESTS = Path(__file__).parents[2]
SAMPLES = {
    "kineto": [
        _TESTS / "samples" / "h200" / "trace_ops.json.gz",
        _TESTS / "samples" / "torch_cpu" / "trace_memory.json.gz",
    ],
    "nsight_compute": sorted((_TESTS / "samples" / "h200").glob("ncu_*.csv")),
} | {folder.name: sorted(folder.iterdir()) for folder in sorted((_TESTS / "samples" / "profiles").glob("*"))}
EVERY = [pytest.param(name, path, id=f"{name}: {path.name}") for name, paths in SAMPLES.items() for path in paths]
_BYTES = 40_000  # of a sample that is damaged: what is longer is cut there first


def test_every_format_has_a_sample():
    names = [module.__name__.rpartition(".")[2] for module in formats()]
    assert sorted(names) == sorted(SAMPLES)
    assert all(SAMPLES.values())


@pytest.mark.parametrize(("name", "path"), EVERY)
def test_a_sample_is_known_by_its_own_format_alone(name, path):
    head = head_of(path)
    assert [module.__name__.rpartition(".")[2] for module in formats() if module.sniff(head)] == [name]


@pytest.mark.parametrize(("name", "path"), EVERY)
def test_a_text_that_powershell_redirected_is_known(name, path, tmp_path):
    """Its ">" writes UTF-16 with a mark of byte order, and CR LF at the end of lines."""
    try:
        text = content(path)[:_BYTES].decode()
    except UnicodeDecodeError:
        pytest.skip("no text")
    copy = tmp_path / "out.txt"
    copy.write_bytes(text.replace("\r\n", "\n").replace("\n", "\r\n").encode("utf-16"))
    assert [module.__name__.rpartition(".")[2] for module in formats() if module.sniff(head_of(copy))] == [name]


@pytest.mark.parametrize(("name", "path"), EVERY)
def test_a_damaged_file_is_read_or_refused_in_a_sentence(name, path, tmp_path):
    """Cut, with bytes changed, lines lost, doubled or in another order, words in place of numbers."""
    whole = content(path)[:_BYTES]
    rng = random.Random(name)
    broken = tmp_path / "broken"
    for number in range(24):
        text = _DAMAGES[number % len(_DAMAGES)](whole, rng)
        broken.write_bytes(gzip.compress(text) if number % 7 == 6 else text)
        said = _shown(broken)
        assert said is None or said.startswith(str(broken)), said
        assert "\n" not in (said or "")


def _shown(path: Path) -> str | None:
    """The profile at `path` shown, or what was said instead."""
    try:
        views.show(rooflab.load(path))
    except FileError as error:
        return str(error)
    return None


def _cut(text: bytes, rng: random.Random) -> bytes:
    return text[: rng.randrange(len(text))]


def _flipped(text: bytes, rng: random.Random) -> bytes:
    changed = bytearray(text)
    for _ in range(1 + len(text) // 500):
        changed[rng.randrange(len(text))] = rng.randrange(256)
    return bytes(changed)


def _without_lines(text: bytes, rng: random.Random) -> bytes:
    return b"\n".join(line for line in text.split(b"\n") if rng.random() > 0.1)


def _doubled_lines(text: bytes, rng: random.Random) -> bytes:
    lines = text.split(b"\n")
    return b"\n".join(rng.choice(lines) if rng.random() < 0.1 else line for line in lines)


def _other_numbers(text: bytes, rng: random.Random) -> bytes:
    words = (b"NaN", b"inf", b"-1", b"0", b"1e400", b'"seven"', b"N/A", b"", b"99999999999999999999999", b"null")
    digits = b"0123456789"
    out, place = bytearray(), 0
    while place < len(text):
        if text[place] in digits and rng.random() < 0.02:
            while place < len(text) and text[place] in digits:
                place += 1
            out += rng.choice(words)
        else:
            out.append(text[place])
            place += 1
    return bytes(out)


_DAMAGES = (_cut, _flipped, _without_lines, _doubled_lines, _other_numbers)
