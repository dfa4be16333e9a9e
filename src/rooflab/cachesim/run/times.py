"""How long a simulation's traffic would take at a machine's bandwidths, and at its latencies."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rooflab.types.machine import Level, Machine, Rate, is_main_memory
from rooflab.types.simulation import LevelTime, Simulation


def time_on(simulation: Simulation, machine: Machine) -> Simulation:
    """`simulation` with a time for each level of `machine` that it asked bytes of, near to far.

    Bytes over one core's bandwidth where the machine states one, else over the whole divided by its units (but
    the whole of main memory's); attained before theoretical. Beside it requests times latency: what it would
    take if each waited for the one before.
    """
    asked = [(simulation.levels[0].name, simulation.accessed_bytes, simulation.levels[0].requests)]
    for level, next_level in zip(simulation.levels, [*simulation.levels[1:], None], strict=True):
        name = next_level.name if next_level else "memory"
        nbytes = level.read_bytes + level.write_bytes
        asked.append((name, nbytes, level.read_bytes // level.cache.unit_bytes))
    times = [_time(name, nbytes, requests, machine) for name, nbytes, requests in asked]
    return msgspec.structs.replace(simulation, times=tuple(each for each in times if each is not None))


def _time(name: str, nbytes: int | None, requests: int, machine: Machine) -> LevelTime | None:
    level = next((each for each in machine.levels if each.name == name), None)
    if name == "memory":
        level = next((each for each in machine.levels if is_main_memory(each)), None)
    if level is None or nbytes is None:
        return None
    rate, share = _rate(level, machine)
    speed = None if rate is None else rate.value * share
    return LevelTime(
        name=level.name,
        nbytes=nbytes,
        bytes_per_s=speed,
        time_s=None if speed is None else nbytes / speed,
        latency_s=level.latency_s,
        serial_s=None if level.latency_s is None else requests * level.latency_s,
        basis=None if rate is None else rate.basis,
    )


def _rate(level: Level, machine: Machine) -> tuple[Rate | None, float]:
    units = machine.compute_units or 1
    choices: Sequence[tuple[str, str, float]] = (
        ("core", "attained", 1.0),
        ("sm", "attained", 1.0),
        ("all", "attained", 1.0 if is_main_memory(level) else 1 / units),
        ("core", "theoretical", 1.0),
        ("all", "theoretical", 1.0 if is_main_memory(level) else 1 / units),
    )
    for scope, basis, share in choices:
        rate = level.rate(scope=scope, basis=basis)  # type: ignore[arg-type]
        if rate is not None:
            return rate, share
    return None, 1.0
