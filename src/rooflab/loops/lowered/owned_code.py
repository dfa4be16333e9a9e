"""Operations of machine code by the block of the IR that it is of, as often as each ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rooflab.loops.lowered import profile
from rooflab.loops.lowered.machine_code import Block, owners

_FLOW_ROUNDS = 20  # blocks of the code generator's own in a row
# The function of the library behind an instruction, for arguments outside its domain: a block that LLVM's code
# generator (its pass "partially inline libcalls") names so.
_SELDOM_CALLED = ("%call.sqrt",)


def operations(taken: profile.Profile) -> dict[str, dict[str, float]]:
    """Operations of all passes by kind, by the IR's block that the machine code is of.

    Where its jumps were traced they say how often each block ran. Else one of the code generator's own is passed
    as often as control flows into it, half of a fork's passes going either way; copies of a block share its
    passes, unless a select within became a jump, so that it came apart.
    """
    if taken.code_passes:
        names = [label.replace('"', "") for label in owners(taken.function, taken.machine)]
        return _by_owner(taken.machine, taken.code_passes, names)
    passes = {label.replace('"', ""): float(count) for label, count in taken.passes.items()}
    with_jumps = {
        label.replace('"', "")
        for label, block in taken.function.blocks.items()
        if any(each.result in taken.selects for each in block.instructions)
    }
    copies = Counter(each.name for each in taken.machine)
    known = {
        number: passes[each.name] / (1 if each.name in with_jumps else copies[each.name])
        for number, each in enumerate(taken.machine)
        if each.name in passes
    }
    ran, leading = passes_of(taken.machine, known)
    names = ["" if owner is None else taken.machine[owner].name for owner in leading]
    return _by_owner(taken.machine, ran, names)


def _by_owner(code: Sequence[Block], ran: Sequence[float], names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Operations of all passes by kind, by `names` of the IR's blocks; `ran`: passes of each block of `code`."""
    found: dict[str, dict[str, float]] = {}
    for each, name, count in zip(code, names, ran, strict=True):
        held = found.setdefault(name, {})
        for kind, number in each.operations.items():
            held[kind] = held.get(kind, 0.0) + number * count
    return found


def passes_of(code: Sequence[Block], known: Mapping[int, float]) -> tuple[list[float], list[int | None]]:
    """Passes of each block of `code`, and the block of `known` that leads to it; `known`: passes of some."""
    after: list[list[int]] = [[] for _ in code]
    for number, each in enumerate(code):
        for one in each.before:
            after[one].append(number)
    ran = [known.get(number, 0.0) for number in range(len(code))]
    owners: list[int | None] = [number if number in known else None for number in range(len(code))]
    for _ in range(_FLOW_ROUNDS):
        changed = False
        for number, each in enumerate(code):
            if number in known:
                continue
            if each.name.startswith(_SELDOM_CALLED):
                count = 0.0
            else:
                count = sum(ran[one] / len(_usual_ways(code, after[one])) for one in each.before)
            owner = next((owners[one] for one in each.before if owners[one] is not None), None)
            changed = changed or abs(count - ran[number]) > 1e-6 * count or owner != owners[number]
            ran[number], owners[number] = count, owner
        if not changed:
            break
    return ran, owners


def _usual_ways(code: Sequence[Block], ways: list[int]) -> list[int]:
    """Those of the blocks `ways` that control goes to for ordinary arguments."""
    return [each for each in ways if not code[each].name.startswith(_SELDOM_CALLED)] or ways
