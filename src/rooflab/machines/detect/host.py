"""The machine as its operating system describes it; None is "not known", never zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CoreKind = Literal["P", "E"]
CacheKind = Literal["data", "instruction", "unified"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """One logical CPU (a hardware thread).

    Attributes:
        number: as the kernel counts CPUs, and as affinity takes it.
        core: the kernel's core id, unique within a package (and die) only.
        package: socket.
        die, cluster: within the package, where the kernel says.
        node: NUMA node.
        kind: "P" or "E" on a machine with two kinds of core, None where all are alike.
        max_hz: highest clock that the operating system reports.
        siblings: the CPUs of the same physical core, this one included, ascending.
        microarchitecture: "Zen 4", "Gracemont", … as in the microarchitecture table.
    """

    number: int
    core: int | None = None
    package: int | None = None
    die: int | None = None
    cluster: int | None = None
    node: int | None = None
    kind: CoreKind | None = None
    max_hz: float | None = None
    siblings: tuple[int, ...]
    microarchitecture: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheInstance:
    """One cache as the operating system reports it: a guest may be granted far less of it."""

    level: int
    kind: CacheKind
    shared_cpus: tuple[int, ...]
    capacity_bytes: int | None = None
    ways: int | None = None
    line_bytes: int | None = None
    sets: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One NUMA node; `distances` are the firmware's, to the nodes in ascending order, 10 being local."""

    number: int
    cpus: tuple[int, ...]
    memory_bytes: int | None = None
    distances: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One NVIDIA GPU as its driver describes it.

    Attributes:
        sm_count: CUDA cores divided by the cores of an SM of that compute capability.
        max_sm_hz, max_memory_hz: highest clocks the driver allows; DDR memory moves two bits a pin a clock.
        memory_bus_bits: width of the memory bus.
        pcie_generation, pcie_width: highest that card and slot agree on.
        mig: whether Multi-Instance GPU is on (a process then gets a part of the card).
    """

    index: int
    name: str
    memory_bytes: int | None = None
    sm_count: int | None = None
    compute_capability: tuple[int, int] | None = None
    max_sm_hz: float | None = None
    max_memory_hz: float | None = None
    memory_bus_bits: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    power_limit_w: float | None = None
    driver: str | None = None
    mig: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine, what of it this process may use, and what could not be read.

    Attributes:
        name: the model name that the CPU or the system gives.
        vendor: "AuthenticAMD", "GenuineIntel", or the Arm implementer's name.
        architecture: "x86_64", "aarch64", …
        family, model, stepping: x86 only.
        implementer, part, variant: the fields of an Arm CPU's MIDR (of the first granted kind of core).
        microarchitecture: of the P-cores, or of all; see `Cpu.microarchitecture`.
        isa: vector and number-format extensions by LLVM's feature names ("avx2", "avx512bf16", "amx-int8",
            "neon", "fullfp16", "sve"), those that every CPU has.
        sve_bits: length of an SVE vector.
        cpus: the online CPUs, ascending.
        offline_cpus: present but switched off.
        memory_bytes: of the machine.
        memory_granted_bytes: the least of that and every cgroup limit on this process.
        memory_available_bytes: what can be had now without swapping, within the limits.
        address_space_bytes: limit on what this process may map (RLIMIT_AS); None where there is none.
        allowed_cpus: those that affinity and cpuset leave to this process.
        limited_by: why these are fewer than all: "cpuset", "affinity", "argument".
        quota_cpus: CPU time per time that the cgroup allows; None where there is no limit.
        hypervisor: its name; "unknown" where there is one that doesn't tell; None on bare metal.
        huge_pages: transparent huge pages: "always", "madvise" or "never".
        kernel: release of the kernel.
        governor: of the first allowed CPU's clock.
        tsc_hz: rate of the time-stamp counter, not of the core.
        reported_max_hz: highest clock reported for any allowed CPU.
        gpus: NVIDIA GPUs; `gpus_note` says why there are none.
        notes: what could not be read, and why.
    """

    name: str
    vendor: str | None = None
    architecture: str | None = None
    system: str = "Linux"
    family: int | None = None
    model: int | None = None
    stepping: int | None = None
    implementer: int | None = None
    part: int | None = None
    variant: int | None = None
    microarchitecture: str | None = None
    isa: tuple[str, ...] = ()
    sve_bits: int | None = None
    cpus: tuple[Cpu, ...]
    offline_cpus: tuple[int, ...] = ()
    caches: tuple[CacheInstance, ...] = ()
    nodes: tuple[Node, ...] = ()
    memory_bytes: int | None = None
    memory_granted_bytes: int | None = None
    memory_available_bytes: int | None = None
    address_space_bytes: int | None = None
    allowed_cpus: tuple[int, ...]
    limited_by: tuple[str, ...] = ()
    quota_cpus: float | None = None
    hypervisor: str | None = None
    huge_pages: str | None = None
    kernel: str | None = None
    governor: str | None = None
    tsc_hz: float | None = None
    reported_max_hz: float | None = None
    gpus: tuple[Gpu, ...] = ()
    gpus_note: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def smt(self) -> bool:
        """Whether any physical core runs more than one online CPU."""
        return any(len(cpu.siblings) > 1 for cpu in self.cpus)

    def cpu(self, number: int) -> Cpu | None:
        """The online CPU with that number."""
        return next((cpu for cpu in self.cpus if cpu.number == number), None)
