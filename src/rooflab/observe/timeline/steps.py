"""The steps of a run: those that the program marked, else a sequence of kernels that comes again and again."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from rooflab.observe.timeline.intervals import Cover
from rooflab.types.timeline import Period, Step
from rooflab.types.trace import ANNOTATION, KERNEL, Trace

# PyTorch's mark, and what importers of other formats call a step.
STEP = re.compile(r"ProfilerStep#?\s*\d+|step \d+ of .+")

_REPEATS = 3  # times that a sequence must come, to be called a period
_LEAST = 3  # kernels of a step
_MOST = 2000  # steps: beyond, what repeats is smaller than one
_COVERED = 0.8  # of all kernels that it must be
_GUESSES = 12  # lengths that are tried
_WRONG = 0.1  # of its kernels that may be out of turn
_ALIKE = 0.02  # shares of kernels out of turn that say nothing
_SHIFT_SHARE = 0.25  # of a period: a longer stretch of other kernels ends the repetition


def steps_of(trace: Trace) -> tuple[tuple[Step, ...], Period | None]:
    """The steps in order, and the period that they were found by; None where the program marked them."""
    kernels = trace.kernels
    busy = Cover(kernels.start_s, kernels.start_s + kernels.duration_s)
    marked = _marked(trace, busy)
    return (marked, None) if marked else _repeated(trace, busy)


def _marked(trace: Trace, busy: Cover) -> tuple[Step, ...]:
    calls = trace.calls
    names = [number for number in np.unique(calls.name).tolist() if STEP.fullmatch(trace.names[number])]
    these = np.flatnonzero((calls.kind == ANNOTATION) & np.isin(calls.name, names))
    these = these[np.argsort(calls.start_s[these], kind="stable")]
    begin_s = calls.start_s[these]
    return _steps([trace.names[number] for number in calls.name[these]], begin_s, calls.duration_s[these], busy)


def _steps(
    names: list[str], begin_s: NDArray[np.float64], long_s: NDArray[np.float64], busy: Cover
) -> tuple[Step, ...]:
    times = zip(
        names, begin_s.tolist(), long_s.tolist(), busy.within(begin_s, begin_s + long_s).tolist(), strict=True
    )
    return tuple(
        Step(name=name, start_s=start, duration_s=long, busy_s=worked) for name, start, long, worked in times
    )


def _repeated(trace: Trace, busy: Cover) -> tuple[tuple[Step, ...], Period | None]:
    """Steps by the period of the busiest device's kernels; nothing where they have none."""
    kernels = trace.kernels
    computing = kernels.kind == KERNEL
    if not computing.any():
        return (), None
    numbers, counts = np.unique(kernels.device[computing], return_counts=True)
    which = np.flatnonzero(computing & (kernels.device == numbers[counts.argmax()]))
    found = period_of(kernels.name[which])
    if found is None:
        return (), None
    first, length, repeats = found
    begins = which[first + length * np.arange(repeats)]
    last = which[min(first + length * repeats, len(which)) - 1]
    edges_s = np.append(kernels.start_s[begins], kernels.start_s[last] + kernels.duration_s[last])
    names = [f"repeat {number + 1}" for number in range(repeats)]
    period = Period(kernels=length, repeats=repeats, share=length * repeats / len(which))
    return _steps(names, edges_s[:-1], np.diff(edges_s), busy), period


def period_of(names: NDArray[np.int32]) -> tuple[int, int, int] | None:
    """Where a repeated sequence of `names` begins, how long it is and how often it comes; None for none.

    Of sequences that cover most of all names the shortest is taken; one of two steps is not better than one.
    """
    known: list[tuple[float, int, int, int]] = []
    for length in _guesses(names):
        same = names[length:] == names[:-length]
        first, last = _longest(same, max(1, int(length * _SHIFT_SHARE)))
        covered = last - first + length
        if last <= first or covered < _COVERED * len(names):
            continue
        wrong = 1 - float(np.count_nonzero(same[first:last])) / (last - first)
        if wrong <= _WRONG:
            known.append((wrong, length, first, covered // length))
    fewest = min((wrong for wrong, *_ in known), default=0.0)
    length, first, repeats = min((rest for wrong, *rest in known if wrong <= fewest + _ALIKE), default=(0, 0, 0))
    return (first, length, repeats) if length >= _LEAST and _REPEATS <= repeats <= _MOST else None


def _guesses(names: NDArray[np.int32]) -> list[int]:
    """Lengths that names come again after, of the rarest names first."""
    order = np.argsort(names, kind="stable")
    _, starts, counts = np.unique(names[order], return_index=True, return_counts=True)
    lengths: Counter[int] = Counter()
    for at in np.argsort(counts, kind="stable"):
        if counts[at] < _REPEATS:
            continue
        places = order[starts[at] : starts[at] + counts[at]]
        # What comes several times in a period has distances of which that many make one.
        for several in range(1, min(len(places) - 1, _GUESSES) + 1):
            usual, times = np.unique(places[several:] - places[:-several], return_counts=True)
            lengths[int(usual[times.argmax()])] += 1
        if len(lengths) >= 2 * _GUESSES:
            break
    longest = len(names) // _REPEATS
    return [length for length, _ in lengths.most_common(2 * _GUESSES) if 0 < length <= longest]


def _longest(same: NDArray[np.bool_], bridged: int) -> tuple[int, int]:
    """Where the longest stretch of `same` begins and ends, over gaps of at most `bridged`."""
    true = np.flatnonzero(same)
    if not len(true):
        return 0, 0
    breaks = np.flatnonzero(np.diff(true) > bridged)
    begins = true[np.concatenate(([0], breaks + 1))]
    ends = true[np.append(breaks, len(true) - 1)] + 1
    longest = int((ends - begins).argmax())
    return int(begins[longest]), int(ends[longest])
