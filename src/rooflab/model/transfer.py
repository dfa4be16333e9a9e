"""Data on its way to a device: network storage → disk → RAM → PCIe → HBM, stage by stage.

Each stage moves chunks at a bandwidth, each request after a latency, several at once (`threads`). Overlapped,
the stages work side by side on different chunks: the first chunk passes all of them, the others leave at the pace
of the slowest. Serial, each stage moves everything before the next begins. A stage may change how many bytes there
are (decompression), and a device that computes on what arrives waits where it computes faster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rooflab.errors import RooflabError, UnknownNameError, squash
from rooflab.machines import ladder
from rooflab.types.machine import Level, Link, Machine, is_main_memory, is_storage
from rooflab.types.transfer import Feed, Passed, Stage, Transfer
from rooflab.units import MEGA, parse

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
    first = stage.latency_s + chunk / stage.bytes_per_s
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

    Raises:
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
    resolved = []
    for name in path:
        stage = _stage_called(name, machine, host, has_rate=name in (rates or {}))
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
    return tuple(resolved)


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
        return Stage(
            name=name, bytes_per_s=part.each_way_bytes_per_s, latency_s=part.latency_s or 0.0, where=where
        )
    rate = part.rate(basis="attained") or part.rate(basis="theoretical")
    typical = "typical" if owner is ladder.outer() else owner.name
    kind = f" {part.memory_type}" if part.memory_type else ""
    basis = "" if rate is None else f", {rate.basis}"
    where = f"{typical}{kind}" if typical == "typical" else f"{typical}, {part.name}{basis}"
    value = None if rate is None else rate.value
    return Stage(name=name, bytes_per_s=value, latency_s=part.latency_s or 0.0, where=where)


def _quantity(value: str | float, dimension: str) -> float:
    return parse(value, dimension) if isinstance(value, str) else float(value)


def _check(stage: Stage) -> None:
    for name in ("bytes_per_s", "threads", "expands"):
        value = getattr(stage, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            raise RooflabError(f"transfer, {stage.name}: {name} is {value}, expected more than zero")
    if not (math.isfinite(stage.latency_s) and stage.latency_s >= 0):
        raise RooflabError(f"transfer, {stage.name}: latency_s is {stage.latency_s}, expected zero or more")
