"""What counters of hardware said of kernels, regions or runs: operations, bytes by level, instructions."""

from __future__ import annotations

import msgspec

from rooflab.types.machine import Machine
from rooflab.types.trace import Device, Dropped
from rooflab.types.work import Flop, Traffic


class Access(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a GPU's kernel asked for memory and kept the device busy; None where the file does not say.

    Attributes:
        requests: loads and stores of global and local memory, one for all threads of a warp.
        sectors: of 32 bytes that they touched.
        load_use, store_use: share of the bytes of those sectors that threads asked for: 1 is coalesced.
        shared_wavefronts: passes in which the banks of shared memory served its accesses.
        shared_conflicts: passes that bank conflicts added to them.
        load_store_inst: warp instructions that the load/store units took.
        occupancy: share of the warps that fit on a multiprocessor that were there, while it was active.
        occupancy_limit: the highest that the launch allows.
        limited_by: what allows no more warps ("registers", "shared memory", "warps", "blocks", "barriers").
        hit_rates: of levels; a little over 1 is possible, levels are not counted at one moment.
        pipes: share of their peak that instruction pipes were used, as the tool says ("alu", "lsu", "issue"), and
            of the "busiest" of all.
        clock_hz: of the multiprocessors while it ran.
    """

    requests: float | None = None
    sectors: float | None = None
    load_use: float | None = None
    store_use: float | None = None
    shared_wavefronts: float | None = None
    shared_conflicts: float | None = None
    load_store_inst: float | None = None
    occupancy: float | None = None
    occupancy_limit: float | None = None
    limited_by: str | None = None
    hit_rates: dict[str, float] = {}
    pipes: dict[str, float] = {}
    clock_hz: float | None = None

    @property
    def sectors_per_request(self) -> float | None:
        """4 for words of 4 bytes side by side, 32 for words far apart."""
        return self.sectors / self.requests if self.requests and self.sectors is not None else None

    @property
    def conflict_share(self) -> float | None:
        """Share of the passes through shared memory that bank conflicts cost."""
        if not self.shared_wavefronts or self.shared_conflicts is None:
            return None
        return self.shared_conflicts / self.shared_wavefronts


class Counted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kernel, region or run as counters saw it; None where the file does not say.

    Attributes:
        name: as the tool wrote it.
        time_s: of one execution, the mean where there are several.
        runs: executions behind these numbers.
        flop: executed, by engine and number format; () for none at all.
        traffic: bytes counted at memory levels ("DRAM", "L2", "L1", "shared").
        instructions: of warps on GPUs, of the core on CPUs.
        thread_instructions: of threads, those that predication turned off left out.
        transactions: of memory levels, by level.
        grid, block: of a GPU's kernel.
        device: that it ran on, where that is not the file's own ("GPU 0" beside a CPU): held against no machine.
        access: how it asked for memory and kept the device busy; None for what is no kernel of a GPU.
        metrics: everything that was read, in base units, by the tool's names.
        module: path of the scopes that it ran in, where the tool records them.
    """

    name: str
    time_s: float | None = None
    runs: int = 1
    flop: tuple[Flop, ...] | None = None
    traffic: tuple[Traffic, ...] = ()
    instructions: float | None = None
    thread_instructions: float | None = None
    transactions: dict[str, float] = {}
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    device: str | None = None
    access: Access | None = None
    metrics: dict[str, float] = {}
    module: str = ""

    @property
    def total_flop(self) -> float | None:
        """FLOP of all engines and formats; None where they were not counted."""
        return None if self.flop is None else sum(one.count for one in self.flop)

    @property
    def main_memory(self) -> Traffic | None:
        """The bytes of main memory, whatever the file calls it; None where they were not counted."""
        return self.at("DRAM") or self.at("HBM") or self.at("memory")

    def at(self, level: str) -> Traffic | None:
        """The bytes counted at `level`; None where they were not."""
        return next((one for one in self.traffic if one.level == level), None)


class Counters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of counters.

    Attributes:
        source: the format that it was read from ("Nsight Compute").
        rows: in the file's order.
        device: that it names.
        machine: the roofs that stand in the same file, where there are some.
        dropped: what could not be used.
        notes: what a reader must know.
    """

    source: str
    rows: tuple[Counted, ...]
    device: Device | None = None
    machine: Machine | None = None
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
