"""Cache lines that the threads of OpenMP's teams take from one another, of a run that was recorded."""

from __future__ import annotations

import msgspec
import numpy as np

from rooflab.loops import shared_lines
from rooflab.loops.c.openmp import team as teams
from rooflab.types.shared_lines import SharedLines


def of(team: teams.Team, ran: teams.Ran, line_bytes: int) -> tuple[SharedLines, ...]:
    """The lines that are taken within regions; what the first thread does alone is left out."""
    threads, phases = _whose(ran)
    chosen = threads >= 0
    recorded = shared_lines.Recorded(ran.records[chosen], ran.refs[chosen], threads[chosen], phases[chosen])
    objects = sorted(team.layout.objects.values(), key=lambda each: each.low)

    def array_at(address: int) -> str:
        for each in objects:
            # a line that begins before it may hold its first bytes
            if each.low - line_bytes < address < each.low + each.nbytes:
                return team.names.get(each.name, each.name)
        return "memory of malloc's"

    found = shared_lines.of(recorded, ran.threads, line_bytes, team.lines, array_at)
    if ran.recorded >= 1:
        return found
    return tuple(
        msgspec.structs.replace(
            each,
            taken=round(each.taken / ran.recorded),
            falsely=round(each.falsely / ran.recorded),
            in_turn=round(each.in_turn / ran.recorded),
        )
        for each in found
    )


def _whose(ran: teams.Ran) -> tuple[np.ndarray, np.ndarray]:
    """Of each record its thread, −1 where the first one is alone, and the number of barriers before it."""
    count = len(ran.records)
    places, who = ran.switches[:, 0], ran.switches[:, 1]
    number = np.searchsorted(places, np.arange(count), side="right") - 1
    threads = np.where(number >= 0, who[np.maximum(number, 0)], -1) if len(who) else np.full(count, -1)
    phases = np.cumsum(who == -1)[np.maximum(number, 0)] if len(who) else np.zeros(count, np.int64)
    return np.where(threads >= 0, threads, -1), phases
