"""A CPU of which one core works: what a library does that was told to use one thread."""

from __future__ import annotations

import msgspec

from rooflab.types.machine import Level, Machine, Rate, is_main_memory


def one_core(machine: Machine) -> Machine:
    """`machine` with one of its cores: its own rates where they are stated, else an equal share of all cores'.

    The main memory keeps its rates: how much of them one core draws is the kernel model's part.
    """
    units = machine.compute_units or 1
    return msgspec.structs.replace(
        machine,
        compute_units=1,
        peaks=_of_one(machine.peaks, units),
        levels=tuple(_level(level, units) for level in machine.levels),
    )


def _level(level: Level, units: int) -> Level:
    rates = level.rates if is_main_memory(level) else _of_one(level.rates, units)
    # What others would share is its own.
    return msgspec.structs.replace(level, rates=rates)


def _of_one(rates: tuple[Rate, ...], units: int) -> tuple[Rate, ...]:
    own = {_key(rate): rate for rate in rates if rate.scope == "core"}
    kept = [rate for rate in rates if rate.scope != "all"]
    for rate in rates:
        if rate.scope == "all":
            value = own[_key(rate)].value if _key(rate) in own else rate.value / units
            kept.append(msgspec.structs.replace(rate, value=value, units=None, per_unit_per_clock=None))
    return tuple(kept)


def _key(rate: Rate) -> tuple[object, ...]:
    return rate.per_s, rate.what, rate.dtype, rate.engine, rate.basis, rate.stores
