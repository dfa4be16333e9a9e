"""What runs underneath and around: NUMA nodes, hypervisor, huge pages, kernel, governor, time-stamp counter."""

from __future__ import annotations

import re
from collections.abc import Collection

from rooflab.machines.detect.files import Tree, parse_size_bytes
from rooflab.machines.detect.host import Node

_NODES = "sys/devices/system/node"
_DMI = ("sys_vendor", "product_name", "board_vendor", "bios_vendor", "chassis_asset_tag")

# What firmware writes into DMI under each hypervisor (as systemd-detect-virt and virt-what look for it).
# Order matters: a specific name before a general one ("KVM Virtual Machine" is not Hyper-V's).
_DMI_NAMES = (
    ("Firecracker", "Firecracker"),
    ("Google Compute Engine", "KVM (Google Compute Engine)"),
    ("Amazon EC2", "KVM (Amazon EC2)"),
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("innotek", "VirtualBox"),
    ("Parallels", "Parallels"),
    ("Apple Virtualization", "Apple Virtualization"),
    ("BHYVE", "bhyve"),
    ("HVM domU", "Xen"),
    ("Xen", "Xen"),
    ("Alibaba Cloud ECS", "KVM (Alibaba Cloud)"),
    ("OpenStack", "KVM (OpenStack)"),
    ("KVM", "KVM"),
    ("QEMU", "QEMU"),
    ("Virtual Machine", "Hyper-V"),
)
# Guests get a clock from their hypervisor, and the kernel lists it.
_CLOCKSOURCES = (("kvm-clock", "KVM"), ("hyperv", "Hyper-V"), ("xen", "Xen"))


def read_nodes(tree: Tree) -> tuple[Node, ...]:
    """The NUMA nodes, ascending; none where the kernel was built without NUMA."""
    numbers = tree.cpu_list(f"{_NODES}/online") or tree.numbered(_NODES, "node")
    return tuple(_node(tree, number) for number in numbers)


def _node(tree: Tree, number: int) -> Node:
    base = f"{_NODES}/node{number}"
    distances = tree.parsed(
        f"{base}/distance", lambda text: tuple(int(one) for one in text.split()), "distances such as '10 21'"
    )
    return Node(
        number=number,
        cpus=tree.cpu_list(f"{base}/cpulist") or (),
        memory_bytes=tree.parsed(f"{base}/meminfo", _node_memory_bytes, "a line 'Node 0 MemTotal: … kB'"),
        distances=distances or (),
    )


def _node_memory_bytes(text: str) -> int:
    match = re.search(r"MemTotal:\s*(.+)", text)
    if match is None:
        raise ValueError("no MemTotal")
    return parse_size_bytes(match[1])


def read_hypervisor(tree: Tree, flags: Collection[str], is_x86: bool) -> str | None:
    """The hypervisor's name, "unknown" where there is one that doesn't tell, None on bare metal.

    On x86 the CPU says whether there is one (CPUID bit "hypervisor"). Elsewhere the firmware's names
    decide; a cloud's bare-metal instance ("….metal") carries the cloud's name with no hypervisor.
    """
    if is_x86 and "hypervisor" not in flags:
        return None
    dmi = [tree.text(f"sys/devices/virtual/dmi/id/{name}") or "" for name in _DMI]
    if not is_x86 and any(text.endswith(".metal") for text in dmi):
        return None
    named = next((name for sign, name in _DMI_NAMES if any(sign in text for text in dmi)), None)
    kind = tree.text("sys/hypervisor/type") or tree.text("proc/device-tree/hypervisor/compatible")
    clocks = tree.text("sys/devices/system/clocksource/clocksource0/available_clocksource") or ""
    clock = next((name for sign, name in _CLOCKSOURCES if sign in clocks), None)
    return named or kind or clock or ("unknown" if is_x86 else None)


def read_huge_pages(tree: Tree) -> str | None:
    """The setting of transparent huge pages: "always", "madvise" or "never"."""
    path = "sys/kernel/mm/transparent_hugepage/enabled"
    return tree.parsed(path, _bracketed, "choices with one in brackets, such as 'always [madvise] never'")


def _bracketed(text: str) -> str:
    match = re.search(r"\[(\w+)\]", text)
    if match is None:
        raise ValueError("nothing in brackets")
    return match[1]


def read_kernel(tree: Tree) -> str | None:
    """The kernel's release, such as "6.1.0-13-amd64"."""
    release = tree.text("proc/sys/kernel/osrelease")
    if release:
        return release
    match = re.match(r"Linux version (\S+)", tree.text("proc/version") or "")
    return match[1] if match else None


def read_governor(tree: Tree, cpu: int) -> str | None:
    """The frequency governor of `cpu`; None where the kernel doesn't steer the clock."""
    return tree.text(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor") or None


def read_sve_bits(tree: Tree) -> int | None:
    """The length of an SVE vector that a process gets; None where there is no SVE.

    Source: Linux Documentation/arch/arm64/sve.rst, /proc/sys/abi/sve_default_vector_length (bytes).
    """
    length_bytes = tree.integer("proc/sys/abi/sve_default_vector_length")
    return length_bytes * 8 if length_bytes else None


def tsc_hz(bogomips: float | None, flags: Collection[str]) -> float | None:
    """The rate of the time-stamp counter; None where the kernel's delay loop is not timed by it.

    With an invariant TSC Linux sets loops_per_jiffy = tsc_khz × 1000 / HZ (arch/x86/kernel/tsc.c), and
    BogoMIPS is loops_per_jiffy × HZ / 500,000: so rate = BogoMIPS × 500,000.
    """
    if bogomips is None or not {"tsc", "constant_tsc"} <= set(flags):
        return None
    return bogomips * 500_000
