"""Energy of a predicted program: its time at the power that its card may draw at most; a bound, no estimate."""

from __future__ import annotations

from rooflab.types.machine import Machine
from rooflab.types.report import Report

# Of these the stated power is a limit that the card keeps. That of a processor is what its cooler must carry away:
# bursts draw more, so it bounds nothing.
_LIMITED = ("gpu", "tpu", "asic")
# What-ifs that leave the machine as it is; any other makes one whose power nobody states.
_SAME_MACHINE = ("dispatch", "overhead")


def power_limit_w(machine: Machine | None) -> float | None:
    """Watts that `machine` draws at most; None where it states none, or one that bursts exceed."""
    return machine.tdp_w if machine is not None and machine.kind in _LIMITED else None


def most_joules(report: Report) -> float | None:
    """Joules of one run of `report` at most, the host left out; None where time or power is unknown."""
    limit = power_limit_w(report.machine)
    changed = report.setting is not None and any(name not in _SAME_MACHINE for name in report.setting.what_if)
    if limit is None or report.time_s is None or changed:
        return None
    return limit * report.time_s


def least_flop_per_joule(report: Report) -> float | None:
    """FLOP for each joule at least; None where energy is unknown, or not every operation is counted."""
    joules = most_joules(report)
    if not joules or not report.coverage.complete or not report.flop:
        return None
    return report.flop / joules
