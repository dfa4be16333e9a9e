"""A Mac from the text of `sysctl -a`: macOS has no /proc, no cgroups and no affinity.

The keys are those of Apple's "Determining system capabilities" (developer.apple.com/documentation/kernel,
sysctlbyname) and of sysctl(3). Apple numbers perflevel0 the fastest cores.
"""

from __future__ import annotations

from collections.abc import Callable

from rooflab.errors import FileError, MeasureError
from rooflab.machines.detect.cpu import Identity
from rooflab.machines.detect.files import Tree
from rooflab.machines.detect.host import CacheInstance, CacheKind, CoreKind, Cpu, Host, Node
from rooflab.machines.detect.isa import darwin_isa
from rooflab.machines.detect.naming import microarchitecture_name

_RECORDED = "sysctl.txt"
_TIMEOUT_S = 20

Number = Callable[[str], int | None]


def detect_darwin(tree: Tree) -> Host:
    """The running Mac, or the one whose `sysctl -a` is kept as sysctl.txt at the root of a snapshot.

    Raises:
        FileError: the snapshot has no sysctl.txt.
        MeasureError: sysctl cannot be run.
    """
    if not tree.is_live:
        text = tree.text(_RECORDED)
        if text is None:
            raise FileError(f"{tree.root}/{_RECORDED}: no such file, expected what `sysctl -a` printed on a Mac")
        return from_sysctl(text)
    import subprocess  # not needed, and not paid for, on Linux

    try:
        done = subprocess.run(["/usr/sbin/sysctl", "-a"], capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MeasureError(f"sysctl -a: {error}; run it by hand to see why") from None
    return from_sysctl(done.stdout.decode("utf-8", "replace"))


def from_sysctl(text: str) -> Host:
    """The Mac on which `sysctl -a` printed `text`.

    CPU numbers are rooflab's own, P-cores first: macOS pins no threads.

    Raises:
        MeasureError: the text names no CPUs.
    """
    values = _values(text)
    notes: list[str] = []
    number = _reader(values, notes)
    is_x86 = values.get("machdep.cpu.vendor") is not None
    identity = Identity(
        name=values.get("machdep.cpu.brand_string"),
        vendor=values.get("machdep.cpu.vendor") or "Apple",
        family=number("machdep.cpu.family"),
        model=number("machdep.cpu.model"),
        stepping=number("machdep.cpu.stepping"),
    )
    cpus, caches = _cores(number, identity)
    if not cpus:
        raise MeasureError("sysctl: hw.perflevel0.logicalcpu and hw.logicalcpu are missing, so no CPU is known")
    memory = number("hw.memsize")
    notes.append("macOS pins no threads: CPU numbers are not the kernel's, P-cores first")
    if not is_x86:
        notes.append("sysctl does not report Apple's system-level cache (SLC) between L2 and memory")
    hertz = number("hw.cpufrequency_max")
    return Host(
        name=identity.name or values.get("hw.model") or "unknown Mac",
        vendor=identity.vendor,
        architecture="x86_64" if is_x86 else "aarch64",
        system="Darwin",
        family=identity.family,
        model=identity.model,
        stepping=identity.stepping,
        microarchitecture=cpus[0].microarchitecture,
        isa=darwin_isa(_optional(values), is_x86),
        cpus=cpus,
        caches=caches,
        nodes=(Node(number=0, cpus=tuple(cpu.number for cpu in cpus), memory_bytes=memory),),
        memory_bytes=memory,
        memory_granted_bytes=memory,
        allowed_cpus=tuple(cpu.number for cpu in cpus),
        hypervisor="unknown" if number("kern.hv_vmm_present") else None,
        kernel=values.get("kern.osrelease"),
        tsc_hz=number("machdep.tsc.frequency") or number("hw.tbfrequency"),
        reported_max_hz=hertz or None,
        notes=tuple(notes),
    )


def _values(text: str) -> dict[str, str]:
    """The "key: value" (or "key = value") lines; others, such as continued text, are left out."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.partition(":")
        if not separator:
            key, separator, value = line.partition("=")
        if separator and key and " " not in key.strip():
            values.setdefault(key.strip(), value.strip())
    return values


def _reader(values: dict[str, str], notes: list[str]) -> Number:
    """A function that gives the whole number at a key; None where missing, and noted where malformed."""

    def number(key: str) -> int | None:
        text = values.get(key)
        try:
            return int(text, 0) if text else None
        except ValueError:
            notes.append(f"sysctl: {key}: got {text!r}, expected a whole number; left unknown")
            return None

    return number


def _optional(values: dict[str, str]) -> list[str]:
    prefix = "hw.optional."
    return [key.removeprefix(prefix) for key, value in values.items() if key.startswith(prefix) and value == "1"]


def _cores(number: Number, identity: Identity) -> tuple[tuple[Cpu, ...], tuple[CacheInstance, ...]]:
    """CPUs and caches of every performance level, or of the whole machine where there are no levels (Intel)."""
    levels = number("hw.nperflevels") or 0
    kinds: list[tuple[str, CoreKind | None]] = [("hw", None)]
    if levels >= 2:
        kinds = [(f"hw.perflevel{level}", "P" if level == 0 else "E") for level in range(levels)]
    cpus: list[Cpu] = []
    caches: list[CacheInstance] = []
    for base, kind in kinds:
        threads = number(f"{base}.logicalcpu") or number(f"{base}.physicalcpu") or 0
        cores = number(f"{base}.physicalcpu") or threads
        first = len(cpus)
        name = microarchitecture_name(identity, kind)
        cpus += _level_cpus(first, threads, cores, kind, name)
        caches += _level_caches(number, base, range(first, len(cpus)), max(1, threads // max(1, cores)))
    return tuple(cpus), tuple(sorted(caches, key=lambda one: (one.level, one.kind, one.shared_cpus)))


def _level_cpus(first: int, threads: int, cores: int, kind: CoreKind | None, name: str | None) -> list[Cpu]:
    per_core = max(1, threads // max(1, cores))
    return [
        Cpu(
            number=first + index,
            core=(first + index) // per_core,
            package=0,
            node=0,
            kind=kind,
            siblings=tuple(first + index // per_core * per_core + other for other in range(per_core)),
            microarchitecture=name,
        )
        for index in range(threads)
    ]


def _level_caches(number: Number, base: str, cpus: range, per_core: int) -> list[CacheInstance]:
    """The reported caches: L1 per core, L2 per `cpusperl2` CPUs (else per core), L3 per machine."""
    named: tuple[tuple[int, CacheKind, str, int], ...] = (
        (1, "data", "l1dcachesize", per_core),
        (1, "instruction", "l1icachesize", per_core),
        (2, "unified", "l2cachesize", number(f"{base}.cpusperl2") or per_core),
        (3, "unified", "l3cachesize", number(f"{base}.cpusperl3") or len(cpus)),
    )
    line_bytes = number("hw.cachelinesize")
    caches = []
    for level, kind, key, sharing in named:
        capacity = number(f"{base}.{key}")
        if not capacity:
            continue
        for start in range(0, len(cpus), max(1, sharing)):
            shared = tuple(cpus[start : start + max(1, sharing)])
            caches.append(
                CacheInstance(
                    level=level, kind=kind, shared_cpus=shared, capacity_bytes=capacity, line_bytes=line_bytes
                )
            )
    return caches
