"""The roofline: what a machine lets a kernel attain, from its roofs and the kernel's intensity.

Williams, Waterman, Patterson: "Roofline: an insightful visual performance model for multicore
architectures", CACM 52(4), 2009; one slanted roof per memory level after Ilic, Pratas, Sousa:
"Cache-aware roofline model", IEEE CAL 13(1), 2014.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from rooflab.types.machine import Basis, Level, Machine, Point, Rate, Scope, is_main_memory, is_storage
from rooflab.types.prediction import Bound

BALANCED = 0.9  # two terms this close share the blame (DESIGN: `bound`)
_STREAMS = ("read", "any", "triad", "copy", "write")  # the first that a level has makes its roof

Intensity = TypeVar("Intensity", float, np.ndarray)


class Roof(NamedTuple):
    """One roof: a memory level's bandwidth (bytes/s) or a number format's peak (FLOP/s or op/s).

    Attributes:
        name: "L1", "DRAM", "fp64", "bf16 matrix".
        rate: the one that is drawn: attained where it is known, else theoretical.
        theory: the theoretical one beside an attained `rate`; None where unknown.
    """

    name: str
    rate: Rate
    theory: Rate | None = None

    @property
    def value(self) -> float:
        """Bytes/s or FLOP/s of the drawn rate."""
        return self.rate.value


class Roofs(NamedTuple):
    """All roofs of a machine: `bandwidths` near to far, `peaks` slow to fast."""

    bandwidths: tuple[Roof, ...]
    peaks: tuple[Roof, ...]


class Ridge(NamedTuple):
    """Where a bandwidth roof meets a peak: `intensity` in FLOP/byte, `flop_per_s` the peak."""

    level: str
    peak: str
    intensity: float
    flop_per_s: float


class Verdict(NamedTuple):
    """What binds: `bound`, and the level, engine or overhead behind it."""

    bound: Bound
    binds: str


def verdict(
    compute_s: float, engine: str, memory_s: Mapping[str, float], overhead_s: float = 0.0, overhead: str = "launch"
) -> Verdict:
    """What binds by three terms: arithmetic, the slowest level, overhead.

    The largest; "balanced" where the second is at least 0.9 of it, and then `binds` is still the largest.

    Args:
        compute_s: seconds of the busiest engine, which is called `engine`.
        memory_s: seconds by level, near to far, links included.
        overhead_s: seconds that no wider pipe would help, called `overhead`.

    >>> verdict(3e-6, "bf16 matrix", {"L2": 1e-6, "HBM": 8e-6}, 2e-6)
    Verdict(bound='memory-bound', binds='HBM')
    """
    level = max(memory_s, key=memory_s.__getitem__, default="memory")
    terms: list[tuple[float, Bound, str]] = [
        (memory_s.get(level, 0.0), "memory-bound", level),
        (compute_s, "compute-bound", engine),
        (overhead_s, "overhead-bound", overhead),
    ]
    terms.sort(key=lambda term: -term[0])
    largest, second = terms[0], terms[1]
    if second[0] >= BALANCED * largest[0]:
        return Verdict("balanced", largest[2])
    return Verdict(largest[1], largest[2])


class Placement(NamedTuple):
    """A kernel under the roofs.

    Attributes:
        attainable_flop_per_s: the lower of its two roofs at its intensity.
        share: FLOP/s attained / attainable; over 1 is a question to ask, never clipped.
        bound: "memory-bound", "compute-bound" or "balanced".
        binds: the level or peak whose roof is the lower.
    """

    attainable_flop_per_s: float
    share: float
    bound: str
    binds: str


def attainable(intensity: Intensity, peak_flop_per_s: float, bandwidth_bytes_per_s: float) -> Intensity:
    """FLOP/s that a kernel of `intensity` FLOP/byte can attain: min(peak, intensity × bandwidth).

    >>> attainable(0.5, 100e9, 40e9)
    20000000000.0
    """
    if isinstance(intensity, np.ndarray):
        return np.minimum(peak_flop_per_s, intensity * bandwidth_bytes_per_s)
    return min(peak_flop_per_s, intensity * bandwidth_bytes_per_s)


def ridge(peak_flop_per_s: float, bandwidth_bytes_per_s: float) -> float:
    """Intensity in FLOP/byte at which the two roofs meet: peak / bandwidth."""
    return peak_flop_per_s / bandwidth_bytes_per_s


def alike(level: Roof, peak: Roof) -> float:
    """The bandwidth of `level` that belongs beside `peak`: the theoretical one beside a theoretical peak.

    Attained bandwidth under a peak that nobody attained would make a ridge point of two conventions.
    """
    if peak.rate.basis == "theoretical" and level.theory is not None:
        return level.theory.value
    return level.value


def roofs(machine: Machine, scope: Scope = "all") -> Roofs:
    """The roofs of `machine` for `scope`: one per memory level and one per number format and engine.

    A level's roof is its read bandwidth, or where it has none the first it has of any mix, triad,
    copy and write. A scalar roof is drawn for fp64 alone. Levels and formats without a rate of that
    scope have no roof. Peaks counted in op/s (integers) are roofs only where no FLOP/s is known.
    """
    bandwidths = tuple(
        roof
        for level in machine.levels
        if level.name != "registers"
        and not is_storage(level)
        and (roof := _bandwidth_roof(level, scope)) is not None
    )
    for per_s in ("flop", "op"):
        peaks = _peak_roofs(machine, scope, per_s)
        if peaks:
            return Roofs(bandwidths, peaks)
    return Roofs(bandwidths, ())


def ridges(machine_roofs: Roofs) -> tuple[Ridge, ...]:
    """Every crossing of a bandwidth roof and a peak, level by level."""
    return tuple(
        Ridge(level.name, peak.name, ridge(peak.value, alike(level, peak)), peak.value)
        for level in machine_roofs.bandwidths
        for peak in machine_roofs.peaks
    )


def dominated(machine_roofs: Roofs) -> tuple[str, ...]:
    """Names of the levels whose roof is not above that of a level further away.

    Such a roof can't be right for a nearer memory: it was mislabelled, or measured under noise.
    """
    names = []
    for i, near in enumerate(machine_roofs.bandwidths):
        if any(further.value >= near.value for further in machine_roofs.bandwidths[i + 1 :]):
            names.append(near.name)
    return tuple(names)


def memory_roof(machine_roofs: Roofs, machine: Machine) -> Roof | None:
    """The roof of the main memory; else that of the furthest level; None without any."""
    main = {level.name for level in machine.levels if is_main_memory(level)}
    main_roofs = [roof for roof in machine_roofs.bandwidths if roof.name in main]
    return (main_roofs or list(machine_roofs.bandwidths) or [None])[-1]


def place(point: Point, machine: Machine) -> Placement | None:
    """`point` under the roofs of its level and number format; None where one of them is unknown."""
    machine_roofs = roofs(machine, point.scope)
    level = next((roof for roof in machine_roofs.bandwidths if roof.name == point.level), None)
    if level is None and point.level is None:
        level = memory_roof(machine_roofs, machine)
    fits = [roof for roof in machine_roofs.peaks if point.dtype in (None, roof.rate.dtype)]
    if level is None or not fits:
        return None
    peak = max(fits, key=lambda roof: roof.value)
    memory = point.intensity * level.value
    limit = attainable(point.intensity, peak.value, level.value)
    if min(memory, peak.value) >= BALANCED * max(memory, peak.value):
        bound = "balanced"
    else:
        bound = "memory-bound" if memory < peak.value else "compute-bound"
    return Placement(limit, point.flop_per_s / limit, bound, level.name if memory < peak.value else peak.name)


def _bandwidth_roof(level: Level, scope: Scope) -> Roof | None:
    def rate(basis: Basis) -> Rate | None:
        return next((stated for what in _STREAMS if (stated := level.rate(what, scope=scope, basis=basis))), None)

    attained, theory = rate("attained"), rate("theoretical")
    if attained is not None:
        return Roof(level.name, attained, theory)
    return Roof(level.name, theory) if theory is not None else None


def _peak_roofs(machine: Machine, scope: Scope, per_s: str) -> tuple[Roof, ...]:
    rates = [rate for rate in machine.peaks if rate.scope == scope and rate.per_s == per_s and rate.dtype]
    peaks = []
    for dtype, engine in dict.fromkeys((rate.dtype, rate.engine) for rate in rates):
        if dtype is None or (engine == "scalar" and dtype != "fp64"):
            continue
        same = msgspec.structs.replace(machine, peaks=tuple(rate for rate in rates if rate.engine == engine))
        attained = same.peak(dtype, scope=scope, basis="attained")
        theory = same.peak(dtype, scope=scope, basis="theoretical")
        name = dtype if engine in (None, "vector") else f"{dtype} {engine}"
        if attained is not None:
            peaks.append(Roof(name, attained, theory))
        elif theory is not None:
            peaks.append(Roof(name, theory))
    return tuple(sorted(peaks, key=lambda roof: (roof.value, roof.name)))
