"""What a program asks for: tensors, operations, and the cost of each in FLOP and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from rooflab.types.machine import Engine

Role = Literal["parameter", "buffer", "input", "activation", "gradient", "state", "constant"]
Phase = Literal["forward", "backward", "optimizer"]
Access = Literal["stream", "strided", "gather"]
TrafficBasis = Literal["compulsory", "accessed", "modelled", "simulated", "counted"]


class TensorSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor without its data.

    Attributes:
        shape: sizes, outermost first.
        dtype: a name of `rooflab.dtypes`.
        nbytes: bytes that a reader of all of it touches: a stride of 0 (an expanded dimension) counts once.
        storage: tensors with the same number share memory: views, tied weights.
        strides: in elements; None for a contiguous tensor.
        role: what it is to the program.
        name: of a parameter, buffer or input, as its framework calls it.
        start_bytes: where in its storage its first element lies, in bytes; None where that is not known.
    """

    shape: tuple[int, ...]
    dtype: str
    nbytes: float
    storage: int = -1
    strides: tuple[int, ...] | None = None
    role: Role = "activation"
    name: str | None = None
    start_bytes: int | None = None

    @property
    def elements(self) -> int:
        """Number of elements of the shape."""
        count = 1
        for size in self.shape:
            count *= size
        return count


class Traffic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes read from and written to one memory level; the one type for bytes.

    Attributes:
        level: "memory" for main memory, or a level's name.
        basis: "compulsory" (each tensor crosses once), "accessed" (the bytes of every load and store
            instruction of a straightforward kernel), "modelled", "simulated" or "counted".
    """

    level: str
    read_bytes: float
    write_bytes: float
    basis: TrafficBasis

    @property
    def nbytes(self) -> float:
        """Both ways added."""
        return self.read_bytes + self.write_bytes


class Flop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Floating-point (or integer) operations of one engine in one number format; a multiply-add is 2.

    Attributes:
        accumulate: number format of the sum, where it differs from `dtype`.
    """

    engine: Engine
    dtype: str
    count: float
    accumulate: str | None = None


class Cost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one execution of an operation asks for.

    Attributes:
        flop: by engine and number format; empty for an operation that only moves bytes.
        compulsory: each tensor crosses memory once.
        accessed: the bytes of every load and store; None where not known.
        wire_bytes: bytes that each rank sends, for collectives.
        access: the pattern of its main stream.
        note: the assumption behind the numbers.
    """

    flop: tuple[Flop, ...] = ()
    compulsory: Traffic
    accessed: Traffic | None = None
    wire_bytes: float = 0.0
    access: Access = "stream"
    note: str | None = None

    @property
    def total_flop(self) -> float:
        """FLOP of all engines and formats."""
        flop = self.flop
        return flop[0].count if len(flop) == 1 else sum([one.count for one in flop])


class Op(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One operation of a program.

    Attributes:
        kind: what it is ("matmul", "conv", "attention", "pointwise", …): the name of its formula; None where
            the vocabulary does not know it.
        name: as its framework calls it ("aten.addmm", "dot_general", "MatMulNBits").
        inputs, outputs: indices into `Graph.tensors`.
        attrs: what the formula needs beside shapes and dtypes (groups, causal, window, …).
        module: path of the module it ran in ("blocks.3.attn"), "" for none.
        where: source file and line, where known.
        phase: forward, backward or optimizer.
        count: how often it runs: trips of the loops around it.
        branch: the branch it lies in ("cond 2 of 3"), where it may not run at all.
    """

    name: str
    kind: str | None = None
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    attrs: Mapping[str, Any] = {}
    module: str = ""
    where: str | None = None
    phase: Phase = "forward"
    count: int = 1
    branch: str | None = None


# How a convention begins that says what a program was told that asks whether a CUDA graph is being recorded.
RECORDING = "a CUDA graph is being recorded: "


class Graph(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program as captured: its tensors and its operations in the order they ran.

    Attributes:
        framework: "torch", "jax", "onnx", "tinygrad" or "hand".
        unknown: what could not be followed, with the reason ("while: trip count not given").
        conventions: what was assumed in capturing ("attention: fused", "causal: exact").
    """

    framework: str
    tensors: tuple[TensorSpec, ...]
    ops: tuple[Op, ...]
    unknown: tuple[str, ...] = ()
    conventions: tuple[str, ...] = ()

    @property
    def leading_size(self) -> float | None:
        """The first size of the program's inputs (its batch), where all that have one have the same; else None."""
        leading = {spec.shape[0] for spec in self.held("input") if spec.shape}
        return float(leading.pop()) if len(leading) == 1 and min(leading) > 0 else None

    def held(self, role: Role) -> tuple[TensorSpec, ...]:
        """The tensors of that role, each storage once, by its largest tensor; views of them are left out."""
        largest: dict[int, TensorSpec] = {}
        for number, spec in enumerate(self.tensors):
            if spec.role == role:
                # A storage below zero is not known to be shared.
                key = spec.storage if spec.storage >= 0 else -1 - number
                largest_so_far = largest.get(key)
                if largest_so_far is None or spec.nbytes > largest_so_far.nbytes:
                    largest[key] = spec
        return tuple(largest.values())
