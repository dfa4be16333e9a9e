"""What rules look for in a loop on a machine: what waits, what is moved again, how arrays are gone through."""

from __future__ import annotations

from rooflab.loops.static import dependence
from rooflab.remedies.loops.case import Case
from rooflab.types.loop import LoopReport, LoopTime
from rooflab.types.simulation import LevelCounts
from rooflab.units import duration, percent, si

FEW = 0.1  # of the time: what takes less is not looked at
_MORE = 1.5  # times the bytes that are there: from then on something is moved again
_RECORD = 16  # elements of the last index up to which an array is one of records


def waiting_loop(case: Case) -> LoopTime | None:
    """The loop of the compiled code that waits longest for itself, where that takes more than its operations."""
    found = [each for each in case.predicted.loops if each.chain_s > _MORE * each.ports_s]
    worst = max(found, key=lambda each: each.time_s, default=None)
    return None if worst is None or worst.time_s < FEW * case.predicted.time_s else worst


def busiest(loop: LoopTime) -> str:
    """What the operations of a loop take, and what is busiest with them, in words."""
    return f"{duration(loop.ports_s)} ({loop.busiest})"


def levels_of(report: LoopReport) -> tuple[LevelCounts, ...]:
    """The simulated levels of a warm run, or of the only one."""
    return (report.warm or report.simulation).levels


def nearest(counts: dict[str, int]) -> tuple[int, ...]:
    """The count of the nearest level, in a tuple: none where there is none."""
    return tuple(counts.values())[:1]


def not_vectorised(report: LoopReport) -> tuple[str, ...]:
    """Why the innermost loop is not vectorised, in a sentence; none where it is, or was not compiled."""
    code = report.code
    return () if code is None or code.vectorised else (f"not vectorised: {code.why_not}",)


def crossing(case: Case) -> str:
    """What crosses to and from the memory, in words."""
    last = case.report.points[-1]
    return f"{si(last.nbytes, 'B')} cross to and from {last.level}"


def moved_again(case: Case) -> tuple[str, ...]:
    """Levels that serve more than the arrays hold and take a share of the time worth a change."""
    held = sum(each.nbytes for each in case.loop.arguments.placed)
    said = []
    for point in case.report.points[1:]:
        if point.nbytes > _MORE * 2 * held and (point.time_s or 0.0) >= FEW * case.predicted.time_s:
            said.append(f"{point.level} serves {si(point.nbytes, 'B')} for arrays of {si(held, 'B')}")
    stepping, levels = case.report.strided, levels_of(case.report)
    if not said and any(stepping.get(level.name, 0) > level.misses / 4 for level in levels if level.misses):
        worst = next(level for level in levels if stepping.get(level.name, 0) > level.misses / 4)
        used = case.report.accessed_bytes / (worst.misses * worst.cache.unit_bytes)
        if used < 1:
            said.append(f"of each line that {worst.name} misses {percent(used)} is used before it is displaced")
    return tuple(said)


def conflicting(case: Case) -> tuple[str, ...]:
    """What says that conflicts make a level miss."""
    return tuple(each for each in case.report.warnings if "same sets" in each)


def stepping_arrays(case: Case, *, records: bool) -> list[str]:
    """Arrays, read only, through which the innermost loop steps by rows; those of `records`, or the others."""
    # What only moves data, as a transpose does, would be left with nothing to do.
    if not case.report.flop or dependence.shared(case.loop.arguments):
        return []
    # Records of a line each are foreseen as any stream is, and yet most of each line is moved for nothing.
    if not records and not sum(nearest(case.report.strided)):
        return []
    found = []
    worst = max(
        levels_of(case.report), key=lambda level: (case.report.strided.get(level.name, 0), level.misses * records)
    )
    for name, value in case.loop.arguments.arrays().items():
        if value.ndim != 2 or not value.flags.c_contiguous or (value.shape[-1] <= _RECORD) != records:
            continue
        own = [each for each in worst.references if each.array == name]
        if any(each.name.endswith(" =") for each in own):
            continue  # others rely on how results lie
        misses, hits = sum(each.misses for each in own), sum(each.hits for each in own)
        if records and misses + hits >= misses * worst.cache.line_bytes / value.itemsize:
            continue  # all of each line is used
        # As many misses as accesses: nothing of a line is used but one element.
        if misses * 4 >= worst.misses and (records or misses > hits):
            found.append(name)
    return found


def written_once(report: LoopReport) -> tuple[str, ...]:
    """Arrays that are stored along their rows, each line once, never read, and too large for the last cache."""
    names = []
    last = levels_of(report)[-1]
    for name in dict.fromkeys(each.array or "" for each in last.references):
        refs = [each for each in last.references if each.array == name]
        if not all(each.name.endswith(" =") for each in refs) or not name:
            continue
        misses = sum(each.misses for each in refs)
        nbytes = misses * last.cache.unit_bytes
        if misses and nbytes > last.cache.capacity_bytes and _along_rows(report, name, misses):
            names.append(name)
    return tuple(names)


def _along_rows(report: LoopReport, name: str, misses: int) -> bool:
    """Whether the stores of `name` fill each line once, one element after the other."""
    first = levels_of(report)[0]
    near = sum(each.misses for each in first.references if each.array == name)
    requests = sum(each.requests for each in first.references if each.array == name)
    return near <= 1.1 * misses and requests >= 2 * near and not report.gathered.get(first.name)
