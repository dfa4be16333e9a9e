"""What is to be counted of a lowered module: its accesses, counters, loops; and how its source calls things."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rooflab.loops.lowered.bounds import Raised
from rooflab.loops.lowered.pointers import Root
from rooflab.loops.lowered.source_loops import Statement
from rooflab.loops.read.twin_text import Loop, Ref
from rooflab.loops.read.value_types import Flop


class Access(NamedTuple):
    """A load or store that is counted.

    Attributes:
        ref: number of its reference.
        pointer: the text of the pointer.
        nbytes: of one element; `lanes` are accessed one after the other.
        write: whether it is a store.
        constant: the constant of the module that it reads, or "".
        checked: whether it is only known at run time to lie in the arrays.
        whole: whether it is known to lie on a multiple of its size, a power of two.
        elements: of a whole range: factors of how many there are, as text; none of a single access.
    """

    ref: int
    pointer: str
    nbytes: int
    lanes: int
    write: bool
    constant: str
    checked: bool
    whole: bool
    elements: tuple[str, ...]


class Plan(NamedTuple):
    """What is counted of a module.

    Attributes:
        accesses: by function and the number of the instruction that they stand before.
        counters: the counter of each block that has one, by function and label.
        refs, loops, flop, owners: as of `Text`, blocks being counters.
        heads: where each trip of a loop begins, by function and label: the loop's number.
        products: counters that grow by a product of values, by function and number of the instruction.
        unseen: functions that are called and whose accesses are not known; `modelled`: those of BLAS.
        random: whether numbers come from a generator whose state no run sets back.
        raises: the places that set an exception, by function and number of the instruction.
        variables: the value of each loop's variable, by the loop's number, where it is known.
    """

    accesses: Mapping[tuple[str, int], list[Access]]
    counters: Mapping[tuple[str, str], int]
    refs: tuple[Ref, ...]
    loops: tuple[Loop, ...]
    flop: Mapping[tuple[int, int], tuple[Flop, ...]]
    owners: tuple[int | None, ...]
    heads: Mapping[tuple[str, str], int]
    products: Mapping[tuple[str, int], list[tuple[int, tuple[str, ...]]]]
    unseen: tuple[str, ...]
    modelled: tuple[str, ...]
    random: bool
    raises: Mapping[tuple[str, int], Raised]
    variables: Mapping[int, str]


class Names(NamedTuple):
    """How the source calls things.

    Attributes:
        array: of a line and the roots of a pointer: the name of what lies there.
        text: of an access: line, array, whether it is a store: as the source has it.
        variable: of the loop that begins in a line, where `loops` does not say.
        texts: of accesses, by number: as the source has them, where it says more than `text`.
        loops: the loops of the source.
        whole: whether elements of so many bytes of the array with those roots lie on multiples of that.
    """

    array: Callable[[int, frozenset[Root]], str]
    text: Callable[[int, str, bool], str]
    variable: Callable[[int], str]
    texts: Callable[[Sequence[Ref]], Mapping[int, str]] = lambda _: {}
    loops: tuple[Statement, ...] = ()
    whole: Callable[[frozenset[Root], int], bool] = lambda *_: False
