"""A machine's ladder as people see it: its memory hierarchy from registers to the internet."""

from __future__ import annotations

from collections.abc import Sequence

from rooflab.machines.ladder import Rung
from rooflab.types.machine import Machine
from rooflab.views.common import sheet as sheets
from rooflab.views.common.files import Writer, json_text
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table, capacity, lasting, quantity


def sheet_of(machine: Machine, rungs: Sequence[Rung]) -> Sheet:
    """What is shown of the `rungs` of `machine`: what each step away costs."""
    rows = [
        (
            rung.name,
            capacity(rung.capacity_bytes),
            quantity(rung.bytes_per_s, "B/s"),
            rung.basis or UNKNOWN,
            lasting(rung.latency_s),
            lasting(rung.time_s),
            UNKNOWN if rung.slower is None else f"{rung.slower:.3g} ×",
        )
        for rung in rungs
    ]
    columns = ("level", "capacity", "bandwidth", "basis", "latency", "1 GB takes", "slower")
    note = (
        "Slower: times the level before. What lies beyond the machine's own levels and links is typical "
        "equipment, assumed. Dashes are unknown, not zero."
    )
    return Sheet(machine.name, "ladder", tables=(Table("From near to far", columns, tuple(rows), note=note),))


def writers(machine: Machine) -> dict[str, Writer]:
    """The files that the rungs of `machine` are written to."""
    return {
        ".json": lambda rungs: json_text([rung._asdict() for rung in rungs]).encode(),
        ".html": lambda rungs: sheets.html(sheet_of(machine, rungs)).encode(),
    }
