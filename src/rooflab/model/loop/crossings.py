"""What crosses to each level in a warm run of a loop, and the level of a machine that serves it."""

from __future__ import annotations

from rooflab.types.loop import LoopReport
from rooflab.types.machine import Level, Machine, is_main_memory


def of(report: LoopReport) -> list[tuple[str, float, float]]:
    """(level that serves, bytes read, bytes written) of a warm run, L1 first."""
    simulation = report.warm or report.simulation
    read, write = _at_l1(report)
    crossings = [(simulation.levels[0].name, read, write)]
    names = [level.name for level in simulation.levels[1:]] + ["memory"]
    for name, near in zip(names, simulation.levels, strict=True):
        crossings.append((name, float(near.read_bytes), float(near.write_bytes)))
    return crossings


def _at_l1(report: LoopReport) -> tuple[float, float]:
    code = report.code
    if code is not None and code.read_bytes is not None and code.write_bytes is not None:
        return code.read_bytes, code.write_bytes
    # The source's own accesses, where the compiled loop is not known: as many or more.
    return float(report.accessed_bytes) - report.stored_bytes, float(report.stored_bytes)


def level(machine: Machine, name: str) -> Level | None:
    """The level of that name; "memory" is the main one. None where the machine states none."""
    if name == "memory":
        return next((each for each in machine.levels if is_main_memory(each)), None)
    return next((each for each in machine.levels if each.name == name), None)
