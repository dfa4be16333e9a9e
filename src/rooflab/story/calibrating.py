"""Do my own timings say that a machine's fitted constants are off, and by how much?"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rooflab.errors import RooflabError
from rooflab.story.machines import as_machine

if TYPE_CHECKING:
    from os import PathLike

    from rooflab.types.calibration import Calibration
    from rooflab.types.constants import Constants
    from rooflab.types.machine import Machine
    from rooflab.types.report import Report
    from rooflab.types.setting import CacheState


def calibrate(
    timings: str | PathLike[str],
    machine: Machine | str | PathLike[str],
    *,
    cache: CacheState = "warm",
    constants: Constants | str | PathLike[str] | None = None,
    progress: Callable[[str, float, float], None] | None = None,
) -> Calibration:
    """The fitted constants of a machine's family refitted to your own timings; what changed, whether it helps.

    Args:
        timings: a CSV or JSON file of operations with their times (`rooflab calibrate --help` shows one), or a
            report's JSON whose rows carry observed times.
        machine: the one that was timed: a `Machine`, or a name or file of one.
        cache: "warm" where the operations were run again and again, or "cold".
        constants: to start from and to stay near; those of the machine's family by default.
        progress: called with what is done, how far, and the total.

    Returns:
        Errors on rows not used in fitting before and after, each constant that moved, those that stayed. Its
        `constants` go to `analyze`, `op`, `predict` and `variants`.

    Raises:
        FileError: a file that cannot be read, or without a row that can be used.
        RooflabError: fewer than 8 times.
    """
    import msgspec

    from rooflab.model.calibrate import fit
    from rooflab.model.calibrate import timings as files
    from rooflab.model.device import constants_file
    from rooflab.model.program.setting import check
    from rooflab.types.constants import Constants

    target = as_machine(machine)
    assert target is not None
    base = check({"cache": cache, "constants": constants}).get("constants")
    assert base is None or isinstance(base, Constants)  # a path has been read
    rows = files.read(os.fspath(timings))
    _check_report(rows.timed[0].report, target, cache, os.fspath(timings))
    calibration = fit.fit(
        rows.timed,
        target,
        cache=cache,
        constants=None if base is None else constants_file.checked_for(base, target),
        dropped=rows.dropped,
        progress=progress,
    )
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return msgspec.structs.replace(calibration, timings=Path(timings).name, date=today)


def _check_report(report: Report, machine: Machine, cache: CacheState, path: str) -> None:
    """Return where a saved report's times were taken on `machine` with such caches; other files say neither."""
    if report.setting is not None and report.setting.cache != cache:
        taken = report.setting.cache
        raise RooflabError(f"{path}: its times were taken with {taken} caches, got {cache}: --cache {taken}")
    if report.machine is not None and report.machine.name != machine.name:
        raise RooflabError(f"{path}: its times are of {report.machine.name}, got {machine.name} to calibrate")
