"""What loads find of stores a few passes before: of their own loop, or of one that takes turns with it.

Where a loop around was unrolled, its copies of an inner loop go on with what the one before has stored: each pass
of one waits for a pass of the other, and that for this one. A loop then waits as if for its own store, as many
passes before as both together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rooflab.loops.lowered import chains
from rooflab.loops.lowered.ir_text import Instruction

_POINTER = re.compile(r"(?:load|store) .*?ptr (?P<pointer>%(?:[\w.$-]+|\"[^\"]*\")|@\S+?),")
Forwarded = Mapping[str, tuple[str, float, float]]  # as `Profile.forwarded`


def links(
    forwarded: Forwarded,
    held: Sequence[Sequence[Instruction]],
    crossed: Mapping[str, float],
    often: float,
    function: Iterable[Instruction] = (),
) -> list[chains.Link]:
    """The links of a loop whose instructions are `held`.

    Args:
        forwarded: of loads, the store whose value each found, in which share of its runs, how many passes before.
        held: instructions of its blocks.
        function: instructions of all loops, those that may take turns with it among them.
        crossed: pieces of vectors that lay across two lines, by access.
        often: share from which on a load is taken to find it always.
    """
    instructions = [each for block in held for each in block]
    loads = {each.result: each for each in instructions if each.opcode == "load"}
    stores = {_pointer(each): each.text for each in instructions if each.opcode == "store"}
    places = {each.result: _pointer(each) for each in function if each.opcode == "load"}
    found: list[chains.Link] = []
    for load, (store, share, passes) in forwarded.items():
        if share < often:
            continue
        if load in loads and (mine := stores.get(_pointer(loads[load]))) not in (None, store):
            around = _around(store, mine, forwarded, places, often)
            if around is not None and store not in stores.values():
                store, passes = mine, max(1.0, passes + around)
        found.append(chains.Link(store, load, round(passes), crossed.get(load, 0.0) >= often, min(1.0, share)))
    return found


def _around(store: str, mine: str, forwarded: Forwarded, places: Mapping[str, str], often: float) -> float | None:
    """Passes from the store `mine` to `store`, each of whose loops goes on with what the one before has stored.

    None where they don't: a loop that writes anew what this one reads does not wait for it.
    """
    passes, seen = 0.0, set[str]()
    while store != mine:
        place = _place(store)
        ways = [
            (before, came)
            for load, (came, share, before) in forwarded.items()
            if share >= often and places.get(load) == place
        ]
        if not ways or store in seen:
            return None
        seen.add(store)
        before, store = min(ways)
        passes += before
    return passes


def _pointer(access: Instruction) -> str:
    return _place(access.text)


def _place(text: str) -> str:
    match = _POINTER.search(text)
    return match["pointer"] if match else ""
