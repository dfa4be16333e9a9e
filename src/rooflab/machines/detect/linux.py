"""A Linux machine from its /proc and /sys."""

from __future__ import annotations

import platform
from dataclasses import replace

from rooflab.errors import MeasureError
from rooflab.machines.detect.caches import read_caches
from rooflab.machines.detect.cpu import (
    IMPLEMENTERS,
    Identity,
    offline_cpus,
    online_cpus,
    read_cpus,
    read_identities,
    with_kinds,
    with_midr,
)
from rooflab.machines.detect.files import Tree
from rooflab.machines.detect.host import Cpu, Host
from rooflab.machines.detect.isa import linux_isa
from rooflab.machines.detect.limits import address_space_bytes, affinity, memory_bytes, read_limits
from rooflab.machines.detect.naming import microarchitecture_name
from rooflab.machines.detect.system import (
    read_governor,
    read_huge_pages,
    read_hypervisor,
    read_kernel,
    read_nodes,
    read_sve_bits,
    tsc_hz,
)


def detect_linux(tree: Tree) -> Host:
    """The Linux machine whose file system is `tree`, with no GPUs yet.

    Raises:
        MeasureError: no CPU found.
    """
    identities = read_identities(tree)
    online = online_cpus(tree, identities)
    if not online:
        raise MeasureError(f"no CPU found in {tree.root}, expected proc/cpuinfo or sys/devices/system/cpu")
    nodes = read_nodes(tree)
    caches = read_caches(tree, online)
    cpus = read_cpus(tree, online, {cpu: node.number for node in nodes for cpu in node.cpus})
    cpus = _with_microarchitectures(tree, with_kinds(tree, cpus, caches), identities)
    limits = read_limits(tree)
    allowed, limited_by = _allowed(tree, online, limits.cpuset_cpus)
    first = _first_identity(tree, identities, cpus, allowed)
    total, available = memory_bytes(tree)
    is_x86 = first.family is not None
    microarchitecture = next((cpu.microarchitecture for cpu in cpus if cpu.kind != "E"), None)
    return Host(
        name=first.name or _arm_name(tree, first, microarchitecture),
        vendor=first.vendor,
        architecture=_architecture(first),
        family=first.family,
        model=first.model,
        stepping=first.stepping,
        implementer=first.implementer,
        part=first.part,
        variant=first.variant,
        microarchitecture=microarchitecture,
        isa=linux_isa(one.flags for one in identities),
        sve_bits=read_sve_bits(tree),
        cpus=cpus,
        offline_cpus=offline_cpus(tree, online),
        caches=caches,
        nodes=nodes,
        memory_bytes=total,
        memory_granted_bytes=_least(total, limits.memory_limit_bytes),
        memory_available_bytes=_least(available, limits.memory_headroom_bytes),
        address_space_bytes=address_space_bytes(tree),
        allowed_cpus=allowed,
        limited_by=limited_by,
        quota_cpus=limits.quota_cpus,
        hypervisor=read_hypervisor(tree, first.flags, is_x86),
        huge_pages=read_huge_pages(tree),
        kernel=read_kernel(tree),
        governor=read_governor(tree, allowed[0]),
        tsc_hz=tsc_hz(first.bogomips, first.flags),
        reported_max_hz=max((cpu.max_hz for cpu in cpus if cpu.max_hz and cpu.number in allowed), default=None),
        notes=tuple(tree.notes),  # the last field: everything has been read by now
    )


def _with_microarchitectures(
    tree: Tree, cpus: tuple[Cpu, ...], identities: tuple[Identity, ...]
) -> tuple[Cpu, ...]:
    by_number = {one.number: one for one in identities}
    names: dict[tuple[object, ...], str | None] = {}  # hundreds of CPUs are of one or two kinds

    def name(cpu: Cpu) -> str | None:
        one = by_number.get(cpu.number)
        if one is None:
            return None
        one = with_midr(tree, one, cpu.number)
        key = (one.vendor, one.family, one.model, one.stepping, one.implementer, one.part, one.name, cpu.kind)
        if key not in names:
            names[key] = microarchitecture_name(one, cpu.kind)
        return names[key]

    return tuple(replace(cpu, microarchitecture=name(cpu)) for cpu in cpus)


def _allowed(
    tree: Tree, online: tuple[int, ...], cpuset: tuple[int, ...] | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The allowed CPUs, and what keeps the others out. Affinity never reaches past the cpuset."""
    allowed, limited_by = set(online), []
    for reason, cpus in (("cpuset", cpuset), ("affinity", affinity(tree))):
        kept = allowed & set(cpus) if cpus is not None else allowed
        if not kept:
            tree.note(f"the {reason} names no online CPU; it is not counted as a limit")
        elif kept < allowed:
            allowed = kept
            limited_by.append(reason)
    return tuple(sorted(allowed)), tuple(limited_by)


def _first_identity(
    tree: Tree, identities: tuple[Identity, ...], cpus: tuple[Cpu, ...], allowed: tuple[int, ...]
) -> Identity:
    """The identity of the first allowed CPU that is not an E-core."""
    preferred = sorted((cpu for cpu in cpus if cpu.number in allowed), key=lambda cpu: cpu.kind == "E")
    number = preferred[0].number
    identity = next((one for one in identities if one.number == number), Identity(number=number))
    return with_midr(tree, identity, number)


def _arm_name(tree: Tree, identity: Identity, microarchitecture: str | None) -> str:
    """A name where the CPU gives none: the maker and the core, or the board's from the device tree."""
    maker = IMPLEMENTERS.get(identity.implementer) if identity.implementer is not None else None
    if maker and microarchitecture:
        return microarchitecture if microarchitecture.startswith(maker) else f"{maker} {microarchitecture}"
    board = tree.text("proc/device-tree/model")
    if board:
        return board
    if maker and identity.part is not None:
        return f"{maker} part {identity.part:#05x}"
    return platform.processor() or "unknown CPU" if tree.is_live else "unknown CPU"


def _architecture(identity: Identity) -> str | None:
    """The architecture, by the fields that /proc/cpuinfo has: a snapshot need not be of this machine's."""
    if identity.family is not None:
        return "x86_64" if "lm" in identity.flags else "i686"
    if identity.implementer is not None:
        return "aarch64" if {"asimd", "fp"} & identity.flags or not identity.flags else "arm"
    return None


def _least(first: int | None, second: int | None) -> int | None:
    limits = [value for value in (first, second) if value is not None]
    return min(limits, default=None)
