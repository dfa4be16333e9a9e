"""Several results held against the first of them, and conditions against what differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rooflab.comparing import conditions
from rooflab.comparing.difference import difference
from rooflab.comparing.recheck import recheck
from rooflab.comparing.sides import read
from rooflab.errors import RooflabError
from rooflab.types.comparison import Comparison, Difference

_TOGETHER = ({"Report", "Profile"},)  # kinds of results that say the same of one program, in their own ways


def compared(
    named: Sequence[tuple[str, Any]], fail_if: Sequence[str] = (), per_sample: bool | None = None
) -> Comparison:
    """The results of `named` against the first of them.

    Args:
        named: a name and a result each, two at least.
        fail_if: conditions (see `conditions`).
        per_sample: whether times and counts are divided by samples; by default where these differ.

    Raises:
        RooflabError: fewer than two, kinds that do not go together, nothing in common, an unknown condition.
    """
    wanted = [conditions.parse(text) for text in fail_if]
    if len(named) < 2:
        only = f"{named[0][0]} alone" if named else "nothing"
        raise RooflabError(
            f"compare: got {only}, expected two results at least: the first is what others are held to"
        )
    kinds = {type(result).__name__ for _, result in named}
    if len(kinds) > 1 and not any(kinds <= allowed for allowed in _TOGETHER):
        held = ", ".join(f"{name} is a {type(result).__name__}" for name, result in named)
        raise RooflabError(
            f"{held}: expected results of one kind, or a Report beside a Profile of the same program"
        )
    mixed = len(kinds) > 1
    names = _told_apart([name for name, _ in named])
    sides = [read(name, result, kernels_alone=mixed) for name, (_, result) in zip(names, named, strict=True)]
    differences = tuple(
        _rechecked(difference(sides[0], other, number, per_sample), named[0][1], named[number][1])
        for number, other in enumerate(sides[1:], 1)
    )
    for each in wanted:
        conditions.check(each, differences)
    gates = [conditions.judge(each, one, names[one.other]) for one in differences for each in wanted]
    return Comparison(
        name=f"{names[0]} against {', '.join(names[1:])}",
        sides=tuple(one.side for one in sides),
        differences=differences,
        gates=tuple(gates),
    )


def _rechecked(one: Difference, base: Any, other: Any) -> Difference:
    """`one` with what became of the advice that `base` had."""
    # Of a profile with a timeline, advice is of the time from begin to end.
    time = (
        one.amount("time") if not getattr(getattr(base, "timeline", None), "devices", ()) else one.amount("span")
    )
    return msgspec.structs.replace(one, followed=recheck(base, other, time))


def _told_apart(names: Sequence[str]) -> list[str]:
    """`names`, each that comes again with its number."""
    told: list[str] = []
    for name in names:
        number, unique = 2, name
        while unique in told:
            unique, number = f"{name} ({number})", number + 1
        told.append(unique)
    return told
