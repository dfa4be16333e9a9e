"""The teaching model's parts and results: a core, a memory, a kernel, and one of their parameters swept."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.result import Result

AccessPattern = Literal["sequential", "random"]
Regime = Literal["memory-bound", "compute-bound", "balanced"]
PARAMETERS = ("bandwidth", "intensity", "hit-rate")  # what can be swept
PATTERNS: tuple[AccessPattern, ...] = ("sequential", "random")


class Memory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="tiers", tag="one"):
    """One tier of memory.

    Attributes:
        bandwidth_bytes_per_s: of a stream.
        latency_s: from asking for a byte to having it.
        line_bytes: what one request brings, however little of it is used.
        in_flight: how many requests are under way at once. A stream is fetched ahead and pays the latency
            once; random accesses wait in groups of this size. 10 line fill buffers has a core of Intel's Skylake
            (Optimization Reference Manual); a GPU keeps thousands open.
    """

    bandwidth_bytes_per_s: float
    latency_s: float = 0.0
    line_bytes: int = 64
    in_flight: int = 10

    def __post_init__(self) -> None:
        _positive(self, "bandwidth_bytes_per_s", "line_bytes", "in_flight")
        _not_negative(self, "latency_s")


class TwoTierMemory(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="tiers", tag="two"
):
    """A fast tier (a cache) before a slow one; `hit_rate` of all bytes come from the fast one."""

    fast: Memory
    slow: Memory
    hit_rate: float

    def __post_init__(self) -> None:
        if not 0 <= self.hit_rate <= 1:
            raise RooflabError(f"lab: hit_rate is {self.hit_rate}, expected a share from 0 to 1, such as 0.95")


class ComputeCore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What computes, at `peak_flop_per_s` operations a second."""

    peak_flop_per_s: float

    def __post_init__(self) -> None:
        _positive(self, "peak_flop_per_s")


class StreamingKernel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kernel that reads `nbytes` and computes `ops_per_byte` operations for each byte.

    Attributes:
        access_pattern: "sequential" (every byte of a line is used) or "random" (each access of
            `access_bytes` finds its line elsewhere).
    """

    nbytes: float
    ops_per_byte: float = 1.0
    access_pattern: AccessPattern = "sequential"
    access_bytes: int = 8

    def __post_init__(self) -> None:
        _positive(self, "nbytes", "access_bytes")
        _not_negative(self, "ops_per_byte")
        if self.access_pattern not in PATTERNS:
            raise UnknownNameError("access pattern", self.access_pattern, PATTERNS)


class System(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A core and its memory; `overlap` says whether it computes on one part while it reads the next."""

    core: ComputeCore
    memory: Memory | TwoTierMemory
    overlap: bool = False


class Times(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds of memory, of arithmetic and in total, and which of the two rules."""

    memory_s: float
    compute_s: float
    total_s: float
    regime: Regime

    def __post_init__(self) -> None:
        _not_negative(self, "memory_s", "compute_s", "total_s")


class Sweep(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same kernel and system with one parameter varied.

    Attributes:
        parameter: a name of `PARAMETERS`.
        values: ascending, in base units; `results` one for each.
        turns_at: the value at which memory and arithmetic take the same time; None outside of `values`.
    """

    WHAT = "a sweep of the lab"

    parameter: str
    kernel: StreamingKernel
    system: System
    values: tuple[float, ...]
    results: tuple[Times, ...]
    turns_at: float | None
    schema: int = 1

    def __post_init__(self) -> None:
        if self.parameter not in PARAMETERS:
            raise UnknownNameError("lab parameter", self.parameter, PARAMETERS)
        if not self.values or len(self.values) != len(self.results):
            raise RooflabError(f"lab: {len(self.values)} values and {len(self.results)} results, expected as many")
        if list(self.values) != sorted(self.values) or not all(map(math.isfinite, self.values)):
            raise RooflabError("lab: the values of a sweep are expected to ascend")

    @property
    def name(self) -> str:
        """What is varied."""
        return f"Lab: a streaming kernel over {self.parameter.replace('-', ' ')}"

    def _summary(self) -> str:
        turns = "never turns" if self.turns_at is None else f"turns at {self.turns_at:.3g}"
        return f"{self.parameter}, {len(self.values)} values: {turns}"


def _positive(part: object, *names: str) -> None:
    for name in names:
        value = getattr(part, name)
        if not (math.isfinite(value) and value > 0):
            raise RooflabError(f"lab: {name} is {value}, expected a number above zero")


def _not_negative(part: object, *names: str) -> None:
    for name in names:
        value = getattr(part, name)
        if not (math.isfinite(value) and value >= 0):
            raise RooflabError(f"lab: {name} is {value}, expected zero or more")
