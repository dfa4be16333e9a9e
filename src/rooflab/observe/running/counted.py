"""What perf counted of a command's executions, put together: each event, FLOP and bytes of one execution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rooflab.machines.events import INSTRUCTIONS, Events, leaves_out
from rooflab.observe.importers.counters import perf_lines, perf_stat
from rooflab.observe.importers.counters.cpu_events import squashed
from rooflab.observe.importers.counters.perf_lines import Reading
from rooflab.types.counted import Counters
from rooflab.types.run import Count
from rooflab.units import si

_DIFFERS = 0.05  # of the instructions of two executions: beyond, they did not do the same
_WHOLE = 0.999  # of the time


class Found(NamedTuple):
    """What was counted.

    Attributes:
        counts: each event of each execution.
        counters: of one execution; None where nothing was counted.
        sentences: what follows from a bound.
        notes: doubts.
    """

    counts: tuple[Count, ...]
    counters: Counters | None
    sentences: tuple[str, ...]
    notes: tuple[str, ...]


def together(texts: Sequence[str], events: Events, *, name: str, time_s: float, cpu: str) -> Found:
    """What perf wrote of each execution, as one.

    Args:
        texts: perf's output, one for each execution; "" where it did not count.
        events: that were asked for.
        name: of the command.
        time_s: of one execution.
        cpu: its name.
    """
    runs = [[one for run in perf_lines.read(text).runs for one in run.readings if one.event] for text in texts]
    counts = tuple(
        Count(event=one.event, value=one.value, unit=one.unit, running=one.running, run=number)
        for number, readings in enumerate(runs, 1)
        for one in readings
    )
    means = list(_means(runs))
    if not any(one.value is not None for one in means):
        return Found(counts, None, (), ())
    counters = perf_stat.counted(means, name, time_s, cpu)
    return Found(counts, counters, tuple(_bounded(means, events, counters)), tuple(_doubts(runs, means, events)))


def _means(runs: Sequence[Sequence[Reading]]) -> Iterator[Reading]:
    """Each event once: the mean of the executions that counted it, and the least share of the time."""
    by_event: dict[tuple[str, str], list[Reading]] = {}
    for readings in runs:
        for one in readings:
            by_event.setdefault((one.event, one.scope), []).append(one)
    for several in by_event.values():
        values = [one for one in several if one.value is not None]
        if not values:
            yield several[0]
            continue
        mean = sum(one.value or 0.0 for one in values) / len(values)
        yield values[0]._replace(value=mean, running=min(one.running for one in values))


def _bounded(readings: Sequence[Reading], events: Events, counters: Counters) -> Iterator[str]:
    """The least that was read from memory, where memory itself was not counted."""
    if events.bound is None:
        return
    name, each = events.bound
    value = next((one.value for one in readings if squashed(one.event) == squashed(name)), None)
    if value is None:
        return
    nbytes = value * each
    (row,) = counters.rows
    flop = row.total_flop
    most = f": at most {flop / nbytes:.3g} FLOP/B" if flop and nbytes else ""
    rate = f" ({si(nbytes / row.time_s, 'B/s')})" if row.time_s else ""
    yield (
        f"At least {si(nbytes, 'B')}{rate} were read from memory{most}; {name} × {each} B, without "
        f"{leaves_out(name)}."
    )


def _doubts(runs: Sequence[Sequence[Reading]], means: Sequence[Reading], events: Events) -> Iterator[str]:
    counted = [
        one.value
        for readings in runs
        for one in readings
        if squashed(one.event) == INSTRUCTIONS and one.value and one.running >= _WHOLE
    ]
    if len(counted) > 1 and max(counted) > (1 + _DIFFERS) * min(counted):
        yield (
            f"its executions differ: {min(counted):.4g} to {max(counted):.4g} instructions; what was counted in "
            "different ones does not belong to one"
        )
    sets = len(events.sets)
    if sets > len(runs) and any(one.running < _WHOLE for one in means):
        yield (
            f"the CPU counts these events in {sets} sets: --runs {sets} counts each whole, one set an execution"
        )
