"""What measuring adds to a machine: call overheads, a library's products, TLBs, checks, curves, points."""

from __future__ import annotations

from typing import Literal

import msgspec

from rooflab.types.result import Positive
from rooflab.types.source import Scope, Source

Tail = Literal["masked", "halves"]


class Runtime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What it costs a host and a framework to start one operation.

    Attributes:
        dispatch_s: host time of one call that computes nothing.
        launch_s: device time of one kernel that computes nothing, where there is a device.
        host: what `dispatch_s` was measured on, where that need not be the host of this machine: a card in another
            server has another.
    """

    framework: str
    source: Source
    version: str | None = None
    host: str | None = None
    dispatch_s: float | None = None
    launch_s: float | None = None
    spread: float | None = None
    runs: int | None = None
    note: str | None = None


class Products(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a library's products of matrices take on this machine: its mechanism, fitted to timed products.

    The seconds of `b` products of m × k by k × n are the sum over `terms` of a constant times what it is per:
    see `rooflab.machines.products`, which also says what the shapes of a routine are.

    Attributes:
        library: "numpy" or "torch", who calls; `version` its own.
        blas: the library that computes: "OpenBLAS 0.3.31", "MKL 2024.2"; `kernels` those it chose: "Haswell".
        routine: "product", "batched product", "matrix × vector" or "vector × matrix".
        dtype: number format of the operands.
        threads: how many it was given.
        terms: seconds per unit by name of the term: per call, product, multiply-add, element packed, ….
        tile: rows and columns of the block that its innermost loop computes, as the times show them; `tail` how it
            computes what is left of a block: see `rooflab.machines.products`.
        team_from: multiply-adds of a product above which it takes more than one thread.
        cache_bytes: working sets from which on operands cross the last cache, and from which on memory.
        flop_per_s: attained by a large product: 2 over the seconds of a multiply-add.
        error: median of |fitted / measured − 1| over products that the fit had not seen; `spread` the standard
            deviation of ln(measured / fitted) that is expected, from the quantiles that hold four of five.
        samples: how many shapes were timed.
        environment: settings of the process that decide what the library does, such as OPENBLAS_CORETYPE.
    """

    library: str
    routine: str
    dtype: str
    threads: int
    terms: dict[str, float]
    source: Source
    version: str | None = None
    blas: str | None = None
    kernels: str | None = None
    tile: tuple[int, int] = (1, 1)
    tail: Tail = "masked"
    team_from: float = 0.0
    cache_bytes: tuple[float, float] = (0.0, 0.0)
    flop_per_s: float | None = None
    error: float | None = None
    spread: float | None = None
    samples: int | None = None
    environment: dict[str, str] = {}


class Tlb(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far the buffers of address translations reach, for pages of one size.

    Attributes:
        page_bytes: of one page.
        entries: pages that one level of buffers holds, ascending, `miss_s` what a load waits longer beyond each.
        held_pages: as many pages were touched at most; where `entries` is empty, so many cost nothing yet.
    """

    page_bytes: int
    source: Source
    entries: tuple[int, ...] = ()
    miss_s: tuple[float, ...] = ()
    held_pages: int | None = None
    runs: int | None = None
    note: str | None = None

    @property
    def reach_bytes(self) -> float | None:
        """Bytes that the last level found reaches; None where none was."""
        return float(self.entries[-1] * self.page_bytes) if self.entries else None


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One self-check of a measurement: what was looked at, whether it held, a sentence with the likely cause."""

    name: str
    ok: bool
    message: str


class Plateau(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A flat stretch of a curve: its level, its first and last x, and its height."""

    level: str
    first: float
    last: float
    value: float


class Curve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One measured quantity over another.

    Attributes:
        name: "read bandwidth", "latency", "thread scaling", …
        x_unit, y_unit: "byte", "thread", "s" and "byte/s", "s", "hertz".
        x: ascending; bytes are the working set of one core.
        best: the best of the rounds at each x; `median` their median.
    """

    name: str
    x_unit: Literal["byte", "thread", "s", "page"]
    y_unit: Literal["byte/s", "s", "flop/s", "hertz"]
    scope: Scope
    x: tuple[float, ...]
    best: tuple[float, ...]
    median: tuple[float, ...]
    source: Source
    threads: int | None = None
    runs: int | None = None
    plateaus: tuple[Plateau, ...] = ()


class Point(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kernel with exactly known work, run on this machine: a point on its roofline.

    Attributes:
        flop, bytes: counted by hand; bytes are compulsory (each array crosses once).
        time_s: best of the runs.
        level: the memory level that its working set lies in.
        dtype: number format.
    """

    name: str
    flop: float
    bytes: Positive
    time_s: Positive
    source: Source
    level: str | None = None
    dtype: str | None = None
    scope: Scope = "all"
    threads: int | None = None
    spread: float | None = None
    runs: int | None = None
    note: str | None = None

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flop / self.bytes

    @property
    def flop_per_s(self) -> float:
        """FLOP/s attained."""
        return self.flop / self.time_s
