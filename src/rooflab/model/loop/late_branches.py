"""How much later a branch is known to be foretold wrongly where what it tests comes from beyond L1.

Where what the loop found decides the place of the next load, nothing of it is begun rightly before, so that
these loads wait one after the other: a binary search in a large array, a node of a tree. Loads in order are under
way long before, whichever way the branches go. Of those by an index that is read in order, as the places of a
hashed table, the wrong way of a missed branch fetches some of what comes next, and the rest begins after it: part
of their wait is shown. Lines of the source stand for loads: those of the branch's line.
"""

from __future__ import annotations

from rooflab.model.device.constants import load_family
from rooflab.model.loop import crossings, waiting
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Machine

# Misses an access from which a line is no stream, which prefetchers foresee: there one in eight, of 8 bytes each.
_SCATTERED = 0.2


def cycles_by_line(report: LoopReport, machine: Machine, cycle_s: float) -> dict[int, float]:
    """Cycles that a missed branch waits for the data that it tests, in the mean, by line of the source.

    Of each execution of the line: the share of its accesses that a level serves, times what that takes longer than
    L1, of loads that cannot be begun ahead, and of other scattered ones a part, with the translations of pages.
    Misses of each level are those from empty caches, as far as a warm run has them too.
    """
    nearest = report.simulation.levels
    levels = [crossings.level(machine, each.name) for each in nearest] + [crossings.level(machine, "memory")]
    first = levels[0]
    if first is None or first.latency_s is None:
        return {}
    warm = report.warm or report.simulation
    kept = [
        min(1.0, again.misses / first_time.misses) if first_time.misses else 0.0
        for again, first_time in zip(warm.levels, nearest, strict=True)
    ]
    # of what misses, those that no prefetcher foresees
    scattered = report.gathered.get(nearest[0].name, 0) / warm.levels[0].misses if warm.levels[0].misses else 0.0
    ahead = load_family("cpu")("loop.late_ahead") * min(1.0, scattered)
    within = float(report.scattered_bytes or report.footprint_bytes or 0)
    translated_s = waiting.translation_s(machine, within)
    found = {}
    for line in report.lines:
        names = [each.name for each in nearest]
        decided = line.misses if line.decided is None else line.decided
        misses = [
            share * (decided.get(name, 0) + ahead * (line.misses.get(name, 0) - decided.get(name, 0)))
            for share, name in zip(kept, names, strict=True)
        ] + [0.0]
        if not line.accesses or not misses[0] or line.misses.get(names[0], 0) < _SCATTERED * line.accesses:
            continue
        late_s = misses[0] / line.accesses * translated_s
        for here, further, served in zip(misses[:-1], misses[1:], levels[1:], strict=True):
            if served is not None and served.latency_s is not None:
                late_s += (here - further) / line.accesses * (served.latency_s - first.latency_s)
        found[line.line] = max(0.0, late_s / cycle_s)
    return found
