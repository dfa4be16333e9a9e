"""Where counted work stands under a machine's roofs: how near to each of them, and which binds."""

from __future__ import annotations

import msgspec

from rooflab.types.prediction import Bound
from rooflab.types.result import Positive


class RoofShare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of one roof a run used.

    Attributes:
        name: of the level ("DRAM"), the engine ("fp32 vector"), "load/store units" or "instructions".
        kind: "level", "engine" or "issue".
        amount: bytes, FLOP or warp instructions of one execution.
        roof_per_s: of the machine, theoretical where it is known, else attained.
        attained_per_s: what kernels attained of it on such a machine; None where unknown.
        share: of the roof that was used; over 1 is a question to ask, never clipped.
        intensity: FLOP per byte at a level; None elsewhere, and where FLOP are not known.
    """

    name: str
    kind: str
    amount: float
    roof_per_s: Positive
    share: float
    attained_per_s: float | None = None
    intensity: float | None = None

    @property
    def seconds(self) -> float:
        """What the amount takes at least, at the attained rate where it is known."""
        return self.amount / (self.attained_per_s or self.roof_per_s)


class InstructionPlacement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kernel under the instruction roofs of a GPU (Ding and Williams, PMBS 2019).

    Attributes:
        inst_per_s: warp instructions a second that were attained.
        peak_inst_per_s: that all schedulers can start.
        intensity: warp instructions per transaction of 32 bytes, by level.
        attainable_inst_per_s: under the roof of each level.
        transactions_per_s: that each level was asked for.
        binds: the level with the lowest roof, or "instructions".
        predication: share of threads that were active and not predicated off; None where not counted.
        global_pattern: what the walls of strided access say of global memory; None where not counted.
        bank_conflicts: share of the passes through shared memory that conflicts cost; None where not counted.
    """

    inst_per_s: float
    peak_inst_per_s: float
    intensity: dict[str, float]
    attainable_inst_per_s: dict[str, float]
    transactions_per_s: dict[str, float]
    binds: str
    predication: float | None = None
    global_pattern: str | None = None
    bank_conflicts: float | None = None


class Placement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Counted work under the roofs of one machine: the hierarchical roofline.

    Attributes:
        roofs: that it used, by level near to far, then engines, then issue.
        bound, binds: the one that takes longest, at attained rates where they are known ("balanced" where the
        second
            takes at least 0.9 of it); None where arithmetic may bind and was not counted.
        instruction: the same in instructions, for a kernel of a GPU whose file has them.
        missing: what could not be placed, and why.
    """

    roofs: tuple[RoofShare, ...]
    bound: Bound | None = None
    binds: str | None = None
    instruction: InstructionPlacement | None = None
    missing: tuple[str, ...] = ()

    @property
    def highest(self) -> RoofShare | None:
        """The roof that takes longest; None without any."""
        return max(self.roofs, key=lambda roof: roof.seconds, default=None)

    def of(self, name: str) -> RoofShare | None:
        """The share of the roof called `name`; None where it was not used or not counted."""
        return next((roof for roof in self.roofs if roof.name == name), None)
