"""What would help?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.types.advice import Advices
    from rooflab.types.loop import LoopReport
    from rooflab.types.machine import Machine
    from rooflab.types.profile import Profile
    from rooflab.types.report import Report

    Advised = TypeVar("Advised", Report, Profile, LoopReport)


@overload
def advise(
    report: Advised,
    *,
    at_batch: Callable[[int], Report] | None = None,
    batch: int | None = None,
    as_recorded: Callable[[], Report] | None = None,
) -> Advised: ...


@overload
def advise(report: Machine) -> Advices: ...


def advise(
    report: Any,
    *,
    at_batch: Callable[[int], Report] | None = None,
    batch: int | None = None,
    as_recorded: Callable[[], Report] | None = None,
) -> Any:
    """`report` with its `advice`: changes worth making, each with the time predicted for the changed program.

    `analyze`, `op`, `load` and `loop` give it by themselves; a report that was predicted again (`report.on`) has
    none until it is asked for.

    Args:
        report: predicted on a machine; or a profile. A loop's report has it from `loop` alone, which has the loop.
            A measured CPU, which keeps no advice: what can be done on it is returned by itself.
        at_batch: of a program: analyzes the same one with another size of its batch, without a machine.
        batch: its size now.
        as_recorded: analyzes it as it runs while a CUDA graph is recorded of it (`analyze(…, recorded=True)`).

    Raises:
        RooflabError: a report without a machine, a loop's report without advice.

    >>> import rooflab
    >>> naive = rooflab.op("attention", (4, 16, 2048, 64), dtype="bf16", fused=False, machine="h200-sxm")
    >>> [each.rule for each in rooflab.advise(naive).advice.each]
    ['fused-attention']
    """
    import msgspec

    from rooflab.remedies import machines, rules
    from rooflab.remedies.profiles import rules as of_profiles
    from rooflab.types.loop import LoopReport
    from rooflab.types.machine import Machine
    from rooflab.types.profile import Profile

    if isinstance(report, Machine):
        return machines.advise(report)
    if isinstance(report, Profile):
        return msgspec.structs.replace(report, advice=of_profiles.advise(report))
    if isinstance(report, LoopReport):
        if report.advice is None:
            raise RooflabError(
                f"advise: {report.name} is a loop's report, expected one with advice: changed loops are "
                "simulated, which takes the loop itself: rooflab.loop(function, *arguments, machine=…)"
            )
        return report
    if report.machine is None or report.setting is None:
        raise RooflabError(
            f"advise: {report.name} is on no machine, expected a predicted report, such as report.on('h200-sxm')"
        )
    return msgspec.structs.replace(report, advice=rules.advise(report, at_batch, batch, as_recorded))
