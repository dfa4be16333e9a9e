"""Two sequences of keys laid side by side: one run of a program against what a trace holds of many runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_WINDOW = 384  # how far an insertion or a gap may reach and still be bridged exactly
_LEFT_OUT = 0.2  # of a score that is 4 to 8 where something is known to agree
_SAMPLE = 8  # keys in a row that tell a place in the program


class Pair(NamedTuple):
    """An element of the trace that is one of the program.

    Attributes:
        place: in the program, counted on over its runs: the run is `place // length`, the element the rest.
        element: of the trace.
    """

    place: int
    element: int


def align(
    program: Sequence[int], trace: Sequence[int], scores: NDArray[np.float64], window: int = _WINDOW
) -> list[Pair]:
    """The pairs of `program`, run again and again, and `trace`, in order, whose scores add up to most.

    It walks along both while they agree; where they do not, it looks `window` elements ahead on both sides and
    takes the best alignment of those. So the work grows with the length, not with its square.

    Args:
        program: kind of element by place, numbers of rows of `scores`.
        trace: the same, numbers of columns.
        scores: how well a kind of the program fits one of the trace; 0 for not at all.
        window: how far it looks ahead.
    """
    if not len(program) or not len(trace):
        return []
    best = scores.max() if scores.size else 0.0
    if best <= 0:
        return []
    starts = _places(program, trace, scores)
    pairs: list[Pair] = []
    place, element = starts(0) or 0, 0
    length = len(program)
    while element < len(trace):
        if scores[program[place % length], trace[element]] >= best:
            pairs.append(Pair(place, element))
            place, element = place + 1, element + 1
            continue
        # Twice as much of the program: what is left out of the trace must not run into the end.
        ahead = [program[(place + step) % length] for step in range(2 * window)]
        found = _best(scores[np.ix_(ahead, trace[element : element + window])])
        if not found:
            # Nothing of the program is ahead: go on, where the trace is at a place that is known.
            element += window // 2 if len(trace) - element > window else window
            again = starts(element)
            if again is not None:
                place += (again - place) % length
            continue
        last_window = element + window >= len(trace)
        kept = found if last_window else found[: max(1, len(found) * 3 // 4)]
        pairs += [Pair(place + one, element + other) for one, other in kept]
        if last_window:
            break
        place, element = pairs[-1].place + 1, pairs[-1].element + 1
    return pairs


def _best(scores: NDArray[np.float64]) -> list[tuple[int, int]]:
    """The pairs of rows and columns, both rising, whose scores add up to most."""
    rows, columns = scores.shape
    # Left out of the trace costs little, but more than nothing: a weak pair is not worth half a run. Put into it
    # costs a trifle, so that of equal alignments the nearest is taken.
    left_out, put_in = _LEFT_OUT, 1e-4
    steps = put_in * np.arange(columns + 1)
    table = np.zeros((rows + 1, columns + 1))
    for row in range(rows):
        line = table[row] - left_out
        line[1:] = np.maximum(line[1:], np.where(scores[row] > 0, table[row, :-1] + scores[row], -np.inf))
        # The best of all columns before, less the gap to it.
        table[row + 1] = np.maximum.accumulate(line + steps) - steps
    row, column = (int(one) for one in np.unravel_index(int(table.argmax()), table.shape))
    pairs = []
    while row and column:
        value, score = table[row, column], scores[row - 1, column - 1]
        if score > 0 and abs(table[row - 1, column - 1] + score - value) < put_in / 10:
            pairs.append((row - 1, column - 1))
            row, column = row - 1, column - 1
        elif abs(table[row - 1, column] - left_out - value) < put_in / 10:
            row -= 1
        else:
            column -= 1
    return pairs[::-1]


def _places(program: Sequence[int], trace: Sequence[int], scores: NDArray[np.float64]):
    """A function from an element of the trace to the place in the program where it and those after it fit best."""
    fits = scores.argmax(axis=0)
    known = scores.max(axis=0) > 0
    length = len(program)
    size = min(_SAMPLE, length)
    samples: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place in range(length):
        samples[tuple(program[(place + step) % length] for step in range(size))].append(place)

    def start(element: int) -> int | None:
        for first in range(element, min(element + _WINDOW, len(trace) - size + 1)):
            some = trace[first : first + size]
            if not all(known[one] for one in some):
                continue
            places = samples.get(tuple(int(fits[one]) for one in some))
            if places:
                # Several fit where layers repeat: the first is where a run begins.
                return max(0, places[0] - (first - element))
        return None

    return start
