"""What is compared of results that were measured as a whole, and of served models."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

from rooflab.comparing.side import Metric, Read, barred, distinct, value_of
from rooflab.types.comparison import Side, Value
from rooflab.types.fleet import Fleet
from rooflab.types.run import Run
from rooflab.types.serving import Estimate, Serving
from rooflab.types.timed_call import CallTimes, TimedCall

_NODES = 8  # fewer than that are compared one by one, too


def _timed_call(name: str, timed: TimedCall) -> Read:
    metrics = [Metric("time", "s", _call(timed.warm), True)]
    if timed.cold is not None:
        metrics.append(Metric("time, cold caches", "s", _call(timed.cold), True))
    metrics.append(Metric("first call", "s", value_of(timed.first_s)))
    report, own = timed.report, timed.warm.own
    if report is not None and report.coverage.counted:
        least = not report.coverage.complete
        metrics += [
            Metric("flop", "FLOP", value_of(report.flop, least=least), True),
            Metric("bytes", "B", value_of(report.nbytes, least=least), True),
        ]
    if own is not None:
        metrics.append(Metric("share", "share", value_of(own.of_roof)))
    machine = None if report is None else report.machine
    side = Side(name=name, kind="TimedCall", timing="measured", machine=machine)
    return Read(side, tuple(metrics))


def _call(times: CallTimes) -> Value | None:
    return value_of(times.median_s, times.low_s, times.high_s)


def _run(name: str, run: Run) -> Read:
    metrics = [
        Metric("time", "s", _of_runs(one.wall_s for one in run.usage), True),
        Metric("CPU time", "s", _of_runs(one.user_s + one.system_s for one in run.usage), True),
        Metric("CPU time in the kernel", "s", _of_runs(one.system_s for one in run.usage), True),
        Metric("memory", "B", _of_runs(one.peak_memory_bytes for one in run.usage)),
        Metric("page faults from storage", "", _of_runs(one.major_faults for one in run.usage), True),
        Metric("read from storage", "B", _of_runs(one.storage_read_bytes for one in run.usage), True),
        Metric("written to storage", "B", _of_runs(one.storage_written_bytes for one in run.usage), True),
    ]
    for event in dict.fromkeys(one.event for one in run.counts):
        values = [one.value for one in run.counts if one.event == event]
        metrics.append(Metric(event, "", _of_runs(values), True))
    notes = () if not run.exit_code else (f"{name}: the command ended with exit code {run.exit_code}",)
    return Read(Side(name=name, kind="Run", timing="measured"), tuple(distinct(metrics)), notes=notes)


def _of_runs(values: Iterable[float | None]) -> Value | None:
    """The median of several runs, between the least and the most of them; None where a run lacks it."""
    found = list(values)
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    bar = (min(known), max(known)) if len(known) > 2 else (None, None)
    return value_of(float(statistics.median(known)), *bar)


def _fleet(name: str, fleet: Fleet) -> Read:
    metrics = [Metric("nodes", "", value_of(len(fleet.nodes)))]
    confirmed = {one.node for one in fleet.slow if one.confirmed is not False}
    metrics.append(Metric("nodes that stand apart", "", value_of(len(confirmed))))
    metrics.append(Metric("not measured", "", value_of(sum(one.machine is None for one in fleet.nodes))))
    several = len({one.kind for one in fleet.quantities}) > 1
    for each in fleet.quantities:
        of = f" of {each.kind}" if several else ""
        metrics.append(Metric(f"{each.name}{of}", each.unit, barred(each.median, each.spread)))
    if len(fleet.nodes) < _NODES:
        for each in fleet.quantities:
            metrics += [
                Metric(f"{each.name}: {node}", each.unit, value_of(value)) for node, value in each.values.items()
            ]
    return Read(Side(name=name, kind="Fleet", timing="measured"), tuple(distinct(metrics)))


def _serving(name: str, served: Serving) -> Read:
    metrics = [
        Metric("time to first token", "s", _estimate(served.ttft)),
        Metric("time per token", "s", None if served.tpot is None else _estimate(served.tpot)),
        Metric("wait for a place", "s", value_of(served.queue_s)),
        Metric("requests per second", "", value_of(served.requests_per_s)),
        Metric("tokens per second", "", value_of(served.output_tokens_per_s)),
        Metric("running requests", "", value_of(served.running)),
        Metric("memory", "B", value_of(served.memory.total)),
        Metric("price per hour", "", value_of(served.price_per_hour)),
    ]
    return Read(Side(name=name, kind="Serving", timing="predicted"), tuple(metrics))


def _estimate(one: Estimate) -> Value | None:
    return value_of(one.time_s, one.low_s, one.high_s)


READERS: dict[str, Callable[..., Read]] = {
    "TimedCall": _timed_call,
    "Run": _run,
    "Fleet": _fleet,
    "Serving": _serving,
}
