"""What would help several cores: lines that they take from each other without need, laid out or used otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from rooflab.cachesim.coherence.stream import CoreStreams
from rooflab.model import sharing_cores
from rooflab.model.sharing_cores import CoreTimes
from rooflab.remedies import PAGE, WORTH
from rooflab.remedies.caches import layouts
from rooflab.remedies.caches.usage import SEVERAL, Usage, usage
from rooflab.types.advice import Advice, Advices, Price
from rooflab.types.core_simulation import CoreSimulation
from rooflab.types.machine import Machine
from rooflab.units import iec

Simulate = Callable[[CoreStreams], CoreSimulation]
_OFTEN = 0.01  # of the accesses: sharing that is less is not looked at
_UPDATES = 8  # of an item and core, from which on a sum of its own is worth a line


class Case(NamedTuple):
    """What rules look at.

    Attributes:
        simulation: of the streams as they are.
        streams: what was simulated.
        used: who uses each array.
    """

    simulation: CoreSimulation
    streams: CoreStreams
    used: Mapping[str, Usage]

    @property
    def line_bytes(self) -> int:
        """Of every level."""
        return self.simulation.line_bytes or 64

    def sharing(self, what: str) -> tuple[str, ...]:
        """The arrays of which that field of `Sharing` ("false_sharing", …) is more than a few of the accesses."""
        least = _OFTEN * self.simulation.accesses
        named = [each.name.split(", ") for each in self.simulation.arrays if getattr(each, what) > least]
        return tuple(dict.fromkeys(name for names in named for name in names if name in self.used))


class Change(NamedTuple):
    """One change: the streams with it, what it says, its arrays, additions that lost their accesses."""

    rule: str
    text: str
    evidence: tuple[str, ...]
    streams: CoreStreams
    arrays: tuple[str, ...]
    additions: float = 0.0
    price: Price = "nothing"
    code: str = ""


def padded(case: Case) -> Iterator[Change]:
    """What one core stores on lines of its own, where cores store different items of a line."""
    names = case.sharing("false_sharing")
    cores = len(case.streams.cores)
    found = {name: layouts.apart(case.used[name], cores, case.line_bytes) for name in names}
    changed = {name: moved for name, moved in found.items() if moved is not None}
    if not changed:
        return
    together = any(moved.together for moved in changed.values())
    items = ", ".join(changed)
    line = f"{case.line_bytes} bytes"
    text = (
        f"Store what each core writes of {items} side by side, each core's part beginning on a line of its own"
        if together
        else f"Begin what each core writes of {items} on a line of its own ({line})"
    )
    grown = "; ".join(
        f"{name} then takes {iec(moved.nbytes)} instead of "
        f"{iec(case.used[name].array.items * case.used[name].array.item_bytes)}"
        for name, moved in changed.items()
    )
    first = next((line for line in case.simulation.lines if line.false_sharing), None)
    yield Change(
        rule="false-sharing",
        text=text,
        evidence=(
            f"{case.simulation.false_sharing:,} of {_misses(case.simulation):,} misses bring a core nothing that "
            "another wrote for it: they use different items of the same line",
            *((f"one such line: {'; '.join(first.used[:2])}",) if first is not None and first.used else ()),
            grown,
        ),
        streams=layouts.moved(case.streams, changed),
        arrays=tuple(changed),
        code=_FIELDS if together else _ALIGNED.format(line=case.line_bytes, name=next(iter(changed))),
    )


def local_sums(case: Case) -> Iterator[Change]:
    """Sums in a variable of each core, added up once, where cores add to items of the same line at every step."""
    cores = len(case.streams.cores)
    names = tuple(
        name
        for name in dict.fromkeys((*case.sharing("false_sharing"), *case.sharing("invalidations")))
        if case.used[name].summed and case.used[name].updates >= _UPDATES * cores * case.used[name].array.items
    )
    if not names:
        return
    several = [name for name in names if (case.used[name].writers == SEVERAL).any()]
    updates = sum(case.used[name].updates for name in names)
    yield Change(
        rule="local-sums",
        text=f"Let each core add up in a variable of its own, and add that to {', '.join(names)} once",
        evidence=(
            f"{', '.join(names)}: loaded and stored {updates:,} times, each time as a sum",
            f"{case.simulation.invalidations:,} copies are lost to other cores' stores",
        ),
        streams=layouts.summed_locally(case.streams, names),
        arrays=names,
        additions=updates / cores,
        # Sums of several cores are then added up in another order.
        price="numbers" if several else "nothing",
        code=_LOCAL.format(name=names[0]),
    )


_ALIGNED = """\
struct alignas({line}) Padded {{ double value; }};   // C++: Padded {name}[cores];
# NumPy: {name} = np.zeros((cores, {line} // 8))[:, 0]"""
_FIELDS = "# an array for each core, or for each field (structure of arrays), instead of items dealt out in turn"
_LOCAL = """\
mine = 0.0
for i in my_part:
    mine += …          # stays in a register
{name}[…] += mine      # once, by an atomic where cores share it"""


class Rule(NamedTuple):
    """A rule: its name (`Advice.rule`), the regime that it is a remedy for, what asks, if for a price."""

    name: str
    regime: str
    ask: Callable[[Case], Iterator[Change]]
    price: bool = False


RULES: tuple[Rule, ...] = (
    Rule("false-sharing", "shared lines", padded),
    Rule("local-sums", "shared lines", local_sums),
)


def advise(
    simulation: CoreSimulation, streams: CoreStreams, simulate: Simulate, machine: Machine | None
) -> Advices:
    """What would help `simulation`.

    Args:
        simulation: of `streams`.
        streams: what was simulated.
        simulate: simulates other streams on the same caches, by the same rule.
        machine: whose latencies make times of the counts; without one there are bytes alone.
    """
    if len(streams.cores) < 2 or simulation.invalidations <= _OFTEN * simulation.accesses:
        return Advices()
    used = usage(streams)
    if used is None:
        return Advices(unasked=("false-sharing: its arrays have more items than are looked at",))
    case = Case(simulation, streams, used)
    free, trades = [], []
    for rule in RULES:
        for change in rule.ask(case):
            advice = _advice(change, case, simulate(change.streams), machine)
            if advice is not None:
                (free if change.price == "nothing" else trades).append(advice)
    unasked = []
    if machine is not None and (free or trades):
        missing = sharing_cores.core_times(simulation, machine, True)
        unasked += [f"times: {missing}"] if isinstance(missing, str) else []
    for found in (free, trades):
        found.sort(key=lambda one: -(one.gain_s if one.gain_s is not None else one.saved_bytes or 0.0))
    return Advices(each=tuple(free), trades=tuple(trades), unasked=tuple(unasked))


def _advice(change: Change, case: Case, after: CoreSimulation, machine: Machine | None) -> Advice | None:
    """`change`, simulated as `after`; None where it saves too little to be worth a word."""
    before_bytes, after_bytes = _moved_bytes(case.simulation), _moved_bytes(after)
    lost = case.simulation.invalidations, after.invalidations
    if lost[1] > (1 - WORTH) * lost[0] or after_bytes > before_bytes:
        return None
    told = (
        f"simulated again: {case.simulation.false_sharing:,} misses of false sharing become "
        f"{after.false_sharing:,}, {lost[0]:,} copies lost {lost[1]:,}, "
        f"{case.simulation.transfers:,} lines from cache to cache {after.transfers:,}"
    )
    before_s, after_s, low_s, high_s = _times(change, case, after, machine) or (None, None, None, None)
    if before_s is not None and after_s is not None and before_s - after_s < WORTH * before_s:
        return None
    return Advice(
        rule=change.rule,
        change=change.text,
        evidence=(*change.evidence, told),
        before_bytes=before_bytes,
        after_bytes=after_bytes,
        moved="to and from the cores' caches",
        effort="line",
        price=change.price,
        code=change.code,
        page=PAGE + change.rule,
        before_s=before_s,
        after_s=after_s,
        gain_low_s=low_s,
        gain_high_s=high_s,
    )


def _times(
    change: Change, case: Case, after: CoreSimulation, machine: Machine | None
) -> tuple[float, float, float, float] | None:
    """Seconds before and after, and the least and most that it saves; None where the machine lacks a number."""
    if machine is None:
        return None
    buffered = all(case.used[name].plain for name in change.arrays)
    both = (
        sharing_cores.core_times(case.simulation, machine, buffered),
        sharing_cores.core_times(after, machine, buffered, change.additions),
    )
    if isinstance(both[0], str) or isinstance(both[1], str):
        return None
    before, later = both[0], both[1]
    best = before.alone.best_s + before.sharing.best_s, later.alone.best_s + later.sharing.best_s
    slow, fast = _saved(before, later, "slow_s", "fast_s"), _saved(before, later, "fast_s", "slow_s")
    saved = best[0] - best[1]
    # Shares of what each extreme takes, of the best guess of the time: the extremes are of the same core.
    return best[0], best[1], min(saved, slow * best[0]), max(saved, fast * best[0])


def _saved(before: CoreTimes, after: CoreTimes, alone: str, sharing: str) -> float:
    """The share that is saved where cores are so fast alone and lines so slow between them."""
    total_s = getattr(before.alone, alone) + getattr(before.sharing, sharing)
    left_s = getattr(after.alone, alone) + getattr(after.sharing, sharing)
    return (total_s - left_s) / total_s if total_s else 0.0


def _misses(simulation: CoreSimulation) -> int:
    return sum(core.levels[-1].misses for core in simulation.cores)


def _moved_bytes(simulation: CoreSimulation) -> int:
    return sum(core.levels[-1].read_bytes + core.levels[-1].write_bytes for core in simulation.cores)
