"""What the branches of a loop test: the lines of the source on which it was loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rooflab.loops.lowered.ir_text import VALUE, Instruction, Places
from rooflab.loops.lowered.profile import Profile

_AMONG_THE_MOST = 0.5  # of the line with the most: those that are told beside it


def lines(taken: Profile, labels: Sequence[str], places: Places) -> tuple[int, ...]:
    """Lines of the loads that most missed branches of the blocks `labels` wait for, in order; () where none does.

    Followed back from what is tested to the loads, but not through a pass before.
    """
    heads = {each.head for each in taken.loops}
    made = {
        each.result: each
        for label, block in taken.function.blocks.items()
        for each in block.instructions
        if each.result and not (each.opcode == "phi" and label in heads)
    }
    waited: Counter[int] = Counter()
    for label in labels:
        instructions = taken.function.blocks[label].instructions
        missed = [(instructions[-1], taken.branches[label])] if label in taken.branches else []
        if of_switch := taken.missed_of_switch(label):
            missed.append((instructions[-1], (taken.passes[label], 0, of_switch)))
        missed += [(each, taken.selects[each.result]) for each in instructions if each.result in taken.selects]
        for each, (_, _, wrong) in missed:
            for line in {places.line(load.debug) for load in _loads(each, made)} if wrong else ():
                waited[line] += wrong
    del waited[0]
    most = max(waited.values(), default=0)
    return tuple(sorted(line for line, count in waited.items() if count >= _AMONG_THE_MOST * most))


def _loads(branch: Instruction, made: dict[str, Instruction]) -> list[Instruction]:
    """The loads that what a branch, a choice or a switch tests is made of."""
    found, seen = [], set[str]()
    tests = branch.text if branch.opcode == "switch" else branch.text.partition("i1 ")[2]
    todo = VALUE.findall(tests.partition(",")[0])
    while todo:
        value = todo.pop()
        if value in seen or value not in made:
            continue
        seen.add(value)
        if made[value].opcode == "load":
            found.append(made[value])
        else:
            todo += VALUE.findall(made[value].text.partition(" = ")[2])
    return found
