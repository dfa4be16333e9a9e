"""What accesses take whose place data decide, beyond what the core does in L1: by loop, beside its own work.

Their lines are no stream: no prefetcher fetches them, and what they take follows from how many of them a core has
under way at once, which the loop itself decides (`in_flight`, `flow`). Where the operations of a pass are known
one by one the passes are run twice, as they are in L1 and with the latencies of the levels that serve them;
elsewhere the accesses are spread evenly over the loop's instructions. What that adds is shown whole: it is where
the core waited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from rooflab.model.device.constants import load_family
from rooflab.model.loop import composed, crossings, flow, given_arguments, in_core, in_flight, waiting
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import CoreLoop, FlowStep, LineCounts, LoopReport
from rooflab.types.machine import Machine
from rooflab.types.simulation import LevelCounts, Simulation

_MOST_OF = 0.7  # of a loop's loads, by which one of its forms stands for all


class Waits(NamedTuple):
    """What such accesses take beyond the core's own work.

    Attributes:
        by_level: seconds of each level that serves them, by its name ("memory" as simulated).
    """

    by_level: dict[str, float]

    @property
    def seconds(self) -> float:
        """All of it."""
        return sum(self.by_level.values())


class _Group(NamedTuple):
    """Misses of one loop of the source by level, of a cache, and what the core takes for it.

    Attributes:
        gathered, chased: of places that data decide, and of those that wait for the one before.
        scattered, begun: of those gathered, those of stores, and those that did not lie beside the one before.
        cycles: of its code.
    """

    gathered: dict[str, float]
    chased: dict[str, float]
    scattered: dict[str, float]
    begun: dict[str, float]
    cycles: list[in_core.LoopCycles]


def without(report: LoopReport) -> LoopReport:
    """`report` without the lines that data pick, of what crosses."""
    if not any(report.gathered.values()) and not any(report.chased.values()):
        return report

    def of(simulation: Simulation) -> Simulation:
        return replace(simulation, levels=tuple(_less(report, each) for each in simulation.levels))

    warm = None if report.warm is None else of(report.warm)
    lines = tuple(_line_without(each) for each in report.lines)
    return replace(report, simulation=of(report.simulation), warm=warm, gathered={}, chased={}, lines=lines)


def _line_without(line: LineCounts) -> LineCounts:
    left = {
        name: max(0, misses - (line.gathered or {}).get(name, 0) - (line.chased or {}).get(name, 0))
        for name, misses in line.misses.items()
    }
    return replace(line, misses=left)


def _less(report: LoopReport, level: LevelCounts) -> LevelCounts:
    picked = report.gathered.get(level.name, 0) + report.chased.get(level.name, 0)
    nbytes = picked * level.cache.unit_bytes
    return replace(
        level, misses=max(0, level.misses - picked), read_bytes=max(0, round(level.read_bytes - nbytes))
    )


def waits(report: LoopReport, machine: Machine, cycles: Sequence[in_core.LoopCycles], timing: CoreTiming) -> Waits:
    """What they wait for in a warm run on one core.

    Args:
        report: of a loop, with its misses of picked places as expected.
        machine: a CPU.
        cycles: of its loops on the core.
        timing: of the core.
    """
    found: dict[str, float] = {}
    levels = _levels(report, machine, timing)
    if levels is None:
        return Waits(found)
    for group in _groups(report, cycles):
        each = _of_group(group, levels, timing, _instructions(report, group))
        for name, seconds in each.items():
            found[name] = found.get(name, 0.0) + seconds
    return Waits(found)


class _Served(NamedTuple):
    """A level behind the cache `near`: cycles beyond L1's of a load, and of one in a chain."""

    near: str
    name: str
    gathered: float
    chased: float


class _Levels(NamedTuple):
    """The levels behind each cache, and cycles that a gathered access waits for the translation of its page."""

    served: list[_Served]
    walk: float


def _levels(report: LoopReport, machine: Machine, timing: CoreTiming) -> _Levels | None:
    """None where nothing is picked, or latencies are not known."""
    levels = (report.warm or report.simulation).levels
    first = crossings.level(machine, levels[0].name)
    if not report.gathered.get(levels[0].name, 0) and not report.chased.get(levels[0].name, 0):
        return None
    if first is None or first.latency_s is None:
        return None
    walks_s = waiting.walk_of_picked_s(report, machine)
    slower = waiting.chased_slower(report, machine)
    found = []
    for near, name in zip(levels, [*(each.name for each in levels[1:]), "memory"], strict=True):
        level = crossings.level(machine, name)
        if level is None or level.latency_s is None:
            return None
        gathered_s = max(0.0, level.latency_s - first.latency_s)
        chased_s = max(0.0, level.latency_s * slower + walks_s.chased - first.latency_s)
        found.append(_Served(near.name, name, gathered_s / timing.cycle_s, chased_s / timing.cycle_s))
    return _Levels(found, walks_s.gathered / timing.cycle_s)


def _groups(report: LoopReport, cycles: Sequence[in_core.LoopCycles]) -> list[_Group]:
    """The loops of the source with their picked misses, and what the core takes for each."""
    names = [each.name for each in report.simulation.levels]
    lines = [each for each in report.lines if each.gathered is not None]
    inner = composed.innermost_of(report)
    numbers = {number for number, _ in report.source}
    unknown = any(each.loop.line not in numbers for each in cycles if each.total and each.loop.line)
    apart = len(set(inner.values())) > 1 and not unknown
    found: dict[int, _Group] = {}

    def group(line: int) -> _Group:
        head = composed.head_of(inner, line) if apart else 0
        if head not in found:
            none = dict.fromkeys(names, 0.0)
            found[head] = _Group(dict(none), dict(none), dict(none), dict(none), [])
        return found[head]

    for each in cycles:
        group(each.loop.line).cycles.append(each)
    if not lines:
        whole = group(0)
        whole.gathered.update({name: float(report.gathered.get(name, 0)) for name in names})
        whole.chased.update({name: float(report.chased.get(name, 0)) for name in names})
        whole.begun.update(whole.gathered)
    for at, name in enumerate(names):
        for kind, total in (("gathered", report.gathered), ("chased", report.chased)):
            of_lines = [(each, (getattr(each, kind) or {}).get(name, 0)) for each in lines]
            if at and not any(count for _, count in of_lines):
                # a cache that keeps less than the simulated one: as what comes to it
                of_lines = [(each, (getattr(each, kind) or {}).get(names[at - 1], 0)) for each in lines]
            every = sum(count for _, count in of_lines)
            for each, count in of_lines:
                if not count:
                    continue
                mine, into = total.get(name, 0) * count / every, group(each.line)
                getattr(into, kind)[name] += mine
                if kind == "gathered":
                    into.scattered[name] += mine * _stored_share(each, name, names[0])
                    into.begun[name] += mine * each.begun
    return [each for each in found.values() if any(each.gathered.values()) or any(each.chased.values())]


def _stored_share(line: LineCounts, level: str, first: str) -> float:
    """Of the picked misses of a line in a level, those of stores; as in the first level where none miss there."""
    for name in (level, first):
        every = (line.gathered or {}).get(name, 0)
        if every:
            return (line.scattered or {}).get(name, 0) / every
    return 0.0


def _instructions(report: LoopReport, group: _Group) -> float:
    """Of the loop, or of the compiler's own form of it where it was not profiled."""
    slots = sum(each.loop.operations.get("slot", 0.0) for each in group.cycles)
    if slots or report.code is None or not report.code.passes:
        return slots
    return report.code.instructions * report.code.passes


def _of_group(group: _Group, levels: _Levels, timing: CoreTiming, instructions: float) -> dict[str, float]:
    constant = load_family("cpu")
    served, first = levels.served, levels.served[0].near
    if group.gathered[first] + group.chased[first] <= 0:
        return {}
    parts: list[_Part] = []
    for at, each in enumerate(served):
        beyond = served[at + 1].near if at + 1 < len(served) else ""

        def here(kind: dict[str, float], near: str = each.near, beyond: str = beyond) -> float:
            return max(0.0, kind[near] - kind.get(beyond, 0.0))

        stored, gathered = here(group.scattered), here(group.gathered)
        loaded, begun = max(0.0, gathered - stored), min(1.0, here(group.begun) / gathered if gathered else 0.0)
        # what follows in a row is fetched ahead into the second cache once its first lines have missed
        followed = max(0.0, 1 - constant("loop.lines_to_foresee") * begun)
        parts += [
            # the latency of the memory was measured over so many pages that it has its walks
            _Part(each.name, "begun", loaded * begun, each.gathered + (levels.walk if beyond else 0.0)),
            _Part(each.name, "begun", loaded * (1 - begun - followed), each.gathered),
            _Part(each.name, "followed", loaded * followed, served[0].gathered),
            _Part(each.name, "chained", here(group.chased), each.chased),
            _Part(each.name, "stored", stored * (1 - followed), each.gathered),
            _Part(each.name, "stored", stored * followed, served[0].gathered),
        ]
    parts = [each for each in parts if each.accesses > 0]
    buffers = round(constant("loop.misses_at_once"))
    own = sum(each.total - each.missed for each in group.cycles)
    loads = [each for each in parts if each.kind != "stored"]
    waited = 0.0
    if loads:
        run = _as_run(group, loads, timing, buffers)
        waited = _spread_evenly(group, loads, timing, buffers, instructions) if run is None else run
    # stores hold up nothing, but no more misses are under way, and no more pages looked up, than at once
    under_way = sum(each.accesses * each.cycles for each in parts if each.kind != "chained")
    walked = group.begun[first] * levels.walk / waiting.walks_at_once(_wide(group))
    waited = max(waited, under_way / buffers - own, walked - own)
    whole = sum(each.accesses * each.cycles for each in parts)
    found: dict[str, float] = {}
    for each in parts if whole else ():
        share = each.accesses * each.cycles / whole
        found[each.served_by] = found.get(each.served_by, 0.0) + waited * timing.cycle_s * share
    return found


class _Part(NamedTuple):
    """So many accesses that a level serves, so many cycles later than L1.

    Attributes:
        served_by: the level's name.
        kind: "begun": at a place of their own, or the first of a row; "followed": in a row; "chained"; "stored".
        accesses, cycles: see above.
    """

    served_by: str
    kind: str
    accesses: float
    cycles: float


def _as_run(group: _Group, parts: Sequence[_Part], timing: CoreTiming, buffers: int) -> float | None:
    """Cycles that the passes take longer with what `parts` say; None where they cannot be run.

    Of rows, what begins one is loaded by the first pass of an entry.
    """
    inside = [each for each in group.cycles if each.loop.innermost and each.loop.passes]
    counts = [_loads(each.loop.operations) for each in inside]
    every = sum(counts)
    if not every or max(counts) < _MOST_OF * every:
        return None
    loop, form = inside[counts.index(max(counts))].loop, max(counts) / every
    steps = steps_of(loop.flow) or loads_of(loop.flow)
    each_pass = sum(loop.flow[at].count * loop.flow[at].share for at in steps)
    made, at_first = loop.passes * each_pass / form, loop.entries * each_pass / form
    if not made:
        return None
    rows = [each for each in parts if each.kind == "followed"]
    firsts = [each for each in parts if each.kind == "begun"] if rows and loop.passes > loop.entries else []
    others = [each for each in parts if each not in firsts]
    far = flow.Far(steps, _shares(others, made - at_first if firsts else made), buffers, _shares(firsts, at_first))
    longer = _longer(loop, timing, far)
    return None if longer is None else longer * loop.passes / form


def _shares(parts: Sequence[_Part], made: float) -> tuple[tuple[float, float], ...]:
    """(share of so many accesses made, cycles) of each."""
    made = max(made, sum(each.accesses for each in parts))
    return tuple((each.accesses / made, each.cycles) for each in parts)


def _spread_evenly(
    group: _Group, parts: Sequence[_Part], timing: CoreTiming, buffers: int, instructions: float
) -> float:
    """Cycles that accesses wait beyond the core's own, where all come evenly in its instructions."""
    own = sum(each.total - each.missed for each in group.cycles)
    count = sum(each.accesses for each in parts)
    chained = sum(each.accesses for each in parts if each.kind == "chained")
    if chained:
        # the next chain begins beside this one, unless where this one ends was not foreseen
        inside = [each.loop for each in group.cycles if each.loop.innermost and each.loop.passes]
        begun = sum(each.restarts or each.entries for each in inside)
        missed = sum(each.missed for each in inside)
        chained = max(0.0, chained - max(0.0, begun - missed))
    picked = in_flight.Picked(_shares(parts, count), chained / count, own / count, instructions / count)
    return count * in_flight.waited(picked, timing.window, buffers)


def _wide(group: _Group) -> float:
    """The share of the loads at picked places that are of whole lines; a gather loads number by number."""
    whole = every = 0.0
    for each in group.cycles:
        if not each.loop.innermost:
            continue
        flow = each.loop.flow
        picking = [flow[at] for at in steps_of(flow) or loads_of(flow)]
        every += each.loop.passes * sum(step.count for step in picking)
        whole += each.loop.passes * sum(step.count for step in picking if step.kind == "load wide")
    return whole / every if every else 0.0


def _loads(operations: Mapping[str, float]) -> float:
    return sum(number for kind, number in operations.items() if kind.startswith(("load", "gather")))


def steps_of(flow: Sequence[FlowStep]) -> tuple[int, ...]:
    """The places in `flow` of loads that take their place from what a load found."""
    loaded = [_is_load(step.kind) for step in flow]
    # what follows from a load, round the loop too, without another one between
    follows, changed = list(loaded), True
    while changed:
        changed = False
        for at, step in enumerate(flow):
            if not follows[at] and any(follows[other] for other, _ in step.after):
                follows[at] = changed = True
    return tuple(
        at for at, step in enumerate(flow) if loaded[at] and any(follows[other] for other, _ in step.after)
    )


def loads_of(flow: Sequence[FlowStep]) -> tuple[int, ...]:
    """The places in `flow` of loads that find nothing that was stored a moment before."""
    return tuple(at for at, step in enumerate(flow) if _is_load(step.kind) and step.handed is None)


def _is_load(kind: str) -> bool:
    return kind.startswith(("load", "gather"))


def _longer(loop: CoreLoop, timing: CoreTiming, far: flow.Far) -> float | None:
    """Cycles by which a pass takes longer where L1 does not serve all that `far` says; None where none is run."""
    ordered = given_arguments.timing_of(timing, loop.dearer, given_arguments.ORDERED)
    timing = given_arguments.timing_of(timing, loop.dearer)
    near = in_core.run_of(loop, timing, ordered)
    beyond = in_core.run_of(loop, timing, ordered, far=far)
    return None if near is None or beyond is None else max(0.0, beyond.each - near.each)
