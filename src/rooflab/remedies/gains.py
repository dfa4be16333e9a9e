"""What a change gains and how sure that is: the same errors before and after move both times together.

A prediction is off because the host is, and because the models of the kernels are. Both times come from the same
model: a slow host is slow before and after; a kernel that runs in both is off by the same factor in both. Kernels
that only one of them runs are off by themselves. So each of these four errors is moved alone, 1.28 standard
deviations up and down, both programs are queued again, and the gains' deviations add as independent errors do
(see `model.program.error_bars`, whose bars of one program these are).
"""

from __future__ import annotations

from collections.abc import Hashable, Set
from typing import NamedTuple

import numpy as np

from rooflab.model.program import launch_queue
from rooflab.model.program.error_bars import BAR_SIGMAS
from rooflab.model.program.forecast import Forecast


class Gain(NamedTuple):
    """Seconds that a change saves: best guess, and what holds in about four of five cases."""

    best_s: float
    low_s: float
    high_s: float


def gain(before: Forecast, after: Forecast, times: float = 1.0, other_machine: bool = False) -> Gain:
    """What `after` saves against `before`.

    Args:
        before, after: predicted programs.
        times: how often the work of `before` is done in one run of `after`.
        other_machine: kernels and hosts of another machine are off by themselves.
    """
    keys = _keys(before), _keys(after)
    common = set() if other_machine else set(keys[0]) & set(keys[1])
    moves = []
    if other_machine:
        moves += [(_with(f, True, None, factor), None) for f in (before,) for factor in (-1, 1)]
        moves += [(None, _with(after, True, None, factor)) for factor in (-1, 1)]
    else:
        moves += [(_with(before, True, None, one), _with(after, True, None, one)) for one in (-1, 1)]
        moves += [
            (_with(before, False, _in(keys[0], common), one), _with(after, False, _in(keys[1], common), one))
            for one in (-1, 1)
        ]
    moves += [(_with(before, False, ~_in(keys[0], common), one), None) for one in (-1, 1)]
    moves += [(None, _with(after, False, ~_in(keys[1], common), one)) for one in (-1, 1)]
    as_is = _time_s(before), _time_s(after)
    best = as_is[0] - as_is[1] / times
    off = np.array(
        [(as_is[0] if b is None else b) - (as_is[1] if a is None else a) / times - best for b, a in moves]
    ).reshape(-1, 2)
    down, up = np.minimum(off.min(axis=1), 0.0), np.maximum(off.max(axis=1), 0.0)
    return Gain(best, best - float(np.sqrt(np.sum(down**2))), best + float(np.sqrt(np.sum(up**2))))


def _keys(program: Forecast) -> list[Hashable]:
    """What makes a row's kernel the same as another: its operation and its cost."""
    rows = program.report.rows
    return [(rows[n].op.name, rows[n].cost) for n in program.numbers.tolist()]


def _in(keys: list[Hashable], common: Set[Hashable]) -> np.ndarray:
    return np.array([key in common for key in keys], bool)


def _time_s(program: Forecast) -> float:
    known = program.report.prediction or program.report.predicted_part
    return 0.0 if known is None else known.time_s


def _with(program: Forecast, host: bool, kernels: np.ndarray | None, sigmas: int) -> float:
    """The time of `program` with its host or some of its kernels slower by so many times 1.28 deviations."""
    parts = program.parts
    host_s, device_s = parts.host_s, parts.device_s
    if host:
        host_s = host_s * np.exp(sigmas * BAR_SIGMAS * parts.host_spread)
    if kernels is not None and kernels.any():
        # What is wrong for one kernel of a sort is for all: the mean spread for all of them together.
        total_s = device_s[kernels].sum()
        spread = float(parts.device_spreads[kernels] @ device_s[kernels]) / total_s if total_s else 0.0
        device_s = np.where(kernels, device_s * np.exp(sigmas * BAR_SIGMAS * spread), device_s)
    if not parts.overlaps:
        return float(max((host_s + device_s).sum(), program.floor_s))
    waits = launch_queue.queue_times(host_s, device_s[:, None]).wait_s.sum()
    return float(max(device_s.sum() + waits, program.floor_s))
