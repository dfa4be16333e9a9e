"""What ended a run of a lowered twin: where, and of an access out of bounds which index of how many."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rooflab.errors import RooflabError
from rooflab.loops.lowered.bounds import Raised
from rooflab.loops.lowered.instrument import Plan
from rooflab.loops.read.source import SourceLines
from rooflab.loops.twin import hooks
from rooflab.units import iec

_UNTOLD = "Error creating Python tuple from runtime exception arguments"  # its values were made by the twin


class Ended(NamedTuple):
    """What a run left.

    Attributes:
        plan: what was counted.
        passes, events: its counters, the words of `hooks`.
        room_bytes: of the memory that it may use.
    """

    plan: Plan
    passes: np.ndarray
    events: np.ndarray
    room_bytes: int


def where(run: Ended, within: int | None, tests: int | None = None) -> str:
    """The variables of loop `within` and those around it, outermost first; of an outermost other loop its trip.

    `tests`: the while whose test for the trip to come is being made.
    """
    places: list[str] = []
    while within is not None:
        loop = run.plan.loops[within]
        trip = int(run.passes[loop.block]) + (within == tests)
        if within in run.plan.variables:
            places.insert(0, f"{loop.variable} = {int(run.events[hooks.VARIABLES + within])}")
        elif loop.parent is None:
            kind = f"for {loop.variable}" if loop.variable else "while"
            places.insert(0, f"trip {trip:,} of {kind} (line {loop.line})")
        within = loop.parent
    return ", ".join(places)


def said(failed: BaseException, source: SourceLines, run: Ended) -> str:
    """What ended the run, in one line."""
    if isinstance(failed, RooflabError):
        return str(failed)
    if isinstance(failed, MemoryError):
        room = iec(run.room_bytes)
        return f"{source.path}:{source.line}: {source.name}: the arrays that it makes do not fit in {room}"
    number = int(run.events[hooks.REF])
    raised = list(run.plan.raises.values())[number] if 0 <= number < len(run.plan.raises) else None
    line = raised.line if raised is not None and raised.line in source.lines else source.line
    text = source.lines.get(line, "").strip()
    if isinstance(failed, IndexError):
        return f"{source.path}:{line}: {source.name}: {_outside(raised, text, run)}"
    place = _place(raised, run)
    if _UNTOLD in str(failed):
        reason = "an exception of numba's, as where shapes do not fit"
    else:
        said = str(failed).partition("\n")[0].strip()  # numba adds where in itself it is set
        reason = f"{type(failed).__name__}{f': {said}' if said else ''}"
    return f"{source.path}:{line}: {source.name} stops with {reason}: {text}{place}"


def _place(raised: Raised | None, run: Ended) -> str:
    """Where in its loops that was, as "at i = 3, trip 2 of while (line 7)" after a space; "" outside of loops."""
    place = "" if raised is None else where(run, raised.loops[0][0] if raised.loops else None, raised.tests)
    return f" at {place}" if place else ""


def _outside(raised: Raised | None, text: str, run: Ended) -> str:
    """An access out of bounds: which one, in which trips, which index, of how many."""
    place = _place(raised, run)
    if raised is None or not raised.asked:
        return f"out of bounds{' in what it calls' if raised is None or raised.passed_on else ''}: {text}{place}"
    ref = None if raised.access is None else run.plan.refs[raised.access]
    if ref is None or ref.line != raised.line:
        ref = None
    array = raised.array or ("" if ref is None else ref.array)
    index, length = int(run.events[hooks.INDEX]), int(run.events[hooks.LENGTH])
    axis = "" if raised.axis is None else f" of axis {raised.axis}"
    of = f" of {array}, which has {length} elements" if array else f", of {length} elements"
    return (
        f"{text if ref is None else ref.text} is out of bounds{place}: index {index}{axis}{of}"
        f"{' there' if axis else ''} (0 to {length - 1})"
    )
