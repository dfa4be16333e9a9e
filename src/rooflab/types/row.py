"""One operation of a program: its cost, its prediction, and what it took."""

from __future__ import annotations

import msgspec

from rooflab.types.own_time import Observed
from rooflab.types.prediction import Bound, Prediction
from rooflab.types.work import Cost, Op
from rooflab.units import FLOP_PER_FMA


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One operation of a program. Its numbers are those of all its executions (`op.count`) together.

    Attributes:
        op: the operation; its tensors are in the report's graph.
        cost: of one execution; None where no formula is known: the row then lowers coverage.
        prediction: how long it would take, where a machine is given.
        bound: what binds it, where a machine is given: as predicted, else by the plain roofline.
        binds: the level or engine behind `bound`.
        ridge: FLOP/byte at which the machine would take as long to compute as to move the bytes, for the
            engines and number formats of this row: at the rates predicted for it, else in theory.
        unbound: why `bound` is None although a machine is given.
        observation: measured; None where it was not, and `unobserved` may say why.
    """

    op: Op
    cost: Cost | None = None
    prediction: Prediction | None = None
    bound: Bound | None = None
    binds: str | None = None
    ridge: float | None = None
    unbound: str | None = None
    observation: Observed | None = None
    unobserved: str | None = None

    @property
    def takes_time(self) -> bool:
        """Whether it runs a kernel, as far as is known: it computes or moves something, or is not counted."""
        if self.op.kind == "view" or not self.op.count:
            return False
        return self.cost is None or bool(self.cost.total_flop or self.cost.compulsory.nbytes)

    @property
    def flop(self) -> float | None:
        """FLOP; None where unknown."""
        return None if self.cost is None else self.cost.total_flop * self.op.count

    @property
    def matrix_flop(self) -> float | None:
        """FLOP of products of matrices, convolution and attention included; None where unknown."""
        if self.cost is None:
            return None
        return self.op.count * sum([one.count for one in self.cost.flop if one.engine == "matrix"])

    @property
    def macs(self) -> float | None:
        """Multiply-adds of products of matrices (a complex one is four real ones); None where unknown."""
        flop = self.matrix_flop
        if isinstance(flop, int) and flop % FLOP_PER_FMA == 0:
            return flop // FLOP_PER_FMA  # exact beyond a float's 2**53
        return None if flop is None else flop / FLOP_PER_FMA

    @property
    def read_bytes(self) -> float | None:
        """Compulsory bytes read; None where unknown."""
        return None if self.cost is None else self.cost.compulsory.read_bytes * self.op.count

    @property
    def write_bytes(self) -> float | None:
        """Compulsory bytes written; None where unknown."""
        return None if self.cost is None else self.cost.compulsory.write_bytes * self.op.count

    @property
    def nbytes(self) -> float | None:
        """Compulsory bytes both ways; None where unknown."""
        return None if self.cost is None else self.cost.compulsory.nbytes * self.op.count

    @property
    def accessed_bytes(self) -> float | None:
        """Bytes of every load and store instruction; None where unknown."""
        if self.cost is None or self.cost.accessed is None:
            return None
        return self.cost.accessed.nbytes * self.op.count

    @property
    def intensity(self) -> float | None:
        """FLOP per compulsory byte; None where unknown, or where no byte is moved."""
        return self.flop / self.nbytes if self.flop is not None and self.nbytes else None
