"""Where a machine's theoretical rates come from: the factors that it states, and their product."""

from __future__ import annotations

from collections.abc import Callable

from rooflab import units
from rooflab.types.machine import Machine, Rate
from rooflab.views.common.table import Table, rate_text

_BITS_A_BYTE = 8
_COUNTED = {"byte": "B", "flop": "FLOP", "op": "OP", "inst": "instructions", "transaction": "transactions"}


def factors(machine: Machine, instruction: Callable[[Rate], str]) -> Table:
    """Data rate × width of each memory, units × work a clock × clock of each peak; `instruction` names a peak."""
    rows = []
    for level in machine.levels:
        if level.transfers_per_s and level.bus_bits:
            product = level.transfers_per_s * level.bus_bits / _BITS_A_BYTE
            pins = f"{level.transfers_per_s / units.GIGA:.4g} Gbit/s a pin × {level.bus_bits:,} bit ÷ 8"
            stated = level.rate(scope="all", basis="theoretical")
            rows.append((level.name, pins, units.si(product, "B/s"), rate_text(stated)))
    named = [(level.name, rate) for level in machine.levels for rate in level.rates]
    named += [(instruction(rate), rate) for rate in machine.peaks]
    whole = {name for name, rate in named if rate.scope == "all" and rate.basis == "theoretical"}
    for name, rate in named:
        # What one core does is the same product of one unit.
        if rate.basis == "theoretical" and (rate.scope == "all" or name not in whole):
            rows += _row(machine, name, rate)
    note = (
        "FLOP a clock: 2 for each lane of each pipe where it is a fused multiply-add. "
        "Stated: what the machine's file has; the product should be near it."
    )
    return Table("Where theory comes from", ("rate", "factors", "product", "stated"), tuple(rows), 2, note)


def _row(machine: Machine, name: str, rate: Rate) -> list[tuple[str, str, str, str]]:
    if not (rate.clock_hz and rate.units and rate.per_unit_per_clock):
        return []
    product = rate.units * rate.per_unit_per_clock * rate.clock_hz
    counted = _COUNTED.get(rate.per_s, rate.per_s)
    unit = machine.compute_unit or "unit"
    many = f"{rate.units:,} {unit}{'s' if rate.units != 1 else ''}"
    text = f"{many} × {rate.per_unit_per_clock:,.6g} {counted} a clock × {units.si(rate.clock_hz, 'Hz')}"
    where = "" if rate.scope == "all" else f", one {rate.scope}"
    return [(f"{name}{where}", text, units.si(product, f"{counted}/s"), rate_text(rate))]
