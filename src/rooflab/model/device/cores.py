"""The cores of a CPU as kernel models see them: levels near to far, arithmetic peaks, call overheads.

A measured machine states what one core and all granted cores attain; for a catalogue entry, what it does not
state follows from its theory and the family's constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rooflab.machines.products import Fits
from rooflab.types.constants import Constants
from rooflab.types.machine import (
    MAIN_MEMORY,
    Level,
    Machine,
    Scope,
    is_main_memory,
    is_storage,
    whole_capacity_bytes,
)
from rooflab.types.measured import Products

Number = float | np.ndarray


class Tier(NamedTuple):
    """One memory level. Rates count the bytes that a program names; `core` is one core, `all` all of them.

    Attributes:
        capacity_bytes: of one instance; `shared_by` cores use it.
        core_read, all_read, core_write, all_write: bytes/s, a write with the read of its line before it.
        core_copy, all_copy: bytes/s both ways of a copy that writes past the caches.
        latency_s: load to use.
    """

    name: str
    capacity_bytes: Number
    shared_by: float
    core_read: Number
    all_read: Number
    core_write: Number
    all_write: Number
    core_copy: Number
    all_copy: Number
    latency_s: float


class Cores(NamedTuple):
    """All cores of a CPU that are granted.

    Attributes:
        units: how many there are.
        tiers: levels near to far, the main memory last.
        flop_per_s: of one core by number format, multiply-adds on its vector (or matrix) units.
        dispatch_s: host time of one call by framework, where measured.
        near_name: the levels that belong to one core, "L1/L2".
        cache_bytes: what the last cache holds for us.
        latency: (bytes, seconds) of a random access within so many bytes, ascending.
        threads: how many a program was given; None where nobody said.
        products: what was measured of the program's library, by routine and number format.
        shares: of all cores' arithmetic, of their last cache's bandwidth and of the main memory's, what so many
            threads have.
    """

    units: float
    tiers: tuple[Tier, ...]
    flop_per_s: Mapping[str, Number]
    dispatch_s: Mapping[str, float]
    near_name: str
    cache_bytes: Number
    latency: tuple[tuple[float, float], ...]
    threads: int | None = None
    products: Mapping[tuple[str, str], Fits] = {}
    shares: tuple[float, Number, Number] = (1.0, 1.0, 1.0)


def cores_of(
    machine: Machine,
    factor: Mapping[str, Number],
    constants: Constants,
    clock_hz: float,
    threads: int | None = None,
    library: str | None = None,
) -> Cores | None:
    """The cores of `machine` with what-if factors; None for a machine that is not a CPU or states no levels.

    Args:
        threads: how many of them a program takes; all, and of a library as many as it takes by itself, if None.
        library: whose products of matrices the program calls.
    """
    levels = [level for level in machine.levels if level.name != "registers" and not is_storage(level)]
    if machine.kind != "cpu" or not levels:
        return None
    count = float(machine.compute_units or 1)
    tiers = tuple(_tier(level, machine, factor, constants, count, clock_hz) for level in levels)
    shares: tuple[float, Number, Number] = (1.0, 1.0, 1.0)
    if threads is not None and threads < count:
        full, near = tiers, tiers[max(len(tiers) - 2, 0)]
        tiers = tuple(_for_threads(tier, near, machine, threads, count) for tier in tiers)
        cache, memory = (tiers[at].all_read / full[at].all_read for at in (max(len(tiers) - 2, 0), -1))
        shares = (threads / count, cache, memory)
    private = [tier.name for tier in tiers[:-1] if tier.shared_by == 1]
    last = levels[-2] if len(levels) > 1 else levels[-1]
    whole = whole_capacity_bytes(last, machine) or constants("device.cache_bytes")
    # Where a guest finds less than is reported, others use the rest, now more, now less: take the middle.
    granted, reported = last.capacity_bytes, last.reported_capacity_bytes
    share = (reported / granted) ** 0.5 if granted and reported and reported > granted else 1.0
    return Cores(
        units=count if threads is None else min(count, float(threads)),
        tiers=tiers,
        flop_per_s={dtype: _core_peak(machine, dtype, count, factor) for dtype in _FORMATS},
        dispatch_s={each.framework: each.dispatch_s for each in machine.runtimes if each.dispatch_s is not None},
        near_name="/".join(private) or tiers[0].name,
        cache_bytes=whole * share * factor["cache_capacity"],
        latency=_latency(machine, tiers),
        threads=threads,
        products=_products(machine, library),
        shares=shares,
    )


def _products(machine: Machine, library: str | None) -> dict[tuple[str, str], dict[int, Products]]:
    """What was measured of `library` by routine and number format, then by number of threads."""
    found: dict[tuple[str, str], dict[int, Products]] = {}
    for row in machine.products:
        if row.library == library:
            found.setdefault((row.routine, row.dtype), {})[row.threads] = row
    return found


def _for_threads(tier: Tier, near: Tier, machine: Machine, threads: int, count: float) -> Tier:
    """`tier` as so few threads see it: the memory by the measured curve over threads, others core by core.

    Without a curve each thread draws from memory what one core does, until the memory has no more, or the clusters
    that they fill: cores that share the cache `near`, the last before it, have a way of their own to the memory.
    """
    share = threads / count
    if tier.name in MAIN_MEMORY:
        cluster = near.shared_by if 1.0 < near.shared_by < count else count
        share = min(math.ceil(threads / cluster) * cluster / count, 1.0)
    curve = next((one for one in machine.curves if one.name == "thread scaling"), None)
    if tier.shared_by > 1 and curve is not None and tier.name in MAIN_MEMORY:
        share = float(np.interp(threads, curve.x, curve.best) / curve.best[-1])
    return tier._replace(
        all_read=np.minimum(tier.core_read * threads, np.maximum(tier.all_read * share, tier.core_read)),
        all_write=np.minimum(tier.core_write * threads, np.maximum(tier.all_write * share, tier.core_write)),
        all_copy=np.minimum(tier.core_copy * threads, np.maximum(tier.all_copy * share, tier.core_copy)),
    )


def _latency(machine: Machine, tiers: tuple[Tier, ...]) -> tuple[tuple[float, float], ...]:
    """The measured curve; else each level's latency up to its capacity."""
    for curve in machine.curves:
        if curve.name == "latency" and curve.x_unit == "byte" and curve.scope == "core":
            return tuple(zip(curve.x, curve.best, strict=True))
    steps: list[tuple[float, float]] = []
    for tier in tiers:
        ends = float(np.max(tier.capacity_bytes))
        begins = 2 * steps[-1][0] if steps else ends / 2
        steps += [(begins, tier.latency_s), (max(ends, 2 * begins), tier.latency_s)]
    return tuple(steps)


_FORMATS = ("fp64", "fp32", "bf16", "fp16", "int8")


def _tier(
    level: Level,
    machine: Machine,
    factor: Mapping[str, Number],
    constants: Constants,
    count: float,
    clock_hz: float,
) -> Tier:
    main = is_main_memory(level)
    faster = factor["bandwidth"] if main else factor["cache_bandwidth"] * factor["clock"]
    shared = float(level.shared_by or (1 if level.name in ("L1", "L2") else count))
    default = constants("device.near_bytes_per_unit_clock" if shared == 1 else "device.cache_bytes_per_unit_clock")
    core_read = _rate(level, "read", "core")
    all_read = _rate(level, "read", "all")
    if core_read is None:
        if main and all_read is not None:
            # Little's law: so many lines of 64 bytes are under way at once.
            lines = constants("cpu.core_lines") * 64 / (level.latency_s or constants("cpu.memory_latency_s"))
            core_read = min(lines, all_read)
        else:
            core_read = all_read / count if all_read is not None else default * clock_hz
    # A noisy measurement may give all cores less than one.
    all_read = max(core_read, all_read or core_read * count)
    core_write = _rate(level, "write", "core") or core_read * (constants("cpu.write_share") if main else 1.0)
    all_write = _rate(level, "write", "all") or all_read * (constants("cpu.write_share") if main else 1.0)
    core_copy = _rate(level, "copy", "core", "nontemporal") or core_read
    all_copy = _rate(level, "copy", "all", "nontemporal") or all_read
    capacity = level.capacity_bytes or constants("device.cache_bytes")
    return Tier(
        name=level.name,
        capacity_bytes=capacity * (1.0 if main else factor["cache_capacity"]),
        shared_by=shared,
        core_read=core_read * faster,
        all_read=all_read * faster,
        core_write=core_write * faster,
        all_write=max(core_write, all_write) * faster,
        core_copy=core_copy * faster,
        all_copy=max(core_copy, all_copy) * faster,
        latency_s=level.latency_s or constants("cpu.memory_latency_s" if main else "cpu.cache_latency_s"),
    )


def _rate(level: Level, what: str, scope: Scope, stores: str | None = None) -> float | None:
    """Attained where measured, else theoretical; "any" stands for reads where only that is stated."""
    wanted = "nontemporal" if stores == "nontemporal" else "ordinary" if what != "read" else None
    rate = level.rate(what, scope=scope, basis="attained", stores=wanted)
    if rate is None and what == "read":
        rate = level.rate(scope=scope, basis="attained") or level.rate(scope=scope, basis="theoretical")
    return None if rate is None else rate.value


def _core_peak(machine: Machine, dtype: str, count: float, factor: Mapping[str, Number]) -> Number:
    """FLOP/s of one core for products: multiply-add or dot, attained first; fp32's where it has none."""
    faster = factor["compute"] * factor["clock"]
    for scope, share in (("core", 1.0), ("all", count)):
        fits = [
            rate
            for rate in machine.peaks
            if rate.dtype == dtype
            and rate.scope == scope
            and rate.engine in ("vector", "matrix")
            and rate.what in ("fma", "dot", "any", "mma")
        ]
        attained = [rate for rate in fits if rate.basis == "attained"] or fits
        if attained:
            return max(rate.value for rate in attained) / share * faster
    if dtype == "fp64":
        return _core_peak(machine, "fp32", count, factor) / 2
    if dtype == "fp32":
        # 2 units × 8 lanes × 2 FLOP: AVX2, the least that is common.
        return 32 * 3e9 * faster
    return _core_peak(machine, "fp32", count, factor)
