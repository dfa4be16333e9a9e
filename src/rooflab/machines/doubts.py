"""What makes a machine's figures doubtful: failed self-checks, levels not found, another host's file."""

from __future__ import annotations

import re
from functools import cache

from rooflab.machines.detect import Host, detect, reported_cache
from rooflab.types.machine import Level, Machine, is_main_memory, is_storage
from rooflab.units import iec

_MOST_NAMES = 6


def doubts(machine: Machine | None) -> tuple[str, ...]:
    """What a reader of any report made with `machine` must know of its measurement; nothing of a sound one."""
    if machine is None:
        return ()
    lines = [_failed(machine)]
    lines += [_not_found(machine, level.name, level.reported_capacity_bytes) for level in unfound(machine)]
    return tuple(line for line in lines if line)


def doubts_of_timing(machine: Machine | None, host: Host | None = None) -> tuple[str, ...]:
    """The same for times that were taken on this host: whether the machine is this one, and has all its caches.

    Args:
        host: what `detect` returned; asked for where None.
    """
    if machine is None:
        return ()
    here = host or _here()
    if is_other(machine, here):
        line = (
            f"timed on this host, {_described(here.name, here.microarchitecture)}, but the roofs are those of "
            f"{_described(machine.name, machine.environment.get('microarchitecture'))}: the two do not belong "
            "together; give a machine that was measured here (rooflab measure -o machine.toml)"
        )
        return (*doubts(machine), line)
    if machine.source.kind != "measured":
        return doubts(machine)
    named = {level.name for level in machine.levels}
    lacking = [(f"L{number}", reported_cache(here, number)) for number in (1, 2, 3, 4)]
    lines = [
        _not_found(machine, name, cache.capacity_bytes)
        for name, cache in lacking
        if cache is not None and name not in named
    ]
    return (*doubts(machine), *lines)


def is_here(machine: Machine) -> bool:
    """Whether `machine` may be this host: not surely another."""
    return not is_other(machine, _here())


def unfound(machine: Machine) -> tuple[Level, ...]:
    """The caches that the system reported, and the measurement did not find."""
    if machine.source.kind != "measured":
        return ()
    return tuple(
        level
        for level in machine.levels
        if level.reported_capacity_bytes
        and level.capacity_bytes is None
        and not (level.rates or is_main_memory(level) or is_storage(level))
    )


def is_other(machine: Machine, host: Host) -> bool:
    """Whether `machine` is surely of another CPU model than `host`: by its names, then by microarchitecture.

    Hypervisors shorten names ("AMD EPYC"), catalogues leave out the core count: a name whose words are all in
    the other may be the same.
    """
    known = machine.environment.get("microarchitecture")
    ours = _words(host.name)
    names = [_words(name) for name in (machine.name, *machine.aliases)]
    # Arm systems name the core ("Neoverse-V2"), which may be in anybody's chip.
    core_only = bool(host.microarchitecture) and ours == _words(host.microarchitecture or "")
    if not core_only and not any(words <= ours or ours <= words for words in names):
        return True
    return bool(known and host.microarchitecture and known != host.microarchitecture)


def _words(name: str) -> frozenset[str]:
    """What tells CPU models apart in a name: "Intel(R) Xeon(R) CPU @ 2.00GHz" has "intel" and "xeon"."""
    plain = re.sub(r"\((r|tm|c)\)|@.*$|\b\d+-core\b|\b(processor|cpu|with .*)\b", " ", name.casefold())
    return frozenset(re.findall(r"[a-z0-9]+", plain))


def _failed(machine: Machine) -> str | None:
    failed = [check.name for check in machine.checks if not check.ok]
    if not failed:
        return None
    more = f" and {len(failed) - _MOST_NAMES} more" if len(failed) > _MOST_NAMES else ""
    return (
        f"{machine.name} as measured: {len(failed)} of {len(machine.checks)} self-checks failed "
        f"({', '.join(failed[:_MOST_NAMES])}{more}), so its roofs and latencies may be off; "
        "`rooflab machine FILE` says why"
    )


def _not_found(machine: Machine, name: str, capacity_bytes: float | None) -> str:
    size = f", {iec(capacity_bytes)}," if capacity_bytes else ""
    return (
        f"{machine.name} as measured has no {name}{size} which the system reports: it was not found, and what it "
        "would serve is counted as the next level's; measure again"
    )


def _described(name: str, microarchitecture: object) -> str:
    return f"{name} ({microarchitecture})" if microarchitecture else name


@cache
def _here() -> Host:
    return detect(gpus=False)
