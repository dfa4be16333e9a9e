"""How often a chain goes on from pass to pass, and what it takes then, where ways round its operations are taken.

A sum to which only some elements are added is handed on by the others as it is: its chain is shorter there, not
broken. A counter that some elements set to zero begins anew at each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rooflab.loops.lowered.ir_text import Instruction


class Ways(NamedTuple):
    """What is known of the ways through a pass.

    Attributes:
        needs: of each node, those that it waits for in the same pass.
        kinds: of each node; "" where it takes no time.
        cycles: of each node that waits for the source, on the longest way.
        handed: of a load, the store of the same pass that it finds, the kind of that way, in which share.
        entered: of a phi within a pass, the nodes that it takes and how often each.
    """

    needs: Sequence[Sequence[int]]
    kinds: Sequence[str]
    cycles: Mapping[int, float]
    handed: Mapping[int, tuple[int, str, float]]
    entered: Callable[[int], Sequence[tuple[int | None, float]]]


class Goes(NamedTuple):
    """Operations by kind of a pass in which a chain goes on, in the mean; the share of passes in which it does."""

    operations: Mapping[str, float]
    share: float


def from_source(source: int, end: int, nodes: Sequence[Instruction], ways: Ways) -> Goes:
    """What comes from node `source` to node `end` of the same pass; `end` waits for it on some way."""
    found: dict[int, Goes] = {source: Goes({}, 1.0)}

    def of(number: int) -> Goes:
        todo = [number]
        while todo:
            at = todo[-1]
            behind = [each for each in _behind(at, nodes, ways) if each not in found and each != source]
            if at in found:
                todo.pop()
            elif behind:
                todo += behind
            else:
                found[at] = _of(at, nodes, ways, found)
                todo.pop()
        return found[number]

    return of(end)


def _behind(at: int, nodes: Sequence[Instruction], ways: Ways) -> list[int]:
    """The nodes that decide what node `at` hands on."""
    if at in ways.handed and ways.handed[at][0] in ways.cycles:
        return [ways.handed[at][0]]
    if nodes[at].opcode == "phi":
        return [each for each, _ in ways.entered(at) if each is not None and each in ways.cycles]
    last = max((each for each in ways.needs[at] if each in ways.cycles), key=ways.cycles.__getitem__, default=None)
    return [] if last is None else [last]


def _of(at: int, nodes: Sequence[Instruction], ways: Ways, found: Mapping[int, Goes]) -> Goes:
    behind = _behind(at, nodes, ways)
    if nodes[at].opcode == "phi":
        every = sum(count for _, count in ways.entered(at))
        came = [(found[each], count * found[each].share) for each, count in ways.entered(at) if each in behind]
        on = sum(count for _, count in came)
        if not every or not on:
            return Goes({}, 0.0)
        added: dict[str, float] = {}
        for goes, count in came:
            for kind, number in goes.operations.items():
                added[kind] = added.get(kind, 0.0) + number * count / on
        return Goes(added, min(1.0, on / every))
    if not behind:
        return Goes({}, 0.0)
    before = found[behind[0]]
    kind, share = ways.kinds[at], before.share
    if at in ways.handed and behind[0] == ways.handed[at][0]:
        kind, share = ways.handed[at][1], share * ways.handed[at][2]
    if not kind:
        return before._replace(share=share)
    return Goes({**before.operations, kind: before.operations.get(kind, 0.0) + 1}, share)
