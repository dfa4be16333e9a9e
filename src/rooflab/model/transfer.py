"""Data on its way to a device: network storage → disk → RAM → PCIe → HBM, stage by stage.

Each stage moves chunks at a bandwidth, each request after a latency, several at once (`threads`). Overlapped,
the stages work side by side on different chunks: the first chunk passes all of them, the others leave at the pace
of the slowest. Serial, each stage moves everything before the next begins. A stage may change how many bytes there
are (decompression), and a device that computes on what arrives waits where it computes faster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from rooflab.errors import RooflabError, UnknownNameError, squash
from rooflab.machines import ladder
from rooflab.types.machine import Level, Link, Machine, is_main_memory, is_storage, whole_capacity_bytes
from rooflab.types.transfer import Feed, Home, Passed, Stage, Transfer
from rooflab.units import MEGA, parse

HostMemory = Literal["pinned", "pageable"]
# A host core copies pageable memory into pinned buffers: that copy binds, not the link. 6.35 and 7.5 GB/s measured
# for the rooflab project on an H200's and an H100's host.
PAGEABLE_BYTES_PER_S = 7e9
CHUNK_BYTES = 8 * MEGA  # what object stores and file readers ask for at once, as an order of magnitude


def through(
    nbytes: float, stages: Sequence[Stage], *, chunk_bytes: float = CHUNK_BYTES, overlap: bool = True
) -> Transfer:
    """How long `nbytes` take through `stages` in chunks of `chunk_bytes` (as they are at the start).

    Of a stage: first = latency + chunk / bandwidth; rate = min(bandwidth, threads × chunk / first), by Little's
    law. Serial: Σ over stages of first + (chunks − 1) × chunk / rate. Overlapped: Σ first + (chunks − 1) × the
    longest chunk / rate.

    Raises:
        RooflabError: no bytes, no stage, or no stage with a known rate.
    """
    for name, value in (("bytes to transfer", nbytes), ("bytes of a chunk", chunk_bytes)):
        if not (math.isfinite(value) and value > 0):
            raise RooflabError(f"{name}: got {value}, expected more than zero")
    if not stages:
        raise RooflabError("transfer through no stage, expected such as network, disk, DRAM, PCIe, HBM")
    chunks = max(1.0, nbytes / chunk_bytes)
    passed, entering = [], nbytes
    for stage in stages:
        _check(stage)
        passed.append(_pass(stage, entering, chunks))
        entering *= stage.expands
    rated = [each for each in passed if each.bytes_per_s is not None]
    if not rated:
        raise RooflabError(
            f"no rate is known of {', '.join(stage.name for stage in stages)}: give one, such as "
            f'rates={{"{stages[0].name}": "10 Gbit/s"}} (--rate {stages[0].name}="10 Gbit/s")'
        )
    slowest = max(rated, key=_moving_s)
    fill = sum(each.first_s or 0.0 for each in rated)
    if overlap:
        time_s = fill + (chunks - 1) / chunks * _moving_s(slowest)
        steady = nbytes / _moving_s(slowest)
    else:
        time_s = sum(each.time_s or 0.0 for each in rated)
        steady = nbytes / sum(map(_moving_s, rated))
    return Transfer(
        nbytes=nbytes,
        overlap=overlap,
        stages=tuple(passed),
        time_s=time_s,
        fill_s=fill,
        bytes_per_s=nbytes / time_s,
        steady_bytes_per_s=steady,
        binds=slowest.stage.name,
    )


def _pass(stage: Stage, entering: float, chunks: float) -> Passed:
    if stage.bytes_per_s is None:
        return Passed(stage, entering)
    chunk = entering / chunks
    first = (stage.latency_s or 0.0) + chunk / stage.bytes_per_s
    rate = min(stage.bytes_per_s, stage.threads * chunk / first)
    return Passed(stage, entering, rate, first, first + (chunks - 1) * chunk / rate)


def _moving_s(passed: Passed) -> float:
    """Its seconds for everything at the pace of an endless stream."""
    return passed.nbytes / passed.bytes_per_s if passed.bytes_per_s else 0.0


def feed(transfer: Transfer, sample_bytes: float, device_samples_per_s: float) -> Feed:
    """What a device gets that could compute `device_samples_per_s` of samples of `sample_bytes` at the start.

    Raises:
        RooflabError: a sample of no bytes, or a device that computes none.
    """
    for name, value in (("a sample", sample_bytes), ("samples a second of the device", device_samples_per_s)):
        if not (math.isfinite(value) and value > 0):
            raise RooflabError(f"{name}: got {value}, expected more than zero")
    supply = transfer.steady_bytes_per_s / sample_bytes
    samples = min(supply, device_samples_per_s)
    binds = transfer.binds if supply < device_samples_per_s else "device"
    return Feed(samples, supply, device_samples_per_s, 1 - samples / device_samples_per_s, binds)


def stages(
    path: Sequence[str],
    *,
    machine: Machine | None = None,
    host: Machine | None = None,
    rates: Mapping[str, str | float] | None = None,
    latencies: Mapping[str, str | float] | None = None,
    expands: Mapping[str, float] | None = None,
    threads: int | Mapping[str, int] = 1,
    host_memory: HostMemory | None = None,
) -> tuple[Stage, ...]:
    """The stages called `path`, each with its rate: given, of the machine, of its host, else of a typical part.

    Args:
        path: "network", "disk", "DRAM", "PCIe", "HBM", a level or link of the machine or host, or any name that
            `rates` has ("decompress").
        machine: the device at the end.
        host: the computer it sits in, such as one that `rooflab measure` saved.
        rates: bytes/s, or text with a unit, by name.
        latencies: seconds, or text with a unit, by name.
        expands: bytes out per byte in, by name.
        threads: requests at once, of all stages or by name.
        host_memory: "pinned" or "pageable": what a link to the host attains from such memory, in place of its
            theoretical rate.

    Raises:
        RooflabError: `host_memory` where no stage is a link to a host.
        UnknownNameError: a name that nothing here has, with near matches, or one in `rates` that is not in `path`.
    """
    for what, by_name in (("rate", rates), ("latency", latencies), ("expansion", expands)):
        for name in by_name or {}:
            if name not in path:
                raise UnknownNameError(f"stage of that {what}", name, path)
    if not isinstance(threads, int):
        for name in threads:
            if name not in path:
                raise UnknownNameError("stage of these threads", name, path)
    resolved, crossed = [], False
    for name in path:
        stage = _stage_called(name, machine, host, has_rate=name in (rates or {}))
        link = None if host_memory is None else _link_to_host(name, machine, host)
        if link is not None and host_memory is not None:
            stage, crossed = _from_host_memory(stage, link, host_memory), True
        rate, where = stage.bytes_per_s, stage.where
        if rates and name in rates:
            rate, where = _quantity(rates[name], "byte/s"), "given"
        latency = _quantity(latencies[name], "s") if latencies and name in latencies else stage.latency_s
        resolved.append(
            Stage(
                name=name,
                bytes_per_s=rate,
                latency_s=latency,
                threads=threads if isinstance(threads, int) else threads.get(name, 1),
                expands=(expands or {}).get(name, 1.0),
                where=where,
            )
        )
    if host_memory is not None and not crossed:
        raise RooflabError(
            f"{host_memory} memory: no stage of {', '.join(path)} is a link to a host; name one that the machine "
            "has, such as PCIe"
        )
    return tuple(resolved)


def crosses_link(
    path: Sequence[str],
    machine: Machine | None,
    host: Machine | None,
    rates: Mapping[str, str | float] | None = None,
) -> bool:
    """Whether a stage of `path` is a link to a host, at its theoretical rate: what memory attains is less."""
    return any(_link_to_host(name, machine, host) is not None and name not in (rates or {}) for name in path)


def _link_to_host(name: str, machine: Machine | None, host: Machine | None) -> Link | None:
    for owner in (machine, host):
        part = None if owner is None else _part(squash(name), owner)
        if part is not None:
            return part if isinstance(part, Link) and part.to == "host" else None
    return None


def _from_host_memory(stage: Stage, link: Link, host_memory: HostMemory) -> Stage:
    """`stage` over `link` at what such memory attains: measured there, else what is typical, said to be."""
    rate, where = link.pinned_bytes_per_s, f"{stage.where}, pinned, attained"
    if host_memory == "pageable":
        rate, where = link.pageable_bytes_per_s, f"{stage.where}, pageable, attained"
    known = stage.bytes_per_s
    if rate is None and host_memory == "pageable":
        rate = PAGEABLE_BYTES_PER_S if known is None else min(known, PAGEABLE_BYTES_PER_S)
        where = f"{stage.where}, pageable, typical"
    elif rate is None:
        rate, where = known, f"{stage.where}, theoretical: not measured"
    return msgspec.structs.replace(stage, bytes_per_s=rate, where=where)


def homes(nbytes: float, arriving_bytes: float, machine: Machine | None, host: Machine | None) -> tuple[Home, ...]:
    """Where `nbytes` could lie near to far: the device's memory (as `arriving_bytes`), its host's, disks.

    A device's host and disks are the `host`'s, the system's own, else those of typical parts, which is said.
    """
    found = [] if machine is None else _device_homes(arriving_bytes, machine)
    typical = ladder.outer()
    owner = host or machine
    if owner is None:
        return ()
    for level, part_name, title in (
        ("host memory", "host memory", "host memory"),
        ("disk", "NVMe storage", "disks"),
    ):
        if title == "host memory" and owner is machine and owner.kind == "cpu":
            continue  # its memory is said already
        own = [part for part in owner.parts if part.name == part_name and part.capacity_bytes is not None]
        memory = next((each for each in owner.levels if host is owner and is_main_memory(each)), None)
        if own:
            whole = sum(part.count * (part.capacity_bytes or 0.0) for part in own)
            found.append(Home(title, whole, nbytes, owner.name))
        elif title == "host memory" and memory is not None:
            found.append(Home(title, whole_capacity_bytes(memory, owner), nbytes, owner.name))
        else:
            found.append(Home(title, typical.level(level).capacity_bytes, nbytes, "typical"))
    return tuple(found)


def _device_homes(nbytes: float, machine: Machine) -> list[Home]:
    memory = next((level for level in machine.levels if is_main_memory(level)), None)
    if memory is None:
        return []
    if machine.kind == "system" and machine.compute_units:
        one, all_of_them = memory.capacity_bytes, whole_capacity_bytes(memory, machine)
        unit = machine.compute_unit or "device"
        return [
            Home(f"memory of one {unit}", one, nbytes, machine.name),
            Home(f"memory of all {machine.compute_units}", all_of_them, nbytes, machine.name),
        ]
    return [Home(memory.name, whole_capacity_bytes(memory, machine), nbytes, machine.name)]


# What people call the parts that `data/ladder.toml` describes.
_TYPICAL = {
    **dict.fromkeys(("network", "nas", "networkstorage", "nfs", "objectstore", "s3"), "network storage"),
    **dict.fromkeys(("disk", "nvme", "ssd"), "disk"),
    **dict.fromkeys(("hdd", "harddisk"), "hard disk"),
    **dict.fromkeys(("internet", "web"), "internet"),
    **dict.fromkeys(("rdma", "ethernet"), "another machine's memory"),
}
_HOST_MEMORY = ("dram", "ram", "hostmemory")


def _stage_called(name: str, machine: Machine | None, host: Machine | None, has_rate: bool) -> Stage:
    wanted = squash(name)
    for owner in (machine, host):
        part = None if owner is None else _part(wanted, owner)
        if part is not None and owner is not None:
            return _of(part, name, owner)
    if wanted in _TYPICAL:
        outer = ladder.outer()
        return _of(outer.level(_TYPICAL[wanted]), name, outer)
    if has_rate or wanted in _HOST_MEMORY:
        return Stage(name=name, bytes_per_s=None, where="not stated")
    names = [*_TYPICAL, *_HOST_MEMORY]
    for owner in (machine, host):
        if owner is not None:
            names += [part.name for part in (*owner.levels, *owner.links)]
    raise UnknownNameError("stage of a transfer", name, names, f'or give its rate: --rate {name}="1 GB/s"')


def _part(wanted: str, owner: Machine) -> Level | Link | None:
    """The level or link of `owner` by its name, a word of it, or what it leads to; DRAM is a CPU's own alone."""
    for level in owner.levels:
        if squash(level.name) == wanted or (wanted == "memory" and is_main_memory(level)):
            return level
        if wanted in _HOST_MEMORY and owner.kind == "cpu" and is_main_memory(level):
            return level
        if wanted in ("nvme", "ssd") and is_storage(level):
            return level
    for link in owner.links:
        names = {squash(link.name), squash(link.name.split()[0]), squash(link.to)}
        # A fabric that leads to "the network" is no storage behind it.
        if wanted in names and wanted != "network":
            return link
    return None


def _of(part: Level | Link, name: str, owner: Machine) -> Stage:
    if isinstance(part, Link):
        where = f"{owner.name}, {part.name}"
        return Stage(name=name, bytes_per_s=part.each_way_bytes_per_s, latency_s=part.latency_s, where=where)
    rate = part.rate(basis="attained") or part.rate(basis="theoretical")
    typical = "typical" if owner is ladder.outer() else owner.name
    kind = f" {part.memory_type}" if part.memory_type else ""
    basis = "" if rate is None else f", {rate.basis}"
    where = f"{typical}{kind}" if typical == "typical" else f"{typical}, {part.name}{basis}"
    value = None if rate is None else rate.value
    return Stage(name=name, bytes_per_s=value, latency_s=part.latency_s, where=where)


def _quantity(value: str | float, dimension: str) -> float:
    return parse(value, dimension) if isinstance(value, str) else float(value)


def _check(stage: Stage) -> None:
    for name in ("bytes_per_s", "threads", "expands"):
        value = getattr(stage, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            raise RooflabError(f"transfer, {stage.name}: {name} is {value}, expected more than zero")
    if stage.latency_s is not None and not (math.isfinite(stage.latency_s) and stage.latency_s >= 0):
        raise RooflabError(f"transfer, {stage.name}: latency_s is {stage.latency_s}, expected zero or more")
