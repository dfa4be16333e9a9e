"""A run of a twin: what it left, and how often each line computed."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from rooflab.loops.read.twin_text import Text


class Outcome(NamedTuple):
    """What a run of a twin left.

    Attributes:
        passes: how often each block ran.
        result: what the loop returned.
        outputs: its arguments after the run.
        stopped: whether its time was up before it ended.
        where: loop variables at that moment, outermost first ("i = 7").
        error: in words, what ended it: an access out of bounds, or what Python raises too.
        seconds: that it ran, compilation left out.
    """

    passes: np.ndarray
    result: Any
    outputs: tuple[Any, ...]
    stopped: bool
    where: str
    error: str | None
    seconds: float


class Twin(NamedTuple):
    """A compiled twin: `text` says what its counters mean."""

    function: Any
    text: Text


def by_line(text: Text, passes: np.ndarray) -> Mapping[int, dict[tuple[str, str], int]]:
    """FLOP of each line by (engine, number format)."""
    counts: dict[int, dict[tuple[str, str], Fraction]] = {}
    for (block, line), counted in text.flop.items():
        for each in counted:
            held = counts.setdefault(line, {})
            key = (each.engine, each.dtype)
            held[key] = held.get(key, Fraction(0)) + Fraction(each.times * int(passes[block]), each.per)
    return {line: {key: int(each) for key, each in held.items()} for line, held in counts.items()}
