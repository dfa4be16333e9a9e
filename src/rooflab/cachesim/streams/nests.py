"""Affine loop nests as data: loops around accesses whose addresses are sums of loop counters times strides.

A nest is a tree; `encode` makes of it the table of integers that `nest_interpreter` interprets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rooflab.cachesim.native.layout import LOAD, STREAM
from rooflab.errors import RooflabError

MOST_LOOPS = 8  # that one access may lie in
MOST_REFERENCES = 64  # of an innermost loop
# Instructions of the table. Those of loops are followed by the loop's number, its extent, the loop that clips it
# (or −1) and the total; then LOOP by where the table goes on after it, INNER by the address of what makes its
# steps and by how many references follow. END names the loop and where it begins; AGAIN is the END of one that may
# repeat itself (see `run/repeats.py`), with how many accesses a step makes and the references that it moves.
LOOP, END, INNER, ACCESS, STOP, AGAIN = range(6)
_FEWEST = 4  # steps in a unit from which on looking for a repetition can pay
REFERENCE_WORDS = 4 + MOST_LOOPS  # base, bytes, request, reference, a stride for each loop


@dataclass(frozen=True)
class Access:
    """One load or store.

    Attributes:
        reference: its number among the stream's references.
        base: its address where every loop counter is zero.
        strides: bytes that its address moves with each step of a loop, by the loop's name.
        nbytes: that it touches.
        request: LOAD, STORE or STREAM.
    """

    reference: int
    base: int
    strides: dict[str, int]
    nbytes: int = 8
    request: int = LOAD


@dataclass(frozen=True)
class Loop:
    """`body` once for each value of the counter `name` from 0 to `extent` − 1.

    Attributes:
        clip: (name of an outer loop, total): the extent is cut to total − outer counter × extent, so that the
            last tile of a row need not be a whole one.
    """

    name: str
    extent: int
    body: tuple[Loop | Access, ...]
    clip: tuple[str, int] | None = None


class Program(NamedTuple):
    """Loops one after the other."""

    loops: tuple[Loop, ...]


@dataclass
class _Encoder:
    steps_of: Callable[[Sequence[Access]], int]
    unit_bytes: int
    words: list[int] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def loop(self, loop: Loop) -> None:
        self.numbers[loop.name] = len(self.numbers)
        number, (around, total) = self.numbers[loop.name], loop.clip or ("", 0)
        header = [number, loop.extent, self.numbers[around] if loop.clip else -1, total]
        own = [each for each in loop.body if isinstance(each, Access)]
        if len(own) == len(loop.body):
            if len(own) > MOST_REFERENCES:
                raise RooflabError(
                    f"loop {loop.name!r} holds {len(own)} accesses, expected at most {MOST_REFERENCES}"
                )
            self.words += [INNER, *header, self.steps_of(own), len(own)]
            for each in own:
                self.access(each)
        else:
            begin = len(self.words)
            self.words += [LOOP, *header, 0]
            for each in loop.body:
                if isinstance(each, Access):
                    self.words.append(ACCESS)
                    self.access(each)
                else:
                    self.loop(each)
            self.words += [AGAIN if _may_repeat(loop, self.unit_bytes) else END, number, begin]
            if self.words[-3] == AGAIN:
                moved = [each for each in accesses(loop) if each.strides.get(loop.name)]
                self.words += [max(1, count(loop) // loop.extent), len(moved)]
                for each in moved:
                    self.access(each)
            self.words[begin + 5] = len(self.words)
        del self.numbers[loop.name]

    def access(self, access: Access) -> None:
        strides = [0] * MOST_LOOPS
        for name, number in self.numbers.items():
            strides[number] = access.strides.get(name, 0)
        self.words += [access.base, access.nbytes, access.request, access.reference, *strides]


def encode(loop: Loop, steps_of: Callable[[Sequence[Access]], int], unit_bytes: int) -> list[int]:
    """The table of one outermost loop; `steps_of` names what makes the steps of an innermost one.

    `unit_bytes` are those of the first level: what one of its requests is for.
    """
    encoder = _Encoder(steps_of, unit_bytes)
    encoder.loop(loop)
    return [*encoder.words, STOP]


def may_repeat(program: Program, unit_bytes: int) -> set[int]:
    """Numbers in the table of loops whose steps may touch the same units as the step before: how deep they lie."""

    def found(loop: Loop, depth: int) -> set[int]:
        own = {depth} if _may_repeat(loop, unit_bytes) else set()
        return own.union(*(found(part, depth + 1) for part in loop.body if isinstance(part, Loop)))

    return set().union(*(found(loop, 0) for loop in program.loops))


def _may_repeat(loop: Loop, unit_bytes: int) -> bool:
    """Whether steps of `loop` may touch the same units as the step before, several times in a row.

    A reference that the loop moves does so by little, and stays at the same place of a unit in all inner loops.
    """
    return (
        loop.extent > _FEWEST
        and bool(inner(loop))
        and not any(each.clip and each.clip[0] == loop.name for each in inner(loop))
        and all(
            abs(access.strides.get(loop.name, 0)) * _FEWEST <= unit_bytes
            and not (
                access.strides.get(loop.name) and any(access.strides.get(name, 0) % unit_bytes for name in within)
            )
            for access, within in _placed(loop)
        )
    )


def inner(loop: Loop) -> list[Loop]:
    """Every loop within `loop`."""
    loops = [part for part in loop.body if isinstance(part, Loop)]
    return loops + [deeper for part in loops for deeper in inner(part)]


def _placed(loop: Loop, within: tuple[str, ...] = ()) -> list[tuple[Access, tuple[str, ...]]]:
    """Every access within `loop`, and the names of the loops inside of it that it lies in."""
    found = []
    for part in loop.body:
        found += [(part, within)] if isinstance(part, Access) else _placed(part, (*within, part.name))
    return found


def accesses(body: Loop | Access) -> list[Access]:
    """Every access within `body`, in order."""
    if isinstance(body, Access):
        return [body]
    return [each for part in body.body for each in accesses(part)]


def totals(body: Loop | Access, around: tuple[Loop, ...] = ()) -> list[tuple[int, int, int]]:
    """(reference, request, how often it is made) of every access within `body`.

    A clipped loop makes its total of trips over all trips of the loop that clips it.
    """
    if isinstance(body, Loop):
        return [each for part in body.body for each in totals(part, (*around, body))]
    clipping = {loop.clip[0] for loop in around if loop.clip}
    trips = 1
    for loop in around:
        if loop.clip:
            trips *= loop.clip[1]
        elif loop.name not in clipping:
            trips *= loop.extent
    return [(body.reference, body.request, trips)]


def count(loop: Loop, weight: bool = False) -> int:
    """How many accesses `loop` makes; with `weight`, how many bytes they name."""
    sizes = [each.nbytes if weight else 1 for each in accesses(loop)]
    return sum(size * number for size, (_, _, number) in zip(sizes, totals(loop), strict=True))


def streams(program: Program) -> bool:
    """Whether `program` makes non-temporal stores."""
    return any(each.request == STREAM for loop in program.loops for each in accesses(loop))
