"""What must bind a kernel, as derived by hand, held against its prediction on a machine with a table's times."""

from __future__ import annotations

from typing import NamedTuple

from rooflab.machines import microarchitecture
from rooflab.model.loop import cores, times
from rooflab.types.loop import LoopReport, Predicted
from rooflab.types.machine import Machine

ISSUE = ("instructions", "whole numbers", "results of a pass")


class Bound(NamedTuple):
    """A kernel, its size, and what must bind it.

    Attributes:
        file, kernel: where it lies.
        n: its size.
        kind: "chain", "level", "branch", "calls", "units" or "either".
        names: of a chain, all that it is made of; of a level, function or unit, those that are within a tenth of
            one another by hand, any of which may come out; of "either", whatever may be among what comes out.
        lines: of the source, any of which may be named; none where it lies in code of numba's own.
        shares: of a branch: the least and most of its runs that are foretold wrongly.
    """

    file: str
    kernel: str
    n: int
    kind: str
    names: tuple[str, ...]
    lines: tuple[int, ...] = ()
    shares: tuple[float, float] = (0.0, 1.0)


def predicted(report: LoopReport, machine: Machine) -> Predicted:
    """What binds it there, with the times of a Zen 4 from the table: of the host only the code's vectors are."""
    row = microarchitecture.named("Zen 4")
    timing = cores.with_room_of(row, cores.of_microarchitecture(row, 1 / 3.7e9))
    found = times.predict(report, machine, timing=timing)
    assert found is not None
    return found


def check(bound: Bound, found: Predicted) -> None:
    """See that what was found is what must bind."""
    longest = found.loops[0]
    if bound.kind == "level":
        slowest = max(found.levels_s, key=lambda each: found.levels_s[each])
        assert found.bound != "compute-bound"
        assert slowest in bound.names
        return
    assert found.bound != "memory-bound"
    words = found.core_why.partition(" (line")[0]
    if bound.kind == "chain":
        assert set(words.removeprefix("a chain of ").split(", ")) == set(bound.names)
    elif bound.kind == "calls":
        assert words.removeprefix("calls of ") in bound.names
    elif bound.kind == "branch":
        assert words == "branches foretold wrongly"
        assert bound.shares[0] <= longest.missed_share <= bound.shares[1]
        assert longest.missed_line in bound.lines
    elif bound.kind == "units":
        assert words in bound.names
    else:
        assert set(words.removeprefix("a chain of ").split(", ")) <= set(bound.names)
    if bound.lines:
        assert any(str(line) in found.core_why for line in bound.lines)
