"""The rates of a machine as rows of numbers: memory levels near to far, peaks, clocks, links."""

from __future__ import annotations

from collections.abc import Iterator

from rooflab.types.machine import Machine, Rate
from rooflab.views.common.lines import Lines

_OF_RATE = (
    *("what", "dtype", "engine", "scope", "threads", "stores", "basis", "per_s", "value"),
    *("clock_hz", "median", "spread", "runs", "note"),
)
COLUMNS = ("machine", "part", "name", "capacity_bytes", "latency_s", *_OF_RATE, "source")


def lines(machine: Machine) -> Lines:
    """A line for each rate of `machine`, in base units, and one for each level without any; unknown is empty."""
    return Lines(COLUMNS, list(_rows(machine)))


def _rows(machine: Machine) -> Iterator[tuple[object, ...]]:
    nothing = (None,) * (len(_OF_RATE) + 1)
    for level in machine.levels:
        head = (machine.name, "level", level.name, level.capacity_bytes, level.latency_s)
        yield from ((*head, *_cells(rate)) for rate in level.rates)
        if not level.rates:
            yield (*head, *nothing)
    for part, rates in (("peak", machine.peaks), ("clock", machine.clocks)):
        yield from ((machine.name, part, rate.dtype or rate.what, None, None, *_cells(rate)) for rate in rates)
    for link in machine.links:
        place = _OF_RATE.index("value")
        cells = [None] * (len(_OF_RATE) + 1)
        cells[_OF_RATE.index("what")], cells[_OF_RATE.index("per_s")] = "each way", "byte"  # type: ignore[call-overload]
        cells[place], cells[-1] = link.each_way_bytes_per_s, link.source.ref  # type: ignore[call-overload]
        yield (machine.name, "link", link.name, None, link.latency_s, *cells)


def _cells(rate: Rate) -> tuple[object, ...]:
    return (*(getattr(rate, name) for name in _OF_RATE), rate.source.ref)
