"""What is kept on disk of a loop: found where nothing changed, made anew elsewhere, bounded, whole."""

from __future__ import annotations

import numpy as np
import pytest

import rooflab
from rooflab.loops import again, examine, kept, understanding
from rooflab.loops.c import build, compilers
from rooflab.loops.compiled import flushed
from rooflab.machines import cache_levels
from rooflab.types.simulation import Cache

CACHES = (Cache(4096, 4, name="L1"), Cache(65536, 8, name="L2"))
SHIFT = """#include "by.h"
void shift(double *a, long n) {
  for (long i = 0; i + BY < n; i++)
    a[i] = a[i + BY];
}
"""
NOISE = """#include <stdlib.h>
void noise(double *a, long n) {
  for (long i = 0; i < n; i++)
    a[i] = rand();
}
"""


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store of its own, switched on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(kept.SWITCH, raising=False)
    return kept.folder


@pytest.fixture
def compiled(monkeypatch):
    """How often the compiler was asked for modules."""
    calls = []
    done = build._compiled
    monkeypatch.setattr(build, "_compiled", lambda *args: calls.append(args[1]) or done(*args))
    return calls


@pytest.fixture
def shift(tmp_path):
    try:
        compilers.find(False)
    except rooflab.RooflabError as error:
        pytest.skip(str(error))
    (tmp_path / "by.h").write_text("#define BY 1\n")
    (tmp_path / "shift.c").write_text(SHIFT)

    def counted(n=100, values=None, **options):
        given = np.zeros(n) if values is None else values
        return rooflab.loop(f"{tmp_path / 'shift.c'}:shift", given, n, levels=CACHES, timed=False, **options)

    return counted


def test_what_was_kept_is_found(store):
    kept.keep("a" * 64, {"one": b"1", "two": b""})
    assert kept.find("a" * 64) == {"one": b"1", "two": b""}
    assert kept.find("b" * 64) is None


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-1], lambda data: data[:-1] + b"!", lambda data: b"", lambda _: b"x"]
)
def test_an_entry_that_is_not_whole_is_none_and_goes(store, spoil):
    kept.keep("a" * 64, {"one": b"1"})
    path = next(store().iterdir())
    path.write_bytes(spoil(path.read_bytes()))
    assert kept.find("a" * 64) is None
    assert not list(store().iterdir())


def test_the_switch_turns_it_off(store, monkeypatch):
    kept.keep("a" * 64, {"one": b"1"})
    monkeypatch.setenv(kept.SWITCH, "0")
    assert kept.find("a" * 64) is None
    kept.keep("b" * 64, {"one": b"1"})
    assert len(list(store().iterdir())) == 1


def test_entries_asked_for_longest_ago_make_room(store, monkeypatch):
    monkeypatch.setattr(kept, "MOST_BYTES", 20_000)
    rng = np.random.default_rng(0)
    for n in range(12):
        kept.keep(f"{n:064}", {"one": rng.bytes(3000)})
        assert sum(each.stat().st_size for each in store().iterdir()) <= 20_000
    assert kept.find(f"{11:064}") is not None
    assert kept.find(f"{0:064}") is None


def test_a_folder_that_takes_nothing_does_no_harm(store, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept.generated_files, "write", full)
    kept.keep("a" * 64, {"one": b"1"})
    assert kept.find("a" * 64) is None


def test_arguments_differ_by_content_type_place_and_what_they_share():
    a, b = np.zeros(64), np.zeros(64)
    said = [
        {"x": a, "y": b}, {"x": a, "y": a}, {"x": a, "y": a[1:]}, {"x": a, "y": b + 1},
        {"x": a, "y": b.astype("f4")}, {"x": a, "y": b[::2]}, {"x": a, "y": 0.0}, {"x": a, "y": 0},
        {"x": a, "y": (b,)}, {"x": a, "y": None},
    ]  # fmt: skip
    found = [kept.of_values(each) for each in said]
    assert None not in found
    assert len(set(found)) == len(said)
    assert kept.of_values({"x": object()}) is None


def test_a_function_of_c_is_compiled_once_and_counts_the_same(store, compiled, shift):
    first, second = shift(), shift()
    assert len(compiled) == 1
    assert second == first


def test_a_changed_header_is_seen(store, compiled, shift, tmp_path):
    first = shift()
    (tmp_path / "by.h").write_text("#define BY 2\n")
    second = shift()
    assert len(compiled) == 2
    assert (first.accesses, second.accesses) == (198, 196)


def test_a_header_that_now_comes_first_is_seen(store, compiled, shift, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "by.h").rename(tmp_path / "own" / "by.h")
    (tmp_path / "before").mkdir()
    flags = f"-I{tmp_path / 'before'} -I{tmp_path / 'own'}"
    assert shift(cflags=flags).accesses == 198
    (tmp_path / "before" / "by.h").write_text("#define BY 50\n")
    assert shift(cflags=flags).accesses == 100


def test_a_comment_moves_the_lines_of_what_was_kept(store, shift, tmp_path):
    shift()
    (tmp_path / "shift.c").write_text("/* by one */\n" + SHIFT)
    moved = shift()
    assert [each.line for each in moved.loops] == [4]
    assert dict(moved.source)[4].strip().startswith("for")


def test_flags_and_libraries_are_part_of_it(store, compiled, shift):
    shift()
    shift(cflags="-O1")
    assert len(compiled) == 2
    for _ in range(2):
        # what a library holds is not looked at
        shift(cflags="-O1 -lm")
    assert len(compiled) == 4


def test_another_size_is_another_answer(store, compiled, shift):
    assert shift(100).accesses == 198
    assert shift(50).accesses == 98
    assert len(compiled) == 1


def test_what_an_unseen_function_answers_is_not_kept(store, tmp_path, shift):
    (tmp_path / "noise.c").write_text(NOISE)
    for _ in range(2):
        rooflab.loop(f"{tmp_path / 'noise.c'}:noise", np.zeros(9), 9, levels=CACHES, timed=False)
    assert len(list(store().iterdir())) == 1  # what the compiler made


def test_a_loop_of_python_is_found_and_timed_anew(store, monkeypatch, kernels):
    calls = []
    done = examine.report
    monkeypatch.setattr(examine, "report", lambda *args, **options: calls.append(1) or done(*args, **options))
    args = np.zeros(1000), np.ones(1000), np.ones(1000), 3.0
    found = []
    for _ in range(2):
        loop = understanding.understand(kernels.triad, args)
        found.append(again.report(loop, cache_levels.choose(None, CACHES)))
    assert len(calls) == 1
    first, second = found
    assert second.simulation.levels == first.simulation.levels
    assert second.core_loops == first.core_loops
    assert [(each.threads, each.cache) for each in second.runs] == [
        (each.threads, each.cache) for each in first.runs
    ]
    args[1][3] = 7.0
    again.report(understanding.understand(kernels.triad, args), cache_levels.choose(None, CACHES))
    assert len(calls) == 2


def test_lines_are_taken_out_of_caches_without_a_change():
    if not flushed.known():
        pytest.skip("no instruction for it")
    values = np.arange(1000.0), (np.arange(7, dtype=np.uint8), np.zeros(0)), 3
    flushed.flush(values)
    assert values[0].tolist() == list(range(1000))
    assert values[1][0].tolist() == list(range(7))
