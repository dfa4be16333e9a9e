"""The CPUs as lscpu tells them: names, numbers and flags from /proc/cpuinfo, topology from sysfs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rooflab.machines.detect.files import Tree
from rooflab.machines.detect.host import CacheInstance, CoreKind, Cpu

SYSFS = "sys/devices/system/cpu"

# Arm: MIDR_EL1 bits 31:24, from the list in Linux's arch/arm64/include/asm/cputype.h and util-linux lscpu-arm.c.
IMPLEMENTERS = {
    0x41: "Arm",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x50: "APM",
    0x51: "Qualcomm",
    0x53: "Samsung",
    0x61: "Apple",
    0x6D: "Microsoft",
    0x70: "Phytium",
    0xC0: "Ampere",
}

# Cores below this share of the largest core's capacity are E-cores: Cortex-A725 in GB10 is about 0.7 of
# X925, while favoured cores of one kind differ by a few percent.
_E_CORE_CAPACITY = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What one block of /proc/cpuinfo says a CPU is."""

    number: int | None = None
    name: str | None = None
    vendor: str | None = None
    family: int | None = None
    model: int | None = None
    stepping: int | None = None
    implementer: int | None = None
    part: int | None = None
    variant: int | None = None
    flags: frozenset[str] = frozenset()
    bogomips: float | None = None


def read_identities(tree: Tree) -> tuple[Identity, ...]:
    """One identity for each block of /proc/cpuinfo; none, with a note, where there is no such file."""
    text = tree.text("proc/cpuinfo")
    if not text:
        tree.note("/proc/cpuinfo is missing or empty; model, flags and microarchitecture are unknown")
        return ()
    seen_flags: dict[str, frozenset[str]] = {}
    blocks = [_fields(block) for block in text.replace("\r", "").split("\n\n")]
    # Some Arm kernels end with a block of the board ("Hardware: …") that has no processor.
    return tuple(_identity(tree, block, seen_flags) for block in blocks if "processor" in block)


def _fields(block: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in block.splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def _identity(tree: Tree, block: dict[str, str], seen_flags: dict[str, frozenset[str]]) -> Identity:
    def number(key: str) -> int | None:
        text = block.get(key)
        try:
            return int(text, 0) if text else None
        except ValueError:
            tree.note(f"/proc/cpuinfo: {key}: got {text!r}, expected a whole number; left unknown")
            return None

    def decimal(key: str) -> float | None:
        try:
            return float(block[key]) if key in block else None
        except ValueError:
            tree.note(f"/proc/cpuinfo: {key}: got {block[key]!r}, expected a number; left unknown")
            return None

    listed = block.get("flags") or block.get("Features") or ""
    implementer = number("CPU implementer")
    return Identity(
        number=number("processor"),
        name=block.get("model name") or None,
        vendor=block.get("vendor_id") or (IMPLEMENTERS.get(implementer) if implementer is not None else None),
        family=number("cpu family"),
        model=number("model"),
        stepping=number("stepping"),
        implementer=implementer,
        part=number("CPU part"),
        variant=number("CPU variant"),
        flags=seen_flags.setdefault(listed, frozenset(listed.split())),
        bogomips=decimal("bogomips"),
    )


def with_midr(tree: Tree, identity: Identity, cpu: int) -> Identity:
    """`identity` with implementer, variant and part from MIDR_EL1 where /proc/cpuinfo lacks them."""
    if identity.implementer is not None or identity.family is not None:
        return identity
    path = f"{SYSFS}/cpu{cpu}/regs/identification/midr_el1"
    midr = tree.parsed(path, lambda text: int(text, 16), "a hexadecimal register")
    if midr is None:
        return identity
    implementer = midr >> 24 & 0xFF
    return replace(
        identity,
        implementer=implementer,
        vendor=identity.vendor or IMPLEMENTERS.get(implementer),
        variant=midr >> 20 & 0xF,
        part=midr >> 4 & 0xFFF,
    )


def online_cpus(tree: Tree, identities: Iterable[Identity]) -> tuple[int, ...]:
    """The numbers of the online CPUs, ascending; empty where nothing tells."""
    online = tree.cpu_list(f"{SYSFS}/online")
    if online:
        return online
    listed = tuple(sorted(one.number for one in identities if one.number is not None))
    return listed or tree.numbered(SYSFS, "cpu")


def offline_cpus(tree: Tree, online: tuple[int, ...]) -> tuple[int, ...]:
    """The CPUs that are present but not online."""
    present = tree.cpu_list(f"{SYSFS}/present") or ()
    return tuple(sorted(set(present) - set(online)))


def read_cpus(tree: Tree, online: tuple[int, ...], node_of: dict[int, int]) -> tuple[Cpu, ...]:
    """The online CPUs with their place; a CPU whose topology is unreported is taken for a core of its own."""
    cpus = tuple(_cpu(tree, number, online, node_of) for number in online)
    if all(cpu.core is None for cpu in cpus):
        tree.note(f"no topology under /{SYSFS}/cpu*/topology; each CPU is taken for a core of its own")
    if all(cpu.max_hz is None for cpu in cpus):
        tree.note(f"no clock reported under /{SYSFS}/cpu*/cpufreq (usual for a guest)")
    return cpus


def _cpu(tree: Tree, number: int, online: tuple[int, ...], node_of: dict[int, int]) -> Cpu:
    base = f"{SYSFS}/cpu{number}/topology"
    siblings = tree.cpu_list(f"{base}/core_cpus_list") or tree.cpu_list(f"{base}/thread_siblings_list") or ()
    khz = tree.integer(f"{SYSFS}/cpu{number}/cpufreq/cpuinfo_max_freq")
    return Cpu(
        number=number,
        core=tree.integer(f"{base}/core_id"),
        package=_known(tree.integer(f"{base}/physical_package_id")),
        die=_known(tree.integer(f"{base}/die_id")),
        cluster=_known(tree.integer(f"{base}/cluster_id")),
        node=node_of.get(number),
        max_hz=khz * 1e3 if khz else None,
        siblings=tuple(sorted({number, *siblings} & set(online))),
    )


def _known(number: int | None) -> int | None:
    """`number`, None where the kernel means "unknown": -1, or 65535 for a cluster."""
    return number if number is not None and 0 <= number < 0xFFFF else None


def with_kinds(tree: Tree, cpus: tuple[Cpu, ...], caches: tuple[CacheInstance, ...]) -> tuple[Cpu, ...]:
    """`cpus` with P and E told apart, by the first of three signs that the kernel gives; else unchanged.

    The signs: Intel's lists of each kind (/sys/devices/cpu_core, cpu_atom, cpu_lowpower), differing
    cpu_capacity (Arm), and a lower highest clock together with an L2 that more cores share.
    """
    performance = tree.cpu_list("sys/devices/cpu_core/cpus") or ()
    efficient = {
        *(tree.cpu_list("sys/devices/cpu_atom/cpus") or ()),
        *(tree.cpu_list("sys/devices/cpu_lowpower/cpus") or ()),
    }
    if not (performance and efficient):
        efficient = _by_capacity(tree, cpus) or _by_clock_and_l2(cpus, caches)
    numbers = {cpu.number for cpu in cpus}
    if not efficient & numbers or not numbers - efficient:
        return cpus
    return tuple(replace(cpu, kind=_kind(cpu.number in efficient)) for cpu in cpus)


def _kind(is_efficient: bool) -> CoreKind:
    return "E" if is_efficient else "P"


def _by_capacity(tree: Tree, cpus: tuple[Cpu, ...]) -> set[int]:
    capacity = {cpu.number: tree.integer(f"{SYSFS}/cpu{cpu.number}/cpu_capacity") or 0 for cpu in cpus}
    largest = max(capacity.values(), default=0)
    return {number for number, value in capacity.items() if 0 < value < _E_CORE_CAPACITY * largest}


def _by_clock_and_l2(cpus: tuple[Cpu, ...], caches: tuple[CacheInstance, ...]) -> set[int]:
    core_of = {cpu.number: cpu.siblings for cpu in cpus}
    cores_on_l2: dict[int, int] = {}
    for cache in caches:
        if cache.level == 2:
            cores = {core_of[number] for number in cache.shared_cpus if number in core_of}
            cores_on_l2.update(dict.fromkeys(cache.shared_cpus, len(cores)))
    clocks = [cpu.max_hz for cpu in cpus if cpu.max_hz]
    if not clocks or not cores_on_l2:
        return set()
    fewest, fastest = min(cores_on_l2.values()), max(clocks)
    return {
        cpu.number
        for cpu in cpus
        if cores_on_l2.get(cpu.number, fewest) > fewest and cpu.max_hz and cpu.max_hz < fastest
    }
