"""The loops of the code that runs, as a core sees them: operations by kind, chains, missed branches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from rooflab.loops.lowered import chains, control_flow, profile
from rooflab.loops.lowered.ir_text import VALUE, Instruction, Places
from rooflab.loops.lowered.operations import kind_of
from rooflab.types.loop import CoreLoop

_ADDRESS_MAKING = ("add", "sub", "mul", "shl", "or", "and", "sext", "zext", "ptrtoint")
_OFTEN = 0.5  # of a load's runs, in which it finds a recent store, to be a link of a chain
_SELDOM = 0.1  # of a loop's passes: blocks that run less are no part of its chain
# Cycles by which the longest chain is chosen; how long it takes is for the machine to say.
_USUAL = {
    "fp add": 4.0, "fp multiply": 4.0, "fp multiply-add": 4.0, "fp select": 1.0, "integer": 1.0, "load": 5.0,
    "vector integer": 1.0, "integer multiply": 3.0, "integer divide": 15.0, "convert": 5.0, "shuffle": 2.0,
    "store forward": 6.0, "branch": 0.0, "store": 0.0, "gather": 20.0,
}  # fmt: skip
_LONG = {"divide": 13.0, "sqrt": 18.0, "call": 40.0}


def usual_latency(kind: str) -> float:
    """Cycles from an operation's operands to its result, on cores of about 2020."""
    if kind in _USUAL:
        return _USUAL[kind]
    return _LONG.get(kind.partition(" ")[0], 4.0)


def found_in(fn: Callable[..., Any], values: tuple[Any, ...]) -> tuple[CoreLoop, ...]:
    """The loops of `fn`, and last what lies in none, of one run on `values`, which it may change."""
    return tuple(loop for taken in profile.take(fn, values) for loop in of_profile(taken))


def of_profile(taken: profile.Profile, places: Places | None = None) -> tuple[CoreLoop, ...]:
    """The loops of a profile: those that ran, and last what lies in none; `places`: how its lines are known."""
    places = places or Places(taken.ir)
    inside = control_flow.innermost_of(taken.loops)
    graph = {label: block.following for label, block in taken.function.blocks.items()}
    before = control_flow.predecessors(graph)
    found = []
    for number in (*range(len(taken.loops)), None):
        labels = [label for label in taken.function.blocks if inside.get(label) == number]
        made = _loop(taken, number, labels, places, before)
        if made is not None:
            found.append(made)
    return tuple(found)


def _loop(
    taken: profile.Profile,
    number: int | None,
    labels: list[str],
    places: Places,
    before: dict[str, list[str]],
) -> CoreLoop | None:
    blocks = taken.function.blocks
    fused = _compared_for_branches([each for label in labels for each in blocks[label].instructions])
    fused |= _addresses([each for label in labels for each in blocks[label].instructions])
    operations: dict[str, float] = {}
    missed: Counter[int] = Counter()
    line = 0
    for label in labels:
        passes = taken.passes[label]
        for each in blocks[label].instructions:
            line = line or (places.line(each.debug) if number is not None else 0)
            kind = None if each.result in fused else kind_of(each)
            if kind is not None and passes:
                operations[kind[0]] = operations.get(kind[0], 0.0) + kind[1] * passes
        if (branch := taken.branches.get(label)) is not None:
            simulated, _, wrong = branch
            last = blocks[label].instructions[-1]
            missed[places.line(last.debug) or line] += round(wrong * passes / simulated)
    if not operations:
        return None
    passes = entries = 0
    chain = None
    if number is not None:
        loop = taken.loops[number]
        passes = taken.passes[loop.head]
        # from outside: all passes but those that a latch led to
        latches = [each for each in before[loop.head] if each in loop.blocks]
        entries = max(1, passes - sum(_edge(taken, each, loop.head) for each in latches))
        if not any(other.parent == number for other in taken.loops):
            chain = _chain(taken, loop, labels)
    worst = max(missed, key=lambda each: missed[each], default=0)
    return CoreLoop(
        line=line,
        passes=passes,
        entries=entries,
        operations=operations,
        chain={} if chain is None else dict(chain.operations),
        chain_lines=() if chain is None else tuple(sorted({places.line(each) for each in chain.debug} - {0})),
        branches=sum(taken.passes[label] for label in labels if label in taken.branches),
        missed=sum(missed.values()),
        missed_line=worst if missed[worst] else 0,
        innermost=number is not None and not any(other.parent == number for other in taken.loops),
    )


def _edge(taken: profile.Profile, label: str, to: str) -> int:
    """How often control went from `label` to `to`."""
    following = taken.function.blocks[label].following
    passes = taken.passes[label]
    if len(following) == 1 or label not in taken.branches:
        return passes
    simulated, yes, _ = taken.branches[label]
    share = yes / simulated
    return round(passes * (share if following[0] == to else 1 - share))


def _compared_for_branches(instructions: list[Instruction]) -> set[str]:
    """Results of whole-number comparisons that only a branch uses: the two are one operation."""
    return {
        each.text.split("br i1 ")[1].split(",")[0]
        for each in instructions
        if each.opcode == "br" and "br i1 %" in each.text
    } & {each.result for each in instructions if each.opcode == "icmp"}


def _addresses(instructions: list[Instruction]) -> set[str]:
    """Results of whole-number operations that only addresses are made of, no loaded number among them.

    LLVM's code generator replaces them by pointers that are stepped on, or folds them into the accesses.
    """
    made = {each.result: each for each in instructions if each.opcode in _ADDRESS_MAKING and each.result}
    users: dict[str, list[Instruction]] = {}
    for each in instructions:
        for value in VALUE.findall(each.text.partition(" = ")[2] or each.text):
            users.setdefault(value, []).append(each)
    loaded = {each.result for each in instructions if each.opcode == "load"}
    kept = set(made)
    changed = True
    while changed:
        changed = False
        for name in list(kept):
            uses = users.get(name, [])
            operands = VALUE.findall(made[name].text.partition(" = ")[2])
            fine = uses and all(
                each.opcode in ("getelementptr", "inttoptr", "phi") or each.result in kept for each in uses
            )
            if not fine or any(each in loaded or (each in made and each not in kept) for each in operands):
                kept.discard(name)
                changed = True
    return kept


def _chain(taken: profile.Profile, loop: control_flow.NaturalLoop, labels: list[str]) -> chains.Chain | None:
    often = _SELDOM * taken.passes[loop.head]
    kept = [label for label in labels if taken.passes[label] >= often]
    if not kept or loop.head not in kept or not taken.passes[loop.head]:
        return None
    kept.remove(loop.head)
    ordered = [loop.head, *kept]
    held = [taken.function.blocks[label].instructions for label in ordered]
    head = sum(each.opcode == "phi" for each in held[0])
    links = [
        chains.Link(store, load, round(passes))
        for load, (store, share, passes) in taken.forwarded.items()
        if share >= _OFTEN
    ]
    return chains.longest(held, head, loop.blocks, links, kind_of, usual_latency)
