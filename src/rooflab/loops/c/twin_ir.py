"""The text of a counted function of C: before each access its check and its count, its memory ours."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rooflab.cachesim.native.layout import LOAD, STORE
from rooflab.loops.c.call import called, named, signature
from rooflab.loops.c.lower import Lowered, bare
from rooflab.loops.c.memory import Object
from rooflab.loops.c.plan import RELEASES, CPlanner
from rooflab.loops.c.pointers import ALLOCATIONS
from rooflab.loops.c.support_ir import ENDED, NO_FUNCTION, Wiring, support
from rooflab.loops.lowered.counted_access import NOTE_WORDS, VIEW
from rooflab.loops.lowered.instrument import WORDS, Access, Plan
from rooflab.loops.lowered.ir_text import Function
from rooflab.loops.lowered.pointers import Root
from rooflab.loops.lowered.twin_ir import grown, multiplied

_TAKEN = {name: f"rl_{name}" for name in (*ALLOCATIONS, "posix_memalign")}
_CALL = re.compile(rf"@({'|'.join(map(re.escape, (*_TAKEN, *RELEASES)))})\(")
_INCOMING = re.compile(r",? ?\[ [^\]]*?, (%(?:[\w.$-]+|\"[^\"]*\")) \]")
_FIRST = re.compile(r"(= phi [^,\[]*?) ?,( \[)")
_SAVES = re.compile(r"@llvm\.stack(save|restore)(?:\.p0)?\(")
_ALLOCA = re.compile(r"^\s*(?P<name>%\S+) = alloca (?P<type>.*?)(?:, (?P<kind>i\d+) (?P<count>\S+?))?, align \d+")

_NEEDED = ("@llvm.memset.p0.i64(ptr, i8, i64, i1)", "@llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")


def write(lowered: Lowered, planner: CPlanner, plan: Plan, wiring: Wiring) -> str:
    """The module with all that `plan` says, and `rl_main`, which takes the slots and room for a result."""
    text = lowered.ir
    parts: list[str] = []
    for function in lowered.functions:
        start = text.index(function.header)
        end = text.index("\n}", start) + 2
        parts += [text[:start], _written(function, lowered, planner, plan, wiring)]
        text = text[end:]
    placed = {
        each.name: wiring.layout.memory.low + wiring.layout.objects[each.name].low for each in lowered.variables
    }
    whole = "".join([*parts, text])
    whole = re.sub(
        r"^@llvm\.(?:used|compiler\.used|global_ctors|global_dtors) = .*\n", "", whole, flags=re.MULTILINE
    )
    for each in lowered.variables:
        whole = re.sub(rf"^{re.escape(each.name)} = .*\n", "", whole, flags=re.MULTILINE)
    known = "".join(f"declare void {each}\n" for each in _NEEDED if f" {each.partition('(')[0]}(" not in whole)
    return located(whole, placed) + known + support(wiring) + _main(lowered) + _callable(lowered, planner)


def _callable(lowered: Lowered, planner: CPlanner) -> str:
    """What is called before a call through a pointer: it must lead to a function that the module knows."""
    if not planner.calls_through:
        return ""
    names = re.findall(r"^(?:define|declare) [^\n]*?(@(?:[\w.$-]+|\"[^\"]*\"))\(", lowered.ir, re.MULTILINE)
    names = [each for each in names if not each.startswith(("@llvm.", '@"llvm.'))]
    lines = [
        "define internal void @rl_callable(ptr %p, i64 %line) {",
        "  %k0 = icmp eq ptr %p, null",
        "  %o0 = xor i1 %k0, %k0",
    ]
    for n, name in enumerate(names, 1):
        lines += [f"  %k{n} = icmp eq ptr %p, {name}", f"  %o{n} = or i1 %o{n - 1}, %k{n}"]
    return "\n".join(
        [
            *lines,
            f"  br i1 %o{len(names)}, label %yes, label %no",
            "no:",
            f"  call void @rl_leave(i64 {NO_FUNCTION}, i64 %line, i64 0, i64 0)",
            "  unreachable",
            "yes:",
            "  ret void",
            "}",
            "",
        ]
    )


def located(text: str, placed: Mapping[str, int]) -> str:
    """`text` with the names of variables replaced by their addresses."""
    if not placed:
        return text
    names = "|".join(re.escape(each) for each in sorted(placed, key=len, reverse=True))
    return re.sub(rf"(?:{names})(?![\w.$-])", lambda match: f"inttoptr (i64 {placed[match[0]]} to ptr)", text)


def _written(function: Function, lowered: Lowered, planner: CPlanner, plan: Plan, wiring: Wiring) -> str:
    heads = {label: number for (name, label), number in plan.heads.items() if name == function.name}
    lines = [bare(function.header)]
    index = 0
    reached = _reached(function)
    for number, (label, block) in enumerate(function.blocks.items()):
        if label not in reached:
            # where exceptions went; what had led there is a plain call now
            index += len(block.instructions)
            continue
        if number or label != "%0":
            lines.append(f"{label[1:]}:")
        phis = sum(each.opcode == "phi" for each in block.instructions)
        for position, each in enumerate(block.instructions):
            if position == phis:
                if label in heads:
                    lines.append(f"  call void @rl_poll(i64 {heads[label]})")
                if (counter := plan.counters.get((function.name, label))) is not None:
                    lines += grown(f"rl.pass{counter}", wiring.passes + 8 * counter, "1")
            key = (function.name, index)
            for access in plan.accesses.get(key, ()):
                lines += _reported(access, f"rl.{index}.{access.ref}", planner, plan, wiring)
            for n, (counter, factors) in enumerate(plan.products.get(key, ())):
                lines += multiplied(f"rl.{index}.product{n}", factors)
                lines += grown(f"rl.{index}.work{n}", wiring.passes + 8 * counter, f"%rl.{index}.product{n}")
            if key in planner.divisions:
                lines += _divided(f"rl.{index}", *planner.divisions[key], each.opcode[0] == "s")
            if key in planner.calls_through:
                line, callee = planner.calls_through[key]
                lines.append(f"  call void @rl_callable(ptr {callee}, i64 {line})")
            if key in planner.ends:
                what = list(planner.ends).index(key)
                lines.append(f"  call void @rl_leave(i64 {ENDED}, i64 {what}, i64 0, i64 0)")
            text = _INCOMING.sub(lambda match: match[0] if match[1] in reached else "", each.text)
            text = _FIRST.sub(r"\1\2", text) if each.opcode == "phi" else each.text
            lines += _instruction(text, function.name == lowered.main, lowered, wiring)
            index += 1
    return "\n".join([*lines, "}"])


def _reached(function: Function) -> set[str]:
    found: set[str] = set()
    todo = [next(iter(function.blocks))]
    while todo:
        label = todo.pop()
        if label not in found:
            found.add(label)
            todo += [each for each in function.blocks[label].following if each in function.blocks]
    return found


def _divided(name: str, line: int, kind: str, value: str, by: str, signed: bool) -> list[str]:
    """A check of a division of whole numbers, which processors end a program for: by 0, the least one by −1."""
    least = -(2 ** (int(kind[1:]) - 1))
    lines = [f"  %{name}.zero = icmp eq {kind} {by}, 0"]
    wrong = f"%{name}.zero"
    if signed:
        lines += [
            f"  %{name}.down = icmp eq {kind} {by}, -1",
            f"  %{name}.least = icmp eq {kind} {value}, {least}",
            f"  %{name}.over = and i1 %{name}.down, %{name}.least",
            f"  %{name}.wrong = or i1 %{name}.zero, %{name}.over",
        ]
        wrong = f"%{name}.wrong"
    return [*lines, f"  call void @rl_divided(i1 {wrong}, i64 {line})"]


def _instruction(text: str, main: bool, lowered: Lowered, wiring: Wiring) -> list[str]:
    made = _ALLOCA.match(text)
    if made is not None:
        name = made["name"]
        if main and name in lowered.arrays:
            at = wiring.layout.memory.low + wiring.layout.objects[name].low
            return [f"  {name} = bitcast ptr inttoptr (i64 {at} to ptr) to ptr"]
        size = wiring.sizes.get(made["type"], 8)
        count, kind = made["count"] or "1", made["kind"] or "i64"
        plain = name[1:].strip('"')
        wide = [f"  %rl.n.{plain} = zext {kind} {count} to i64"] if kind != "i64" else []
        counted = f"%rl.n.{plain}" if wide else count
        return [
            *wide,
            f"  %rl.b.{plain} = mul i64 {counted}, {size}",
            f"  {name} = call ptr @rl_stack(i64 %rl.b.{plain})",
        ]
    if "call " in text:
        text = on_our_heap(text)
        text = _SAVES.sub(r"@rl_stack\1(", text)
        if "@llvm.lifetime." in text:
            return []
    return [text]


def is_heap(text: str) -> bool:
    """Whether a line names malloc or its like."""
    return _CALL.search(text) is not None


def on_our_heap(text: str) -> str:
    """A call with what stands here for malloc and its like in their place."""
    if not _CALL.search(text):
        return text
    return re.sub(r" #\d+", "", _CALL.sub(lambda match: f"@{_TAKEN.get(match[1], 'rl_' + match[1])}(", text))


def span(roots: frozenset[Root], objects: Mapping[str, Object]) -> Object | None:
    """What pointers with those roots must lead into; None where it is known only at run time."""
    if len(roots) != 1:
        return None
    (root,) = roots
    return objects.get(root.name) if root.kind in ("argument", "variable", "local") else None


def _reported(access: Access, name: str, planner: CPlanner, plan: Plan, wiring: Wiring) -> list[str]:
    request = STORE if access.write else LOAD
    note = wiring.notes + 8 * NOTE_WORDS * access.ref
    lines = [
        f"  %{name}.p = ptrtoint ptr {access.pointer} to i64",
        f"  %{name}.a = sub i64 %{name}.p, {wiring.layout.memory.low}",
    ]
    roots = planner.allowed[access.ref]
    within = span(roots, wiring.layout.objects)
    counter = wiring.passes + 8 * plan.refs[access.ref].block
    if access.elements:
        # −1: wherever the program may go; −2: or where a library may
        low, nbytes = (
            (within.low, within.nbytes) if within else (0, -2 if access.checked and planner.lenient(roots) else -1)
        )
        lines += multiplied(f"{name}.words", access.elements)
        extent = access.elements[-1]
        if access.elements[0] != WORDS:
            extent = f"%{name}.extent"
            lines.append(f"  {extent} = mul i64 %{name}.words, {access.nbytes}")
        given = f"i64 %{name}.a, i64 {low}, i64 {nbytes}, i64 {extent}, i64 {access.nbytes}"
        given += f", i64 {request}, i64 {access.ref}, i64 {note}, i64 %{name}.words"
        lines.append(f"  %{name}.n = call i64 @rl_span({given})")
        return lines + grown(f"{name}.c", counter, f"%{name}.n")
    form = ".w" if access.whole and access.nbytes <= 1 << wiring.view[VIEW.index("shift")] else ""
    rest = f"i64 {access.nbytes}, i64 {request}, i64 {access.ref}, i64 {note}"
    if access.checked:
        lines.append(f"  %{name}.n = call i64 @rl_if_ours{form}(i64 %{name}.a, {rest})")
        return lines + grown(f"{name}.c", counter, f"%{name}.n")
    if within is None:
        return [*lines, f"  call void @rl_anywhere{form}(i64 %{name}.a, {rest})"]
    places = max(0, within.nbytes - access.nbytes + 1)
    return [*lines, f"  call void @rl_within{form}(i64 %{name}.a, i64 {within.low}, i64 {places}, {rest})"]


def _main(lowered: Lowered) -> str:
    lines = [
        "\ndeclare i32 @_setjmp(ptr) returns_twice",
        "define i32 @rl_main(ptr %slots, ptr %result) noinline {",
        "  %back = call i32 @_setjmp(ptr @rl_buffer) returns_twice",
        "  %first = icmp eq i32 %back, 0",
        "  br i1 %first, label %go, label %left",
        "go:",
        *called(named(lowered.main), signature(lowered)),
    ]
    return "\n".join([*lines, "  ret i32 0", "left:", "  ret i32 1", "}", ""])
