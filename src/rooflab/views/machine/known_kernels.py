"""The known kernels of a machine that can stand in a picture of its roofline."""

from __future__ import annotations

from rooflab.types.machine import Machine, Point, Scope

# A picture over more decades shows nothing: what lies beyond is in the tables alone.
_INTENSITIES = (1e-5, 1e7)
_LEAST_FLOP_PER_S = 1.0


def drawable(machine: Machine, scope: Scope) -> list[Point]:
    """The kernels of `scope` whose intensity and speed are numbers that an axis can have."""
    return [
        point
        for point in machine.points
        if point.scope == scope
        and point.bytes > 0
        and point.time_s > 0
        and _INTENSITIES[0] < point.intensity < _INTENSITIES[1]
        and point.flop_per_s > _LEAST_FLOP_PER_S
    ]
