"""How long something would take, why, and how sure that is."""

from __future__ import annotations

from typing import Literal

import msgspec

Bound = Literal["memory-bound", "compute-bound", "overhead-bound", "balanced"]


class Prediction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The predicted time of one operation, all its executions together.

    Attributes:
        time_s: best guess; `low_s` and `high_s` hold the true time in about four of five cases.
        floor_s: what no run on that machine can beat: theoretical rates at the highest clock.
        compute_s: seconds that its arithmetic keeps the busiest engine.
        memory_s: seconds of traffic by memory level ("L2", "HBM", …), near to far.
        overhead_s: starting, filling and draining its kernels, and what of the time is in no other term: steps
            of a small kernel that wait for one another; in eager mode the wait for the host too.
        host_s: host time to dispatch it, in eager mode; it overlaps with the device's.
        kernels: how many the device starts for it.
        bound: what binds it: the largest of compute, slowest level and overhead; "balanced" where the
            second is at least 0.9 of the first. Of a whole program: what binds the operations that take most of
            its time, "balanced" where two of the three kinds take within a tenth of the same, or most of the time
            is that of balanced operations.
        binds: what is behind it: the level, the engine ("bf16 matrix"), "instructions" (issuing those that are
            no FLOP: addresses, conversions), "launch" or "host".
    """

    time_s: float
    low_s: float
    high_s: float
    floor_s: float
    compute_s: float
    memory_s: dict[str, float]
    overhead_s: float
    bound: Bound
    binds: str
    host_s: float = 0.0
    kernels: float = 1.0
