"""The prediction of a report as instructions, for a page that predicts again when a knob is turned.

`tape_of(report)` runs the model once with every knob as a `Traced` number and gives plain data for JSON:

    knobs       [[name, factor], …]: what can be turned, with the factors of the report; numbered from 0
    constants   numbered on from there: a number, or a table
                {"r": rows, "c": columns, and one of "v": values row by row, "b": the same as base64 of float64,
                 "s": [first, step], "u": distinct values with "i": which of them}
    code        [[name, …], …] numbered on from there: an element-wise function of numbered operands; "where";
                ["take"|"put"|"spread"|"stack"|"sum"|"sum_rows"|"cumsum"|"cummax"|"diff", …]
    index       the report's rows that are predicted, in order: all columns are theirs
    rows        number of each column: time_s, low_s, high_s, floor_s, compute_s, overhead_s, host_s, kernels,
                bound (a place in `bounds`), binds (a place in `names`); what executes several times, all of them
    levels      of each memory level, by name, the number of its column of seconds
    program     the same of the whole program, single numbers
    program_levels
    bounds      "memory-bound", "compute-bound", "overhead-bound", "balanced"
    names       what can bind
    whole       whether the rows are all that take time: else the program's time is a lower bound
    kept        knobs that the page cannot turn, as what depends on them is no arithmetic

`views/common/tape.js` runs it: `new Tape(data).run({bandwidth: 2})`.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from rooflab.model import collectives
from rooflab.model.device.cache_residency import OperandAccesses, ProgramSwitches
from rooflab.model.device.device import KNOBS, Device
from rooflab.model.program import assumptions, error_bars, floor, forecast, op_times, predictions
from rooflab.model.program.op_times import ISSUING, OpTimes, PreparedRows
from rooflab.model.program.traced import Recording, Traced
from rooflab.model.roofline.roofline import BALANCED
from rooflab.types.report import Report

BOUNDS = ("memory-bound", "compute-bound", "overhead-bound", "balanced")
# What an ideal cache keeps is found by going through the program, and a memory's capacity takes no time.
KEPT = ("cache_capacity", "capacity")
_COLUMNS = ("time_s", "low_s", "high_s", "floor_s", "compute_s", "overhead_s", "host_s", "kernels")


def tape_of(report: Report) -> dict[str, Any] | None:
    """The prediction of `report` as data (see above); None where it has none."""
    if report.machine is None or report.setting is None:
        return None
    tape = Recording()
    setting, machine = report.setting, report.machine
    factors = {name: setting.what_if.get(name, 1.0) for name in KNOBS}
    knobs: dict[str, Any] = {
        name: each if name in KEPT else tape.knob(name, each) for name, each in factors.items()
    }
    report = forecast.as_run(report, machine, setting)
    device = assumptions.device_for(report, machine, setting, knobs)
    work = forecast.predictable(report, machine)
    if not work.rows:
        return None
    times = _times(work, device)
    counts = forecast.counts_of(work)
    waits = forecast.waits_of(report, work, times, device, setting, counts)
    parts = forecast.parts_of(report, times, device, setting, counts, waits)
    rows = predictions.row_columns(times, counts, waits.wait_s, waits.host_s, parts)
    floor_s = floor.program_floor_s(work, times, device, counts)
    levels = _levels(device, rows)
    names = [*dict.fromkeys((*levels, *times.units, ISSUING, "host", "launch"))]
    engines = _engines(times, names)
    bars = error_bars.bars_of_program(parts)
    columns: dict[str, Any] = {name: getattr(rows, name) for name in _COLUMNS}
    over = np.where(rows.waiting, float(names.index("host")), float(names.index("launch")))
    memory_s, level = _longest({float(names.index(name)): seconds for name, seconds in levels.items()})
    columns |= _verdict(rows.compute_s, engines, memory_s, level, rows.overhead_s, over)
    time_s = np.maximum(np.sum(rows.time_s), floor_s)
    program: dict[str, Any] = {
        name: np.sum(columns[name]) for name in ("compute_s", "overhead_s", "host_s", "kernels")
    }
    program |= {
        "time_s": time_s,
        "low_s": np.minimum(time_s, np.maximum(floor_s, bars.low_s)),
        "high_s": np.maximum(time_s, bars.high_s),
        "floor_s": floor_s,
    }
    program_levels = {name: np.sum(seconds) for name, seconds in levels.items()}
    program |= _program_verdict(rows.time_s, columns["bound"], columns["binds"], levels, names)
    predicted = set(work.index.tolist())
    complete = all(number in predicted for number, row in enumerate(report.rows) if row.takes_time)
    results = {"rows": columns, "levels": levels, "program": program, "program_levels": program_levels}
    return {
        **_written(tape, [name for name in KNOBS if name not in KEPT], factors, results),
        "index": work.index.tolist(),
        "bounds": list(BOUNDS),
        "names": names,
        "whole": complete and not report.coverage.unknown,
        "kept": list(KEPT),
    }


def _times(work: PreparedRows, device: Device) -> OpTimes:
    """The times of all rows, equal ones recorded once."""
    of, first = _distinct(work)
    times = op_times.predict_times(_only(work, first), device)
    kernels = times.kernels._replace(**{name: each[of] for name, each in times.kernels._asdict().items()})
    units = tuple(times.units[place] for place in of.tolist())
    return OpTimes(kernels, times.floor_s[of], units, times.issuing[of])


def _distinct(work: PreparedRows) -> tuple[np.ndarray, np.ndarray]:
    """By row, which of the distinct ones it is; and where each of these stands first."""
    accesses, switches, tensors = work.operands, work.switches, work.graph.tensors
    operands: list[list[tuple[Any, ...]]] = [[] for _ in work.rows]
    columns = (
        each.tolist() for each in (accesses.row, accesses.nbytes, accesses.distance_bytes, accesses.written)
    )
    for row, *operand in zip(*columns, strict=True):
        operands[row].append(tuple(operand))
    costs: dict[Any, int] = {}
    known: dict[Any, int] = {}
    of, first = [], []
    columns = (switches.switched.tolist(), switches.distance_bytes.tolist())
    for number, (row, *switch) in enumerate(zip(work.rows, *columns, strict=True)):
        op = row.op
        cost = costs.setdefault(id(row.cost), len(costs))
        strides = tuple([tensors[index].strides for index in (*op.inputs, *op.outputs)])
        key = (cost, op.name, op.kind, strides, tuple(operands[number]), *switch)
        place = known.setdefault(key, len(known))
        if place == len(first):
            first.append(number)
        of.append(place)
    return np.array(of), np.array(first)


def _only(work: PreparedRows, kept: np.ndarray) -> PreparedRows:
    accesses, switches = work.operands, work.switches
    place = np.full(len(work.rows), -1)
    place[kept] = np.arange(len(kept))
    ours = place[accesses.row] >= 0 if accesses.row.size else np.zeros(0, bool)
    return PreparedRows(
        graph=work.graph,
        rows=tuple(work.rows[number] for number in kept.tolist()),
        index=work.index[kept],
        operands=OperandAccesses(
            place[accesses.row[ours]], accesses.nbytes[ours], accesses.distance_bytes[ours], accesses.written[ours]
        ),
        switches=ProgramSwitches(switches.switched[kept], switches.distance_bytes[kept]),
        demands=work.demands[kept],
    )


def _levels(device: Device, rows: predictions.RowColumns) -> dict[str, Any]:
    """Seconds by level, near to far, as `Prediction.memory_s` has them."""
    levels = dict(zip(predictions.level_names(device), (rows.near_s, rows.cache_s, rows.memory_s), strict=True))
    if rows.link_s.any():
        link = collectives.find_link(device.machine).name
        levels[link] = np.where(rows.link_s > 0, rows.link_s, levels.get(link, 0.0))
    return levels


def _engines(times: OpTimes, names: list[str]) -> Any:
    """By row, the place among `names` of what is behind its arithmetic."""
    own = np.array([names.index(unit) for unit in times.units], float)
    may = np.array([op_times.may_issue(unit) for unit in times.units])
    return np.where(times.issuing[:, 0] & may, float(names.index(ISSUING)), own)


def _longest(seconds: dict[float, Any]) -> tuple[Any, Any]:
    """The most seconds, and the key they stand under: the first of them where several are equal."""
    (best, most), *others = seconds.items()
    for place, each in others:
        best = np.where(each > most, place, best)
        most = np.maximum(most, each)
    return most, best


def _program_verdict(
    time_s: Any, bound: Any, binds: Any, levels: dict[str, Any], names: list[str]
) -> dict[str, Any]:
    """`_binding` of `forecast` on arrays: what binds the rows that take most of the time."""
    by = {name: np.sum(np.where(binds == float(place), time_s, 0.0)) for place, name in enumerate(names)}
    kinds: tuple[dict[str, Any], ...] = (
        {name: by[name] for name in names if name not in levels and name not in ("host", "launch")},
        {name: by[name] for name in levels},
        {name: by[name] for name in ("launch", "host")},
    )
    sums = [sum(kind.values()) for kind in kinds]
    engine, level, over = (
        _longest({float(names.index(name)): seconds for name, seconds in kind.items()})[1] for kind in kinds
    )
    found = _verdict(sums[0], engine, sums[1], level, sums[2], over)
    balanced = float(BOUNDS.index("balanced"))
    balanced_s = np.sum(np.where(bound == balanced, time_s, 0.0))
    return found | {"bound": np.where(2 * balanced_s > sum(sums), balanced, found["bound"])}


def _verdict(compute_s: Any, engine: Any, memory_s: Any, level: Any, overhead_s: Any, over: Any) -> dict[str, Any]:
    """`roofline.verdict` on arrays: `engine`, `level` and `over` are places among the names."""
    by_memory = (memory_s >= compute_s) & (memory_s >= overhead_s)
    by_compute = compute_s >= overhead_s
    most = np.maximum(memory_s, compute_s)
    largest = np.maximum(most, overhead_s)
    second = np.maximum(np.minimum(memory_s, compute_s), np.minimum(most, overhead_s))
    return {
        "bound": np.where(
            second >= BALANCED * largest, 3.0, np.where(by_memory, 0.0, np.where(by_compute, 1.0, 2.0))
        ),
        "binds": np.where(by_memory, level, np.where(by_compute, engine, over)),
    }


def _written(
    tape: Recording, turned: list[str], factors: dict[str, float], results: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Knobs, constants, and the instructions that the results need, numbered on; the results' own numbers."""
    wanted = {
        part: {
            name: each.node if isinstance(each, Traced) else tape.constant(each) for name, each in values.items()
        }
        for part, values in results.items()
    }
    needed = _needed(tape, {node for values in wanted.values() for node in values.values()})
    names = [name for name in turned if ("knob", name) in {tape.code[node] for node in needed}]
    numbers = {node: names.index(tape.code[node][1]) for node in needed if tape.code[node][0] == "knob"}
    held = [node for node in needed if node in tape.constants]
    rest = [node for node in needed if node not in numbers and node not in tape.constants]
    for node in (*held, *rest):
        numbers[node] = len(numbers)
    return {
        "knobs": [[name, factors[name]] for name in names],
        "constants": [_packed(tape.constants[node]) for node in held],
        "code": [_renumbered(tape.code[node], numbers) for node in rest],
        **{part: {name: numbers[node] for name, node in values.items()} for part, values in wanted.items()},
    }


def _operands(instruction: tuple[Any, ...]) -> int:
    """How many of what follows an instruction's name are numbers of others; sizes come after them."""
    if instruction[0] in ("knob", "constant"):
        return 0
    sizes = 2 if instruction[0] in ("take", "put", "spread", "stack") else 0
    return len(instruction) - 1 - sizes


def _needed(tape: Recording, wanted: set[int]) -> list[int]:
    found: set[int] = set()
    for node in range(len(tape.code) - 1, -1, -1):
        if node in wanted or node in found:
            found.add(node)
            instruction = tape.code[node]
            found.update(instruction[1 : 1 + _operands(instruction)])
    return sorted(found)


def _renumbered(instruction: tuple[Any, ...], numbers: dict[int, int]) -> list[Any]:
    name, *rest = instruction
    count = _operands(instruction)
    return [name, *(numbers[node] for node in rest[:count]), *rest[count:]]


def _packed(values: np.ndarray) -> Any:
    """A constant in the shortest of its forms."""
    if values.size == 1:
        return _plain(values.item())
    flat = values.ravel()
    head = {"r": values.shape[0], "c": values.shape[1]}
    steps = np.diff(flat)
    if (steps == steps[0]).all() and (flat == np.floor(flat)).all():
        return {**head, "s": [_plain(flat[0].item()), _plain(steps[0].item())]}
    distinct, which = np.unique(flat, return_inverse=True)
    forms: list[dict[str, Any]] = [{"v": [_plain(each) for each in flat.tolist()]}]
    if len(distinct) <= len(flat) / 2:
        forms.append({"u": [_plain(each) for each in distinct.tolist()], "i": which.ravel().tolist()})
    forms.append({"b": base64.b64encode(flat.astype("<f8").tobytes()).decode()})
    return {**head, **min(forms, key=lambda form: len(json.dumps(form, separators=(",", ":"))))}


def _plain(value: float) -> float | int:
    """Without ".0" where it is whole."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
