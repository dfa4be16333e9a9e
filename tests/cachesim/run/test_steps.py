"""Accesses one by one: those that the loops say, with what plain Python caches hold after each."""

from __future__ import annotations

import pytest

import rooflab
from rooflab import Cache, streams
from rooflab.cachesim.run.steps import MOST_STEPS, accesses, first_steps
from rooflab.errors import RooflabError

STREAMS = {
    "sequential": streams.sequential(40, passes=5),
    "strided": streams.strided(1024, 72),
    "matmul": streams.matmul(3),
    "tiled": streams.matmul(5, tile=2),
    "stencil": streams.stencil2d(6),
}


@pytest.mark.parametrize("name", STREAMS)
def test_every_access_of_the_loops_is_made_once(name):
    stream = STREAMS[name]
    made = list(accesses(stream.program))
    assert len(made) == stream.accesses
    assert sum(each.nbytes for each in made) == stream.accessed_bytes


class Plain:
    """A set-associative LRU cache of lines, the newest of a set first."""

    def __init__(self, cache: Cache) -> None:
        self.cache, self.sets = cache, [[] for _ in range(cache.sets)]

    def load(self, line: int) -> bool:
        """Whether it misses; the line is the newest then."""
        lines = self.sets[line % self.cache.sets]
        missed = line not in lines
        if not missed:
            lines.remove(line)
        lines.insert(0, line)
        del lines[self.cache.set_ways :]
        return missed


@pytest.mark.parametrize("name", ["sequential", "strided", "stencil", "matmul", "tiled"])
@pytest.mark.parametrize("cache", [Cache(32, 4, 8), Cache(128, 2), Cache(256, 1), Cache(512, 8)])
def test_contents_are_those_of_a_plain_cache(name, cache):
    plain = Plain(cache)
    made = list(accesses(STREAMS[name].program))
    for each, step in zip(made, first_steps(STREAMS[name], [cache]), strict=False):
        first, last = each.address // cache.line_bytes, (each.address + each.nbytes - 1) // cache.line_bytes
        # Each of them is loaded: none is left out once one has missed.
        missed = sum(plain.load(line) for line in range(first, last + 1)) > 0
        assert step.missed == (missed,)
        assert list(step.held[0]) == [line for lines in plain.sets for line in lines]


@pytest.mark.parametrize("name", STREAMS)
def test_the_sums_are_those_of_the_whole_simulation(name):
    found = rooflab.simulate(STREAMS[name], levels=[Cache(128, 2), Cache(512, 4)], steps=True)
    assert len(found.steps) == min(found.accesses, MOST_STEPS)
    if found.accesses <= MOST_STEPS:
        assert sum(step.missed[0] for step in found.steps) == found.levels[0].misses


def test_items_are_elements_of_their_arrays():
    found = rooflab.simulate(streams.matmul(3), levels=[Cache(128, 2)], steps=True)
    # i = j = 0: A[0, k] times B[k, 0], rows of three.
    assert [step.item for step in found.steps[:7]] == ["A[0]", "B[0]", "A[1]", "B[3]", "A[2]", "B[6]", "C[0]"]
    assert [step.operation for step in found.steps[5:7]] == ["load", "store"]


@pytest.mark.parametrize(
    ("stream", "levels", "said"),
    [
        (streams.random(4096, 10), [Cache(128, 2)], "steps are of loop nests, and this stream is irregular"),
        (streams.sequential(64), [Cache(4096, None)], "L1: steps need sets of at most 32 ways, got 64"),
    ],
)
def test_what_cannot_be_shown_is_said(stream, levels, said):
    with pytest.raises(RooflabError, match=said):
        rooflab.simulate(stream, levels=levels, steps=True)


def test_a_trace_has_no_steps(tmp_path):
    with pytest.raises(RooflabError, match=r"steps are of one of rooflab\.streams"):
        rooflab.simulate(tmp_path / "x.din", levels=[Cache(128, 2)], steps=True)
