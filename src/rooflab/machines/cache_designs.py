"""What is known, or assumed, of the caches of real parts beyond their sizes: GPUs, and who holds what in L3."""

from __future__ import annotations

from typing import NamedTuple

from rooflab.types.machine import Level, Machine
from rooflab.types.simulation import Cache
from rooflab.units import iec


class _Design(NamedTuple):
    """What vendors of GPUs do not state, and where the values taken come from."""

    l1_sets: int | None
    l1_ways: int | None
    l2_ways: int
    hashed: bool
    assumption: str


# NVIDIA publishes neither ways, nor replacement, nor index. GPGPU-Sim 4, the model behind Accel-Sim, has L1s of 4
# sets that are written through, and L2 slices with a hashed index, of 24 ways on Volta and 16 on Ampere: "dl1
# S:4:128:64,L:T", "dl2 S:64:128:16,L:B:m:L:P" (configs/tested-cfgs/SM7_QV100, SM86_RTX3070: gpgpusim.config).
_NVIDIA = _Design(
    4,
    None,
    16,
    True,
    "ways: L1 of 4 sets, L2 16 ways with a hashed index (as GPGPU-Sim models Ampere; XOR here); NVIDIA states "
    "neither",
)
# The pages of AMD that the catalogue draws on state sizes, not ways.
_AMD = _Design(None, 64, 16, False, "ways: L1 64, further levels 16, assumed")
_NEITHER = _Design(None, 8, 16, False, "ways: L1 8, further levels 16, assumed")


def gpu(machine: Machine, levels: list[Level], assumptions: list[str]) -> list[Cache]:
    """The caches that one compute unit of a GPU reads through: its own L1, then those that all share, whole."""
    design = {"NVIDIA": _NVIDIA, "AMD": _AMD}.get(machine.vendor or "", _NEITHER)
    unit = machine.compute_unit or "compute unit"
    caches: list[Cache] = []
    for level in levels:
        caches.append(_gpu_level(level, caches[-1] if caches else None, design))
    first, *others = caches
    assumptions += [
        f"one {unit}: its own L1 of {iec(first.capacity_bytes)}"
        + (", all of it cache and none shared memory" if "shared memory" in (levels[0].note or "") else ""),
        *(_share(level, cache, unit, machine) for level, cache in zip(levels[1:], others, strict=True)),
        *(
            f"{cache.name}: lines of {cache.line_bytes} bytes; a miss reads a sector of {cache.sector_bytes}"
            for cache in caches
            if cache.sector_bytes
        ),
        design.assumption,
        "replacement is taken as LRU, which no vendor states; stores as passing through L1, making no room in it",
        "accesses one by one, as one thread makes them: a warp's are not gathered into sectors",
        "a store to a sector that is not in L2 reads nothing, and what it writes counts as the whole sector: the "
        "part keeps a mask of bytes",
    ]
    return caches


def _gpu_level(level: Level, near: Cache | None, design: _Design) -> Cache:
    assert level.capacity_bytes is not None
    line = level.line_bytes or (near.line_bytes if near else 128)
    lines = int(level.capacity_bytes) // line
    ways = level.ways or design.l2_ways
    if near is None:
        ways = level.ways or design.l1_ways or max(1, lines // (design.l1_sets or 1))
    ways = min(ways, lines)
    sector = level.sector_bytes if level.sector_bytes != line else None
    return Cache(
        lines // ways * ways * line,
        ways,
        line,
        sector_bytes=sector,
        write_back=near is not None,
        write_allocate=near is not None,
        fetch_on_write=False,
        index="xor" if design.hashed and near is not None else "modulo",
        name=level.name,
    )


def _share(level: Level, cache: Cache, unit: str, machine: Machine) -> str:
    shared = level.shared_by or machine.compute_units
    text = (
        f"{level.name}: all {iec(cache.capacity_bytes)}, as if the other {(shared or 1) - 1} {unit}s left it alone"
    )
    stacked = any(each.name == "HBM" for each in machine.levels)
    if machine.vendor == "NVIDIA" and stacked and cache.capacity_bytes >= _PARTITIONED_BYTES:
        # NVIDIA A100 whitepaper, A100 L2 Cache: two partitions, each caching "data for memory accesses from SMs in
        # the GPCs directly connected to the partition". Taken to hold of later parts too.
        text += "; its two partitions taken as one: data that both halves read may be held twice on the part"
    return text


_PARTITIONED_BYTES = 40 * 2**20  # A100's L2; earlier ones are in one piece


def cpu(machine: Machine) -> list[str]:
    """What the real part does between its L2 and L3, where that is known, and what is simulated instead."""
    if not any(level.name == "L3" for level in machine.levels):
        return []
    # A measured machine has the processor's name and may have no vendor.
    name = f"{machine.vendor or ''} {machine.name}"
    plain = "taken as filled by every miss"
    # As the catalogue notes of EPYC 7763 (recalled from AMD's guides, not read again).
    if any(each in name for each in ("AMD", "EPYC", "Ryzen")):
        return [f"L3 of a Zen is mostly a victim cache of its L2s: {plain}"]
    # Non-inclusive with 1.375 MiB a core and 11 ways, where its forerunner was inclusive: AnandTech's review of
    # Skylake-X, 2017. How much of it L2's evictions fill is not known.
    if "Xeon" in name:
        return [f"L3 since Skylake-SP does not include L2: {plain}"]
    if "Intel" in name:
        return [f"whether L3 includes L2 differs between Intel's client parts: {plain}"]
    return [f"what L3 holds of L2 is not stated for this part: {plain}"]
