"""What else happened while a command ran: other processes, other guests, a quota that was used up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rooflab.machines.detect.files import Tree
from rooflab.machines.detect.limits import throttled_s

if TYPE_CHECKING:
    from rooflab.types.usage import Meanwhile, Usage


class Moment(NamedTuple):
    """Sums since the machine started, in seconds of CPUs; None where /proc does not say."""

    busy_s: float | None
    stolen_s: float | None
    throttled_s: float | None


def moment(root: Path = Path("/"), stat: str | None = None) -> Moment:
    """The sums as they are now; those of /proc/stat from its first line `stat`, where it was read before."""
    tree = Tree.at(root)
    line = ((tree.text("proc/stat") or "").partition("\n")[0] if stat is None else stat).split()
    if len(line) < 9 or line[0] != "cpu" or not all(word.isdigit() for word in line[1:]):
        return Moment(None, None, throttled_s(tree))
    # user nice system idle iowait irq softirq steal; guests are in user already (proc_stat(5)).
    user, nice, system, _, _, irq, softirq, steal = (int(word) / _ticks_hz() for word in line[1:9])
    return Moment(user + nice + system + irq + softirq, steal, throttled_s(tree))


def between(before: Moment, after: Moment, usage: Usage, own_cpu_s: float = 0.0) -> Meanwhile:
    """What happened from `before` to `after` beside the command, and beside `own_cpu_s` of this process."""
    from rooflab.types.usage import Meanwhile

    others = _less(after.busy_s, before.busy_s)
    return Meanwhile(
        others_cpu_s=None if others is None else max(others - usage.cpu_s - own_cpu_s, 0.0),
        stolen_s=_less(after.stolen_s, before.stolen_s),
        throttled_s=_less(after.throttled_s, before.throttled_s),
    )


def _less(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else max(after - before, 0.0)


def _ticks_hz() -> float:
    return float(os.sysconf("SC_CLK_TCK"))
