"""The loops of the code that runs, as a core sees them: operations by kind, chains, missed branches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from rooflab.loops.lowered import (
    chains,
    choices,
    control_flow,
    flow,
    handed_on,
    owned_code,
    pass_ways,
    profile,
    tested,
)
from rooflab.loops.lowered.ir_text import VALUE, Instruction, Places
from rooflab.loops.lowered.operations import kind_of
from rooflab.types.loop import CoreLoop, FlowStep

INCOMING = chains.INCOMING
_ADDRESS_MAKING = ("add", "sub", "mul", "shl", "or", "and", "sext", "zext", "ptrtoint")
_OFTEN = 0.5  # of a load's runs, in which it finds a recent store, to be a link of a chain
_NEARLY_ALL = 0.9  # of a loop's passes: a block that runs so often is taken as always run
_SELDOM = 0.1  # of a loop's passes: blocks that run less are no part of its chain
_TESTED = re.compile(r"= select (?:[a-z ]+ )?i1 (%\S+),")  # what a choice that became a jump tests
_RARE = ("call ", "divide ", "sqrt ", "integer divide")  # what has a place of its own in a loop
_SPLIT = {
    "load": "load split", "store": "store split", "load wide": "load split wide", "store wide": "store split wide",
}  # fmt: skip
# Cycles by which the longest chain is chosen; how long it takes is for the machine to say.
_USUAL = {
    "fp add": 4.0, "fp multiply": 4.0, "fp multiply-add": 4.0, "fp select": 1.0, "integer": 1.0, "load": 5.0,
    "load integer": 5.0, "integer divide constant": 5.0, "integer remainder constant": 9.0,
    "fp compare": 2.0,
    "vector integer": 1.0, "vector shift": 1.0, "integer shift": 1.0,
    "integer multiply": 3.0, "integer divide": 15.0, "convert": 5.0, "shuffle": 2.0,
    "store forward": 6.0, "store forward integer": 5.0, "branch": 0.0, "store": 0.0, "gather": 20.0,
    "scatter": 0.0,
}  # fmt: skip
_LONG = {"divide": 13.0, "sqrt": 18.0, "call": 40.0}


def usual_latency(kind: str) -> float:
    """Cycles from an operation's operands to its result, on cores of about 2020."""
    kind = kind.removesuffix(" split").removesuffix(" vector").removesuffix(" wide")
    if kind in _USUAL:
        return _USUAL[kind]
    return _LONG.get(kind.partition(" ")[0], 4.0)


def found_in(fn: Callable[..., Any], values: tuple[Any, ...]) -> tuple[CoreLoop, ...]:
    """The loops of `fn`, and last what lies in none, of one run on `values`, which it may change."""
    return of_profiles(profile.take(fn, values))


def of_profiles(taken: Sequence[profile.Profile], places: Places | None = None) -> tuple[CoreLoop, ...]:
    """The loops of several functions' profiles, one function after the other."""
    found: list[CoreLoop] = []
    for each in taken:
        first = len(found)
        found += [
            one if one.within is None else replace(one, within=one.within + first)
            for one in of_profile(each, places)
        ]
    return tuple(found)


def said(loops: Sequence[CoreLoop]) -> tuple[str, ...]:
    """A line on branches that are foretold by the IR alone, where there are any."""
    why = next((each.untraced for each in loops if each.untraced and each.branches), "")
    return (
        (
            f"jumps of its machine code were not followed ({why}): branches foretold wrongly are those of its LLVM"
            " IR, without choices that became jumps",
        )
        if why
        else ()
    )


def of_profile(taken: profile.Profile, places: Places | None = None) -> tuple[CoreLoop, ...]:
    """The loops of a profile: those that ran, and last what lies in none; `places`: how its lines are known."""
    places = places or Places(taken.ir)
    inside = control_flow.innermost_of(taken.loops)
    graph = {label: block.following for label, block in taken.function.blocks.items()}
    before = control_flow.predecessors(graph)
    found: list[CoreLoop] = []
    where: dict[int | None, int] = {}  # of each natural loop among those that are told
    for number in (*range(len(taken.loops)), None):
        labels = [label for label in taken.function.blocks if inside.get(label) == number]
        made = _loop(taken, number, labels, places, before)
        if made is not None:
            where[number] = len(found)
            found.append(made)
    for number, at in where.items():
        around = None if number is None else taken.loops[number].parent
        if around in where and around is not None:
            found[at] = replace(found[at], within=where[around])
    if taken.boxed:
        # its list becomes one of Python's, as it is handed over
        found.append(
            CoreLoop(line=0, passes=0, entries=0, operations={"call boxing": float(taken.boxed)}, innermost=False)
        )
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
    branches: Counter[int] = Counter()
    line = 0
    read = owned_code.operations(taken)
    known = _lines_of(taken, places) if taken.jumps is not None else frozenset()
    jumped = learnt = 0
    placed: dict[str, set[int]] = {}
    for label in labels:
        for jump in (taken.jumps or {}).get(label, ()):
            where = jump.line if jump.line in known else line
            missed[where] += jump.missed
            branches[where] += jump.ran
            jumped += jump.ran
            learnt += jump.learnt
        passes = taken.passes[label]
        counted = read.get(label.replace('"', ""), {})
        for kind_name, count in counted.items():
            operations[kind_name] = operations.get(kind_name, 0.0) + count
        for what, kind_name in _SPLIT.items():
            if split := taken.split.get((label, what)):
                operations[kind_name] = operations.get(kind_name, 0.0) + split
        for each in _once(blocks[label].instructions):
            line = line or (places.line(each.debug) if number is not None else 0)
            kind = None if each.result in fused else kind_of(each)
            if kind is not None and passes and kind[0].startswith(_RARE) and (at := places.line(each.debug)):
                placed.setdefault(kind[0], set()).add(at)
            # the machine code says all but what is called
            if kind is not None and passes and (not taken.machine or _elsewhere(each, kind[0])):
                operations[kind[0]] = operations.get(kind[0], 0.0) + kind[1] * passes
            if taken.jumps is not None:
                continue
            if (chosen := taken.selects.get(each.result)) is not None and chosen[0] and each.result:
                missed[places.line(each.debug) or line] += round(chosen[2] * passes / chosen[0])
                # of several selects that one jump makes, the first has its misses
                branches[places.line(each.debug) or line] += passes if chosen[2] else 0
        if taken.jumps is None and (branch := taken.branches.get(label)) is not None:
            simulated, _, wrong = branch
            last = blocks[label].instructions[-1]
            missed[places.line(last.debug) or line] += round(wrong * passes / simulated)
            branches[places.line(last.debug) or line] += passes
    if not operations:
        return None
    passes = entries = 0
    waits = _Waits()
    if number is not None:
        loop = taken.loops[number]
        passes = taken.passes[loop.head]
        # from outside: all passes but those that a latch led to
        latches = [each for each in before[loop.head] if each in loop.blocks]
        entries = max(1, passes - sum(_edge(taken, each, loop.head) for each in latches))
        if not any(other.parent == number for other in taken.loops):
            waits = _waits(taken, loop, labels, max(1, passes - entries))
    collided = 0.0
    for label in labels if number is not None else ():
        for each in blocks[label].instructions:
            share = taken.forwarded[each.result][1] if each.result in taken.forwarded else 0.0
            if 0 < share < _OFTEN and _placed_late(taken, each, taken.loops[number or 0].blocks):
                collided += share * taken.passes[label]
    chain = waits.chain
    worst = max(missed, key=lambda each: missed[each], default=0)
    return CoreLoop(
        line=line,
        passes=passes,
        entries=entries,
        operations=operations,
        chain={} if chain is None else dict(chain.operations),
        chain_lines=() if chain is None else tuple(sorted({places.line(each) for each in chain.debug} - {0})),
        branches=jumped
        if taken.jumps is not None
        else sum(taken.passes[label] for label in labels if label in taken.branches),
        missed=sum(missed.values()),
        learnt=learnt,
        missed_line=worst if missed[worst] else 0,
        tested_lines=tested.lines(taken, labels, places) if missed[worst] else (),
        missed_share=min(1.0, missed[worst] / branches[worst]) if branches[worst] else 0.0,
        innermost=number is not None and not any(other.parent == number for other in taken.loops),
        collided=collided,
        chain_kept=waits.kept,
        depth=dict(waits.depth),
        flow=waits.flow,
        missed_after=dict(waits.missed_after),
        dearer={row: times for row, times in taken.dearer.items() if row[row.index("call ") :] in operations},
        untraced=taken.untraced,
        places={kind: tuple(sorted(lines)) for kind, lines in placed.items()},
        restarts=0
        if chain is None or number is None
        else _restarts(taken, taken.loops[number], chain.carried, before),
    )


def _lines_of(taken: profile.Profile, places: Places) -> frozenset[int]:
    """The lines that a function's instructions are known to be of."""
    return frozenset(places.line(each.debug) for each in taken.function.instructions()) - {0}


def _elsewhere(instruction: Instruction, kind: str) -> bool:
    """Whether what an instruction is stands in machine code of another function, which it calls."""
    return _called(kind) or (kind == "locked" and instruction.opcode == "call")


def _called(kind: str) -> bool:
    """Whether a kind stands for a call; of a square root it is an instruction of its own."""
    return kind.startswith("call ") and not kind.startswith("call sqrt")


def _once(instructions: list[Instruction]) -> list[Instruction]:
    """Without calls of functions that stand there twice with the same operands: the code generator calls once."""
    found, seen = [], set[str]()
    for each in instructions:
        if each.opcode == "call":
            text = each.text.partition(" = ")[2].partition(", !dbg")[0]
            if text and text in seen:
                continue
            seen.add(text)
        found.append(each)
    return found


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


class _Waits(NamedTuple):
    """What waits for what in a loop.

    The chain round it and how often it goes on; the way through a pass, and that to a missed branch; all of it.
    """

    chain: chains.Chain | None = None
    kept: float = 1.0
    depth: Mapping[str, float] = {}
    flow: tuple[FlowStep, ...] = ()
    missed_after: Mapping[str, float] = {}


def _waits(taken: profile.Profile, loop: control_flow.NaturalLoop, labels: list[str], goes_on: int) -> _Waits:
    """What waits in `loop`, of the blocks `labels`; `goes_on`: passes that another one follows."""
    often = _SELDOM * taken.passes[loop.head]
    run = [label for label in labels if taken.passes[label] >= often]
    if not run or loop.head not in run or not taken.passes[loop.head]:
        return _Waits()
    # each behind what leads to it: the compiler may write them in any order
    inside = {
        label: [to for to in taken.function.blocks[label].following if to in loop.blocks] for label in labels
    }
    ordered = [label for label in control_flow.in_order(inside, loop.head) if label in run]
    held = [[_as_jump(each, taken) for each in taken.function.blocks[label].instructions] for label in ordered]
    head = sum(each.opcode == "phi" for each in held[0])
    kind_in = choices.kinds([each for block in held for each in block])
    found_links = handed_on.links(taken.forwarded, held, taken.crossed, _OFTEN, taken.function.instructions())
    links = [_among_following(each, taken.passes[loop.head] / goes_on) for each in found_links]
    depth = chains.deepest(held, head, loop.blocks, kind_in, usual_latency)
    after = _missed_after(taken, ordered, held, head, loop.blocks, kind_in)
    alike = all(taken.passes[label] >= _NEARLY_ALL * goes_on for label in ordered)
    turns = () if alike else _turns(taken, loop, ordered, goes_on)
    steps = flow.steps(held, head, loop.blocks, links, kind_in, taken.crossed, turns)
    steps = flow.over_calls(steps) if taken.machine else steps

    def came(number: int, label: str) -> float:
        return float(_edge(taken, label, ordered[number]))

    found = chains.longest(held, head, loop.blocks, links, kind_in, usual_latency, came)
    if found is None:
        return _Waits(depth=depth, flow=steps, missed_after=after)
    calls = sum(
        (kind_of(each) or ("",))[0].startswith("call ") and "sqrt" not in each.text
        for block in held
        for each in block
    )
    # what a call is given and gives back stays in registers
    calls -= round(sum(count for kind, count in found.operations.items() if _called(kind)))
    if calls > 0 and taken.machine and any(kind.startswith("fp ") for kind in found.operations):
        # x86 keeps no floating-point number in a register over a call: it goes through memory
        found = found._replace(operations={**found.operations, "store forward": float(calls)})
    return _Waits(found, found.kept, depth, steps, after)


def _among_following(link: chains.Link, more: float) -> chains.Link:
    """`link` as in passes that follow another, of which there are `more` times fewer than of all."""
    share = min(1.0, link.share * more) if link.passes else link.share
    return link._replace(share=1.0 if share >= _NEARLY_ALL else share)


def _turns(
    taken: profile.Profile, loop: control_flow.NaturalLoop, labels: Sequence[str], goes_on: int
) -> tuple[int, ...]:
    """Which passes run each of the blocks `labels`, 0 where nearly all do."""
    following = {label: dict.fromkeys(taken.function.blocks[label].following) for label in loop.blocks}
    ways = {
        # of several ways that are no branch's, as often as the blocks that they lead to ran
        label: [(to, _edge(taken, label, to) if label in taken.branches else taken.passes[to]) for to in those]
        for label, those in following.items()
    }
    found = pass_ways.turns_of(labels, loop.head, loop.blocks, ways)
    return tuple(
        0 if taken.passes[label] >= _NEARLY_ALL * goes_on else each or 1
        for label, each in zip(labels, found, strict=True)
    )


def _missed_after(
    taken: profile.Profile,
    labels: Sequence[str],
    held: Sequence[Sequence[Instruction]],
    head: int,
    inside: frozenset[str],
    kind_in: Callable[[Instruction], tuple[str, float] | None],
) -> dict[str, float]:
    """What the missed branches of the blocks `labels` wait for in their pass, in the mean: operations by kind."""
    wrong: dict[int | str, float] = {}
    for number, label in enumerate(labels):
        simulated, _, missed = taken.branches.get(label, (0, 0, 0))
        if missed:
            wrong[number] = missed * taken.passes[label] / simulated
        elif missed := taken.missed_of_switch(label):
            wrong[number] = missed
        for each in taken.function.blocks[label].instructions:
            simulated, _, missed = taken.selects.get(each.result, (0, 0, 0))
            if missed and (tests := _TESTED.search(each.text)):
                wrong[tests[1]] = missed * taken.passes[label] / simulated
    found: dict[str, float] = {}
    ways = chains.deepest_to(held, head, inside, kind_in, usual_latency, wrong)
    for end, way in ways.items():
        for kind, count in way.items():
            found[kind] = found.get(kind, 0.0) + count * wrong[end] / sum(wrong.values())
    return found


def _restarts(
    taken: profile.Profile, loop: control_flow.NaturalLoop, carried: tuple[str, ...], before: Any
) -> int:
    """How often a chain begins anew: what it hands on may be handed to the next entry too, as a sum over all.

    Args:
        taken: the profile.
        loop: whose chain it is.
        carried: phis of its head that the chain goes through.
        before: the blocks that lead to each.
    """
    blocks = taken.function.blocks
    while loop.parent is not None and carried:
        around = taken.loops[loop.parent]
        made = _made_of(
            {each.result for label in loop.blocks for each in blocks[label].instructions if each.result},
            [each for label in around.blocks for each in blocks[label].instructions if each.result],
        )
        head = {each.result: each for each in blocks[loop.head].instructions if each.opcode == "phi"}
        outer = {
            each.result: each
            for label in around.blocks - loop.blocks
            for each in blocks[label].instructions
            if each.opcode == "phi"
        }
        todo = [
            value
            for name in carried
            if name in head
            for value, label in INCOMING.findall(head[name].text)
            if label not in loop.blocks
        ]
        seen: set[str] = set()
        while todo:
            value = todo.pop()
            if value in outer and value not in seen:
                seen.add(value)
                todo += [each for each, _ in INCOMING.findall(outer[value].text)]
        starts = {each.result for each in blocks[around.head].instructions if each.opcode == "phi"}
        # a phi of the loop around that takes what this one has made
        if not any(made & set(VALUE.findall(outer[each].text)[1:]) for each in seen):
            break
        loop, carried = around, tuple(seen & starts)
    latches = [each for each in before[loop.head] if each in loop.blocks]
    return max(1, taken.passes[loop.head] - sum(_edge(taken, each, loop.head) for each in latches))


def _made_of(values: set[str], instructions: list[Instruction]) -> set[str]:
    """`values`, and what `instructions` make of them: as a loop beside theirs, which goes on with a sum."""
    found = set(values)
    needs = {each.result: set(VALUE.findall(each.text.partition(" = ")[2])) for each in instructions}
    todo = True
    while todo:
        more = {result for result, used in needs.items() if result not in found and used & found}
        found |= more
        todo = bool(more)
    return found


def _placed_late(taken: profile.Profile, load: Instruction, inside: frozenset[str]) -> bool:
    """Whether the address of `load` is converted in the loop from a floating-point number.

    So late an address is known, that loads behind it have begun; one that is itself loaded comes in time.
    """
    made = {each.result: each for label in inside for each in taken.function.blocks[label].instructions}
    todo, seen = VALUE.findall(load.text.partition(" = ")[2]), set[str]()
    while todo:
        value = todo.pop()
        if value in seen or value not in made:
            continue
        seen.add(value)
        if made[value].opcode in ("fptosi", "fptoui"):
            return True
        if made[value].opcode == "load":
            continue
        todo += VALUE.findall(made[value].text.partition(" = ")[2])
    return False


def _as_jump(instruction: Instruction, taken: profile.Profile) -> Instruction:
    """A select that is a jump waits for none of its condition: what it chooses is foretold."""
    if instruction.result not in taken.selects:
        return instruction
    if instruction.opcode == "call":
        # a minimum or maximum of two whole numbers
        operands = instruction.text.partition("(")[2].partition(")")[0]
        return instruction._replace(text=f"{instruction.result} = select i1 true, {operands}", opcode="select")
    return instruction._replace(text=re.sub(r"(select (?:[a-z ]+ )?i1) %\S+,", r"\1 true,", instruction.text))
