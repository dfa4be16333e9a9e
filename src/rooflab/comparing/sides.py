"""What is compared of each sort of result that counts, predicts or simulates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from rooflab.comparing import measured_sides
from rooflab.comparing.side import Item, Metric, Read, barred, distinct, value_of
from rooflab.errors import RooflabError
from rooflab.model.energy import most_joules
from rooflab.model.program import pauses
from rooflab.model.program.forecast import predict_on
from rooflab.model.roofline.per_operation import NEGLIGIBLE_SHARE, compute_terms, memory_bandwidth
from rooflab.types.comparison import Measure, Side
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Engine, Machine
from rooflab.types.profile import Profile, ProfileRow
from rooflab.types.report import Report, Row
from rooflab.types.simulation import Simulation
from rooflab.types.tile_sweep import TileSweep
from rooflab.types.transfer import Transfer
from rooflab.types.work import Flop

_FEWEST_RUNS = 3  # below it percentiles of single runs say nothing about their spread


def read(name: str, result: Any, *, kernels_alone: bool = False) -> Read:
    """`result`, called `name`, as it is compared.

    Args:
        name: of the side.
        result: to compare.
        kernels_alone: whether pauses between kernels are taken out of predictions, as profiles leave them out.

    Raises:
        RooflabError: a type of result that is not compared, or a number that is none.
    """
    kind = type(result).__name__
    reader = _READERS.get(kind)
    if reader is None:
        raise RooflabError(
            f"{name}: a {kind} is not compared, show each by itself; expected one of {', '.join(_READERS)}"
        )
    found = reader(name, result, kernels_alone) if isinstance(result, Report) else reader(name, result)
    for metric in found.metrics:
        if metric.value is not None:
            _check(name, metric.name, metric.value.value)
    for item in found.items:
        for what in ("time_s", "flop", "nbytes"):
            _check(name, f"{what} of {item.name}", getattr(item.measure, what))
    return found


def _check(name: str, what: str, value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and value >= 0):
        raise RooflabError(f"{name}: {what} is {value}, expected a number from zero on; save the result again")


def _report(name: str, report: Report, kernels_alone: bool) -> Read:
    notes = []
    if kernels_alone and report.machine and report.setting and report.setting.mode == "eager":
        # In eager mode a row's time has the wait for the host in it, which a profile's kernels have not.
        report = predict_on(report, report.machine, msgspec.structs.replace(report.setting, mode="graph"))
        notes.append(f"{name}: predicted in eager mode; taken as a graph here: kernels without waits for the host")
    machine, setting = report.machine, report.setting
    pause_s = pauses.between_kernels_s(machine, setting) if kernels_alone and machine and setting else 0.0
    factors = {} if setting is None else setting.what_if
    roofs: dict[int, tuple[float | None, float | None]] = {}
    items = []
    for row in report.rows:
        if row.takes_time:
            if id(row.cost) not in roofs:
                flop = () if row.cost is None else row.cost.flop
                nbytes = None if row.cost is None else row.cost.compulsory.nbytes
                roofs[id(row.cost)] = _roofs_s(machine, flop, nbytes, factors)
            items.append(_row_item(report, row, roofs[id(row.cost)], pause_s, kernels_alone))
    known, whole = report.prediction or report.predicted_part, report.coverage.complete
    least = report.prediction is None
    counted = report.coverage.counted > 0 or not report.rows
    metrics = []
    if known is not None:
        paused = min(pause_s * known.kernels, known.time_s)
        metrics += [
            Metric(
                "time",
                "s",
                value_of(known.time_s - paused, max(known.low_s - paused, 0.0), known.high_s - paused, least),
                True,
            ),
            Metric("floor", "s", value_of(known.floor_s, least=least), True),
            Metric("overhead", "s", None if kernels_alone else value_of(known.overhead_s, least=least), True),
            Metric("launches", "", value_of(known.kernels, least=least), True),
            Metric(
                "share", "share", value_of(known.floor_s / known.time_s) if known.time_s and not least else None
            ),
        ]
    if report.measured_s is not None:
        metrics.append(Metric("measured", "s", value_of(report.measured_s), True))
    metrics += [
        Metric("flop", "FLOP", value_of(report.flop, least=not whole) if counted else None, True),
        Metric("bytes", "B", value_of(report.nbytes, least=not whole) if counted else None, True),
        Metric("memory", "B", value_of(report.peak_memory_bytes)),
        Metric("coverage", "share", value_of(report.coverage.share)),
    ]
    joules = most_joules(report)
    if joules is not None:
        metrics.append(Metric("energy", "J", value_of(joules), True))
    side = Side(
        name=name,
        kind="Report",
        timing="predicted" if known is not None else "",
        machine=machine,
        mode="" if setting is None else setting.mode,
        samples=report.graph.leading_size,
        formats=tuple((one.engine, one.dtype) for one in report.flop_by),
    )
    if least and known is not None:
        notes.append(
            f"{name}: {len(report.unpredicted):,} operations have no prediction: its time is a lower bound"
        )
    if not whole:
        notes.append(f"{name}: {report.coverage.counted:,} of {report.coverage.ops:,} operations are counted")
    # A what-if on the machine is reckoned by the same model: its errors stay.
    shared = None if setting is None else (machine, setting.constants, setting.cache, setting.power)
    return Read(side, tuple(metrics), tuple(items), True, tuple(notes), shared)


def _row_item(
    report: Report, row: Row, roofs: tuple[float | None, float | None], pause_s: float, kernels_alone: bool
) -> Item:
    op, tensors, one = row.op, report.graph.tensors, row.prediction
    inputs = [tensors[number] for number in op.inputs]
    compute_s, memory_s = (None if each is None else each * op.count for each in roofs)
    timed: dict[str, Any] = {}
    if one is not None:
        paused = pauses.within(one, pause_s)
        timed = {
            "time_s": one.time_s - paused,
            "low_s": max(one.low_s - paused, 0.0),
            "high_s": one.high_s - paused,
            "launches": one.kernels,
            "overhead_s": None if kernels_alone else one.overhead_s,
        }
    measure = Measure(
        count=op.count,
        flop=row.flop,
        nbytes=row.nbytes,
        roof_compute_s=compute_s,
        roof_memory_s=memory_s,
        bound=row.bound,
        binds=row.binds,
        **timed,
    )
    members = op.attrs.get("members", ())
    shapes = " · ".join("x".join(map(str, each.shape)) for each in inputs if each.shape)
    dtype = next((each.dtype for each in inputs), next((tensors[to].dtype for to in op.outputs), ""))
    return Item(op.name, shapes, dtype, op.module, op.kind, op.phase, tuple(map(str, members)), measure)


def _roofs_s(
    machine: Machine | None, flop: tuple[Flop, ...], nbytes: float | None, factors: dict[str, float] | None = None
) -> tuple[float | None, float | None]:
    """Seconds of the FLOP and of the bytes at the theoretical rates of `machine`; None where a rate is unknown."""
    if machine is None or nbytes is None:
        return None, None
    factors = factors or {}
    memory = memory_bandwidth(machine)
    terms, missing = compute_terms(flop, machine)
    # A few FLOP without a peak of their own decide nothing; many do.
    known = sum(one.count for one in missing) <= NEGLIGIBLE_SHARE * sum(one.count for one in flop)
    faster = factors.get("compute", 1.0) * factors.get("clock", 1.0) * factors.get("units", 1.0)
    compute_s = max((term.seconds for term in terms), default=0.0) / faster if known else None
    return compute_s, None if memory is None else nbytes / memory[1].value / factors.get("bandwidth", 1.0)


def _profile(name: str, profile: Profile) -> Read:
    items, formats = tuple(_profile_item(profile.machine, row) for row in profile.rows), {}
    for row in profile.rows:
        for one in () if row.cost is None else row.cost.flop:
            formats[one.engine, one.dtype] = None
    nbytes = [row.nbytes for row in profile.rows]
    moved = [one for one in nbytes if one is not None]
    # Kernels of one sort are slow together: their bars add.
    lows = [item.measure.low_s for item in items]
    highs = [item.measure.high_s for item in items]
    barred = [(low, high) for low, high in zip(lows, highs, strict=True) if low is not None and high is not None]
    bars: tuple[float | None, float | None] = (None, None)
    if (
        barred
        and sum(item.measure.time_s or 0 for item in items if item.measure.low_s is not None)
        > 0.5 * profile.time_s
    ):
        rest = sum(item.measure.time_s or 0 for item in items if item.measure.low_s is None)
        bars = sum(low for low, _ in barred) + rest, sum(high for _, high in barred) + rest
    counted = [row.flop for row in profile.rows if row.flop is not None]
    metrics = [
        Metric("time", "s", value_of(profile.time_s, *bars), True),
        Metric("launches", "", value_of(float(sum(item.measure.launches or 0 for item in items))), True),
        Metric("flop", "FLOP", value_of(sum(counted), least=len(counted) < len(items)) if counted else None, True),
        Metric("bytes", "B", value_of(sum(moved), least=len(moved) < len(nbytes)) if moved else None, True),
        Metric("coverage of time", "share", value_of(profile.coverage)),
    ]
    floors = [None if row.prediction is None else row.prediction.floor_s for row in profile.rows]
    known = [floor for floor in floors if floor is not None]
    if known:
        whole = len(known) == len(floors)
        metrics.append(Metric("floor", "s", value_of(math.fsum(known), least=not whole), True))
        share = math.fsum(known) / profile.time_s if whole and profile.time_s else None
        metrics.append(Metric("share", "share", value_of(share)))
    for device in profile.timeline.devices:
        of = "" if len(profile.timeline.devices) == 1 else f" of device {device.device}"
        metrics += [
            Metric(f"span{of}", "s", value_of(device.span_s), True),
            Metric(f"idle{of}", "s", value_of(device.idle_s), True),
        ]
    side = Side(name=name, kind="Profile", timing="measured", machine=profile.machine, formats=tuple(formats))
    waits: dict[str, float] = {}
    for idle in (one for device in profile.timeline.devices for one in device.idle):
        waits[idle.cause] = waits.get(idle.cause, 0.0) + idle.seconds
    span_s = sum(device.span_s for device in profile.timeline.devices) if profile.timeline.devices else None
    return Read(side, tuple(metrics), items, waits=tuple(waits.items()), span_s=span_s)


def _profile_item(machine: Machine | None, row: ProfileRow) -> Item:
    flop = () if row.cost is None else row.cost.flop
    compute_s, memory_s = _roofs_s(machine, flop, None if row.cost is None else row.cost.compulsory.nbytes)
    spread = row.executions >= _FEWEST_RUNS
    seen = row.observation
    measure = Measure(
        count=row.executions,
        time_s=row.time_s,
        # What the executions of one operation vary by, all of them alike.
        low_s=min(seen.low_s * row.executions, row.time_s) if spread else None,
        high_s=max(seen.high_s * row.executions, row.time_s) if spread else None,
        flop=row.flop,
        nbytes=row.nbytes,
        launches=float(sum(kernel.runs for kernel in seen.kernels)),
        roof_compute_s=None if compute_s is None else compute_s * row.executions,
        roof_memory_s=None if memory_s is None else memory_s * row.executions,
        bound=row.bound,
        binds=row.binds,
    )
    return Item(row.name, row.shapes, row.dtype, row.module, row.kind, row.phase, (), measure)


def _loop(name: str, loop: LoopReport) -> Read:
    run, predicted = loop.run(), loop.prediction
    counts = loop.warm or loop.simulation
    moved = counts.memory_read_bytes + counts.memory_write_bytes
    least = not loop.complete
    time = None if run is None else value_of(run.median_s, run.best_s, run.median_s * (1 + run.spread))
    timing = "measured" if run is not None else "predicted" if predicted is not None else ""
    if time is None and predicted is not None:
        low, high = predicted.low_s, predicted.high_s
        ends = (predicted.overlapped_s, predicted.serial_s) if low is None or high is None else (low, high)
        time = value_of(predicted.time_s, *ends)
    metrics = [
        Metric("time", "s", time, True),
        Metric("predicted", "s", None if predicted is None else value_of(predicted.time_s), True),
        Metric("flop", "FLOP", value_of(loop.flop, least=least), True),
        Metric("bytes", "B", value_of(moved, least=least), True),
        Metric("accesses", "", value_of(loop.accesses, least=least), True),
    ]
    for each in loop.runs:
        if each is not run:
            what = f"time, {each.threads} thread{'s' if each.threads > 1 else ''}, {each.cache}"
            metrics.append(
                Metric(what, "s", value_of(each.median_s, each.best_s, each.median_s * (1 + each.spread)), True)
            )
    metrics += [
        Metric(f"{level.name} misses", "", value_of(level.misses, least=least), True) for level in counts.levels
    ]
    compute_s = memory_s = None
    if loop.machine is not None:
        peaks = [(one, loop.machine.peak(one.dtype, engine=one.engine, scope="core")) for one in loop.flop_by]
        if all(peak is not None for _, peak in peaks):
            compute_s = sum(one.count / peak.value for one, peak in peaks if peak is not None)
        far = loop.points[-1] if loop.points else None
        memory_s = moved / far.bytes_per_s if far is not None and far.bytes_per_s else None
    measure = Measure(
        time_s=None if time is None or least else time.value,
        low_s=None if time is None else time.low,
        high_s=None if time is None else time.high,
        flop=loop.flop,
        nbytes=moved,
        roof_compute_s=compute_s,
        roof_memory_s=memory_s,
        bound=loop.bound,
        binds=loop.binds,
    )
    arguments = ", ".join(f"{key} {value}" for key, value in loop.arguments.items())
    item = Item(loop.name, arguments, "", "", "loop", "forward", (), measure)
    formats = tuple((one.engine, one.dtype) for one in loop.flop_by)
    side = Side(name=name, kind="LoopReport", timing=timing, machine=loop.machine, formats=formats)
    notes = (f"{name}: counted until {loop.stopped_at}: its counts are lower bounds",) if least else ()
    return Read(side, tuple(metrics), (item,), True, notes)


def _machine(name: str, machine: Machine) -> Read:
    metrics = []
    for level in machine.levels:
        metrics.append(Metric(f"{level.name} capacity", "B", value_of(level.capacity_bytes)))
        metrics.append(Metric(f"{level.name} latency", "s", barred(level.latency_s, level.latency_spread)))
        for basis in ("theoretical", "attained"):
            rate = level.rate(basis=basis)
            if rate is not None and rate.per_s == "byte":
                value = barred(rate.median or rate.value, rate.spread)
                metrics.append(Metric(f"{level.name} bandwidth, {basis}", "B/s", value))
    for one in machine.peaks:
        dtype, engine, basis = one.dtype, one.engine, one.basis
        rate = machine.peak(dtype or "", engine=engine, basis=basis)
        if rate is not None and rate.per_s in ("flop", "op"):
            value = barred(rate.median or rate.value, rate.spread)
            unit = "FLOP/s" if rate.per_s == "flop" else "OP/s"
            metrics.append(Metric(f"{dtype} {engine} peak, {basis}", unit, value))
    for link in machine.links:
        metrics.append(Metric(f"{link.name} each way", "B/s", barred(link.each_way_bytes_per_s, link.spread)))
    metrics.append(Metric("compute units", "", value_of(machine.compute_units)))
    metrics.append(Metric("power", "W", value_of(machine.tdp_w)))
    formats = tuple(form for form in _DRAWN if machine.peak(form[1], engine=form[0]) is not None)
    side = Side(name=name, kind="Machine", machine=machine, formats=formats)
    return Read(side, tuple(distinct(metrics)))


# Whose roofs tell machines apart.
_DRAWN: tuple[tuple[Engine, str], ...] = (("vector", "fp64"), ("vector", "fp32"), ("matrix", "bf16"))


def _simulation(name: str, simulation: Simulation) -> Read:
    least = not simulation.complete
    metrics = [
        Metric("accesses", "", value_of(simulation.accesses, least=least)),
        Metric("memory read", "B", value_of(simulation.memory_read_bytes, least=least)),
        Metric("memory written", "B", value_of(simulation.memory_write_bytes, least=least)),
        Metric("bytes", "B", value_of(simulation.memory_read_bytes + simulation.memory_write_bytes, least=least)),
    ]
    for level in (*simulation.levels, *simulation.tlbs):
        metrics += [
            Metric(f"{level.name} misses", "", value_of(level.misses, least=least)),
            Metric(f"{level.name} hit rate", "share", value_of(level.hit_rate)),
        ]
    metrics += [Metric(f"{one.name} time", "s", value_of(one.time_s, least=least)) for one in simulation.times]
    notes = (f"{name}: cut short by a time bound: its counts are lower bounds",) if least else ()
    return Read(Side(name=name, kind="Simulation"), tuple(distinct(metrics)), notes=notes)


def _tiles(name: str, sweep: TileSweep) -> Read:
    metrics = []
    best = next((tile for tile in sweep.tiles if tile.sizes.items() >= sweep.best.items()), None)
    if best is not None:
        timed = best.measured_s if best.measured_s is not None else best.predicted_s
        metrics.append(Metric("time", "s", barred(timed, best.spread if best.measured_s is not None else None)))
        metrics += [Metric(f"{level} bytes", "B", value_of(moved)) for level, moved in best.traffic_bytes.items()]
    metrics += [Metric(f"best {size}", "", value_of(value)) for size, value in sweep.best.items()]
    timing = "measured" if best is not None and best.measured_s is not None else "predicted"
    side = Side(name=name, kind="TileSweep", timing=timing, machine=sweep.machine)
    return Read(side, tuple(metrics), notes=(f"{name}: of the best tile sizes",))


def _transfer(name: str, transfer: Transfer) -> Read:
    least = bool(transfer.unknown)
    metrics = [
        Metric("time", "s", value_of(transfer.time_s, least=least)),
        Metric("bytes", "B", value_of(transfer.nbytes)),
        Metric("rate", "B/s", None if least else value_of(transfer.bytes_per_s)),
        *(Metric(f"{each.stage.name} time", "s", value_of(each.time_s)) for each in transfer.stages),
    ]
    if transfer.feed is not None:
        metrics.append(Metric("device idle", "share", value_of(transfer.feed.idle)))
    return Read(Side(name=name, kind="Transfer", timing="predicted"), tuple(distinct(metrics)))


_READERS: dict[str, Callable[..., Read]] = {
    "Report": _report,
    "Profile": _profile,
    "LoopReport": _loop,
    "Machine": _machine,
    "Simulation": _simulation,
    "TileSweep": _tiles,
    "Transfer": _transfer,
    **measured_sides.READERS,
}
COMPARED = tuple(_READERS)
