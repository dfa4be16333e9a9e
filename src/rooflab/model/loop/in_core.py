"""What a core takes for the loops of a compiled function: ports, chains carried round, branches missed.

A loop takes what its busiest resource or its chain takes, whichever is longer, as in the execution-cache-memory
model (Stengel and others, ICS 2015) and OSACA (Laukemann and others, PMBS 2018); functions that are called and
branches that were foretold wrongly come on top, as nothing of the loop goes on meanwhile. The nest takes the sum
of its loops.
"""

from __future__ import annotations

from typing import NamedTuple

from rooflab.machines.core_timing import CoreTiming
from rooflab.model.device.constants import load_family
from rooflab.types.loop import CoreLoop, LoopTime

_FLOATING = ("fp add", "fp multiply", "fp multiply-add", "fp select", "convert", "shuffle", "vector integer")
# Cycles of a usual core of about 2020, where none was measured.
USUAL_LATENCY = {
    "fp add": 4.0, "fp multiply": 4.0, "fp multiply-add": 4.0, "fp select": 1.0, "integer": 1.0, "load": 5.0,
    "vector integer": 1.0, "integer multiply": 3.0, "integer divide": 15.0, "convert": 5.0, "shuffle": 2.0,
    "store forward": 6.0, "divide fp64": 13.0, "divide fp32": 11.0, "sqrt fp64": 18.0, "sqrt fp32": 12.0,
}  # fmt: skip
USUAL_EACH = {
    "fp add": 0.5, "fp multiply": 0.5, "fp multiply-add": 0.5, "fp select": 0.5, "convert": 1.0, "shuffle": 1.0,
    "vector integer": 0.5, "load": 0.5, "load vector": 0.5, "store": 1.0,
    "store vector": 1.0, "integer": 0.25, "integer multiply": 1.0,
    "integer divide": 8.0, "divide fp64": 5.0, "divide fp64 vector": 12.0, "divide fp32": 3.5,
    "divide fp32 vector": 10.0, "sqrt fp64": 6.0, "sqrt fp64 vector": 18.0, "sqrt fp32": 4.0,
    "sqrt fp32 vector": 12.0, "gather": 1.0,
}  # fmt: skip
USUAL_MISS = 16.0
_CALL_CYCLES = 40.0  # of a function of the maths library that was not measured
_JUMP_CYCLES = 5.0  # of a call whose own instructions are counted, or not known
_MATHS_END = (" fp64", " fp32")


class LoopCycles(NamedTuple):
    """Cycles of one loop by what takes them.

    Attributes:
        loop: it.
        ports: of the busiest resource, by its name; `busiest` is that name.
        chain: of what waits for itself from pass to pass.
        calls: of functions, by name.
        missed: of wrongly foretold branches.
    """

    loop: CoreLoop
    ports: float
    busiest: str
    chain: float
    calls: dict[str, float]
    missed: float

    @property
    def total(self) -> float:
        """All cycles of the loop."""
        return max(self.ports, self.chain) + sum(self.calls.values()) + self.missed

    @property
    def why(self) -> str:
        """What takes most of it, with the line of the source."""
        terms = {
            self.busiest: self.ports if self.ports >= self.chain else 0.0,
            _chain_text(self.loop): self.chain if self.chain > self.ports else 0.0,
            "branches foretold wrongly": self.missed,
            **{f"calls of {name}": cycles for name, cycles in self.calls.items()},
        }
        name = max(terms, key=lambda each: terms[each])
        line = self.loop.missed_line if name.startswith("branches") else self.loop.line
        if name == _chain_text(self.loop) and self.loop.chain_lines:
            line = self.loop.chain_lines[0]
        return f"{name} (line {line})" if line else name


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
        )
        for each in cycles
        if each.total
    ]
    return tuple(sorted(found, key=lambda each: -each.time_s))


def _chain_text(loop: CoreLoop) -> str:
    parts = [each for each in loop.chain if each not in ("integer", "branch")] or list(loop.chain)
    words = {"store forward": "store to load", "fp add": "additions", "fp multiply": "products"}
    return f"a chain of {', '.join(words.get(each, each) for each in parts)}"


def usual(cycle_s: float) -> CoreTiming:
    """The times of a core of about 2020, whose cycle takes so long."""
    return CoreTiming(
        cycle_s=cycle_s,
        latency=USUAL_LATENCY,
        throughput=USUAL_EACH,
        missed_branch=USUAL_MISS,
        measured=False,
    )


def of_loops(loops: tuple[CoreLoop, ...], timing: CoreTiming) -> tuple[LoopCycles, ...]:
    """The cycles of each loop."""
    return tuple(_cycles(each, timing) for each in loops)


def _each(timing: CoreTiming, kind: str) -> float:
    return timing.throughput.get(kind, USUAL_EACH.get(kind, 1.0))


def _latency(timing: CoreTiming, kind: str) -> float:
    plain = kind.removesuffix(" vector")
    if kind.startswith("call "):
        return 2 * timing.throughput.get(kind, _CALL_CYCLES)
    return timing.latency.get(plain, USUAL_LATENCY.get(plain, 1.0))


def _cycles(loop: CoreLoop, timing: CoreTiming) -> LoopCycles:
    constant = load_family("cpu")
    calls: dict[str, float] = {}
    resources = {"instructions": 0.0, "arithmetic": 0.0, "loads": 0.0, "stores": 0.0, "division": 0.0}
    integer_divisions = 0.0
    total = 0.0
    for kind, count in loop.operations.items():
        if kind.startswith("call "):
            usual_cycles = _CALL_CYCLES if kind.endswith(_MATHS_END) else _JUMP_CYCLES
            cycles = timing.throughput.get(kind, usual_cycles) * count
            calls[kind.split()[1]] = calls.get(kind.split()[1], 0.0) + cycles
            continue
        total += count
        if kind in ("load", "load vector", "gather"):
            resources["loads"] += count * _each(timing, kind)
        elif kind in ("store", "store vector"):
            resources["stores"] += count * _each(timing, kind)
        elif kind.startswith(("divide", "sqrt")):
            resources["division"] += count * _each(timing, kind)
        elif kind == "integer divide":
            integer_divisions += count * _each(timing, kind)
        elif kind in _FLOATING:
            resources["arithmetic"] += count * _each(timing, kind)
    resources["division of whole numbers"] = integer_divisions
    resources["instructions"] = total / constant("loop.instructions_per_cycle")
    busiest = max(resources, key=lambda each: resources[each])
    ports = resources[busiest]
    if loop.innermost:
        ports += loop.entries * constant("loop.entry_cycles")
    chain = loop.passes * sum(count * _latency(timing, kind) for kind, count in loop.chain.items())
    if loop.entries and total:
        # A core works on several entries of a short loop at once: each begins a chain of its own.
        chain /= max(1.0, constant("loop.window_instructions") * loop.entries / total)
    return LoopCycles(loop, ports, busiest, chain, calls, loop.missed * timing.missed_branch)
