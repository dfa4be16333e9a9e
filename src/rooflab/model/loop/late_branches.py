"""How much later a branch is known to be foretold wrongly where what it tests comes from beyond L1.

Where what the loop found decides the place of the next load, nothing of it is begun rightly before, so that
these loads wait one after the other: a binary search in a large array, a node of a tree. Loads in order, or by an
index that is read in order, are under way long before, whichever way the branches go. Lines of the source stand
for loads: those of the branch's line.
"""

from __future__ import annotations

from rooflab.model.loop import crossings
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Machine

# Misses an access from which a line is no stream, which prefetchers foresee: there one in eight, of 8 bytes each.
_SCATTERED = 0.2


def cycles_by_line(report: LoopReport, machine: Machine, cycle_s: float) -> dict[int, float]:
    """Cycles that a missed branch waits for the data that it tests, in the mean, by line of the source.

    Of each execution of the line: the share of its accesses that a level serves, times what that takes longer than
    L1, of loads that cannot be begun ahead. Misses are those from empty caches, as far as a warm run has them too.
    """
    nearest = report.simulation.levels
    levels = [crossings.level(machine, each.name) for each in nearest] + [crossings.level(machine, "memory")]
    first = levels[0]
    if first is None or first.latency_s is None:
        return {}
    warm = report.warm or report.simulation
    kept = min(1.0, warm.levels[0].misses / nearest[0].misses) if nearest[0].misses else 0.0
    found = {}
    for line in report.lines:
        names = [each.name for each in nearest]
        waiting = line.misses if line.decided is None else line.decided
        misses = [waiting.get(name, 0) for name in names] + [0]
        if not line.accesses or misses[0] < _SCATTERED * line.accesses:
            continue
        late_s = 0.0
        for here, further, served in zip(misses[:-1], misses[1:], levels[1:], strict=True):
            if served is not None and served.latency_s is not None:
                late_s += (here - further) / line.accesses * (served.latency_s - first.latency_s)
        found[line.line] = max(0.0, kept * late_s / cycle_s)
    return found
