"""The text of a lowered twin: what was planned, written into the IR of the function."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rooflab.cachesim.native.layout import LOAD, STORE
from rooflab.loops.lowered import control_flow
from rooflab.loops.lowered.bounds import Raised
from rooflab.loops.lowered.counted_access import NOTE_WORDS, OUTSIDE, VIEW
from rooflab.loops.lowered.instrument import WORDS, Access, Plan
from rooflab.loops.lowered.ir_text import VALUE, Function
from rooflab.loops.lowered.pointers import ALLOCATIONS, called
from rooflab.loops.twin import hooks

_ALLOCATION = re.compile(rf"call (?P<attributes>.*?)ptr @(?:{'|'.join(ALLOCATIONS)})\(i64 (?P<size>[^,)]+)[^)]*\)")
_TEST = re.compile(r"^\s*br i1 (?P<test>%\S+), label (?P<yes>%\S+), label (?P<no>%[^\s,]+)")
_SAME = re.compile(r"= bitcast (?P<kind>\w+) (?P<value>\S+) to (?P=kind)\b")
_CHOSEN = re.compile(r"= select i1 (?P<test>%\S+), \w+ (?P<yes>\S+), \w+ [^\s,]+")


# Words of a twin that its caller fills in; from CONSTANTS on: where the module's constant arrays lie.
LOW, SIZE, LAST_LINES, COUNTS, UNIT_CALL, SPLIT_CALL, STATE, ALLOCATOR, CONSTANTS = range(9)
HERE, PASSES, NOTES, EVENTS = "rl_here", "rl_passes", "rl_notes", "rl_events"  # globals: those words, counters, …
_FIXED = 987_654_321  # of the empty description that says: this word does not change while the twin runs
# The end of a function that is handed an access: one that lies outside is counted in the reference's words, %w.
COUNTED_OUTSIDE = f"""no:
  %words = inttoptr i64 %w to ptr
  %outside = getelementptr i64, ptr %words, i64 {OUTSIDE}
  %was = load i64, ptr %outside
  %is = add i64 %was, 1
  store i64 %is, ptr %outside
  ret i64 0
}}
"""


class Wiring(NamedTuple):
    """What a twin's text needs beside the plan; the addresses that it works on it finds in its words.

    Attributes:
        shift, slot_shift, slot_mask, compared_bits: of the first level (`cachesim.level.access.View`).
        constants: the module's constant arrays in the order of their words.
        access, within_range, allocate, release, within: names of the functions of `counted_access`.
    """

    shift: int
    slot_shift: int
    slot_mask: int
    compared_bits: int
    constants: tuple[str, ...]
    access: str
    within_range: str
    allocate: str
    release: str
    within: str


def write(ir: str, functions: Sequence[Function], plan: Plan, wiring: Wiring) -> str:
    """The module `ir` with all that `plan` says."""
    parts: list[str] = []
    rest = ir
    for function in functions:
        start = rest.index(function.header)
        end = rest.index("\n}", start) + 2
        parts += [rest[:start], _written(function, plan, wiring)]
        rest = rest[end:]
    known = "" if " @NRT_MemInfo_alloc(" in ir else "declare ptr @NRT_MemInfo_alloc(i64)\n"
    return "".join([*parts, rest, known, _words(plan, wiring), _helpers(wiring)])


def _words(plan: Plan, wiring: Wiring) -> str:
    sizes = {
        HERE: CONSTANTS + len(wiring.constants),
        PASSES: max(1, len(plan.owners)),
        NOTES: NOTE_WORDS * max(1, len(plan.refs)),
        EVENTS: hooks.VARIABLES + max(1, len(plan.loops)),
    }
    lines = [f"@{name} = global [{size} x i64] zeroinitializer, align 64" for name, size in sizes.items()]
    return "\n".join(["", *lines, f"!{_FIXED} = !{{}}", ""])


def _word(name: str, number: int) -> str:
    """Word `number` of a global, as a pointer."""
    return f"ptr getelementptr (i64, ptr @{name}, i64 {number})"


def _here(result: str, number: int) -> str:
    """A line that reads a word which stays as it is."""
    return f"  {result} = load i64, {_word(HERE, number)}, align 8, !invariant.load !{_FIXED}"


def _written(function: Function, plan: Plan, wiring: Wiring) -> str:
    split = {
        label: number
        for (name, label), number in plan.heads.items()
        if name == function.name and function.header.startswith(("define i32", "define internal i32"))
    }
    counters = _counters(function, plan)
    steady = _steady(function)
    lines = [function.header]
    index = 0
    for number, (label, block) in enumerate(function.blocks.items()):
        if number or label != "%0":
            lines.append(f"{label[1:]}:")
        phis = sum(each.opcode == "phi" for each in block.instructions)
        for position, each in enumerate(block.instructions):
            if position == phis:
                if not number:
                    lines += [f"  %rl.n{each} = alloca i64" for each in counters]
                    lines += [f"  store i64 0, ptr %rl.n{each}" for each in counters]
                lines += _beginning(function, label, plan, split)
            key = (function.name, index)
            for access in plan.accesses.get(key, ()):
                lines += _reported(access, f"rl.{index}.{access.ref}", plan, wiring)
            for n, (counter, factors) in enumerate(plan.products.get(key, ())):
                lines += multiplied(f"rl.{index}.product{n}", factors)
                lines += _counted(f"rl.{index}.work{n}", counter, f"%rl.{index}.product{n}")
            if key in plan.raises:
                lines += _raised(list(plan.raises).index(key), plan.raises[key])
            told = steady.get(f"phi {label}" if each.opcode == "phi" else label, {})
            text = _told(each.text, told)
            if each.opcode == "ret":
                lines += _kept(f"rl.{index}", counters)
            if each.opcode == "phi":
                text = _renamed(text, split)
            elif each.opcode == "call" and called(text) in ALLOCATIONS:
                text = _ALLOCATION.sub(r"call ptr @rl_allocate(i64 \g<size>)", text)
            lines.append(text)
            index += 1
    return "\n".join([*lines, "}"])


def _beginning(function: Function, label: str, plan: Plan, split: Mapping[str, int]) -> list[str]:
    """What a block does first: count itself, and where a loop begins, see whether it is to stop."""
    lines: list[str] = []
    if label in split:
        number = split[label]
        name = f"rl.loop{number}"
        lines += [
            f"  %{name}.stop = load atomic i64, {_word(EVENTS, hooks.STOP)} monotonic, align 8",
            f"  %{name}.goes = icmp eq i64 %{name}.stop, 0",
            f"  br i1 %{name}.goes, label %{name}.on, label %{name}.off",
            f"{name}.off:",
            _noted(hooks.AT, str(number)),
            *_variables(number, plan),
            *_kept(name, _counters(function, plan)),
            "  ret i32 -1",
            f"{name}.on:",
        ]
    counter = plan.counters.get((function.name, label))
    if counter is not None:
        lines += _counted(f"rl.pass{counter}", counter, "1")
    return lines


def _variables(number: int, plan: Plan) -> list[str]:
    """What a stop in a loop notes: the variables of it and of those around it."""
    lines = []
    within: int | None = number
    while within is not None:
        if within in plan.variables:
            lines.append(_noted(hooks.VARIABLES + within, plan.variables[within]))
        within = plan.loops[within].parent
    return lines


def _raised(number: int, raised: Raised) -> list[str]:
    """What an exception notes: which place set it, the index and how many there are, the variables around."""
    values = [(hooks.REF, str(number))]
    if raised.asked:
        values += [(hooks.INDEX, raised.asked), (hooks.LENGTH, raised.length)]
    values += [(hooks.VARIABLES + loop, value) for loop, value in raised.loops if value]
    return [_noted(word, value) for word, value in values]


def _noted(word: int, value: str) -> str:
    return f"  store i64 {value}, {_word(EVENTS, word)}, align 8"


def _counters(function: Function, plan: Plan) -> list[int]:
    """The counters that grow in `function`, which counts them in variables of its own until it returns."""
    found = {number for (name, _), number in plan.counters.items() if name == function.name}
    for (name, _), held in plan.accesses.items():
        if name == function.name:
            found |= {plan.refs[each.ref].block for each in held}
    for (name, _), products in plan.products.items():
        if name == function.name:
            found |= {number for number, _ in products}
    return sorted(found)


def _kept(name: str, counters: Sequence[int]) -> list[str]:
    """What a function does before it returns: its counters are added to those of all."""
    lines = []
    for number in counters:
        where = f"{_word(PASSES, number)}, align 8"
        lines += [
            f"  %{name}.k{number}.was = load i64, {where}",
            f"  %{name}.k{number}.here = load i64, ptr %rl.n{number}",
            f"  %{name}.k{number}.is = add i64 %{name}.k{number}.was, %{name}.k{number}.here",
            f"  store i64 %{name}.k{number}.is, {where}",
        ]
    return lines


def _renamed(phi: str, split: Mapping[str, int]) -> str:
    """A phi whose incoming labels are those of the blocks that a loop's head was cut into."""

    def change(match: re.Match[str]) -> str:
        label = match[1]
        return f", %rl.loop{split[label]}.on ]" if label in split else match[0]

    return re.sub(r", (%(?:[\w.$-]+|\"[^\"]*\")) \]", change, phi)


def _steady(function: Function) -> dict[str, dict[str, str]]:
    """What values that a loop's test chooses between are wherever the test held: by block, by name.

    numba steps the variable of a counted loop only if it goes on. What runs within the loop, and its next trip, is
    there only because it did: told so, LLVM knows the range of the variable, and that an index is not below zero.
    """
    graph = {label: block.following for label, block in function.blocks.items()}
    known: dict[str, dict[str, str]] = {}
    for loop in control_flow.loops(graph, next(iter(graph))):
        head = function.blocks[loop.head].instructions
        match = _TEST.match(head[-1].text)
        if match is None or match["yes"] not in loop.blocks or match["no"] in loop.blocks:
            continue
        same = {each.result: found["value"] for each in head if (found := _SAME.search(each.text))}
        chosen = {}
        for each in head:
            found = _CHOSEN.search(each.text)
            if found and _alias(found["test"], same) == _alias(match["test"], same):
                chosen[each.result] = found["yes"]
            elif each.result in same and same[each.result] in chosen:
                chosen[each.result] = chosen[same[each.result]]
        for label in loop.blocks - {loop.head}:
            known.setdefault(label, {}).update(chosen)
        known.setdefault(f"phi {loop.head}", {}).update(chosen)
    return known


def _alias(value: str, same: Mapping[str, str]) -> str:
    while value in same:
        value = same[value]
    return value


def _told(text: str, known: Mapping[str, str]) -> str:
    """`text` with the values that are `known` in the place of their names, but for the one that it defines."""
    if not known:
        return text
    name, equals, rest = text.partition(" = ") if text.lstrip().startswith("%") else ("", "", text)
    return name + equals + VALUE.sub(lambda each: known.get(each[0], each[0]), rest)


def _counted(name: str, counter: int, amount: str) -> list[str]:
    return _increased(name, f"ptr %rl.n{counter}, align 8", amount)


def grown(name: str, address: int, amount: str) -> list[str]:
    """Lines that add `amount` to the word at `address`, by values whose names begin with `name`."""
    return _increased(name, f"ptr inttoptr (i64 {address} to ptr), align 8", amount)


def _increased(name: str, where: str, amount: str) -> list[str]:
    return [
        f"  %{name}.was = load i64, {where}",
        f"  %{name}.is = add i64 %{name}.was, {amount}",
        f"  store i64 %{name}.is, {where}",
    ]


def multiplied(name: str, factors: Sequence[str]) -> list[str]:
    """Lines that compute the product of `factors` as %`name`."""
    if factors[0] == WORDS:
        return [f"  %{name}.up = add i64 {factors[1]}, 7", f"  %{name} = lshr i64 %{name}.up, 3"]
    lines: list[str] = []
    factors = [_widened(f"{name}.f{n}", each, lines) for n, each in enumerate(factors)]
    lines.append(f"  %{name}{'' if len(factors) == 1 else '.0'} = add i64 {factors[0]}, 0")
    for n, factor in enumerate(factors[1:], 1):
        last = "" if n == len(factors) - 1 else f".{n}"
        lines.append(f"  %{name}{last} = mul i64 %{name}.{n - 1}, {factor}")
    return lines


def _widened(name: str, factor: str, lines: list[str]) -> str:
    """A factor of 64 bits: one with a type, "i32 %n", is made it by `lines`, and nothing where it is below 0."""
    kind, _, value = factor.rpartition(" ")
    if not kind:
        return value
    if kind != "i64":
        lines.append(f"  %{name}.wide = sext {kind} {value} to i64")
        value = f"%{name}.wide"
    lines += [
        f"  %{name}.none = icmp slt i64 {value}, 0",
        f"  %{name} = select i1 %{name}.none, i64 0, i64 {value}",
    ]
    return f"%{name}"


def _reported(access: Access, name: str, plan: Plan, wiring: Wiring) -> list[str]:
    lines = [f"  %{name}.p = ptrtoint ptr {access.pointer} to i64"]
    if access.constant:
        lines += [
            f"  %{name}.o = sub i64 %{name}.p, ptrtoint (ptr {access.constant} to i64)",
            _here(f"%{name}.low", CONSTANTS + wiring.constants.index(access.constant)),
            f"  %{name}.a = add i64 %{name}.o, %{name}.low",
        ]
    else:
        lines += [_here(f"%{name}.low", LOW), f"  %{name}.a = sub i64 %{name}.p, %{name}.low"]
    request = STORE if access.write else LOAD
    notes = f"ptrtoint ({_word(NOTES, NOTE_WORDS * access.ref)} to i64)"
    what = f"i64 {access.nbytes}, i64 {request}, i64 {access.ref}, i64 {notes}"
    if access.elements:
        lines += multiplied(f"{name}.n", access.elements)
        lines.append(f"  %{name}.c = call i64 @rl_range(i64 %{name}.a, {what}, i64 %{name}.n)")
        return lines + _counted(name, plan.refs[access.ref].block, f"%{name}.c")
    for lane in range(access.lanes):
        at = f"%{name}.a"
        if lane:
            lines.append(f"  %{name}.a{lane} = add i64 %{name}.a, {lane * access.nbytes}")
            at = f"%{name}.a{lane}"
        if access.checked:
            lines.append(f"  %{name}.c{lane} = call i64 @rl_checked(i64 {at}, {what})")
            lines += _counted(f"{name}.g{lane}", plan.refs[access.ref].block, f"%{name}.c{lane}")
        else:
            within = access.whole and access.nbytes <= 1 << wiring.shift
            lines.append(f"  call void @rl_{'within' if within else 'access'}(i64 {at}, {what})")
    return lines


def _helpers(wiring: Wiring) -> str:
    many = ", ".join(["i64"] * (len(VIEW) + 5))
    view = (
        f"i64 %v0, i64 {wiring.shift}, i64 {wiring.slot_shift}, i64 {wiring.slot_mask},"
        f" i64 {wiring.compared_bits}, i64 %v1, i64 %v2, i64 %v3, i64 %v4"
    )
    given = f"ptr @rl_result, ptr @rl_raised, {view}, i64 %a, i64 %n, i64 %q, i64 %r, i64 %w"
    changing = (COUNTS, UNIT_CALL, SPLIT_CALL, STATE)
    words = [f"  %v{n} = load i64, {_word(HERE, word)}, align 8" for n, word in enumerate(changing, 1)]
    opened = "\n".join([_here("%v0", LAST_LINES), *words])
    handed = f"  %allocator = load i64, {_word(HERE, ALLOCATOR)}"
    sized = _here("%size", SIZE)
    return f"""
@rl_result = internal global i64 0
@rl_raised = internal global ptr null
declare i32 @{wiring.access}(ptr, ptr, {many})
declare i32 @{wiring.within}(ptr, ptr, {many})
declare i32 @{wiring.within_range}(ptr, ptr, {many}, i64)
declare i32 @{wiring.allocate}(ptr, ptr, i64, i64)
declare i32 @{wiring.release}(ptr, ptr, i64, i64, i64)
define internal void @rl_access(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w) alwaysinline {{
{opened}
  %s = call i32 @{wiring.access}({given})
  ret void
}}
define internal void @rl_within(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w) alwaysinline {{
{opened}
  %s = call i32 @{wiring.within}({given})
  ret void
}}
define internal i64 @rl_checked(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w) alwaysinline {{
{sized}
  %inside = icmp ult i64 %a, %size
  br i1 %inside, label %yes, label %no
yes:
  call void @rl_access(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w)
  ret i64 1
{COUNTED_OUTSIDE}define internal i64 @rl_range(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w, i64 %c) noinline {{
{sized}
  %inside = icmp ult i64 %a, %size
  br i1 %inside, label %yes, label %no
yes:
{opened}
  %s = call i32 @{wiring.within_range}({given}, i64 %c)
  ret i64 %c
no:
  ret i64 0
}}
define internal void @rl_release(ptr %data, i64 %size, ptr %info) noinline {{
  %raised = alloca ptr
  %nothing = alloca i64
  %a = ptrtoint ptr %data to i64
{handed}
  %s = call i32 @{wiring.release}(ptr %nothing, ptr %raised, i64 %allocator, i64 %a, i64 %size)
  ret void
}}
define internal ptr @rl_allocate(i64 %size) noinline {{
  %raised = alloca ptr
  %result = alloca i64
{handed}
  %s = call i32 @{wiring.allocate}(ptr %result, ptr %raised, i64 %allocator, i64 %size)
  %a = load i64, ptr %result
  %none = icmp eq i64 %a, 0
  br i1 %none, label %full, label %good
full:
  ret ptr null
good:
  %meminfo = call ptr @NRT_MemInfo_alloc(i64 8)
  %words = getelementptr i64, ptr %meminfo, i64 1
  store ptr @rl_release, ptr %words
  %data = getelementptr i64, ptr %meminfo, i64 3
  %where = inttoptr i64 %a to ptr
  store ptr %where, ptr %data
  %extent = getelementptr i64, ptr %meminfo, i64 4
  store i64 %size, ptr %extent
  ret ptr %meminfo
}}
"""
