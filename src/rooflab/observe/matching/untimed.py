"""What was counted and not timed: no rows, which are of time, but told with its counts."""

from __future__ import annotations

from collections.abc import Iterable

from rooflab import units
from rooflab.types.counted import Counted
from rooflab.types.kernel_names import short_name
from rooflab.types.trace import Dropped

_TOLD = 8


def untimed(counted: Iterable[Counted]) -> tuple[tuple[Dropped, ...], tuple[str, ...]]:
    """How many of `counted` have no time, and what was counted of the first of them."""
    found = [one for one in counted if one.time_s is None]
    if not found:
        return (), ()
    first = {one.name: one for one in reversed(found)}
    notes = [f"counted without a time: {_said(one)}" for one in list(first.values())[::-1][:_TOLD]]
    if len(first) > _TOLD:
        notes.append(f"{len(first) - _TOLD} more were counted without a time")
    return (Dropped(len(found), "counted without a time: no rate or share is known of them"),), tuple(notes)


def _said(one: Counted) -> str:
    flop = sum(each.count for each in one.flop) if one.flop else None
    parts = [] if flop is None else [units.si(flop, "FLOP")]
    parts += [f"{units.si(each.read_bytes + each.write_bytes, 'B')} at {each.level}" for each in one.traffic]
    if flop is not None:
        amounts = [(each.level, each.read_bytes + each.write_bytes) for each in one.traffic]
        parts += [f"{flop / nbytes:.3g} FLOP/B at {level}" for level, nbytes in amounts if nbytes > 0]
    if not parts:
        parts = [f"{name} {value:.6g}" for name, value in list(one.metrics.items())[:_TOLD]]
    return f"{short_name(one.name, 44)}: {', '.join(parts) or 'nothing'}"
