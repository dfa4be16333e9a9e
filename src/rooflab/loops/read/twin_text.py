"""What a twin is made of: its text, and what the numbers of its accesses, loops and blocks mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rooflab.loops.read.access_patterns import AccessPattern
from rooflab.loops.read.value_types import Flop

LEAST_POWER, POWERS = 64, 7  # bytes, of `Ref.multiples`: up to 64, then 128 and so on


class Ref(NamedTuple):
    """One access as it stands in the source.

    Attributes:
        number: what the simulator knows it by.
        pattern: how its place moves (`access_patterns`).
        step_bytes: between most of its new lines that lay far apart; 0 where none did.
        multiples: steps to new lines that are near or multiples of 64 bytes or less, of 128, … of 4 KiB, each
            counted once.
        far: how many of its new lines lay far from the last, as where another row begins.
        alone: of those, how many lay beside none of the last few dozen lines either, or as far as most of them.
        decided: whether what its loop has found decides its place: nobody can begin it ahead.
    """

    number: int
    array: str
    line: int
    text: str
    write: bool
    itemsize: int
    block: int
    pattern: AccessPattern
    step_bytes: int = 0
    multiples: tuple[int, ...] = ()
    decided: bool = False
    far: int = 0
    alone: int = 0


class Loop(NamedTuple):
    """A loop: `variable` is "" for while; its body's block counts its trips."""

    number: int
    variable: str
    line: int
    block: int
    parent: int | None


class Text(NamedTuple):
    """A twin.

    Attributes:
        text: of the function, named `twin`.
        refs, loops: by number.
        flop: of one pass of a block, by (block, line).
        owners: the innermost loop of each block; None outside of loops.
        swapped: arrays that change places in it: what is known by array is known of them together.
    """

    text: str
    refs: tuple[Ref, ...]
    loops: tuple[Loop, ...]
    flop: Mapping[tuple[int, int], tuple[Flop, ...]]
    owners: tuple[int | None, ...]
    swapped: frozenset[str]

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return len(self.owners)

    @property
    def innermost(self) -> tuple[Loop, ...]:
        """Loops that hold no other."""
        parents = {loop.parent for loop in self.loops}
        return tuple(loop for loop in self.loops if loop.number not in parents)


class Layout(NamedTuple):
    """What of an array argument is fixed in the text.

    Attributes:
        unit: the last stride is one element.
        split: an element may lie on two lines.
    """

    unit: bool
    split: bool
