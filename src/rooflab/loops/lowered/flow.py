"""What waits for what in one pass of a loop, and from pass to pass: its operations in order, for a core to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from rooflab.loops.lowered.chains import INCOMING, Link, handed_on, operands
from rooflab.loops.lowered.ir_text import Instruction
from rooflab.types.loop import FlowStep

_MOST_STEPS = 600  # of a pass: what is longer is bound by what it issues
_FURTHEST = 8  # values that change places: so many passes back are followed
_NEARER = 4  # the same where passes differ: what none of so many has changed is there
NOTHING: Mapping[str, float] = {}
_COMPUTED = ("fp ", "divide fp", "sqrt ", "convert", "call ")  # what leaves a number in a vector register
_THROUGH_MEMORY = "store forward"
_Need = tuple[int, int]  # a node, and how many passes before


def steps(
    blocks: Sequence[Sequence[Instruction]],
    head: int,
    inside: frozenset[str],
    links: Sequence[Link],
    kind_of: Callable[[Instruction], tuple[str, float] | None],
    crossed: Mapping[str, float] = NOTHING,
    turns: Sequence[int] = (),
) -> tuple[FlowStep, ...]:
    """The operations of a pass in order; empty where there are none, or too many.

    Args:
        blocks: instructions of each block, the head first.
        head: how many of the first block are phis.
        inside: labels of the blocks.
        links: stores that loads find.
        kind_of: of an instruction.
        crossed: of accesses, by result or text of a store, how many pieces of one lie across two lines of a cache.
        turns: of each block, the passes that run it (`FlowStep.turns`); () where all run all.
    """
    nodes = [each for block in blocks for each in block]
    numbers = {each.result: n for n, each in enumerate(nodes) if each.result}
    stores = {each.text: n for n, each in enumerate(nodes) if each.opcode == "store"}
    kinds = [kind_of(each) for each in nodes]
    carried = {
        n: numbers[value]
        for n in range(head)
        for value, label in INCOMING.findall(nodes[n].text)
        if label in inside and value in numbers
    }
    ran = [turns[n] if turns else 0 for n, block in enumerate(blocks) for _ in block]
    needs = [operands(each, n, numbers, head, inside) for n, each in enumerate(nodes)]
    kept = [n for n, kind in enumerate(kinds) if kind is not None]
    if not 0 < len(kept) <= _MOST_STEPS:
        return ()
    place = {n: at for at, n in enumerate(kept)}
    reached = _Reached(needs, carried, place, _NEARER if any(turns) else _FURTHEST)
    handed = {
        numbers[link.load]: (stores[link.store], link.passes, link)
        for link in links
        if link.store in stores and link.load in numbers
    }
    found = []
    for n in kept:
        kind, count = kinds[n] or ("", 0.0)
        after = sorted({each for need in needs[n] for each in reached.of(need)})
        store = handed.get(n)
        # a store in the same pass stands before the load that finds it
        before = store is not None and store[0] in place and (store[1] > 0 or store[0] < n)
        found.append(
            FlowStep(
                kind,
                count,
                tuple((place[node], passes) for node, passes in after),
                (place[store[0]], store[1]) if store is not None and before else None,
                handed_on(nodes[n], store[2].crosses) if store is not None and before else "",
                crossed.get(nodes[n].result or nodes[n].text, 0.0),
                ran[n],
                finds=store[2].share if store is not None and before else 1.0,
            )
        )
    return tuple(found)


def over_calls(steps: tuple[FlowStep, ...]) -> tuple[FlowStep, ...]:
    """`steps` with the way through memory of floating-point results that are used behind a call.

    x86 keeps none in a register over one (System V ABI): it is stored before and loaded after.
    """
    calls = [n for n, each in enumerate(steps) if each.kind.startswith("call ")]
    kept = {
        made
        for n, each in enumerate(steps)
        for made, passes in each.after
        if steps[made].kind.startswith(_COMPUTED) and _called_between(calls, made, n, passes)
    }
    if not kept:
        return steps
    place = {n: n + sum(each < n for each in kept) for n in range(len(steps))}
    found = []
    for n, each in enumerate(steps):
        after = tuple(
            (place[made] + (made in kept and _called_between(calls, made, n, passes)), passes)
            for made, passes in each.after
        )
        handed = None if each.handed is None else (place[each.handed[0]], each.handed[1])
        found.append(replace(each, after=after, handed=handed))
        if n in kept:
            found.append(FlowStep(_THROUGH_MEMORY, 0.0, ((place[n], 0),), turns=each.turns))
    return tuple(found)


def _called_between(calls: Sequence[int], made: int, used: int, passes: int) -> bool:
    """Whether one of `calls` stands behind step `made` and before step `used`, so many passes later."""
    if passes == 0:
        return any(made < each < used for each in calls)
    return bool(calls) and (passes > 1 or any(each > made or each < used for each in calls))


class _Reached:
    """Which operations a node stands for: its own, or those that it hands on, as an address or a phi does."""

    def __init__(
        self,
        needs: Sequence[Sequence[int]],
        carried: Mapping[int, int],
        place: Mapping[int, int],
        furthest: int,
    ) -> None:
        self.needs, self.carried, self.place, self.furthest = needs, carried, place, furthest

    def of(self, node: int) -> frozenset[_Need]:
        """Operations, and how many passes before."""
        found: set[_Need] = set()
        todo, seen = [(node, 0)], {(node, 0)}
        while todo:
            at, passes = todo.pop()
            if at in self.place:
                found.add((at, passes))
                continue
            further = [(each, passes) for each in self.needs[at]]
            if at in self.carried and passes < self.furthest:
                further.append((self.carried[at], passes + 1))
            for each in further:
                if each not in seen:
                    seen.add(each)
                    todo.append(each)
        return frozenset(found)
