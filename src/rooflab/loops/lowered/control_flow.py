"""The flow of control in a function: dominators, loops and how they nest, blocks that always run together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

Graph = Mapping[str, Sequence[str]]


class NaturalLoop(NamedTuple):
    """A loop: its head dominates all of its blocks; `parent` is the number of the loop around it."""

    number: int
    head: str
    blocks: frozenset[str]
    parent: int | None


def predecessors(graph: Graph) -> dict[str, list[str]]:
    """Which blocks lead to each."""
    before: dict[str, list[str]] = {label: [] for label in graph}
    for label, following in graph.items():
        for each in following:
            if each in before:
                before[each].append(label)
    return before


def in_order(graph: Graph, entry: str) -> list[str]:
    """The blocks that can be reached, each behind those that lead to it, but for those that lead back."""
    order: list[str] = []
    seen = {entry}
    stack = [(entry, iter(graph[entry]))]
    while stack:
        label, rest = stack[-1]
        for each in rest:
            if each in graph and each not in seen:
                seen.add(each)
                stack.append((each, iter(graph[each])))
                break
        else:
            order.append(label)
            stack.pop()
    return order[::-1]


def immediate_dominators(graph: Graph, entry: str) -> dict[str, str]:
    """The nearest block that every way to a block leads through, by block that can be reached.

    Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", 2001.
    """
    order = in_order(graph, entry)
    rank = {label: number for number, label in enumerate(order)}
    before = predecessors(graph)
    nearest = {entry: entry}
    changed = True
    while changed:
        changed = False
        for label in order[1:]:
            found: str | None = None
            for each in before[label]:
                if each not in nearest:
                    continue
                if found is None:
                    found = each
                    continue
                other = each
                while found != other:
                    while rank[found] > rank[other]:
                        found = nearest[found]
                    while rank[other] > rank[found]:
                        other = nearest[other]
            if found is not None and nearest.get(label) != found:
                nearest[label], changed = found, True
    return nearest


def dominates(nearest: Mapping[str, str], above: str, label: str) -> bool:
    """Whether every way to `label` leads through `above`."""
    while label in nearest:
        if label == above:
            return True
        if nearest[label] == label:
            return False
        label = nearest[label]
    return False


def loops(graph: Graph, entry: str) -> tuple[NaturalLoop, ...]:
    """All natural loops in the order in which they begin; loops of one head are one."""
    nearest = immediate_dominators(graph, entry)
    before = predecessors(graph)
    bodies: dict[str, set[str]] = {}
    for label in nearest:
        for head in graph[label]:
            if head in nearest and dominates(nearest, head, label):
                inside, todo = bodies.setdefault(head, {head}), [label]
                while todo:
                    at = todo.pop()
                    if at not in inside:
                        inside.add(at)
                        todo += [each for each in before[at] if each in nearest]
    # a head dominates those of the loops inside, and so comes before them
    heads = [label for label in in_order(graph, entry) if label in bodies]
    found: list[NaturalLoop] = []
    for head in heads:
        around = [each for each in found if head in each.blocks and head != each.head]
        parent = min(around, key=lambda each: len(each.blocks)).number if around else None
        found.append(NaturalLoop(len(found), head, frozenset(bodies[head]), parent))
    return tuple(found)


def innermost_of(found: Sequence[NaturalLoop]) -> dict[str, int]:
    """The number of the innermost loop of each block that is in any."""
    inside: dict[str, int] = {}
    for loop in found:
        # outer ones come first
        inside.update(dict.fromkeys(loop.blocks, loop.number))
    return inside


def run_together(graph: Graph, entry: str, cold: Collection[str]) -> dict[str, str]:
    """For each block one that stands for all that run as often as it does, where none of `cold` is ever reached.

    Two blocks run equally often where one dominates the other, the other postdominates it, and both are in the
    same loop.
    """
    warm = {label: [each for each in following if each not in cold] for label, following in graph.items()}
    warm = {label: following for label, following in warm.items() if label not in cold}
    inside = innermost_of(loops(warm, entry))
    above = immediate_dominators(warm, entry)
    backward: dict[str, list[str]] = {label: [] for label in above}
    ends = []
    for label in above:
        for each in warm[label]:
            backward[each].append(label)
        if not warm[label]:
            ends.append(label)
    backward[""] = ends
    below = immediate_dominators(backward, "") if ends else {}
    stands: dict[str, str] = {}
    for label in in_order(warm, entry):
        stands[label] = label
        at = label
        while above[at] != at:
            at = above[at]
            if inside.get(at) == inside.get(label) and dominates(below, label, at):
                stands[label] = stands[at]
                break
    return stands
