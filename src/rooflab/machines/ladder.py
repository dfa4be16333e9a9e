"""The whole memory hierarchy of a machine, from its registers to the internet: `rooflab machine NAME --ladder`.

A machine's own levels and links come first; what lies beyond them is taken from `data/ladder.toml`, each
number with its source. A number that nobody gives is None, never a guess.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import msgspec

from rooflab.dtypes import dtype
from rooflab.machines.catalog import DATA, named
from rooflab.types import toml
from rooflab.types.machine import (
    DISK,
    Basis,
    Level,
    Link,
    Machine,
    Rate,
    Source,
    is_main_memory,
    is_storage,
    whole_capacity_bytes,
)
from rooflab.units import FLOP_PER_FMA, GIGA

MOVED_BYTES = GIGA
_FMA_OPERANDS = 3  # a × b + c reads three registers; the one that it writes is not counted
_HOSTED = ("gpu", "tpu", "asic", "system")  # what has a host beside it, with memory of its own
_LIKE = ("GPU", "TPU", "accelerator")  # the far ends that stand for another device's memory
_HOST, _NETWORK = "host memory", "another machine's memory"
# Parts of a system that stand behind a level: another machine is one like it.
_PARTS = {_HOST: ("host memory",), _NETWORK: ("host memory",), DISK: ("NVMe storage",)}


class Rung(NamedTuple):
    """One level of the ladder.

    Attributes:
        name: the level, and its kind of memory or the link to it.
        capacity_bytes: of all instances in the machine together.
        bytes_per_s: reads by the whole machine, one way: attained where it was measured, else theoretical
            (`basis` says which); None where unknown.
        latency_s: of one dependent access.
        time_s: to move 1 GB (1e9 bytes) at that bandwidth.
        slower: `time_s` over that of the nearest rung before whose time is known.
        source: of the bandwidth; of the level where there is none.
    """

    name: str
    capacity_bytes: float | None
    bytes_per_s: float | None
    basis: Basis | None
    latency_s: float | None
    time_s: float | None
    slower: float | None
    source: Source
    latency_source: Source | None
    note: str | None


def ladder(machine: Machine) -> tuple[Rung, ...]:
    """The rungs from `machine`'s registers to the internet, near to far.

    Registers: where no bandwidth is given it is derived from the fp32 or fp64 vector peak, as FMA a second ×
    3 operands × bytes of one. A link to a like device stands for that device's memory, one to the host
    for the host's. Of a system of devices: what one of them reaches, its levels from its own file.
    """
    one = device_of(machine)
    return _with_ratios([*_registers(one), *_own_levels(one), *_peers(machine), *_beyond(machine)])


def device_of(machine: Machine) -> Machine:
    """One of the devices that a system is made of, where it says which; else `machine` itself."""
    if machine.kind == "system":
        for part in machine.parts:
            if part.machine is not None and part.name in _LIKE:
                return named(part.machine)
    return machine


def _registers(machine: Machine) -> list[Rung]:
    level = next((level for level in machine.levels if level.name == "registers"), None)
    capacity = whole_capacity_bytes(level, machine) if level is not None else None
    own = _bandwidth(level) if level is not None else None
    if level is not None and own is not None:
        return [_rung(_title(level), capacity, own, level.latency_s, level.source, level.note)]
    peak = _vector_peak(machine)
    if peak is None or peak.dtype is None:
        return [] if level is None else [_rung(_title(level), capacity, None, None, level.source)]
    width = f"{dtype(peak.dtype).nbytes:g} bytes"
    formula = f"{peak.dtype} vector peak / {FLOP_PER_FMA} x {_FMA_OPERANDS} operands x {width}"
    derived = Rate(
        value=_operand_bytes_per_s(peak),
        per_s="byte",
        what="read",
        basis=peak.basis,
        source=Source("derived", formula),
    )
    return [_rung("registers", capacity, derived, None, derived.source, "derived from the arithmetic peak")]


def _vector_peak(machine: Machine) -> Rate | None:
    """The fp32 or fp64 peak that needs the most operand bytes, attained before theoretical."""
    fits = [
        rate
        for rate in machine.peaks
        if rate.engine == "vector"
        and rate.dtype in ("fp32", "fp64")
        and rate.per_s == "flop"
        and rate.scope == "all"
    ]
    attained = [rate for rate in fits if rate.basis == "attained"]
    return max(attained or fits, key=_operand_bytes_per_s, default=None)


def _operand_bytes_per_s(peak: Rate) -> float:
    width = dtype(peak.dtype).nbytes if peak.dtype is not None else 0
    return peak.value / FLOP_PER_FMA * _FMA_OPERANDS * width


def _own_levels(machine: Machine) -> list[Rung]:
    return [
        _rung(
            _title(level),
            whole_capacity_bytes(level, machine),
            _bandwidth(level),
            level.latency_s,
            level.source,
            level.note,
            level.latency_source,
        )
        for level in machine.levels
        if level.name != "registers" and not is_storage(level)
    ]


def _peers(machine: Machine) -> list[Rung]:
    """The memory of a like device, over each link to one."""
    memory = next((level for level in machine.levels if is_main_memory(level)), None)
    return [
        _over(link, f"another {link.to}'s memory (over {link.name})", memory, None)
        for link in machine.links
        if link.to in _LIKE
    ]


def _beyond(machine: Machine) -> list[Rung]:
    """The rungs of `data/ladder.toml`, each replaced by the machine's own link or level where it has one."""
    rungs: list[Rung] = []
    own_disk = next((level for level in machine.levels if level.name == DISK), None)
    for level in outer().levels:
        links = [link for link in machine.links if link.to == {_HOST: "host", _NETWORK: "network"}.get(level.name)]
        if level.name == _HOST and machine.kind not in _HOSTED:
            continue
        own = next((part for part in machine.parts if part.name in _PARTS.get(level.name, ())), None)
        if own is not None and own.capacity_bytes is not None:
            level = msgspec.structs.replace(level, capacity_bytes=own.capacity_bytes)
        if links:
            rungs += [_over(link, f"{level.name} (over {link.name})", level, level) for link in links]
            continue
        used = own_disk if level.name == DISK and own_disk is not None else level
        rungs.append(
            _rung(
                _title(used),
                used.capacity_bytes,
                _bandwidth(used),
                used.latency_s,
                used.source,
                used.note,
                used.latency_source,
            )
        )
    return rungs


@functools.cache
def outer() -> Machine:
    """What lies beyond any machine, of typical parts: `data/ladder.toml`."""
    path = DATA / "ladder.toml"
    return toml.loads(path.read_text(encoding="utf-8"), str(path))


def _over(link: Link, name: str, memory: Level | None, typical: Level | None) -> Rung:
    """The memory at the other end of `link`; a latency that is not known is that of the `typical` level."""
    rate = None
    if link.each_way_bytes_per_s is not None:
        rate = Rate(
            value=link.each_way_bytes_per_s, per_s="byte", what="read", basis="theoretical", source=link.source
        )
    latency_s, latency_source = link.latency_s, link.source
    if latency_s is None and typical is not None:
        latency_s, latency_source = typical.latency_s, typical.latency_source
    capacity = memory.capacity_bytes if memory is not None else None
    return _rung(name, capacity, rate, latency_s, link.source, link.note, latency_source)


def _bandwidth(level: Level) -> Rate | None:
    """What `level` reads at: attained before theoretical, all of the machine before one core."""
    for scope in ("all", "core"):
        for basis in ("attained", "theoretical"):
            rate = level.rate(scope=scope, basis=basis)
            if rate is not None and rate.per_s == "byte":
                return rate
    reads = [rate for rate in level.rates if rate.per_s == "byte" and "read" in rate.what]
    return max(reads, key=lambda rate: rate.value, default=None)


def _title(level: Level) -> str:
    kind = level.memory_type if level.memory_type != level.name else None
    return f"{level.name} ({kind})" if kind else level.name


def _rung(
    name: str,
    capacity_bytes: float | None,
    rate: Rate | None,
    latency_s: float | None,
    source: Source,
    note: str | None = None,
    latency_source: Source | None = None,
) -> Rung:
    one_core = "one core" if rate is not None and rate.scope == "core" else None
    return Rung(
        name=name,
        capacity_bytes=capacity_bytes,
        bytes_per_s=rate.value if rate is not None else None,
        basis=rate.basis if rate is not None else None,
        latency_s=latency_s,
        time_s=MOVED_BYTES / rate.value if rate is not None else None,
        slower=None,
        source=rate.source if rate is not None else source,
        latency_source=(latency_source or source) if latency_s is not None else None,
        note="; ".join(part for part in (one_core, note) if part) or None,
    )


def _with_ratios(rungs: list[Rung]) -> tuple[Rung, ...]:
    """`rungs` with `slower` filled in: each time over the last known one before it."""
    before: float | None = None
    filled: list[Rung] = []
    for rung in rungs:
        ratio = rung.time_s / before if rung.time_s is not None and before is not None else None
        filled.append(rung._replace(slower=ratio))
        before = rung.time_s if rung.time_s is not None else before
    return tuple(filled)
