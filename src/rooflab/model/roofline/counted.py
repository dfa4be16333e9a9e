"""Counted work under a machine's roofs: hierarchical, of instructions, and of the load/store units.

Each level gets the bytes that counters saw there (Yang, Kurth, Williams: "Hierarchical Roofline analysis for
GPUs", CCPE 2019). What the units of a GPU can start is counted beside it: a kernel of addresses and comparisons
has no FLOP, and is bound all the same.
"""

from __future__ import annotations

from typing import NamedTuple

from rooflab.model.roofline import instruction
from rooflab.model.roofline.per_operation import NEGLIGIBLE_SHARE, peak_of
from rooflab.model.roofline.roofline import verdict
from rooflab.types.counted import Access, Counted
from rooflab.types.machine import Basis, Level, Machine, Rate, is_main_memory
from rooflab.types.placement import InstructionPlacement, Placement, RoofShare
from rooflab.types.prediction import Bound

INSTRUCTIONS, LOAD_STORE, PIPES = "instructions", "load/store units", "SM pipes"

# Warp instructions that a multiprocessor can start in a clock. NVIDIA, Volta and later: 4 schedulers, one each
# (Ding and Williams, PMBS 2019). AMD: one wavefront instruction a clock and CU (Leinhauser et al., "Metrics and
# Design of an Instruction Roofline Model for AMD GPUs", ACM TOPC 9(1), 2022).
_ISSUED_PER_CLOCK = {"NVIDIA": 4, "AMD": 1}
# Load/store units of a multiprocessor by compute capability, from the pictures of one in NVIDIA's whitepapers:
# V100, Turing, A100, GA102, Ada, H100, RTX Blackwell.
_LOAD_STORE_UNITS = {
    "7.0": 32,
    "7.5": 16,
    "8.0": 32,
    "8.6": 16,
    "8.9": 16,
    "9.0": 32,
    "12.0": 16,
}
_BASES: tuple[Basis, ...] = ("theoretical", "attained")
_EXPLAINED = 0.8  # of the pipes' use by one that is known by name: then it is that one


class _Levels(NamedTuple):
    roofs: list[RoofShare]
    missing: list[str]


def place(counted: Counted, machine: Machine, capability: str | None = None) -> Placement | None:
    """`counted` under the roofs of `machine`; None for what was not timed.

    Args:
        counted: of one execution.
        machine: whose roofs.
        capability: compute capability of an NVIDIA card ("9.0"), for its load/store units.
    """
    time_s = counted.time_s
    if not time_s:
        return None
    flop = counted.total_flop
    levels = _levels(counted, machine, time_s, flop)
    engines, unknown = _engines(counted, machine, time_s)
    missing = levels.missing + unknown
    issue = _issue(counted, machine, time_s, capability)
    roofs = (*levels.roofs, *engines, *issue)
    bound, binds = _verdict(counted, levels.roofs, engines, issue, bool(unknown))
    return Placement(
        roofs=roofs,
        bound=bound,
        binds=binds,
        instruction=_instruction(counted, machine, time_s),
        missing=tuple(missing),
    )


def _level(machine: Machine, name: str) -> Level | None:
    wanted = "L1" if name == "shared" else name  # shared memory is the same memory as L1 on GPUs, by the same path
    for level in machine.levels:
        if level.name == wanted or (is_main_memory(level) and wanted in ("DRAM", "HBM", "memory")):
            return level
    return None


def _rate(level: Level, *bases: Basis) -> Rate | None:
    """The first bandwidth that `level` has: theoretical, then attained, where no basis is given."""
    for basis in bases or _BASES:
        for what in (None, "copy", "triad"):
            found = level.rate(what, basis=basis)
            if found is not None and found.per_s == "byte":
                return found
    return None


def _share(
    name: str,
    kind: str,
    amount: float,
    roof: Rate,
    attained: Rate | None,
    time_s: float,
    flop: float | None = None,
) -> RoofShare:
    return RoofShare(
        name=name,
        kind=kind,
        amount=amount,
        roof_per_s=roof.value,
        share=amount / roof.value / time_s,
        attained_per_s=None if attained is None else attained.value,
        intensity=flop / amount if flop is not None and amount else None,
    )


def _levels(counted: Counted, machine: Machine, time_s: float, flop: float | None) -> _Levels:
    bytes_of: dict[str, float] = {}
    missing = []
    for one in counted.traffic:
        level = _level(machine, one.level)
        if level is None or _rate(level) is None:
            missing.append(f"{machine.name} states no bandwidth of {one.level}")
            continue
        bytes_of[level.name] = bytes_of.get(level.name, 0.0) + one.nbytes
    roofs = []
    for level in machine.levels:
        nbytes, rate = bytes_of.get(level.name), _rate(level)
        if nbytes is None or rate is None:
            continue
        roofs.append(_share(level.name, "level", nbytes, rate, _rate(level, "attained"), time_s, flop))
    return _Levels(roofs, missing)


def _engines(counted: Counted, machine: Machine, time_s: float) -> tuple[list[RoofShare], list[str]]:
    """What each engine did, and the work without a peak."""
    if counted.flop is None:
        return [], ["FLOP were not counted"]
    amounts: dict[str, tuple[float, Rate]] = {}
    missing, left_out = [], 0.0
    for one in counted.flop:
        rate, name = peak_of(machine, one.engine, one.dtype)
        if rate is None:
            left_out += one.count
            missing.append(f"{machine.name} states no {one.dtype} {one.engine} peak")
        elif one.count:
            amounts[name] = (amounts.get(name, (0.0, rate))[0] + one.count, rate)
    roofs = []
    for name, (amount, rate) in amounts.items():
        attained = machine.peak(rate.dtype or "", engine=rate.engine, basis="attained")
        roofs.append(_share(name, "engine", amount, rate, attained, time_s))
    total = sum(one.count for one in counted.flop)
    return roofs, missing if left_out > NEGLIGIBLE_SHARE * total else []


def _clock_hz(machine: Machine) -> float | None:
    """The highest clock that the machine states, as all its theoretical peaks."""
    for what in ("boost", "base", "measured"):
        rates = [rate.value for rate in machine.clocks if rate.what == what]
        if rates:
            return max(rates)
    return None


def _peak_inst_per_s(machine: Machine) -> float | None:
    per_clock, clock_hz = _ISSUED_PER_CLOCK.get(machine.vendor or ""), _clock_hz(machine)
    if machine.kind != "gpu" or per_clock is None or clock_hz is None or not machine.compute_units:
        return None
    return instruction.peak_inst_per_s(machine.compute_units, clock_hz, per_clock)


def _issue(counted: Counted, machine: Machine, time_s: float, capability: str | None) -> list[RoofShare]:
    found = []
    peak = _peak_inst_per_s(machine)
    access = counted.access
    units, clock_hz = _LOAD_STORE_UNITS.get(capability or ""), _clock_hz(machine)
    if access is not None and access.load_store_inst and units and clock_hz and machine.compute_units:
        rate = units * machine.compute_units * clock_hz / instruction.WARP_THREADS
        found.append((LOAD_STORE, access.load_store_inst, rate))
    if peak is not None and counted.instructions:
        found.append((INSTRUCTIONS, counted.instructions, peak))
    return [
        RoofShare(name=name, kind="issue", amount=amount, roof_per_s=rate, share=amount / rate / time_s)
        for name, amount, rate in found
    ]


def _verdict(
    counted: Counted, levels: list[RoofShare], engines: list[RoofShare], issue: list[RoofShare], unknown: bool
) -> tuple[Bound | None, str | None]:
    """What binds. The load/store units belong to memory, instructions to arithmetic."""
    assert counted.time_s is not None  # `place` came first
    memory_s = {roof.name: roof.seconds for roof in levels}
    memory_s |= {roof.name: roof.seconds for roof in issue if roof.name == LOAD_STORE}
    compute_s = {roof.name: roof.seconds for roof in engines}
    compute_s |= {roof.name: roof.seconds for roof in issue if roof.name == INSTRUCTIONS}
    pipes = _pipes(counted.access)
    if unknown and pipes is not None:
        # What keeps the pipes busy is known by name, or stays "the pipes".
        inside = max((*compute_s.values(), memory_s.get(LOAD_STORE, 0.0)), default=0.0)
        if inside < _EXPLAINED * pipes * counted.time_s:
            compute_s[PIPES] = pipes * counted.time_s
        unknown = False
    if unknown or not (memory_s or compute_s) or not max((*memory_s.values(), *compute_s.values())) > 0:
        return None, None
    if not memory_s and max(compute_s.values()) < _EXPLAINED * counted.time_s:
        return None, None  # no byte was counted, and arithmetic does not fill the time: memory may
    engine = max(compute_s, key=compute_s.__getitem__, default="compute")
    return verdict(compute_s.get(engine, 0.0), engine, memory_s)


def _pipes(access: Access | None) -> float | None:
    """How busy the busiest pipe was, as the tool says: a bound of what arithmetic can have taken."""
    return None if access is None else access.pipes.get("busiest")


def _instruction(counted: Counted, machine: Machine, time_s: float) -> InstructionPlacement | None:
    peak = _peak_inst_per_s(machine)
    if peak is None or not counted.instructions or not counted.transactions:
        return None
    bandwidths, transactions = {}, {}
    for name, amount in counted.transactions.items():
        level = None if name == "shared" else _level(machine, name)
        rate = None if level is None else _rate(level)
        if level is not None and rate is not None and amount:
            bandwidths[level.name], transactions[level.name] = rate.value, amount
    if not bandwidths:
        return None
    access = counted.access or Access()
    # Counts of several passes of a profiler may differ by a little: no share of threads is over one.
    most = instruction.WARP_THREADS * counted.instructions
    counts = instruction.Counts(
        time_s=time_s,
        warp_inst=counted.instructions,
        transactions=transactions,
        thread_inst=None if counted.thread_instructions is None else min(counted.thread_instructions, most),
        global_inst=access.requests,
        global_transactions=access.sectors,
    )
    placed = instruction.place(counts, instruction.roofs(peak, bandwidths))
    return InstructionPlacement(
        inst_per_s=placed.inst_per_s,
        peak_inst_per_s=peak,
        intensity=placed.intensity,
        attainable_inst_per_s=placed.attainable,
        transactions_per_s={name: amount / time_s for name, amount in transactions.items()},
        binds=placed.binds,
        predication=placed.predication,
        global_pattern=placed.global_pattern,
        bank_conflicts=access.conflict_share,
    )
