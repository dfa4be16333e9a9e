"""What counters of hardware said of kernels, regions or runs: operations, bytes by level, instructions."""

from __future__ import annotations

import msgspec

from rooflab.types.machine import Machine
from rooflab.types.trace import Device, Dropped
from rooflab.types.work import Flop, Traffic


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
        metrics: everything that was read, in base units, by the tool's names.
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
    metrics: dict[str, float] = {}

    @property
    def total_flop(self) -> float | None:
        """FLOP of all engines and formats; None where they were not counted."""
        return None if self.flop is None else sum(one.count for one in self.flop)

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
