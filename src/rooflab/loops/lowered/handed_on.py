"""What loads find of stores a few passes before: of their own loop, or of one that takes turns with it.

Where a loop around was unrolled, its copies of an inner loop go on with what the one before has stored: each pass
of one waits for a pass of the other, and that for this one. A loop then waits as if for its own store, as many
passes before as both together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rooflab.loops.lowered import chains
from rooflab.loops.lowered.ir_text import Instruction

_POINTER = re.compile(r"(?:load|store) .*?ptr (?P<pointer>%(?:[\w.$-]+|\"[^\"]*\")|@\S+?),")
Forwarded = Mapping[str, tuple[str, float, float]]  # as `Profile.forwarded`


def links(
    forwarded: Forwarded, held: Sequence[Sequence[Instruction]], crossed: Mapping[str, float], often: float
) -> list[chains.Link]:
    """The links of a loop whose instructions are `held`.

    Args:
        forwarded: of loads, the store whose value each found, in which share of its runs, how many passes before.
        held: instructions of its blocks.
        crossed: pieces of vectors that lay across two lines, by access.
        often: share from which on a load is taken to find it always.
    """
    instructions = [each for block in held for each in block]
    loads = {each.result: each for each in instructions if each.opcode == "load"}
    stores = {_pointer(each): each.text for each in instructions if each.opcode == "store"}
    own, found = set(stores.values()), list[chains.Link]()
    for load, (store, share, passes) in forwarded.items():
        if share < often:
            continue
        if load in loads and store not in own and (mine := stores.get(_pointer(loads[load]))) is not None:
            back = [
                before
                for other, (stored, part, before) in forwarded.items()
                if stored == mine and part >= often and other not in loads
            ]
            if back:
                store, passes = mine, max(1.0, passes + min(back))
        found.append(chains.Link(store, load, round(passes), crossed.get(load, 0.0) >= often))
    return found


def _pointer(access: Instruction) -> str:
    match = _POINTER.search(access.text)
    return match["pointer"] if match else ""
