"""Made-up sweeps of many memory hierarchies, disturbed as real ones are, with the levels that they hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rooflab.units import KIB


@dataclass(frozen=True)
class Tier:
    """A level: bytes that it keeps and that the system reports, bytes per second, seconds per load."""

    name: str
    capacity_bytes: float
    bytes_per_s: float
    latency_s: float
    reported_bytes: float | None = None


@dataclass(frozen=True)
class Sweeps:
    """What a measurement would see of a hierarchy.

    Attributes:
        truth: names of the levels that its curves hold, near to far.
        reported: what the system says.
    """

    label: str
    x: tuple[int, ...]
    bandwidth: list[float]
    loads_per_s: list[float]
    reported: list[tuple[str, float | None]]
    truth: tuple[Tier, ...]


def tiers(*rows: tuple[float, float, float]) -> tuple[Tier, ...]:
    """Levels from (KiB, GB/s, ns), the last one main memory."""
    *caches, memory = [(size * KIB, rate * 1e9, time * 1e-9) for size, rate, time in rows]
    named = [Tier(f"L{k + 1}", *row, row[0]) for k, row in enumerate(caches)]
    return (*named, Tier("DRAM", math.inf, *memory[1:]))


# One core's capacity in KiB, read GB/s and ns of a load, rounded from public tables of such machines; what
# matters here is that they span the ratios that occur: L2 at 0.4 to 0.9 of L1, L3 at 0.2 to 0.9 of L2, memory
# at 0.15 to 1.0 of L3 (a mesh serves one core hardly faster than memory does).
DESIGNS = {
    "zen2": tiers((32, 200, 1.2), (512, 100, 3.6), (16384, 70, 11), (0, 22, 85)),
    "zen3": tiers((32, 200, 1.1), (512, 100, 3.4), (32768, 75, 13), (0, 25, 95)),
    "zen4": tiers((32, 232, 1.1), (1024, 117, 3.8), (32768, 96, 14), (0, 36, 105)),
    "zen5": tiers((48, 533, 1.0), (1024, 262, 3.3), (32768, 120, 11), (0, 42, 100)),
    "skylake-x": tiers((32, 400, 1.2), (1024, 140, 4.2), (25344, 28, 20), (0, 13, 85)),
    "ice-lake-sp": tiers((48, 400, 1.5), (1280, 150, 4.4), (49152, 25, 22), (0, 13, 90)),
    "sapphire-rapids": tiers((48, 430, 1.5), (2048, 160, 4.6), (61440, 20, 60), (0, 14, 115)),
    "golden-cove": tiers((48, 500, 1.0), (1280, 250, 3.0), (30720, 100, 14), (0, 40, 85)),
    "gracemont": tiers((32, 115, 0.9), (2048, 100, 5.0), (30720, 35, 18), (0, 25, 95)),
    "neoverse-n1": tiers((64, 95, 1.3), (1024, 60, 3.7), (32768, 30, 30), (0, 18, 110)),
    "neoverse-v2": tiers((64, 150, 1.2), (1024, 100, 3.8), (116736, 60, 35), (0, 40, 190)),
    "m1": tiers((128, 150, 0.95), (12288, 90, 5.5), (0, 60, 97)),
    "cortex-a76": tiers((64, 75, 1.7), (512, 40, 4.2), (2048, 25, 15), (0, 10, 110)),
    "cortex-a72": tiers((32, 22, 2.7), (1024, 12, 14), (0, 4, 130)),
}


def curves(design: Sequence[Tier], x: Sequence[int], octaves: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Bandwidth and latency without noise: time per byte, and per load, mixes over `octaves` past a capacity."""
    per_byte, per_load = (np.full(len(x), value) for value in (1 / design[-1].bytes_per_s, design[-1].latency_s))
    for tier in reversed(design[:-1]):
        beyond = np.log2(np.asarray(x, float) / tier.capacity_bytes)
        served = np.clip(1 - beyond / octaves, 0.0, 1.0)
        per_byte = served / tier.bytes_per_s + (1 - served) * per_byte
        per_load = served * tier.latency_s + (1 - served) * per_load
    return 1 / per_byte, per_load


def sibling_on(
    level: int, design: Sequence[Tier], x: Sequence[int], bandwidth: np.ndarray, bend: float
) -> np.ndarray:
    """Bandwidth of one level bent down toward its end, as where a sibling thread uses it too: to `bend` of it."""
    lower, upper = design[level - 1].capacity_bytes if level else min(x), design[level].capacity_bytes
    along = np.clip(np.log2(np.asarray(x, float) / lower) / math.log2(upper / lower), 0.0, 1.0)
    inside = (np.asarray(x) > lower) & (np.asarray(x) <= upper)
    return bandwidth * np.where(inside, bend**along, 1.0)


def disturbed(values: np.ndarray, rng: np.random.Generator, noise: float, dips: float, depth: float) -> np.ndarray:
    """Best-of-a-few readings beside other work: a normal error, and some that were slowed all times."""
    hit = rng.random(len(values)) < dips
    return (
        values * np.exp(rng.normal(0, noise, len(values))) * np.where(hit, 1 - depth * rng.random(len(values)), 1)
    )


def shared(design: Sequence[Tier], share: float) -> tuple[Tier, ...]:
    """`design` of a guest that has `share` of the last cache, which is still reported whole."""
    *nearer, last, memory = design
    left = max(last.capacity_bytes * share, 4 * nearer[-1].capacity_bytes)
    return (*nearer, replace(last, capacity_bytes=min(left, last.capacity_bytes)), memory)


def sample(seed: int, x: Sequence[int]) -> Sweeps:
    """One disturbed measurement of some design: all of it decided by `seed`."""
    rng = np.random.default_rng(seed)
    label = str(rng.choice(list(DESIGNS)))
    design, octaves = DESIGNS[label], 0.5
    if rng.random() < 0.3 and len(design) > 3:
        design, octaves, label = shared(design, float(rng.uniform(0.25, 0.9))), 1.0, f"{label} guest"
    bandwidth, latency = curves(design, x, octaves)
    if rng.random() < 0.4:
        level = int(rng.integers(1, len(design) - 1))
        bandwidth, label = (
            sibling_on(level, design, x, bandwidth, float(rng.uniform(0.45, 0.9))),
            f"{label} sibling",
        )
    noise = float(rng.choice([0.01, 0.03, 0.08]))
    bandwidth = disturbed(bandwidth, rng, noise, float(rng.choice([0.0, 0.1, 0.2, 0.4])), 0.5)
    quiet, busy = float(rng.choice([0.01, 0.03])), float(rng.choice([0.02, 0.1, 0.3]))
    loads = disturbed(1 / latency, rng, quiet, float(rng.choice([0.0, 0.1])), 0.6)
    # Beyond the private caches other guests evict lines while the chase goes round.
    outer = np.asarray(x) > design[min(1, len(design) - 2)].capacity_bytes
    loads = np.where(outer, loads * np.exp(-np.abs(rng.normal(0, busy, len(x)))), loads)
    reported = [(tier.name, tier.reported_bytes) for tier in design[:-1]]
    return Sweeps(label, tuple(x), bandwidth.tolist(), loads.tolist(), reported, tuple(design))


def samples(count: int, x: Sequence[int], first_seed: int = 0) -> Iterator[Sweeps]:
    """`count` of them."""
    return (sample(first_seed + k, x) for k in range(count))
