"""The numbers behind a profile's page, as its scripts read them: lines of operations, roofs, what ran when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rooflab.model.roofline import instruction
from rooflab.types.kernel_names import short_name
from rooflab.types.profile import Profile, ProfileRow
from rooflab.types.timeline import DeviceTime
from rooflab.types.trace import ON_HOST
from rooflab.units import duration, percent
from rooflab.views.common import explore
from rooflab.views.common.explore import short
from rooflab.views.profile import verdict
from rooflab.views.profile.lines import Line, lines_of, whole
from rooflab.views.profile.marks import MAIN, bytes_of, flop_of, peaks_of

_NAME = 80  # letters of a kernel's name: the panel of the one selected and the files have more
_PREDICTED = ("compute_s", "overhead_s", "host_s")


def embedded(profiles: Sequence[Profile]) -> dict[str, Any]:
    """What the scripts of a page need of its profiles."""
    held = [(profile, lines_of(profile.rows)) for profile in profiles]
    return {
        "programs": [_program(lines) for _, lines in held],
        "predictions": [
            {
                "label": profile.name,
                "program": number,
                "tape": None,
                **_measured(profile, lines, len(held) > 1),
                **_roofs(profile),
            }
            for number, (profile, lines) in enumerate(held)
        ],
    }


def _program(lines: Sequence[Line]) -> dict[str, Any]:
    """Columns of what each line asks for; unknown is null."""
    other = [_other(line) for line in lines]
    return {
        "lines": {
            "name": [short_name(line.row.name, _NAME) for line in lines],
            "module": [line.module for line in lines],
            "kind": [line.row.kind or "unknown" for line in lines],
            "phase": [line.row.phase for line in lines],
            "where": [line.row.where or "" for line in lines],
            "shapes": [line.row.shapes for line in lines],
            "dtype": [line.row.dtype for line in lines],
            "label": [line.row.label for line in lines],
            "why": [line.row.why or "" for line in lines],
            "unmatched": [line.row.unmatched or "" for line in lines],
            "times": [line.executions for line in lines],
            "flop": [short(line.flop) for line in lines],
            "bytes": [short(line.nbytes) for line in lines],
            "other": [short(nbytes) for _, nbytes in other],
            "otherLevel": [level for level, _ in other],
            "accessed": [None] * len(lines),
            "engine": [_engine(line.row) for line in lines],
            "takesTime": [line.time_s > 0 for line in lines],
            "rows": [list(line.numbers) for line in lines],
        }
    }


def _other(line: Line) -> tuple[str, float | None]:
    """The level that a line is placed by where none of main memory's bytes are known, and its bytes."""
    found = [bytes_of(row) for row in line.rows]
    level = found[0][0]
    if level == MAIN or any(one != level or nbytes is None for one, nbytes in found):
        return "", None
    return level, sum(nbytes for _, nbytes in found if nbytes is not None)


def _engine(row: ProfileRow) -> str:
    most = max(flop_of([row]), key=lambda one: one.count, default=None)
    return f"{most.dtype} {most.engine}" if most is not None and most.count else ""


def _measured(profile: Profile, lines: Sequence[Line], several: bool) -> dict[str, Any]:
    """What is said of the whole, and columns of each line: measured, and predicted where there is a machine."""
    timed = profile.time_s > 0
    return {
        "machine": None if profile.machine is None else profile.machine.name,
        "warnings": verdict.warnings(profile),
        "headline": verdict.headline(profile),
        "distance": verdict.distance(profile),
        "how": verdict.how(profile, several),
        "facts": verdict.facts(profile),
        "total": {"time_s": profile.time_s, "bound": profile.bound, "binds": profile.binds} if timed else None,
        "missing": "",
        "timeline": [_device(one, profile.name) for one in profile.timeline.devices if one.parts],
        "instructions": _instructions(profile, lines),
        "columns": _columns(profile, lines),
    }


def _columns(profile: Profile, lines: Sequence[Line]) -> dict[str, Any]:
    rows = profile.rows
    levels = list(dict.fromkeys(name for row in rows if row.prediction for name in row.prediction.memory_s))
    counted = list(dict.fromkeys(name for row in rows for name in _moved(row)))
    columns: dict[str, Any] = {
        "time_s": [short(line.time_s) for line in lines],
        "low_s": [short(line.low_s) for line in lines],
        "high_s": [short(line.high_s) for line in lines],
        **{name: [short(line.predicted(name)) for line in lines] for name in _PREDICTED},
        "memory_s": {name: [_seconds(line, name) for line in lines] for name in levels},
        "level_bytes": {name: [_summed(line, _moved, name) for line in lines] for name in counted},
        "bound": [line.row.bound for line in lines],
        "binds": [line.row.binds for line in lines],
        "ridge": [None] * len(lines),
        "unbound": [line.row.why for line in lines],
        "of_roof": [_of_roofs(line) for line in lines],
        # A trace does not say whether executions shared their operands: without the program a floor must suppose
        # that they did and lay in a cache, and says little.
        "floor_s": [short(line.predicted("floor_s")) if profile.matching is not None else None for line in lines],
    }
    if any(row.prediction is not None for row in rows):
        for name in ("expected_s", "expected_low_s", "expected_high_s"):
            columns[name] = [_kernels_own(line, name) for line in lines]
    return columns


def _kernels_own(line: Line, name: str) -> float | None:
    """Predicted seconds without the pauses between kernels, which a kernel's measured time leaves out."""
    seconds = whole(getattr(row, name) for row in line.rows)
    return None if seconds is None else short(max(seconds, 0.0))


def _seconds(line: Line, level: str) -> float | None:
    if any(row.prediction is None for row in line.rows):
        return None
    return short(sum(row.prediction.memory_s.get(level, 0.0) for row in line.rows if row.prediction is not None))


def _moved(row: ProfileRow) -> dict[str, float]:
    """Bytes of all executions at each level that was counted."""
    if row.counted is None or row.placement is None:
        return {}
    return {roof.name: roof.amount * row.executions for roof in row.placement.roofs if roof.kind == "level"}


def _summed(line: Line, read: Callable[[ProfileRow], dict[str, float]], name: str) -> float | None:
    values = [read(row).get(name) for row in line.rows]
    return None if any(one is None for one in values) else short(sum(one for one in values if one is not None))


def _of_roofs(line: Line) -> list[tuple[str, float]]:
    """The share of each roof that all rows together used."""
    amounts: dict[str, float] = {}
    roofs: dict[str, float] = {}
    for row in line.rows:
        if row.placement is None:
            return []
        for roof in row.placement.roofs:
            amounts[roof.name] = amounts.get(roof.name, 0.0) + roof.amount * row.executions
            roofs[roof.name] = roof.roof_per_s
    time_s = line.time_s
    return [(name, float(f"{amount / time_s / roofs[name]:.4g}")) for name, amount in amounts.items() if time_s]


def _roofs(profile: Profile) -> dict[str, Any]:
    if profile.machine is None:
        return {"levels": [], "peaks": []}
    return explore.roofs(profile.machine, dict(peaks_of(profile.machine, flop_of(profile.rows))))


def _device(one: DeviceTime, name: str) -> dict[str, Any]:
    """What a device did in equal parts of its time."""
    busy = "" if one.busy_share is None else f"busy {percent(one.busy_share, 1)} of {duration(one.span_s)}"
    return {
        "name": "the host" if one.device == ON_HOST else f"device {one.device}",
        "says": f"{busy}; {', '.join(f'{duration(each.seconds)} idle for {each.cause}' for each in one.idle)}",
        "span_s": one.span_s,
        "parts": {what: [float(f"{share:.4g}") for share in shares] for what, shares in one.parts.items()},
    }


def _instructions(profile: Profile, lines: Sequence[Line]) -> dict[str, Any] | None:
    """The instruction roofline's numbers; None where no instructions were counted."""
    marks, levels, peak = [], {}, None
    for number, line in enumerate(lines):
        placement = line.row.placement
        one = None if placement is None else placement.instruction
        if placement is None or one is None:
            continue
        peak = one.peak_inst_per_s
        for name, x in one.intensity.items():
            marks.append({"line": number, "level": name, "x": short(x), "y": short(one.inst_per_s)})
        for roof in placement.roofs:
            if roof.kind == "level" and roof.name in one.intensity:
                levels.setdefault(roof.name, roof.roof_per_s / instruction.TRANSACTION_BYTES)
    if peak is None:
        return None
    return {
        "peak": peak,
        "levels": [{"name": name, "value": value} for name, value in levels.items()],
        "walls": [{"name": wall.name, "intensity": wall.intensity} for wall in instruction.global_walls()],
        "marks": marks,
    }
