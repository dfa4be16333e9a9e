"""The lab: the smallest model in which memory and arithmetic compete, to learn the roofline with.

A streaming kernel reads bytes from a memory of finite bandwidth and computes a few operations for each. Every
number follows from the formulas below by hand; `docs/lab.md` says which real number stands behind each
parameter.

>>> core = ComputeCore(peak_flop_per_s=10e9)
>>> slow = Memory(bandwidth_bytes_per_s=1e9 / 8, latency_s=50e-9)
>>> run(StreamingKernel(nbytes=10 * 2**20), System(core=core, memory=slow)).regime
'memory-bound'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.model.roofline.roofline import BALANCED
from rooflab.types.lab import (
    PATTERNS,
    ComputeCore,
    Memory,
    Regime,
    StreamingKernel,
    Sweep,
    System,
    Times,
    TwoTierMemory,
)
from rooflab.types.machine import Machine, is_main_memory

__all__ = [
    "PARAMETERS",
    "PATTERNS",
    "ComputeCore",
    "Memory",
    "StreamingKernel",
    "Sweep",
    "System",
    "Times",
    "TwoTierMemory",
    "effective_bytes_per_s",
    "memory_time_s",
    "of_machine",
    "regime",
    "run",
    "sweep",
    "tiled_matmul",
    "tiles_bytes",
    "turning_point",
]


def run(kernel: StreamingKernel, system: System) -> Times:
    """How long `kernel` takes on `system`: the sum of both times, or the longer one where they overlap."""
    memory_s = memory_time_s(kernel, system.memory)
    compute_s = kernel.nbytes * kernel.ops_per_byte / system.core.peak_flop_per_s
    total_s = max(memory_s, compute_s) if system.overlap else memory_s + compute_s
    return Times(memory_s, compute_s, total_s, regime(memory_s, compute_s))


def regime(memory_s: float, compute_s: float) -> Regime:
    """The longer of the two; "balanced" where the shorter is at least 0.9 of it (the 10 % rule)."""
    if min(memory_s, compute_s) >= BALANCED * max(memory_s, compute_s):
        return "balanced"
    return "memory-bound" if memory_s > compute_s else "compute-bound"


def memory_time_s(kernel: StreamingKernel, memory: Memory | TwoTierMemory) -> float:
    """Seconds to read what `kernel` reads.

    Sequential: latency + bytes / bandwidth. Random: latency + accesses × the longer of line / bandwidth and
    latency / in_flight (Little's law). Two tiers: each gives its share, one after the other, and the latency of
    a stream's first byte is that of the furthest tier in use.
    """
    if isinstance(memory, Memory):
        return memory.latency_s + _transfer_s(kernel, memory, kernel.nbytes)
    hits = kernel.nbytes * memory.hit_rate
    first = memory.slow if memory.hit_rate < 1 else memory.fast
    return (
        first.latency_s
        + _transfer_s(kernel, memory.fast, hits)
        + _transfer_s(kernel, memory.slow, kernel.nbytes - hits)
    )


def _transfer_s(kernel: StreamingKernel, memory: Memory, nbytes: float) -> float:
    if kernel.access_pattern == "sequential":
        return nbytes / memory.bandwidth_bytes_per_s
    accesses = nbytes / kernel.access_bytes
    moved = max(memory.line_bytes, kernel.access_bytes)
    return accesses * max(moved / memory.bandwidth_bytes_per_s, memory.latency_s / memory.in_flight)


def effective_bytes_per_s(kernel: StreamingKernel, memory: Memory | TwoTierMemory) -> float:
    """Bytes/s of what `kernel` asks for: of two tiers the mean of their bandwidths weighted by time."""
    return kernel.nbytes / memory_time_s(kernel, memory)


def tiled_matmul(n: int, tile: int, element_bytes: int = 4) -> StreamingKernel:
    """The traffic to slow memory of a product of two n × n matrices, computed tile by tile.

    Each of the (n / tile)² tiles of C reads n / tile tiles of A and as many of B, and is written once:
    (2 n³ / tile + n²) × element bytes for 2 n³ FLOP. Lam, Rothberg, Wolf: "The cache performance and
    optimizations of blocked algorithms", ASPLOS 1991.

    Raises:
        RooflabError: a tile that does not divide n.
    """
    if tile < 1 or n < 1 or n % tile:
        raise RooflabError(f"lab: tile {tile} does not divide n {n}, expected such as n = 1024, tile = 32")
    nbytes = (2 * n**3 / tile + n * n) * element_bytes
    return StreamingKernel(nbytes=nbytes, ops_per_byte=2 * n**3 / nbytes)


def tiles_bytes(tile: int, element_bytes: int = 4) -> int:
    """Bytes that a cache must hold for `tiled_matmul`: one tile each of A, B and C."""
    return 3 * tile * tile * element_bytes


def of_machine(machine: Machine, dtype: str = "fp32", *, overlap: bool = True) -> System:
    """A real machine as a lab system: its main memory and its fastest peak for `dtype`.

    Theoretical rates where they are stated, else attained; a latency that is not stated is left out.

    Raises:
        RooflabError: the machine states no memory bandwidth, or no peak for `dtype`.
    """
    memory = next((level for level in machine.levels if is_main_memory(level)), None)
    rate = None if memory is None else memory.rate(basis="theoretical") or memory.rate()
    peak = machine.peak(dtype, basis="theoretical") or machine.peak(dtype)
    if memory is None or rate is None:
        raise RooflabError(f"{machine.name} states no memory bandwidth: name one with --bandwidth")
    if peak is None:
        formats = ", ".join(dict.fromkeys(each.dtype for each in machine.peaks if each.dtype)) or "none"
        raise RooflabError(f"{machine.name} states no {dtype} peak, expected one of: {formats}")
    memory_tier = Memory(
        bandwidth_bytes_per_s=rate.value,
        latency_s=memory.latency_s or 0.0,
        line_bytes=memory.line_bytes or 64,
    )
    return System(core=ComputeCore(peak_flop_per_s=peak.value), memory=memory_tier, overlap=overlap)


Case = tuple[StreamingKernel, System]


def _bandwidth(kernel: StreamingKernel, system: System, value: float) -> Case:
    memory = system.memory
    if isinstance(memory, TwoTierMemory):
        changed = replace(memory, slow=replace(memory.slow, bandwidth_bytes_per_s=value))
    else:
        changed = replace(memory, bandwidth_bytes_per_s=value)
    return kernel, replace(system, memory=changed)


def _intensity(kernel: StreamingKernel, system: System, value: float) -> Case:
    return replace(kernel, ops_per_byte=value), system


def _hit_rate(kernel: StreamingKernel, system: System, value: float) -> Case:
    if not isinstance(system.memory, TwoTierMemory):
        raise RooflabError("lab: a sweep of the hit rate needs two tiers of memory: give the fast one's bandwidth")
    return kernel, replace(system, memory=replace(system.memory, hit_rate=value))


PARAMETERS: dict[str, Callable[[StreamingKernel, System, float], Case]] = {
    "bandwidth": _bandwidth,
    "intensity": _intensity,
    "hit-rate": _hit_rate,
}


def sweep(kernel: StreamingKernel, system: System, parameter: str, values: Iterable[float]) -> Sweep:
    """`kernel` on `system` for each of `values` of `parameter`.

    Raises:
        UnknownNameError: no such parameter, with near matches.
        RooflabError: a value that makes no sense, or a hit rate of a single tier.
    """
    change = _change(parameter)
    chosen = tuple(sorted(values))
    if not chosen:
        raise RooflabError(f"lab: a sweep of the {parameter} needs at least one value")
    results = tuple(run(*change(kernel, system, value)) for value in chosen)
    turns_at = turning_point(kernel, system, parameter, chosen[0], chosen[-1])
    return Sweep(
        parameter=parameter, kernel=kernel, system=system, values=chosen, results=results, turns_at=turns_at
    )


def turning_point(
    kernel: StreamingKernel, system: System, parameter: str, low: float, high: float
) -> float | None:
    """The value from `low` to `high` at which memory and arithmetic take the same time; None without one."""
    change = _change(parameter)

    def ahead(value: float) -> float:
        times = run(*change(kernel, system, value))
        return times.memory_s - times.compute_s

    for end in (low, high):
        if ahead(end) == 0:
            return end
    below = ahead(low) > 0
    if (ahead(high) > 0) == below:
        return None
    # Both times are monotonous in each parameter: halving the interval finds the one crossing.
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if (ahead(middle) > 0) == below else (low, middle)
    return (low + high) / 2


def _change(parameter: str) -> Callable[[StreamingKernel, System, float], Case]:
    if parameter not in PARAMETERS:
        raise UnknownNameError("lab parameter", parameter, PARAMETERS)
    return PARAMETERS[parameter]
