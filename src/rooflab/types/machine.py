"""What a machine can do: every speed, capacity and latency, each with its source."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import msgspec

from rooflab.errors import UnknownNameError, squash
from rooflab.types.core_timing import CoreTiming
from rooflab.types.measured import Check, Curve, Point, Products, Runtime, Tlb
from rooflab.types.measured import Plateau as Plateau  # asked for here, with all that a machine is made of
from rooflab.types.result import Positive, Result
from rooflab.types.source import Scope, Source
from rooflab.types.team_timing import TeamTiming
from rooflab.units import si

SCHEMA = 1

Kind = Literal["cpu", "gpu", "tpu", "asic", "soc", "system"]
PerS = Literal["byte", "flop", "op", "inst", "transaction", "cycle"]
Engine = Literal["vector", "matrix", "scalar", "special"]
Stores = Literal["ordinary", "nontemporal"]
Basis = Literal["theoretical", "attained"]
Value = str | int | float | bool | list[str]


class Rate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One speed, theoretical or attained: the two never mix.

    Attributes:
        value: per second, in base units. An attained rate is the best of its runs. Dense, never sparse.
        per_s: what is counted.
        what: the streams or instruction: "read", "write", "copy", "triad", "any" (any mix of reads and
            writes, as datasheets state it), "fma", "fma+add", "add", "dot", "random read 4 KiB", …
            Bytes are those the program names (copy 16 per double, triad 24), without write-allocate.
        dtype: number format of the operands; None where it does not matter.
        accumulate: number format of the sum, where it differs from `dtype`.
        engine: the unit that computes it.
        scope: one core, one SM, or all of the machine that is granted.
        threads: how many threads attained it.
        stores: "ordinary" stores read the line first on most cores; "nontemporal" ones do not.
        basis: "theoretical" or "attained".
        clock_hz: the clock at which it holds (theoretical) or which was measured around it (attained).
        units: how many units, and `per_unit_per_clock` what each does in one clock, so that
            value = units × per_unit_per_clock × clock_hz.
        median: the median of the runs.
        spread: (best − median) / best over the runs.
        runs: number of runs.
        source: where the number comes from.
        note: what a reader must know to use it.
    """

    value: Positive
    per_s: PerS
    what: str
    basis: Basis
    source: Source
    dtype: str | None = None
    accumulate: str | None = None
    engine: Engine | None = None
    scope: Scope = "all"
    threads: int | None = None
    stores: Stores | None = None
    clock_hz: float | None = None
    units: int | None = None
    per_unit_per_clock: float | None = None
    median: float | None = None
    spread: float | None = None
    runs: int | None = None
    note: str | None = None


class Level(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One level of the memory hierarchy.

    Attributes:
        name: "registers", "L1", "L2", "L3", "DRAM", "HBM", "disk", … (see `is_storage`)
        capacity_bytes: of one instance; for a measured machine, the capacity found by the sweep.
        reported_capacity_bytes: what the operating system says, where it differs in kind from found.
        shared_by: how many cores (SMs, CUs) share one instance.
        transfers_per_s, bus_bits: data rate of a pin and width of the bus, of all instances together.
        latency_s: load to use, one dependent access at a time; the lowest of `latency_runs`.
        latency_spread: (median − best) / median over those runs.
        loaded_latency_s: the same while all other granted cores stream, `loaded_latency_spread` its spread.
        rates: bandwidths, theoretical and attained.
        source: of the level's own numbers; `latency_source` of its latency where another.
    """

    name: str
    source: Source
    capacity_bytes: float | None = None
    reported_capacity_bytes: float | None = None
    shared_by: int | None = None
    line_bytes: int | None = None
    sector_bytes: int | None = None
    ways: int | None = None
    transfers_per_s: float | None = None
    bus_bits: int | None = None
    memory_type: str | None = None
    latency_s: float | None = None
    latency_spread: float | None = None
    latency_runs: int | None = None
    loaded_latency_s: float | None = None
    loaded_latency_spread: float | None = None
    latency_source: Source | None = None
    rates: tuple[Rate, ...] = ()
    note: str | None = None

    def rate(
        self,
        what: str | None = None,
        *,
        scope: Scope = "all",
        basis: Basis | None = None,
        stores: Stores | None = None,
    ) -> Rate | None:
        """The fastest bandwidth of this level that fits; None where there is none.

        With no `what`, reads are asked for first, then "any". Theory and measurement differ: name the
        `basis` before comparing two machines. `stores` tells ordinary stores from non-temporal ones.
        """
        wanted = ("read", "any") if what is None else (what,)
        for name in wanted:
            fits = [
                rate
                for rate in self.rates
                if rate.what == name
                and rate.scope == scope
                and basis in (None, rate.basis)
                and stores in (None, rate.stores)
            ]
            if fits:
                return max(fits, key=lambda rate: rate.value)
        return None


class Link(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A connection to something else.

    Attributes:
        name: "PCIe 5.0 x16", "NVLink 4", "core to core", …
        to: what is at the other end.
        each_way_bytes_per_s: one direction. Datasheets often print both directions added.
        duplex: whether both directions run at once at that rate.
        latency_s: one way; the lowest of `runs`.
        spread: of the latency, (median − best) / median over the runs.
        pinned_bytes_per_s, pageable_bytes_per_s: attained from a host to the device, from memory that the system
            cannot move away, and from ordinary memory, which is copied through buffers first; None where nobody
            measured it.
    """

    name: str
    to: str
    source: Source
    each_way_bytes_per_s: float | None = None
    pinned_bytes_per_s: float | None = None
    pageable_bytes_per_s: float | None = None
    duplex: bool | None = None
    latency_s: float | None = None
    spread: float | None = None
    runs: int | None = None
    topology: str | None = None
    note: str | None = None


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of component a machine is made of: P-cores and E-cores, dies, the GPUs of a system.

    Attributes:
        machine: catalogue name of the part, where it has an entry of its own.
        capacity_bytes: of one, where it holds data: memory, a drive.
    """

    name: str
    count: int
    source: Source
    machine: str | None = None
    capacity_bytes: float | None = None
    note: str | None = None


class Machine(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """What a machine can do.

    Attributes:
        name: the vendor's name and variant.
        aliases: other names that mean exactly this machine, those that profilers print included.
        compute_unit, compute_units: "core", "SM", "CU", … and how many there are.
        parts: kinds of component (P- and E-cores, dies, the GPUs of a system).
        levels: memory hierarchy, near to far.
        peaks: arithmetic, theoretical and attained.
        clocks: rates per_s "cycle": base, boost, matrix, measured under load.
        links: connections to other machines, or between the parts.
        runtimes: call overheads.
        products: how long the installed libraries' products of matrices take.
        core: how long the operations of one core take.
        team: how long teams of threads take to start and join.
        tlbs: how far translations of addresses reach, by size of page.
        points: known kernels run on it.
        checks: self-checks of a measurement; those that failed say why.
        curves: sweeps behind the numbers.
        environment: what was true when it was measured.
        incomplete: why a measurement stopped early; None for a whole one.
    """

    NEWEST = SCHEMA
    WHAT = "a machine"

    name: str
    kind: Kind
    source: Source
    schema: int = SCHEMA
    vendor: str | None = None
    year: int | None = None
    aliases: tuple[str, ...] = ()
    compute_unit: str | None = None
    compute_units: int | None = None
    tdp_w: float | None = None
    parts: tuple[Part, ...] = ()
    levels: tuple[Level, ...] = ()
    peaks: tuple[Rate, ...] = ()
    clocks: tuple[Rate, ...] = ()
    links: tuple[Link, ...] = ()
    runtimes: tuple[Runtime, ...] = ()
    products: tuple[Products, ...] = ()
    core: CoreTiming | None = None
    team: TeamTiming | None = None
    tlbs: tuple[Tlb, ...] = ()
    points: tuple[Point, ...] = ()
    checks: tuple[Check, ...] = ()
    curves: tuple[Curve, ...] = ()
    environment: dict[str, Value] = {}
    incomplete: str | None = None
    note: str | None = None

    def level(self, name: str) -> Level:
        """The level called `name`; "memory" is the main memory, whatever its kind.

        Raises:
            UnknownNameError: no such level, with near matches.
        """
        wanted = squash(name)
        for level in self.levels:
            if squash(level.name) == wanted or (wanted == "memory" and is_main_memory(level)):
                return level
        raise UnknownNameError(f"level of {self.name}", name, [level.name for level in self.levels])

    def curve(self, name: str, scope: Scope | None = None) -> Curve | None:
        """The measured curve of that name, of that scope or of any; None where there is none."""
        return next((each for each in self.curves if each.name == name and scope in (None, each.scope)), None)

    def peak(
        self,
        dtype: str,
        *,
        engine: Engine | None = None,
        accumulate: str | None = None,
        scope: Scope = "all",
        basis: Basis | None = None,
    ) -> Rate | None:
        """The fastest peak for `dtype` that fits; None where the machine has none: never another's.

        A peak that states another `accumulate` than asked is left out; with none asked, a peak that
        accumulates in fp32 or wider (what frameworks use) is preferred to a faster one that does not.
        """
        asked = (dtype, engine, accumulate, scope, basis)
        if asked not in self._found_peaks:
            fits = [
                rate
                for rate in self.peaks
                if rate.dtype == dtype
                and rate.scope == scope
                and engine in (None, rate.engine)
                and accumulate in (None, rate.accumulate)
                and basis in (None, rate.basis)
            ]
            if accumulate is None:
                fits = [rate for rate in fits if rate.accumulate != "fp16"] or fits
            self._found_peaks[asked] = max(fits, key=lambda rate: rate.value, default=None)
        return self._found_peaks[asked]

    @cached_property
    def _found_peaks(self) -> dict[tuple[Any, ...], Rate | None]:
        """What was asked of `peak` before: it is asked for every operation of a program."""
        return {}

    @property
    def sources(self) -> tuple[Source, ...]:
        """Every source of a number of this machine, once, in reading order."""
        sources = [self.source]
        for level in self.levels:
            sources += [level.source, *(rate.source for rate in level.rates)]
            sources += [level.latency_source] if level.latency_source else []
        for group in (
            self.peaks,
            self.clocks,
            self.links,
            self.runtimes,
            self.products,
            self.tlbs,
            self.points,
            self.parts,
        ):
            sources += [each.source for each in group]
        return tuple(dict.fromkeys(sources))

    def _summary(self) -> str:
        memory = next((level for level in self.levels if is_main_memory(level)), None)
        rate = None if memory is None else memory.rate(basis="theoretical") or memory.rate()
        fastest = max(
            (peak for peak in self.peaks if peak.per_s == "flop"), key=lambda peak: peak.value, default=None
        )
        facts = [self.kind]
        facts += [f"{memory.name} {si(rate.value, 'B/s')}"] if memory and rate else []
        facts += [f"{fastest.dtype} {si(fastest.value, 'FLOP/s')}"] if fastest else []
        return f"{self.name}: {', '.join(facts)}"


MAIN_MEMORY = ("DRAM", "HBM", "memory")
# Settings of the environment that decide what NumPy's BLAS does: a matmul point is read with them.
BLAS_VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# A disk, and what stands in its place where it cannot be reached: the system's cache of it, or a file
# system that has no disk (tmpfs).
DISK, PAGE_CACHE, MEMORY_FILES = STORAGE = ("disk", "page cache", "files in memory")


def is_main_memory(level: Level) -> bool:
    """Whether `level` is the machine's main memory."""
    return level.name in MAIN_MEMORY


def is_cache(level: Level) -> bool:
    """Whether `level` is a cache: between the registers and the main memory."""
    return level.name != "registers" and not is_main_memory(level) and not is_storage(level)


_X86_VENDORS = ("AMD", "Intel", "AuthenticAMD", "GenuineIntel", "HygonGenuine", "CentaurHauls")
_X86_NAMES = (
    "amd",
    "intel",
    "ryzen",
    "epyc",
    "threadripper",
    "xeon",
    "core i",
    "core ultra",
    "celeron",
    "pentium",
)


def is_x86(machine: Machine) -> bool:
    """Whether a CPU runs x86: as measured where that is said, else by its vendor, else by its name."""
    architecture = machine.environment.get("architecture")
    if architecture:
        return str(architecture).casefold() in ("x86_64", "amd64", "i386", "i686")
    if machine.vendor:
        return machine.vendor in _X86_VENDORS
    return any(word in machine.name.casefold() for word in _X86_NAMES)


def whole_capacity_bytes(level: Level, machine: Machine) -> float | None:
    """Bytes of all instances of `level` in `machine`: there is one unless it says how many units share it."""
    if level.capacity_bytes is None or level.shared_by is None:
        return level.capacity_bytes
    if machine.compute_units is None:
        return None
    return level.capacity_bytes * -(-machine.compute_units // level.shared_by)


def program_memory_bytes(machine: Machine) -> float | None:
    """Bytes that a program can have of the main memory of `machine`; None where nobody states them.

    Of an accelerator what its driver reports, which its label rounds; of a system that of all its parts, as its
    work is taken to be split over them.
    """
    memory = next((level for level in machine.levels if is_main_memory(level)), None)
    if memory is None:
        return None
    if machine.kind == "system":
        return whole_capacity_bytes(memory, machine)
    reported = None if machine.kind == "cpu" else memory.reported_capacity_bytes
    return reported or memory.capacity_bytes


def is_storage(level: Level) -> bool:
    """Whether `level` holds files: no stream of a kernel in memory is bound by it."""
    return level.name in STORAGE
