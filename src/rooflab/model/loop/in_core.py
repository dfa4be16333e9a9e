"""What a core takes for the loops of a compiled function: ports, chains carried round, branches missed.

A loop takes what its busiest resource or its chain takes, whichever is longer, as in the execution-cache-memory
model (Stengel and others, ICS 2015) and OSACA (Laukemann and others, PMBS 2018). Functions that are called are
timed one beside the other, so that they occupy the core as its other operations do, and a chain that does not go
through them waits meanwhile. Branches that were foretold wrongly come on top, as nothing of the loop goes on
until they are known. The nest takes the sum of its loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from rooflab.model.device.constants import load_family
from rooflab.model.loop import cores, flow, given_arguments
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import CoreLoop, LoopTime
from rooflab.units import percent

_WHOLE = (
    "integer",
    "integer shift",
    "integer multiply",
    "integer divide constant",
    "integer remainder constant",
    "branch",
)
_FLOATING = (
    "fp add", "fp multiply", "fp multiply-add", "fp select", "convert", "shuffle", "vector integer",
    "vector shift", "vector multiply", "fp compare", "fp compare apart", "convert from whole", "convert to whole",
)  # fmt: skip
# Numbers become whole ones or less exact, and the other way round, on the units that add.
_ADDS_TOO = {
    "convert": "fp add", "convert from whole": "fp add", "convert to whole": "fp add",
    "fp compare apart": "fp compare",
}  # fmt: skip
_CALL_CYCLES = 40.0  # of a function of the maths library that has no usual time
_JUMP_CYCLES = 5.0  # of a call whose own instructions are counted, or not known
_MOSTLY = 0.6  # of a loop's time: what its chain takes at least where that is what it waits for
_NEARLY = 1.15  # times what its busiest resource takes: a loop that is still bound by it
# What a branch waits for that a count decides, not what was loaded or computed.
_COUNTED = {"integer", "integer shift", "branch"}
_PLACED = {"division": ("divide ", "sqrt "), "division of whole numbers": ("integer divide",)}
_BOXING = "call boxing"  # a number made an object of Python's
_MATHS_END = (" fp64", " fp32")


class LoopCycles(NamedTuple):
    """Cycles of one loop by what takes them.

    Attributes:
        loop: it.
        ports: of the busiest resource, by its name; `busiest` is that name.
        chain: of what waits for itself from pass to pass.
        calls: of functions, by name.
        missed: of wrongly foretold branches.
        learnt: of those that only a first run misses.
        collided: of loads that were started before an older store to their address.
        hidden: of `ports`, those that a loop inside, which waits for itself, leaves free.
        apart: of the chain, if nothing went on beside it.
    """

    loop: CoreLoop
    ports: float
    busiest: str
    chain: float
    calls: dict[str, float]
    missed: float
    collided: float = 0.0
    hidden: float = 0.0
    apart: float = 0.0
    learnt: float = 0.0

    @property
    def total(self) -> float:
        """All cycles of the loop."""
        return max(self.occupied, self.chain) - self.hidden + self.missed + self.collided

    @property
    def occupied(self) -> float:
        """Cycles in which the core is busy with the loop and with what it calls."""
        return self.ports + sum(self.calls.values())

    @property
    def throughput(self) -> float:
        """Those of them in which the core's units, not waiting, are what takes the time."""
        return self.ports if self.occupied >= self.chain else 0.0

    @property
    def short_of(self) -> str:
        """The resource that it is bound by; "" where its chain is longer."""
        return self.busiest if self.throughput and self.busiest != "whole numbers" else ""

    @property
    def why(self) -> str:
        """What takes most of it, with the line of the source."""
        terms = {
            self.busiest: self.throughput,
            _chain_text(self.loop): self.chain if self.chain > self.occupied else 0.0,
            "branches foretold wrongly": self.missed,
            "loads that overtake stores to their address": self.collided,
        }
        if self.occupied >= self.chain:
            terms |= {f"calls of {name}": cycles for name, cycles in self.calls.items()}
        name = max(terms, key=lambda each: terms[each])
        if name.startswith("branches") and self.loop.missed_line:
            return f"{name} (line {self.loop.missed_line}, {percent(self.loop.missed_share)} of them)"
        lines = self.loop.chain_lines if name == _chain_text(self.loop) else self._lines_of(name)
        if len(lines) > 1:
            return f"{name} (lines {', '.join(str(each) for each in lines)})"
        line = lines[0] if lines else self.loop.line
        return f"{name} (line {line})" if line else name

    def _lines_of(self, name: str) -> tuple[int, ...]:
        """Where what keeps a unit busy stands, of what does not stand everywhere in a loop: calls, divisions."""
        begins = _PLACED.get(name) or (f"call {name.removeprefix('calls of ')} ",)
        places = self.loop.places.items()
        return tuple(sorted({line for kind, at in places if kind.startswith(begins) for line in at}))


def times_of(cycles: tuple[LoopCycles, ...], cycle_s: float, threads: int) -> tuple[LoopTime, ...]:
    """The same as seconds of each thread, the longest loop first, those that take nothing left out."""
    each_s = cycle_s / threads
    found = [
        LoopTime(
            line=each.loop.line,
            time_s=each.total * each_s,
            busiest=each.busiest,
            ports_s=each.ports * each_s,
            chain=_chain_text(each.loop) if each.loop.chain else "",
            chain_s=each.chain * each_s,
            calls_s={name: count * each_s for name, count in each.calls.items()},
            missed_s=each.missed * each_s,
            learnt_s=each.learnt * each_s,
            collided_s=each.collided * each_s,
            missed_share=each.loop.missed_share,
            missed_line=each.loop.missed_line,
            chain_lines=each.loop.chain_lines,
            apart_s=each.apart * each_s,
        )
        for each in cycles
        if each.total
    ]
    return tuple(sorted(found, key=lambda each: -each.time_s))


def _chain_text(loop: CoreLoop) -> str:
    parts = [each for each in loop.chain if each not in ("integer", "integer shift", "branch")] or list(loop.chain)
    plain = [each.removesuffix(" vector").removesuffix(" wide") for each in parts]
    words = {
        **{each: "store to load" for each in plain if each.startswith("store forward")},
        "fp add": "additions",
        "fp multiply": "products",
        "load": "loads",
        "load integer": "loads",
        "integer divide constant": "division by a constant",
        "integer remainder constant": "remainder of a constant",
    }
    named = [each.split()[1] if each.startswith("call ") else words.get(each, each) for each in plain]
    return f"a chain of {', '.join(named)}"


def of_loops(
    loops: tuple[CoreLoop, ...], timing: CoreTiming, late: Mapping[int, float] | None = None
) -> tuple[LoopCycles, ...]:
    """The cycles of each loop; `late`: how many a missed branch waits for its data, by line of the source.

    What is around a loop goes on beside one that waits for itself: a loop around takes only what the chains of
    those inside leave no room for. Where that fills all of their waiting, the core takes instructions in without a
    pause, and these are what binds.
    """
    loops = tuple(_with_gathers(each, timing) for each in loops)
    found = [_cycles(each, timing, _late(each, late or {}), _around(loops, at)) for at, each in enumerate(loops)]
    for at, each in enumerate(loops):
        waits = room = _left_over(each, found[at], timing) if each.innermost else 0.0
        for above in _above(loops, at):
            # but for what takes the units that the one inside is short of
            same = _resources(loops[above].operations, timing).get(found[at].short_of, 0.0)
            hidden = min(room, max(0.0, found[above].ports - found[above].hidden - same))
            found[above] = found[above]._replace(hidden=found[above].hidden + hidden)
            room -= hidden
        if waits > room == 0 and each.flow and "slot" in each.operations and found[at].chain > found[at].occupied:
            filled = found[at].chain - sum(found[at].calls.values())
            found[at] = found[at]._replace(ports=filled, busiest="instructions")
    return tuple(found)


def _late(loop: CoreLoop, late: Mapping[int, float]) -> float:
    """Cycles that its missed branches wait for what they test: that of the loads, or of their own line."""
    return max((late.get(line, 0.0) for line in (loop.missed_line, *loop.tested_lines)), default=0.0)


def _with_gathers(loop: CoreLoop, timing: CoreTiming) -> CoreLoop:
    """`loop` with the instructions that its gathers and scatters really are, not one of each number."""
    more = sum(
        loop.operations.get(f"{what}{width}", 0.0) * (_each(timing, f"{what} slots{width}") - 1.0)
        for what in ("gather", "scatter")
        for width in ("", " wide")
    )
    if not more or "slot" not in loop.operations:
        return loop
    return replace(loop, operations={**loop.operations, "slot": loop.operations["slot"] + more})


def _left_over(loop: CoreLoop, cycles: LoopCycles, timing: CoreTiming) -> float:
    """Cycles of a loop in which what is around it may enter the core: where the loop was run, it did."""
    if loop.flow and "slot" in loop.operations:
        taken = max(cycles.occupied, cycles.chain)
        return max(0.0, taken - loop.operations["slot"] * _each(timing, "slot") - sum(cycles.calls.values()))
    return max(0.0, cycles.chain - cycles.occupied)


def _above(loops: tuple[CoreLoop, ...], at: int) -> Iterator[int]:
    """The loops around one, from within."""
    above = loops[at].within
    while above is not None and 0 <= above < len(loops) and above != at:
        yield above
        above = loops[above].within


def _around(loops: tuple[CoreLoop, ...], at: int) -> float:
    """Instructions of the loops around one for each of its entries, shared with the other loops inside."""
    if not loops[at].innermost or not loops[at].entries:
        return 0.0
    found = 0.0
    for above in _above(loops, at):
        inside = sum(
            1
            for other, each in enumerate(loops)
            if each.innermost and each.passes and above in _above(loops, other)
        )
        found += loops[above].operations.get("slot", 0.0) / max(1, inside)
    return found / loops[at].entries


def _each(timing: CoreTiming, kind: str) -> float:
    if kind in ("load integer", "store integer") and kind not in timing.throughput:
        kind = kind.removesuffix(" integer")
    if kind.endswith(" split wide") and kind not in timing.throughput:
        kind = kind.removesuffix(" wide")
    return timing.throughput.get(kind, cores.USUAL_EACH.get(kind, 1.0))


def _latency(timing: CoreTiming, kind: str) -> float:
    if kind.startswith("store forward "):
        return _handed_on(timing, kind)
    if kind == "gather wide":
        return timing.latency.get(kind, cores.USUAL_LATENCY[kind])
    plain = kind.removesuffix(" vector").removesuffix(" wide")
    if plain == "load":
        # into a vector register, a single number too
        return timing.latency.get("load vector", timing.latency.get("load", cores.USUAL_LATENCY["load"]))
    if kind in ("integer divide constant", "integer remainder constant"):
        # the upper half of a product, a cycle later than the lower, of which the rest is shifted out, and a sign
        # that is added; what remains is the difference of another product
        product = timing.latency.get("integer multiply", cores.USUAL_LATENCY["integer multiply"])
        return product + 3.0 if kind == "integer divide constant" else 2 * product + 4.0
    if kind == "load integer":
        # at a place that is computed from an index, as those of an array are
        return timing.latency.get("load indexed", timing.latency.get("load", cores.USUAL_LATENCY["load"]))
    if kind.startswith("call "):
        return timing.latency.get(kind, 2 * timing.throughput.get(kind, _CALL_CYCLES))
    return timing.latency.get(plain, cores.USUAL_LATENCY.get(plain, 1.0))


def _handed_on(timing: CoreTiming, kind: str) -> float:
    """Cycles from a store to a load that finds its value; of vectors as of numbers where that was not measured."""
    if kind in cores.USUAL_LATENCY:
        return timing.latency.get(kind, cores.USUAL_LATENCY[kind])
    known = (timing.latency.get(name) for name in (kind, kind.removesuffix(" split"), "store forward"))
    return next((each for each in known if each is not None), cores.USUAL_LATENCY["store forward"])


def _cycles(loop: CoreLoop, timing: CoreTiming, late: float = 0.0, between: float = 0.0) -> LoopCycles:
    ordered = given_arguments.timing_of(timing, loop.dearer, given_arguments.ORDERED)
    timing = given_arguments.timing_of(timing, loop.dearer)
    calls: dict[str, float] = {}
    for kind, count in loop.operations.items():
        if kind.startswith("call "):
            usual_cycles = _CALL_CYCLES if kind.endswith(_MATHS_END) or kind == _BOXING else _JUMP_CYCLES
            cycles = timing.throughput.get(kind, cores.USUAL_EACH.get(kind, usual_cycles)) * count
            calls[kind.split()[1]] = calls.get(kind.split()[1], 0.0) + cycles
    resources = _resources(loop.operations, timing)
    total = loop.operations.get("slot") or sum(_plain(loop.operations).values())
    beside = {"fp add": "fp add beside"}
    waiting = sum(count * _latency(timing, beside.get(kind, kind)) for kind, count in loop.depth.items())
    if waiting and total and not loop.flow:
        # passes are begun while older ones wait: as many as the scheduler and the window hold of them
        held = sum(loop.depth.values()) * loop.passes / timing.scheduler
        resources["results of a pass"] = waiting * max(held, total / timing.window)
    busiest = max(resources, key=lambda each: resources[each])
    ports = resources[busiest]
    raw = chain = loop.passes * sum(count * _latency(timing, kind) for kind, count in loop.chain.items())
    if loop.chain_kept < 1 and total:
        # where it is broken at random, a core works on several pieces of it at once: the longest of those that it
        # has begun counts, as the longest run of heads in so many throws of a coin (Schilling, 1990)
        passes_at_once = max(1.0, timing.window * loop.passes / total)
        breaks = passes_at_once * (1 - loop.chain_kept)
        heads = 1 + math.log(max(breaks, 1.0)) / -math.log(max(loop.chain_kept, 1e-9))
        # no less than a piece of the mean length: of a chain that hardly ever breaks, all of it
        longest = max(heads, passes_at_once / (1 + breaks))
        chain *= min(1.0, longest / passes_at_once)
    restarts = loop.restarts or loop.entries
    # until it is known that it was: what the measured branch waits for too, a load and a comparison, left out
    # what is more of a comparison is that of a branch on a floating-point number
    plainly = {"fp compare apart": "fp compare"}
    tested = sum(count * _latency(timing, plainly.get(kind, kind)) for kind, count in loop.missed_after.items())
    compared = sum(loop.missed_after.get(kind, 0.0) for kind in ("fp compare", "fp compare apart"))
    compared = min(1.0, compared)
    loaded = _latency(timing, "load" if "load" in loop.missed_after else "load integer")
    known_late = max(0.0, tested - loaded - 1.0) + compared * timing.latency.get("fp branch", 0.0)
    each_missed = timing.missed_branch + known_late + late
    # the last one, and those whose end was not foreseen: nothing after them is begun before
    unforeseen = min(1.0, (loop.missed + 1) / restarts) if restarts else 0.0
    known_ahead = unforeseen if loop.missed_after and loop.missed_after.keys() <= _COUNTED else 0.0
    unforeseen -= known_ahead
    if restarts and total:
        instructions = total / restarts + between * loop.entries / restarts
        chain *= unforeseen + (1 - unforeseen) * _not_hidden(instructions, timing.window)
    ran = run_of(loop, timing, ordered, between)
    if ran is not None:
        cycles = unforeseen * ran.alone * restarts + (1 - unforeseen) * ran.each * loop.passes
        # an end that a count decides is known as soon as it is read: meanwhile, and while what follows is fetched,
        # the core goes on with what it has begun
        entered = min(ran.each * loop.passes, total * _each(timing, "slot"))
        cycles -= known_ahead * min(ran.each * loop.passes - entered, restarts * each_missed)
        filled = ports > raw and cycles < _NEARLY * ports  # a unit that is busier than the chain is long
        if raw >= _MOSTLY * cycles and not filled:
            chain = cycles
        elif cycles - sum(calls.values()) > ports:
            chain = min(chain, cycles)
            busiest = busiest if cycles < _NEARLY * (ports + sum(calls.values())) else "results of a pass"
            ports = cycles - sum(calls.values())
    again = timing.throughput.get("load overtaken")
    if again is None:
        again = timing.missed_branch * load_family("cpu")("loop.overtaking")
    collided = loop.collided * again
    missed, learnt = loop.missed * each_missed, loop.learnt * each_missed
    apart = max(raw, chain)
    return LoopCycles(loop, ports, busiest, chain, calls, missed, collided, apart=apart, learnt=learnt)


def run_of(
    loop: CoreLoop, timing: CoreTiming, ordered: CoreTiming, between: float = 0.0, far: flow.Far | None = None
) -> flow.Flow | None:
    """The passes of `loop` run with the times of the run's own arguments; `ordered` where none misses a branch."""
    missed_in = partial(given_arguments.missed_in, timing=timing, ordered=ordered)
    return flow.run(loop, timing, partial(_latency, ordered), partial(_each, ordered), between, missed_in, far)


def _not_hidden(entry: float, window: float) -> float:
    """The share of a short loop's chain that is not hidden behind that of the entry before, which is another.

    `entry` and `window` are instructions: of an entry, and begun and not finished at most. The next entry begins
    when the core has room for it, while the last instructions of this one still wait. Where k entries fit in the
    window exactly, k + 1 of them are under way at once, as one leaves in order while the next comes in.
    """
    return 1 / (1 + window / entry)


def _plain(operations: Mapping[str, float]) -> dict[str, float]:
    return {kind: count for kind, count in operations.items() if not kind.startswith("call ")}


def _resources(operations: Mapping[str, float], timing: CoreTiming) -> dict[str, float]:
    """Cycles that each resource of the core is busy with all passes of a loop.

    "slot" is what passes through the front of the core, where the machine code was read; else all operations.
    Arithmetic takes the longest of its kinds apart and of all together, as some units do several kinds.
    """
    names = (
        "loads", "stores", "division", "division of whole numbers", "results moved to whole numbers",
        "whole numbers", "changes that no other core comes between",
    )  # fmt: skip
    found: dict[str, float] = dict.fromkeys(names, 0.0)
    units: dict[str, float] = {}
    computed = whole = moved = 0.0
    for kind, count in _plain(operations).items():
        cycles = count * _each(timing, kind)
        name = kind.removesuffix(" vector").removesuffix(" wide")
        if name in ("load", "load integer", "store", "store integer"):
            moved += count
        if name in ("load", "load integer", "gather", "load split"):
            found["loads"] += cycles
        elif name in ("store", "store integer", "store split", "scatter"):
            found["stores"] += cycles
        elif name.startswith(("divide", "sqrt")):
            found["division"] += cycles
        elif name == "integer divide":
            found["division of whole numbers"] += cycles
        elif name in _FLOATING:
            unit = "multiply" if "multiply" in name else _ADDS_TOO.get(name, name)
            units[unit] = units.get(unit, 0.0) + cycles
            computed += count * (2.0 if kind.endswith(" wide") else 1.0)
        elif name == "locked":
            found["changes that no other core comes between"] += cycles
        elif name == "to whole":
            found["results moved to whole numbers"] += cycles
        elif name in _WHOLE:
            whole += count
            found["whole numbers"] += cycles if name == "integer shift" else 0.0
    found["arithmetic"] = max([computed * _each(timing, "fp mixed"), *units.values()])
    # what shifts and what chooses has fewer units; without schedulers of their own, whole numbers share theirs
    # with what computes others
    shared = 0.0 if timing.integers else computed
    found["whole numbers"] = max(found["whole numbers"], (whole + shared) * _each(timing, "integer"))
    if "integer mixed" in timing.throughput:
        # what computes whole numbers also makes addresses, and its queues are seldom filled evenly
        mixed = (whole + moved) * timing.throughput["integer mixed"]
        found["whole numbers"] = max(found["whole numbers"], mixed)
    slots = operations.get("slot")
    if slots is None:
        per_cycle = load_family("cpu")("loop.instructions_per_cycle")
        found["instructions"] = sum(_plain(operations).values()) / per_cycle
    else:
        found["instructions"] = slots * _each(timing, "slot")
    return found
