"""The microbenchmarks, one row each: an expression, from which all else derives (see `expression.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rooflab.dtypes import dtype as dtype_of
from rooflab.errors import RooflabError
from rooflab.machines.bench.kernels.expression import Expression


@dataclass(frozen=True)
class StreamRow:
    """A loop over arrays.

    Attributes:
        what: its name in a `Rate`: "read", "write", "copy", "triad", "stencil".
        expression: what one iteration does.
        unroll: register-widths per loop iteration.
        nontemporal: store past the caches.
    """

    what: str
    expression: Expression
    dtype: str
    unroll: int
    nontemporal: bool = False

    def __post_init__(self) -> None:
        streams = sorted(self.expression.streams)
        if streams != list("abc"[: len(streams)]):
            raise RooflabError(f"kernel row {self.what!r}: got streams {streams}, expected a, then b, then c")

    @property
    def name(self) -> str:
        """A name of its own: "triad nontemporal"."""
        return f"{self.what} nontemporal" if self.nontemporal else self.what

    @property
    def bytes_per_element(self) -> int:
        """Bytes that the program names per element; write-allocate reads are not counted."""
        return self.expression.streamed_elements * dtype_of(self.dtype).bits // 8


@dataclass(frozen=True)
class Chain:
    """`count` independent copies of one register expression, to cover the latency of its operation."""

    expression: Expression
    count: int


@dataclass(frozen=True)
class PeakRow:
    """A loop that only computes: independent chains, `repeat` steps of each per loop iteration.

    Attributes:
        what: its name in a `Rate`: "fma", "fma+add", "add", "dot".
        wide, narrow: chains where there are 32 registers, and where there are 16.
        form: "vector", or "scalar" for one number at a time.
    """

    what: str
    dtype: str
    wide: tuple[Chain, ...]
    narrow: tuple[Chain, ...]
    form: Literal["vector", "scalar"] = "vector"
    accumulate: str | None = None
    repeat: int = 4

    @property
    def name(self) -> str:
        """A name of its own: "scalar fma fp64"."""
        return f"{'scalar ' if self.form == 'scalar' else ''}{self.what} {self.dtype}"

    def chains(self, registers: int) -> tuple[Chain, ...]:
        """The chains that fit into `registers`."""
        return self.wide if registers >= 32 else self.narrow


READ = StreamRow("read", Expression("x ^= a[i]"), "int64", unroll=16)
STORES = tuple(
    StreamRow(what, Expression(text), "fp64", unroll, nontemporal)
    for nontemporal in (False, True)
    for what, text, unroll in (
        ("write", "a[i] = s", 8),
        ("copy", "a[i] = b[i]", 8),
        ("triad", "a[i] = b[i] + s * c[i]", 4),
    )
)
STENCIL = StreamRow(
    "stencil", Expression("a[i] = s * (b[i] + b[i-1] + b[i+1] + b[i-w] + b[i+w])"), "fp64", unroll=2
)

_FMA = Expression("x = s * t + x")
_ONE_CONSTANT_FMA = Expression("x = s * s + x")
_ADD = Expression("x = x + s")
_DOT = Expression("x = dot(x, p, q)")
# FMA latency is 4 cycles on two pipes (16 in flight on Neoverse V2 and Apple M1); adds take 2 to 4.
_MANY, _FEW = 24, 12
PEAKS = (
    *(PeakRow("fma", dtype, (Chain(_FMA, _MANY),), (Chain(_FMA, _FEW),)) for dtype in ("fp64", "fp32", "fp16")),
    # Zen 3 to 5 have two FMA and two ADD pipes; with one constant 8 + 7 chains fit into 16 registers.
    *(
        PeakRow(
            "fma+add",
            dtype,
            (Chain(_ONE_CONSTANT_FMA, 12), Chain(_ADD, 12)),
            (Chain(_ONE_CONSTANT_FMA, 8), Chain(_ADD, 7)),
        )
        for dtype in ("fp64", "fp32")
    ),
    *(PeakRow("add", dtype, (Chain(_ADD, _MANY),), (Chain(_ADD, _FEW),)) for dtype in ("fp64", "fp32")),
    *(
        PeakRow("fma", dtype, (Chain(_FMA, _MANY),), (Chain(_FMA, _FEW),), form="scalar")
        for dtype in ("fp64", "fp32")
    ),
    PeakRow("dot", "bf16", (Chain(_DOT, _MANY),), (Chain(_DOT, _FEW),), accumulate="fp32"),
    PeakRow("dot", "int8", (Chain(_DOT, _MANY),), (Chain(_DOT, _FEW),), accumulate="int32"),
)
