"""The longest chain carried round a loop: through registers, and through memory where a load finds a recent store.

Operations are nodes; what waits for what are edges, with how many passes lie between. Of all ways from what one
pass hands to the next back to it, that which takes longest a pass is the chain (the maximum cycle ratio).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from rooflab.loops.lowered import going_on
from rooflab.loops.lowered.ir_text import VALUE, Instruction
from rooflab.loops.lowered.operations import vector_access_bytes, width_of

INCOMING = re.compile(r"\[ ([^,\]]+), (%[^\s\]]+) \]")
_FLOATING = re.compile(r"= load (?:volatile )?(?:double|float|half|<)")
_STORES = ("store", "store vector", "store wide")
_ONE_REGISTER = 16  # bytes: what is no longer is handed on as a number is
_LONGEST_ROUND = 4  # values that change places in turn: s, t = t, s + x


class Link(NamedTuple):
    """A store whose value a load finds: `passes` before, or in the same one.

    `crosses`: the load lies across two lines of a cache, most often. `share`: of its runs, in which it finds it.
    """

    store: str
    load: str
    passes: int
    crosses: bool = False
    share: float = 1.0


class Chain(NamedTuple):
    """Operations that wait for one another in each pass: how many of each kind, and their places in the source.

    `carried` are the phis of the loop's head that it goes through, `kept` the share of passes in which it goes on:
    of those `operations` and `cycles` are the mean.
    """

    operations: Mapping[str, float]
    debug: tuple[int, ...]
    cycles: float
    carried: tuple[str, ...] = ()
    kept: float = 1.0


class _Path(NamedTuple):
    cycles: float
    steps: tuple[int, ...]
    forwarded: tuple[str, ...]


class _Found(NamedTuple):
    """What a load finds: a store, so many passes before, and the kind of the way between."""

    store: int
    passes: int
    how: str
    share: float = 1.0


# cycles so far, the ways taken, how many passes they span, the sources reached
_Round = tuple[float, list[_Path], int, list[int]]


def longest(
    blocks: Sequence[Sequence[Instruction]],
    head: int,
    inside: frozenset[str],
    links: Sequence[Link],
    kind_of: Callable[[Instruction], tuple[str, float] | None],
    latency: Callable[[str], float],
    came: Callable[[int, str], float] | None = None,
) -> Chain | None:
    """The chain of the loop whose blocks are given in order, the head first; None where nothing is carried.

    Args:
        blocks: instructions of each block.
        head: how many of the first block are phis.
        inside: labels of the blocks.
        links: stores that loads find.
        kind_of: of an instruction.
        latency: cycles of a kind, of "store forward" too.
        came: how often control came to the block of that number from the one of that label; all ways alike often
            by default.
    """
    nodes = [each for block in blocks for each in block]
    numbers = {each.result: n for n, each in enumerate(nodes) if each.result}
    stores = {each.text: n for n, each in enumerate(nodes) if each.opcode == "store"}
    kinds = [_kind(each, kind_of) for each in nodes]
    carried: dict[int, int] = {}  # phi of the head → what comes round
    for n in range(head):
        for value, label in INCOMING.findall(nodes[n].text):
            if label in inside and value in numbers:
                carried[n] = numbers[value]
    through: dict[int, _Found] = {}
    for link in links:
        if link.store in stores and link.load in numbers:
            load = numbers[link.load]
            through[load] = _Found(
                stores[link.store], link.passes, handed_on(nodes[load], link.crosses), link.share
            )
    needs = [operands(each, n, numbers, head, inside) for n, each in enumerate(nodes)]
    sources = [*carried, *(n for n, each in through.items() if each.passes > 0)]
    if not sources:
        return None
    reached = [
        _paths(source, nodes, needs, kinds, through, latency, starts_at_load=source in through)
        for source in sources
    ]
    leads = [_leads(each, sources, through, carried, latency) for each in reached]
    best: _Round | None = None
    through_first = -1
    # A round: from each source to the next, until the first is reached again.
    for first in range(len(sources)):
        rounds: dict[int, _Round] = {first: (0.0, [], 0, [first])}
        for _ in range(_LONGEST_ROUND):
            following: dict[int, _Round] = {}
            for at, (cycles, paths, passes, way) in rounds.items():
                for to, path, distance, extra in leads[at]:
                    total = cycles + path.cycles + extra
                    if to not in following or total > following[to][0]:
                        following[to] = total, [*paths, path], passes + distance, [*way, to]
            if first in following:
                cycles, _, passes, _ = following[first]
                if best is None or cycles / passes > best[0] / best[2]:
                    best, through_first = following[first], first
            rounds = {to: value for to, value in following.items() if to != first}
    if best is None:
        return None
    cycles, paths, passes, targets = best
    targets = targets[:-1]
    owners = [number for number, block in enumerate(blocks) for _ in block]

    def entered(number: int) -> list[tuple[int | None, float]]:
        found = INCOMING.findall(nodes[number].text) if number >= head else []
        return [
            (numbers.get(value), 1.0 if came is None else came(owners[number], label)) for value, label in found
        ]

    handed = {load: (each.store, each.how, each.share) for load, each in through.items() if each.passes == 0}
    counted: dict[str, float] = {}
    kept = 1.0
    for at, target in zip(targets, [*targets[1:], through_first], strict=True):
        way, to = reached[at], sources[target]
        end = through[to].store if to in through else carried[to]
        ways = going_on.Ways(needs, kinds, {each: path.cycles for each, path in way.items()}, handed, entered)
        goes = going_on.from_source(sources[at], end, nodes, ways)
        kept *= goes.share
        found = [*goes.operations.items()]
        if to in through:
            found.append((through[to].how, 1.0))
            kept *= through[to].share
        for kind, count in found:
            counted[kind] = counted.get(kind, 0.0) + count
    for kind in [each for each in counted if each in _STORES]:
        del counted[kind]
    steps = [step for path in paths for step in path.steps]
    debug = tuple(dict.fromkeys(nodes[step].debug for step in steps if nodes[step].debug >= 0))
    operations = {kind: n / passes for kind, n in counted.items() if n}
    return Chain(
        operations,
        debug,
        sum(n * latency(kind) for kind, n in operations.items()),
        (nodes[sources[through_first]].result,),
        kept,
    )


def deepest(
    blocks: Sequence[Sequence[Instruction]],
    head: int,
    inside: frozenset[str],
    kind_of: Callable[[Instruction], tuple[str, float] | None],
    latency: Callable[[str], float],
) -> dict[str, float]:
    """Operations by kind of the longest way through one pass, from what is loaded to what is stored or handed on.

    Args:
        blocks: instructions of each block, the head first.
        head: how many of the first block are phis.
        inside: labels of the blocks.
        kind_of: of an instruction.
        latency: cycles of a kind.
    """
    ways = _ways(blocks, head, inside, kind_of, latency)
    return ways.to(max(range(len(ways.cycles)), key=lambda one: ways.cycles[one], default=-1))


def deepest_to(
    blocks: Sequence[Sequence[Instruction]],
    head: int,
    inside: frozenset[str],
    kind_of: Callable[[Instruction], tuple[str, float] | None],
    latency: Callable[[str], float],
    ends: Collection[int | str],
) -> dict[int | str, dict[str, float]]:
    """The same of the ways to the last instructions of the blocks numbered `ends`, or to results named so."""
    ways = _ways(blocks, head, inside, kind_of, latency)
    found: dict[int | str, dict[str, float]] = {}
    last = -1
    for number, block in enumerate(blocks):
        for each in block:
            last += 1
            if each.result and each.result in ends:
                found[each.result] = ways.to(last)
        if number in ends:
            found[number] = ways.to(last)
    return found


class _Ways(NamedTuple):
    """The longest way to each node: its cycles, the node before it on it; and what each node is."""

    cycles: list[float]
    before: list[int]
    kinds: list[str]
    opcodes: list[str]

    def to(self, at: int) -> dict[str, float]:
        """Operations by kind on the way to node `at`."""
        found: Counter[str] = Counter()
        while at >= 0:
            if self.kinds[at] and self.opcodes[at] not in ("store", "br"):
                found[self.kinds[at]] += 1
            at = self.before[at]
        return {kind: float(count) for kind, count in found.items()}


def _ways(
    blocks: Sequence[Sequence[Instruction]],
    head: int,
    inside: frozenset[str],
    kind_of: Callable[[Instruction], tuple[str, float] | None],
    latency: Callable[[str], float],
) -> _Ways:
    nodes = [each for block in blocks for each in block]
    numbers = {each.result: n for n, each in enumerate(nodes) if each.result}
    kinds = [_kind(each, kind_of) for each in nodes]
    found = _Ways([], [], kinds, [each.opcode for each in nodes])
    for number, each in enumerate(nodes):
        needs = operands(each, number, numbers, head, inside)
        last = max(needs, key=lambda one: found.cycles[one], default=-1)
        own = latency(kinds[number]) if kinds[number] and each.opcode not in ("store", "br") else 0.0
        found.cycles.append(own + (found.cycles[last] if last >= 0 else 0.0))
        found.before.append(last)
    return found


def handed_on(load: Instruction, crosses: bool = False) -> str:
    """The kind of what `load` finds in a store before it; `crosses`: it lies across two lines of a cache."""
    if not _FLOATING.search(load.text):
        return "store forward integer"
    nbytes = vector_access_bytes(load)
    return f"store forward{width_of(nbytes) if nbytes > _ONE_REGISTER else ''}{' split' if crosses else ''}"


def _leads(
    reached: Mapping[int, _Path],
    sources: Sequence[int],
    through: Mapping[int, _Found],
    carried: Mapping[int, int],
    latency: Callable[[str], float],
) -> list[tuple[int, _Path, int, float]]:
    """From a source to which others, of their numbers: the way, passes between, cycles of what hands it on."""
    found = []
    for to, target in enumerate(sources):
        at = through.get(target)
        path = reached.get(carried[target] if at is None else at.store)
        if path is not None:
            found.append((to, path, 1 if at is None else at.passes, 0.0 if at is None else latency(at.how)))
    return found


def _kind(instruction: Instruction, kind_of: Callable[[Instruction], tuple[str, float] | None]) -> str:
    found = kind_of(instruction)
    return "" if found is None else found[0]


def operands(
    instruction: Instruction, number: int, numbers: Mapping[str, int], head: int, inside: frozenset[str]
) -> list[int]:
    """The nodes that `instruction` waits for in the same pass."""
    if instruction.opcode == "phi":
        if number < head:
            return []
        came = (numbers[v] for v, label in INCOMING.findall(instruction.text) if v in numbers and label in inside)
        return [each for each in came if each < number]  # blocks may stand before those that lead to them
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
    through: Mapping[int, _Found],
    latency: Callable[[str], float],
    *,
    starts_at_load: bool,
) -> dict[int, _Path]:
    """For each node that waits for `source` in the same pass: the longest way to its result."""
    found = {source: _Path(0.0, (source,) if starts_at_load else (), ())}
    for number in range(len(nodes)):
        if number == source:
            continue
        ways = [found[each] for each in needs[number] if each in found]
        best = max(ways, key=lambda each: each.cycles, default=None)
        own = latency(kinds[number]) if kinds[number] and nodes[number].opcode != "store" else 0.0
        way = None if best is None else _Path(best.cycles + own, (*best.steps, number), best.forwarded)
        handed = through.get(number)
        if handed is not None and handed.passes == 0 and handed.store in found:
            before = found[handed.store]
            cycles = before.cycles + latency(handed.how)
            other = _Path(cycles, (*before.steps, number), (*before.forwarded, handed.how))
            way = other if way is None or other.cycles > way.cycles else way
        if way is not None:
            found[number] = way
    return found
