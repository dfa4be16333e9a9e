"""A small stream one access at a time: what each level holds after it, for pictures of hits and misses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rooflab.cachesim.level import hierarchy
from rooflab.cachesim.native import layout
from rooflab.cachesim.native.compile import ready
from rooflab.cachesim.run.replay import replay
from rooflab.cachesim.sets.set_vectors import EMPTY, WIDEST
from rooflab.cachesim.streams import nests
from rooflab.cachesim.streams.stream import Stream
from rooflab.errors import RooflabError
from rooflab.types.simulation import Cache, CacheStep

MOST_STEPS = 64
_NAMES = {layout.LOAD: "load", layout.STORE: "store", layout.STREAM: "non-temporal store"}


class Made(NamedTuple):
    """One access that a loop nest makes."""

    request: int
    address: int
    nbytes: int
    reference: int


def first_steps(stream: Stream, levels: Sequence[Cache], most: int = MOST_STEPS) -> tuple[CacheStep, ...]:
    """The first `most` accesses of `stream`, each with what the levels hold after it.

    Raises:
        RooflabError: a stream that is no loop nest, a set of more ways than are told apart one by one.
    """
    if stream.program is None:
        raise RooflabError(f"{stream.name}: steps are of loop nests, and this stream is irregular")
    for number, level in enumerate(levels, 1):
        if level.set_ways > WIDEST:
            name = level.name or f"L{number}"
            raise RooflabError(f"{name}: steps need sets of at most {WIDEST} ways, got {level.set_ways}")
    built = hierarchy.build(levels, references=stream.references)
    ready(replay, built.address, *_columns(Made(layout.LOAD, 0, 1, 0)))
    steps = []
    before = _misses(built, len(levels))
    for made in itertools.islice(accesses(stream.program), most):
        replay(built.address, *_columns(made))
        after = _misses(built, len(levels))
        steps.append(
            CacheStep(
                operation=_NAMES[made.request],
                item=_item(stream, made),
                address=made.address,
                nbytes=made.nbytes,
                missed=tuple(now > then for now, then in zip(after, before, strict=True)),
                held=tuple(_held(built, level) for level in range(len(levels))),
            )
        )
        before = after
    return tuple(steps)


def accesses(program: nests.Program) -> Iterator[Made]:
    """Every access of `program`, in order."""
    for loop in program.loops:
        yield from _of(loop, {})


def _of(body: nests.Loop | nests.Access, counters: Mapping[str, int]) -> Iterator[Made]:
    if isinstance(body, nests.Access):
        address = body.base + sum(stride * counters.get(name, 0) for name, stride in body.strides.items())
        yield Made(body.request, address, body.nbytes, body.reference)
        return
    trips = body.extent
    if body.clip is not None:
        around, total = body.clip
        trips = min(trips, total - counters[around] * body.extent)
    for trip in range(trips):
        for part in body.body:
            yield from _of(part, {**counters, body.name: trip})


def _columns(made: Made) -> tuple[np.ndarray, ...]:
    return tuple(np.array([value], np.int64) for value in made)


def _misses(built: hierarchy.Hierarchy, levels: int) -> list[int]:
    return [int(built.counts(level)[:, layout.MISSES].sum()) for level in range(levels)]


def _held(built: hierarchy.Hierarchy, level: int) -> tuple[int, ...]:
    """The lines of a level, set by set, as they lie in each: of LRU the newest first."""
    entries = built.tags(level).ravel()
    return tuple((entries[entries != EMPTY] >> 1).tolist())


def _item(stream: Stream, made: Made) -> str:
    """The item that an access touches, "x[3]": its array, and the address in items of the access's length."""
    array = stream.arrays[made.reference]
    first = next((begin for begin, end in stream.spans if begin <= made.address < end), made.address)
    return f"{array}[{(made.address - first) // made.nbytes}]"
