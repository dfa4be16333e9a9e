"""The caches that the operating system reports, from /sys/devices/system/cpu/cpu*/cache."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rooflab.machines.detect.files import Tree
from rooflab.machines.detect.host import CacheInstance, CacheKind, Host

_KINDS: dict[str, CacheKind] = {"Data": "data", "Instruction": "instruction", "Unified": "unified"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCache:
    """What the operating system says of one level as one CPU sees it.

    Attributes:
        capacity_bytes: of one instance.
        shared_cpus: the CPUs that share it, SMT siblings included.
        shared_by_cores: the physical cores that share it.
        instances: how many like it (same level, kind and capacity) the machine has.
    """

    level: int
    capacity_bytes: int | None
    ways: int | None
    line_bytes: int | None
    shared_cpus: tuple[int, ...]
    shared_by_cores: int
    instances: int


def read_caches(tree: Tree, cpus: Iterable[int]) -> tuple[CacheInstance, ...]:
    """Every cache of the given CPUs once, by level, kind and first CPU; none, with a note, where unreported."""
    cpus = tuple(cpus)
    caches: dict[tuple[int, CacheKind, tuple[int, ...]], CacheInstance] = {}
    for cpu in cpus:
        base = f"sys/devices/system/cpu/cpu{cpu}/cache"
        for index in tree.numbered(base, "index"):
            key = _identity(tree, f"{base}/index{index}", cpu)
            if key is not None and key not in caches:
                caches[key] = _read_one(tree, f"{base}/index{index}", key)
    if not caches:
        _note_unreported(tree, cpus)
    return tuple(caches[key] for key in sorted(caches))


def _identity(tree: Tree, base: str, cpu: int) -> tuple[int, CacheKind, tuple[int, ...]] | None:
    """Level, kind and sharing CPUs of the cache at `base`: what makes it the same one for two CPUs."""
    level, kind = tree.integer(f"{base}/level"), _KINDS.get(tree.text(f"{base}/type") or "")
    if level is None or kind is None:
        tree.note(f"/{base} states no level or no known type; the cache is left out")
        return None
    return level, kind, tree.cpu_list(f"{base}/shared_cpu_list") or (cpu,)


def _read_one(tree: Tree, base: str, key: tuple[int, CacheKind, tuple[int, ...]]) -> CacheInstance:
    level, kind, shared_cpus = key
    return CacheInstance(
        level=level,
        kind=kind,
        shared_cpus=shared_cpus,
        capacity_bytes=tree.size_bytes(f"{base}/size") or None,
        # The kernel writes 0 for what firmware does not say.
        ways=tree.integer(f"{base}/ways_of_associativity") or None,
        line_bytes=tree.integer(f"{base}/coherency_line_size") or None,
        sets=tree.integer(f"{base}/number_of_sets") or None,
    )


def _note_unreported(tree: Tree, cpus: tuple[int, ...]) -> None:
    """Say that there are no caches, and what /proc/cpuinfo names instead (a size of an unnamed level)."""
    size = None
    for line in (tree.text("proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "cache size":
            size = value.strip()
            break
    other = f"; /proc/cpuinfo says 'cache size {size}' without a level" if size else ""
    first = cpus[0] if cpus else 0
    tree.note(f"no caches reported under /sys/devices/system/cpu/cpu{first}/cache{other}")


def reported_cache(host: Host, level: int, cpu: int | None = None) -> ReportedCache | None:
    """The data or unified cache of `level` that CPU `cpu` (the first allowed one) uses; None if unreported."""
    number = host.allowed_cpus[0] if cpu is None else cpu
    data = [cache for cache in host.caches if cache.level == level and cache.kind != "instruction"]
    mine = next((cache for cache in data if number in cache.shared_cpus), None)
    if mine is None:
        return None
    cores = {one.siblings for one in host.cpus if one.number in mine.shared_cpus}
    return ReportedCache(
        level=level,
        capacity_bytes=mine.capacity_bytes,
        ways=mine.ways,
        line_bytes=mine.line_bytes,
        shared_cpus=mine.shared_cpus,
        shared_by_cores=max(1, len(cores)),
        instances=sum(cache.kind == mine.kind and cache.capacity_bytes == mine.capacity_bytes for cache in data),
    )
