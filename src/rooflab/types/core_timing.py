"""How long the operations of a core take: from operands to result, one after the other, a branch missed."""

from __future__ import annotations

import msgspec

from rooflab.types.source import Source

# The throughput of a line that comes from L2, where lines so many bytes apart are read, changed or stored into.
LINE_ROW = "L2 line {kind}, {apart} apart"


class CoreTiming(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times of a core's operations, in cycles.

    Attributes:
        cycle_s: seconds of a cycle: of an addition of whole numbers that waits for the one before.
        latency: cycles from operands to result, by kind ("fp add", "load", "store forward").
        throughput: cycles of one operation where many are independent, by kind; of vectors as wide as they come.
        missed_branch: cycles that a wrongly foretold branch costs.
        window: instructions that it has begun and not finished at most.
        scheduler: of those, arithmetic that waits for its operands at most.
        queue: arithmetic that waits in order for the scheduler to have room, at most.
        integers: arithmetic on whole numbers that waits at most, in schedulers of its own; None where it waits in
            the same one. `multiplies`: of those, multiplications.
        loads, stores: of those begun, at most; None where that is not known.
        registers: results in vector registers of instructions begun, at most; None likewise.
        measured: whether it was measured on that core, or is of its microarchitecture or of a usual one.
        source: of all of it; None where it was measured for use at once.
    """

    cycle_s: float
    latency: dict[str, float]
    throughput: dict[str, float]
    missed_branch: float
    window: float = 256.0
    scheduler: float = 97.0
    queue: float = 0.0
    integers: float | None = None
    multiplies: float | None = None
    loads: float | None = None
    stores: float | None = None
    registers: float | None = None
    measured: bool = True
    source: Source | None = None
