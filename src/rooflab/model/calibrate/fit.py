"""A family's fitted constants refitted to times that a user measured on a machine of it.

Coordinate search over the logarithm of each constant that is stated as fitted and that the times depend on.
What is made small is Σ min(|ln(measured / predicted)|, 1) + Σ |ln(constant / its old value)|: the first sum
lets no single row pull more than its share, the second leaves a constant where less than the error of one
whole row speaks for moving it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from rooflab.errors import RooflabError
from rooflab.model.calibrate.timings import Timed
from rooflab.model.device.constants import constants_of
from rooflab.model.device.device import device_of
from rooflab.model.program import op_times
from rooflab.model.program.error_bars import BAR_SIGMAS
from rooflab.model.program.op_times import PreparedRows
from rooflab.types.calibration import Calibration, Change, Errors
from rooflab.types.constants import Constants
from rooflab.types.machine import Machine
from rooflab.types.setting import CacheState

MIN_ROWS = 8
FOLDS = 4
_MAX_MOVE = np.log(4.0)  # a constant that moves further is another mechanism's
_STEPS = (0.4, 0.1, 0.03)
_MAX_LOSS = 1.0
_PRIOR_WEIGHT = 1.0
# A prediction that changes by less than this share for a tenth of a constant does not depend on it.
_LEAST_SENSITIVITY = 1e-4
_SWEEPS = 2
_LEAST_SPREAD = 0.02
_PRIOR_ROWS = 4  # the old spread counts as so many rows


class _Program(NamedTuple):
    """One program ready to be timed: for each of its rows its count, and the number of the time it is part of."""

    work: PreparedRows
    counts: np.ndarray
    timing: np.ndarray


def fit(
    timed: Sequence[Timed],
    machine: Machine,
    *,
    cache: CacheState = "warm",
    constants: Constants | None = None,
    dropped: tuple[str, ...] = (),
    progress: Callable[[str, float, float], None] | None = None,
) -> Calibration:
    """The constants of `machine`'s family refitted to `timed`.

    Args:
        cache: as the times were taken.
        constants: to start from, and to stay near; the family's by default.
        progress: called with what is done, how far, and the total.

    Raises:
        RooflabError: too few times, or constants none of which was fitted.
    """
    if len(timed) < MIN_ROWS:
        left = f" ({len(dropped)} left out, the first at {dropped[0]})" if dropped else ""
        raise RooflabError(f"{len(timed)} times that can be used{left}, expected at least {MIN_ROWS}: add rows")
    base = constants or constants_of(machine)
    problem = _problem(machine, cache, base, timed)
    fold = np.arange(len(timed)) % FOLDS
    held_out = np.zeros(len(timed))
    for number in range(FOLDS):
        _report_progress(progress, number)
        moves_without_fold = _coordinate_search(problem, fold != number)
        held_out[fold == number] = _errors(problem, moves_without_fold)[fold == number]
    _report_progress(progress, FOLDS)
    moves = _coordinate_search(problem, np.ones(len(timed), bool))
    moved = {
        name: (base(name) * float(np.exp(by)), int(problem.sensitive[name].sum()))
        for name, by in moves.items()
        if by
    }
    moved |= _spreads(problem, held_out)
    _report_progress(progress, FOLDS + 1)
    changes = [
        Change(name, base(name), value, rows, base.values[name].meaning) for name, (value, rows) in moved.items()
    ]
    changes.sort(key=lambda each: -abs(np.log(each.after / each.before)))
    new = base.replaced({name: value for name, (value, _) in moved.items()})
    return Calibration(
        machine=machine.name,
        family=base.family,
        rows=len(timed),
        dropped=dropped,
        folds=FOLDS,
        before=_summary(problem.start),
        after=_summary(held_out),
        fitted=_summary(_errors(problem, moves)),
        changes=tuple(changes),
        unmoved=tuple(sorted(name for name in problem.sensitive if name not in moved)),
        unseen=tuple(sorted(name for name in refittable(base) if name not in problem.sensitive)),
        # Its spreads are this machine's own now: nothing is left to widen.
        constants=msgspec.structs.replace(new, wider=1.0),
    )


def _report_progress(progress: Callable[[str, float, float], None] | None, done: int) -> None:
    if progress is not None:
        progress("fitting", done, FOLDS + 1)


def _summary(errors: np.ndarray) -> Errors:
    relative = np.abs(np.expm1(errors))
    return Errors(float(np.median(relative)), float(np.quantile(relative, 0.9)))


class _Problem(NamedTuple):
    """What the search asks again and again: the timed programs, and which times each constant bears on."""

    machine: Machine
    cache: CacheState
    base: Constants
    programs: tuple[_Program, ...]
    measured: np.ndarray
    start: np.ndarray
    sensitive: Mapping[str, np.ndarray]


def _problem(machine: Machine, cache: CacheState, base: Constants, timed: Sequence[Timed]) -> _Problem:
    measured = np.log([each.time_s for each in timed])
    bare = _Problem(machine, cache, base, _programs(timed), measured, measured, {})
    start = _errors(bare, {})
    sensitive = {
        name: np.abs(_errors(bare, {name: 0.1}) - start) > _LEAST_SENSITIVITY for name in refittable(base)
    }
    return bare._replace(start=start, sensitive={name: bears for name, bears in sensitive.items() if bears.any()})


def _errors(
    problem: _Problem, moves: Mapping[str, float], before: np.ndarray | None = None, name: str = ""
) -> np.ndarray:
    """ln(predicted / measured) of every time with each constant moved by so much in its logarithm.

    Where only `name` has moved since the errors were `before`, only what it bears on is computed.
    """
    device = device_of(problem.machine, cache=problem.cache, constants=_moved(problem, moves))
    seconds = np.zeros(len(problem.measured))
    wanted = problem.sensitive[name] if before is not None else np.ones(len(seconds), bool)
    for program in problem.programs:
        timed_rows = program.timing >= 0
        if wanted[program.timing[timed_rows]].any():
            each = op_times.predict_times(program.work, device).kernels.time_s[:, 0] * program.counts
            np.add.at(seconds, program.timing[timed_rows], each[timed_rows])
    errors = np.log(np.where(seconds > 0, seconds, 1.0)) - problem.measured
    return errors if before is None else np.where(wanted, errors, before)


def _coordinate_search(problem: _Problem, used: np.ndarray) -> dict[str, float]:
    """How far each constant moves in its logarithm to fit the times that are `used`."""
    moves = dict.fromkeys(problem.sensitive, 0.0)
    errors = problem.start
    for step in _STEPS:
        for _ in range(_SWEEPS):
            before = dict(moves)
            for name, bears in problem.sensitive.items():
                if (bears & used).any():
                    moves[name], errors = _line_search(problem, name, step, moves, errors, used)
            if moves == before:
                break
    return moves


def _line_search(
    problem: _Problem, name: str, step: float, moves: Mapping[str, float], errors: np.ndarray, used: np.ndarray
) -> tuple[float, np.ndarray]:
    """Where one constant stops when it moves in steps while that helps, and the errors there."""
    here = moves[name]
    best = _loss(errors[used]) + _PRIOR_WEIGHT * abs(here)
    for sign in (step, -step):
        while (move := _clipped(problem.base, name, here + sign)) != here:
            there = _errors(problem, {**moves, name: move}, errors, name)
            loss = _loss(there[used]) + _PRIOR_WEIGHT * abs(move)
            if loss >= best - 1e-9:
                break
            best, errors, here = loss, there, move
    return here, errors


def _clipped(base: Constants, name: str, move: float) -> float:
    most = _MAX_MOVE
    if "share" in name and base(name) <= 1:
        most = min(most, -float(np.log(base(name))))  # a share of a roof stays under the roof
    return float(np.clip(move, -_MAX_MOVE, most))


def _spreads(problem: _Problem, errors: np.ndarray) -> dict[str, tuple[float, int]]:
    """The spread of each mechanism's errors on times not used in fitting, the old one counted in; how many."""
    spreads, base = {}, problem.base
    unchanged = _spread(problem, base)
    for name in (name for name in base.values if name.endswith(".spread")):
        here = _spread(problem, base.replaced({name: 2 * base(name)})) != unchanged
        count = int(here.sum())
        if count >= MIN_ROWS:
            new = float(np.quantile(np.abs(errors[here]), 0.8)) / BAR_SIGMAS
            old = base(name) * base.wider
            both = np.sqrt((count * new**2 + _PRIOR_ROWS * old**2) / (count + _PRIOR_ROWS))
            spreads[name] = float(max(both, _LEAST_SPREAD)), count
    return spreads


def _spread(problem: _Problem, constants: Constants) -> np.ndarray:
    """The expected spread of each time: of its longest row."""
    device = device_of(problem.machine, cache=problem.cache, constants=constants)
    spreads = np.zeros(len(problem.measured))
    for program in problem.programs:
        kernels = op_times.predict_times(program.work, device).kernels
        for row in np.argsort(kernels.time_s[:, 0]):
            if program.timing[row] >= 0:
                spreads[program.timing[row]] = kernels.spread[row, 0]
    return spreads


def _moved(problem: _Problem, moves: Mapping[str, float]) -> Constants:
    return problem.base.replaced({name: problem.base(name) * float(np.exp(by)) for name, by in moves.items()})


def refittable(constants: Constants) -> tuple[str, ...]:
    """Constants that were fitted to times, and so can be to others: single numbers above zero, no spreads."""
    return tuple(
        name
        for name, each in constants.values.items()
        if each.fitted and not isinstance(each.value, list) and each.value > 0 and "spread" not in name
    )


def _loss(errors: np.ndarray) -> float:
    return float(np.minimum(np.abs(errors), _MAX_LOSS).sum())


def _programs(timed: Sequence[Timed]) -> tuple[_Program, ...]:
    """Each program once, ready to be timed."""
    reports = {id(each.report): each.report for each in timed}
    owner = {(id(each.report), row): number for number, each in enumerate(timed) for row in each.rows}
    programs = []
    for key, report in reports.items():
        work = op_times.prepare(report.graph, report.rows)
        timing = np.array([owner.get((key, index), -1) for index in work.index.tolist()], int)
        programs.append(_Program(work, np.array([row.op.count for row in work.rows], float), timing))
    timed_programs = {number for program in programs for number in program.timing.tolist()}
    for number, each in enumerate(timed):
        if number not in timed_programs:
            raise RooflabError(f"{each.title}: nothing in it takes time, so no constant bears on it")
    return tuple(programs)
