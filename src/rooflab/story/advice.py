"""What would help?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.types.report import Report


def advise(report: Report, *, at_batch: Callable[[int], Report] | None = None, batch: int | None = None) -> Report:
    """`report` with its `advice`: changes worth making, each with the time predicted for the changed program.

    `analyze` and `op` give it by themselves where they are given a machine; a report that was predicted again
    (`report.on`) has none until it is asked for.

    Args:
        report: predicted on a machine.
        at_batch: analyzes the same program with another size of its batch, without a machine.
        batch: its size now.

    Raises:
        RooflabError: a report without a machine.

    >>> import rooflab
    >>> naive = rooflab.op("attention", (4, 16, 2048, 64), dtype="bf16", fused=False, machine="h200-sxm")
    >>> [each.rule for each in rooflab.advise(naive).advice.each]
    ['fused-attention']
    """
    import msgspec

    from rooflab.remedies import rules

    if report.machine is None or report.setting is None:
        raise RooflabError(
            f"advise: {report.name} is on no machine, expected a predicted report, such as report.on('h200-sxm')"
        )
    return msgspec.structs.replace(report, advice=rules.advise(report, at_batch, batch))
