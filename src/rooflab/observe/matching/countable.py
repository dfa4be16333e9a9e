"""Calls whose recorded arguments no formula fits: a damaged or foreign file may record anything."""

from __future__ import annotations

from rooflab.observe.matching import torch_calls
from rooflab.observe.matching.torch_calls import Resolved
from rooflab.work.costs import costs


def countable(known: Resolved) -> Resolved:
    """`known`, or the reason why it is not counted: its formula fails on what was recorded of it."""
    if known.why is not None:
        return known
    try:
        costs(torch_calls.graph([known]))
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, ZeroDivisionError, OverflowError):
        return Resolved(known.name, None, (), (), {}, "its recorded arguments do not fit its formula")
    return known
