"""The longest chain carried round a loop: through registers, and through memory where a load finds a recent store.

Operations are nodes; what waits for what are edges, with how many passes lie between. Of all ways from what one
pass hands to the next back to it, that which takes longest a pass is the chain (the maximum cycle ratio).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rooflab.loops.lowered.ir_text import VALUE, Instruction

_INCOMING = re.compile(r"\[ ([^,\]]+), (%[^\s\]]+) \]")
_LONGEST_ROUND = 4  # values that change places in turn: s, t = t, s + x


class Link(NamedTuple):
    """A store whose value a load finds: `passes` before, or in the same one."""

    store: str
    load: str
    passes: int


class Chain(NamedTuple):
    """Operations that wait for one another in each pass: how many of each kind, and their places in the source."""

    operations: Mapping[str, float]
    debug: tuple[int, ...]
    cycles: float


class _Path(NamedTuple):
    cycles: float
    steps: tuple[int, ...]
    forwarded: int


def longest(
    blocks: Sequence[Sequence[Instruction]],
    head: int,
    inside: frozenset[str],
    links: Sequence[Link],
    kind_of: Callable[[Instruction], tuple[str, float] | None],
    latency: Callable[[str], float],
) -> Chain | None:
    """The chain of the loop whose blocks are given in order, the head first; None where nothing is carried.

    Args:
        blocks: instructions of each block.
        head: how many of the first block are phis.
        inside: labels of the blocks.
        links: stores that loads find.
        kind_of: of an instruction.
        latency: cycles of a kind, of "store forward" too.
    """
    nodes = [each for block in blocks for each in block]
    numbers = {each.result: n for n, each in enumerate(nodes) if each.result}
    stores = {each.text: n for n, each in enumerate(nodes) if each.opcode == "store"}
    kinds = [_kind(each, kind_of) for each in nodes]
    carried: dict[int, int] = {}  # phi of the head → what comes round
    for n in range(head):
        for value, label in _INCOMING.findall(nodes[n].text):
            if label in inside and value in numbers:
                carried[n] = numbers[value]
    through: dict[int, tuple[int, int]] = {}  # load → the store that it finds, passes before
    for link in links:
        if link.store in stores and link.load in numbers:
            through[numbers[link.load]] = stores[link.store], link.passes
    needs = [_operands(each, n, numbers, head, inside) for n, each in enumerate(nodes)]
    sources = [*carried, *(n for n, (_, passes) in through.items() if passes > 0)]
    if not sources:
        return None
    reached = [
        _paths(source, nodes, needs, kinds, through, latency, starts_at_load=source in through)
        for source in sources
    ]
    best: tuple[float, list[_Path], int] | None = None
    # A round: from each source to the next, until the first is reached again.
    for first in range(len(sources)):
        rounds: dict[int, tuple[float, list[_Path], int]] = {first: (0.0, [], 0)}
        for _ in range(_LONGEST_ROUND):
            following: dict[int, tuple[float, list[_Path], int]] = {}
            for at, (cycles, paths, passes) in rounds.items():
                for to, target in enumerate(sources):
                    if target in through:
                        store, distance = through[target]
                        path = reached[at].get(store)
                        extra = latency("store forward")
                    else:
                        store, distance, extra = carried[target], 1, 0.0
                        path = reached[at].get(store)
                    if path is None:
                        continue
                    total = cycles + path.cycles + extra
                    if to not in following or total > following[to][0]:
                        following[to] = total, [*paths, path], passes + distance
            if first in following:
                cycles, paths, passes = following[first]
                if best is None or cycles / passes > best[0] / best[2]:
                    best = following[first]
            rounds = {to: value for to, value in following.items() if to != first}
    if best is None:
        return None
    cycles, paths, passes = best
    steps = [step for path in paths for step in path.steps]
    counted: Counter[str] = Counter(kinds[step] for step in steps if kinds[step] and step not in through)
    ends = sum(1 for path in paths if path.steps and nodes[path.steps[-1]].opcode == "store")
    counted["store forward"] = ends + sum(path.forwarded for path in paths)
    counted["store"] = 0
    debug = tuple(dict.fromkeys(nodes[step].debug for step in steps if nodes[step].debug >= 0))
    return Chain({kind: n / passes for kind, n in counted.items() if n}, debug, cycles / passes)


def _kind(instruction: Instruction, kind_of: Callable[[Instruction], tuple[str, float] | None]) -> str:
    found = kind_of(instruction)
    return "" if found is None else found[0]


def _operands(
    instruction: Instruction, number: int, numbers: Mapping[str, int], head: int, inside: frozenset[str]
) -> list[int]:
    """The nodes that `instruction` waits for in the same pass."""
    if instruction.opcode == "phi":
        if number < head:
            return []
        return [numbers[v] for v, label in _INCOMING.findall(instruction.text) if v in numbers and label in inside]
    body = instruction.text.partition(" = ")[2] or instruction.text
    if instruction.opcode == "store":
        # What waits is the value that is stored, not where.
        body = body.rpartition(", ptr ")[0]
    found = [numbers[each] for each in VALUE.findall(body) if each in numbers]
    return [each for each in found if each < number]


def _paths(
    source: int,
    nodes: Sequence[Instruction],
    needs: Sequence[Sequence[int]],
    kinds: Sequence[str],
    through: Mapping[int, tuple[int, int]],
    latency: Callable[[str], float],
    *,
    starts_at_load: bool,
) -> dict[int, _Path]:
    """For each node that waits for `source` in the same pass: the longest way to its result."""
    found = {source: _Path(0.0, (source,) if starts_at_load else (), 0)}
    for number in range(len(nodes)):
        if number == source:
            continue
        ways = [found[each] for each in needs[number] if each in found]
        best = max(ways, key=lambda each: each.cycles, default=None)
        own = latency(kinds[number]) if kinds[number] and nodes[number].opcode != "store" else 0.0
        way = None if best is None else _Path(best.cycles + own, (*best.steps, number), best.forwarded)
        store, passes = through.get(number, (-1, 1))
        if passes == 0 and store in found:
            before = found[store]
            other = _Path(before.cycles + latency("store forward"), (*before.steps, number), before.forwarded + 1)
            way = other if way is None or other.cycles > way.cycles else way
        if way is not None:
            found[number] = way
    return found
