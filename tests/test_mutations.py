"""Damaged files at every door: read, or refused in one line. Thousands: benchmarks/mutations.py."""

from __future__ import annotations

import random
import time

import pytest

from support import mutations

FILES, MOST_S = 36, 10.0


@pytest.fixture(scope="module")
def whole():
    """Whole files of a door, made when they are first asked for."""
    made = {}

    def of(door):
        if door == "onnx":
            pytest.importorskip("onnx")
        if door not in made:
            made[door] = mutations.WHOLE[door]()
        return made[door]

    return of


DOORS = [pytest.param(door, marks=[pytest.mark.slow] if door == "trace" else []) for door in mutations.DOORS]


@pytest.mark.parametrize("door", DOORS)
def test_whole_files_are_read(whole, tmp_path, door):
    for name, content in whole(door).items():
        path = tmp_path / name
        path.write_bytes(content)
        assert mutations.outcome(door, path) == mutations.Outcome("read"), name


@pytest.mark.parametrize("door", DOORS)
def test_damaged_files_are_read_or_refused(whole, tmp_path, door):
    files = whole(door)
    for number in range(FILES):
        name = sorted(files)[number % len(files)]
        path = tmp_path / name
        path.write_bytes(mutations.mutated(files[name], random.Random(number), name))
        begun = time.perf_counter()
        found = mutations.outcome(door, path)
        assert found.what in ("read", "refused"), (number, name, found.words)
        assert time.perf_counter() - begun < MOST_S, (number, name)


def test_every_damage_changes_a_file_and_is_the_same_again():
    content = b'{"size": 12, "name": "memory", "rate": 3.5e9}' * 4
    for damage in mutations.DAMAGES:
        changed = [damage(content, random.Random(seed)) for seed in range(8)]
        assert any(one != content for one in changed), damage.__name__
        assert changed == [damage(content, random.Random(seed)) for seed in range(8)]


@pytest.mark.parametrize("content", [b"", b"x"])
def test_nothing_is_too_small_to_damage(content):
    for damage in mutations.DAMAGES:
        for seed in range(8):
            assert isinstance(damage(content, random.Random(seed)), bytes)
