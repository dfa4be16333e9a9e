"""The answer to "what will limit this?": rows of operations with their cost, on a machine where one is given."""

from __future__ import annotations

from typing import Literal

import msgspec

from rooflab.types.machine import Machine
from rooflab.types.work import Cost, Graph, Op

SCHEMA = 1

Bound = Literal["memory-bound", "compute-bound", "overhead-bound", "balanced"]


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One operation of a program.

    Attributes:
        op: the operation; its tensors are in the report's graph.
        cost: of one execution; None where no formula is known: the row then lowers coverage.
        bound: what binds it by the plain roofline, where a machine is given.
        binds: the level or engine behind `bound`.
    """

    op: Op
    cost: Cost | None = None
    bound: Bound | None = None
    binds: str | None = None

    @property
    def flop(self) -> float | None:
        """FLOP of all executions; None where unknown."""
        return None if self.cost is None else self.cost.total_flop * self.op.count

    @property
    def nbytes(self) -> float | None:
        """Compulsory bytes of all executions; None where unknown."""
        return None if self.cost is None else self.cost.compulsory.nbytes * self.op.count

    @property
    def intensity(self) -> float | None:
        """FLOP per compulsory byte; None where unknown, or where no byte is moved."""
        return self.flop / self.nbytes if self.flop is not None and self.nbytes else None


class Coverage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of the program was counted.

    Attributes:
        ops, counted: operations (loop trips not multiplied), and those with a cost.
        bytes_share: the counted operations' share of all tensor bytes.
        uncounted: names of the operations without a cost, with how often each occurs.
        unknown: what could not be followed, with the reason.
    """

    ops: int
    counted: int
    bytes_share: float | None
    uncounted: dict[str, int] = {}
    unknown: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Counted operations, 0 to 1; 1 for an empty program."""
        return self.counted / self.ops if self.ops else 1.0


class PeakMemory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes that must be held at once, each kind apart; tied tensors once."""

    parameters: float
    buffers: float
    gradients: float
    optimizer_state: float
    activations: float
    kv_cache: float
    inputs: float

    @property
    def total(self) -> float:
        """All of them."""
        return (
            self.parameters
            + self.buffers
            + self.gradients
            + self.optimizer_state
            + self.activations
            + self.kv_cache
            + self.inputs
        )


class Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a program asks for, row by row.

    Attributes:
        name: of what was analyzed.
        conventions: what the numbers mean ("multiply-add = 2 FLOP", "attention: causal exact", …).
    """

    name: str
    graph: Graph
    rows: tuple[Row, ...]
    coverage: Coverage
    memory: PeakMemory
    conventions: tuple[str, ...]
    machine: Machine | None = None
    environment: dict[str, str] = {}
    schema: int = SCHEMA

    @property
    def flop(self) -> float:
        """FLOP of all counted rows; see `coverage` for what is missing."""
        return sum(row.flop or 0.0 for row in self.rows)
