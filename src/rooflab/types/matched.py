"""How much of a profile was found in the program that was given with it, and the other way round."""

from __future__ import annotations

import msgspec


class Matching(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A profile's kernels laid beside the operations of a program.

    Attributes:
        program: its report's name.
        mode: of the predictions: "graph" (operations as captured) or "compiled" (as a compiler fuses them).
        runs: how often the profile holds the program from begin to end; `partial_runs` where it was cut off.
        ops, ops_found: of one run those that take time, and those for which a kernel was found in any run.
        kernels, kernels_found: of the profile, and those that belong to an operation of the program.
        other_shapes: executions that fit an operation by name, but ran with other sizes than it has there.
        predicted_s: the report's own seconds of one run, the sum over its rows; None without a machine.
    """

    program: str
    mode: str
    runs: int
    partial_runs: int
    ops: int
    ops_found: int
    kernels: int
    kernels_found: int
    other_shapes: int = 0
    predicted_s: float | None = None
