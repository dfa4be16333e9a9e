"""What it costs to call something that computes nothing: the base of overhead-bound."""

from __future__ import annotations

from dataclasses import dataclass

from rooflab.timing import Timing, time_call


@dataclass(frozen=True)
class CallOverhead:
    """The cost of one empty call in a framework."""

    framework: str
    version: str
    timing: Timing
    note: str


def numpy_overhead(rounds: int = 5) -> CallOverhead:
    """An empty NumPy ufunc: `positive` over an array of no elements, result array given."""
    import numpy as np

    nothing = np.empty(0)
    timing = time_call(lambda: np.positive(nothing, nothing), rounds=rounds, run_s=0.01)
    return CallOverhead("numpy", np.__version__, timing, "np.positive over 0 elements, called from Python")


def numba_overhead(rounds: int = 5) -> CallOverhead:
    """An empty compiled function, called from Python."""
    import numba

    nothing = numba.njit("void()")(_nothing)
    # The loop's own cost that is taken off includes one call of a Python function: this lambda's.
    timing = time_call(lambda: nothing(), rounds=rounds, run_s=0.01)
    return CallOverhead("numba", numba.__version__, timing, "an empty @njit function, called from Python")


def _nothing() -> None:
    return
