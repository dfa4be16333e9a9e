"""What does this environment grant, and what does it lack?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rooflab.types.checkup import Checkup


def doctor(*, quick: bool = False, progress: Callable[[str, float, float], None] | None = None) -> Checkup:
    """What this environment grants to rooflab and what it lacks, each with what that means and what to do.

    Hardware counters are tried by opening one; libraries and extras by a tiny real use, each in a process of its
    own, all within 10 s. What did not answer in time is "unknown", which is never taken for "ok".

    Args:
        quick: look only, try no library and no tool: under a second.
        progress: called with what has answered, how many have, how many there are.

    >>> import rooflab
    >>> found = rooflab.doctor(quick=True)
    >>> found.grant("Python").status
    'ok'
    """
    from rooflab.machines.checkup.examine import examine

    return examine(quick, progress)
