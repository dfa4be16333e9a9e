"""The rules in the order in which they are asked, and what they found in a profile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from rooflab.model.diagnosis import above_roof, accesses, device, run
from rooflab.types.finding import Finding
from rooflab.types.profile import Profile


class Rule(NamedTuple):
    """One rule: what it looks for, and the function that looks."""

    name: str
    looks_for: str
    look: Callable[[Profile], Iterator[Finding]]


RULES = (
    Rule("above roof", "a share of a roof over 1, and what would explain it", above_roof.look),
    Rule("below floor", "an operation that took less than its floor", above_roof.below_floor),
    Rule("over 100 %", "a share that the tool itself prints over 100 %", device.over_all),
    Rule("wrong card", "a device that is not the machine it is held against", device.other_card),
    Rule("sparse peak", "a matrix peak that only sparse operands reach", device.sparse_peak),
    Rule("clock", "a run at another clock than that of the roofs", device.clock),
    Rule("idle", "a device that waits", run.idle),
    Rule("slower than predicted", "time over the prediction's bar", run.slower),
    Rule("uncoalesced", "sectors of which threads use a part", accesses.uncoalesced),
    Rule("bank conflicts", "passes through shared memory that conflicts cost", accesses.conflicts),
    Rule("predication", "threads that stand idle in their warps", accesses.predication),
    Rule("amplification", "main memory moving more than is asked for", accesses.amplification),
    Rule("cache-resident", "main memory moving less than is asked for", accesses.resident),
    Rule("spills", "registers that are kept in local memory", accesses.spills),
    Rule("far from every roof", "kernels that no roof explains, with their occupancy", accesses.latency),
    Rule("no FLOP", "kernels that only move data", accesses.without_flop),
)


def diagnose(profile: Profile) -> tuple[Finding, ...]:
    """What the rules find in `profile`: doubts first, then causes, each most time first."""
    findings = [finding for rule in RULES for finding in rule.look(profile)]
    return tuple(sorted(findings, key=lambda one: (one.kind != "doubt", -one.time_s)))
