"""The text of a counted function of C: before each access its check and its count, its memory ours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rooflab.cachesim.native.layout import LOAD, STORE
from rooflab.loops.c.call import called, named
from rooflab.loops.c.lower import Lowered, bare
from rooflab.loops.c.memory import Layout, Object
from rooflab.loops.c.plan import RELEASES, CPlanner
from rooflab.loops.c.pointers import ALLOCATIONS
from rooflab.loops.lowered.counted_access import NOTE_WORDS, OUTSIDE, VIEW
from rooflab.loops.lowered.instrument import Access, Plan
from rooflab.loops.lowered.ir_text import Function
from rooflab.loops.lowered.pointers import Root
from rooflab.loops.lowered.twin_ir import grown, multiplied
from rooflab.loops.twin import hooks

OUT, ENDED, FULL, NO_BLOCK, BY_ZERO, NO_FUNCTION = 1, 2, 3, 4, 5, 6  # why a run ended before its end: word AXIS
KIND, REF, WHERE, NBYTES = hooks.AXIS, hooks.REF, hooks.INDEX, hooks.LENGTH
_TAKEN = {name: f"rl_{name}" for name in (*ALLOCATIONS, "posix_memalign")}
_CALL = re.compile(rf"@({'|'.join(map(re.escape, (*_TAKEN, *RELEASES)))})\(")
_INCOMING = re.compile(r",? ?\[ [^\]]*?, (%(?:[\w.$-]+|\"[^\"]*\")) \]")
_FIRST = re.compile(r"(= phi [^,\[]*?) ?,( \[)")
_SAVES = re.compile(r"@llvm\.stack(save|restore)(?:\.p0)?\(")
_ALLOCA = re.compile(r"^\s*(?P<name>%\S+) = alloca (?P<type>.*?)(?:, (?P<kind>i\d+) (?P<count>\S+?))?, align \d+")

_NEEDED = ("@llvm.memset.p0.i64(ptr, i8, i64, i1)", "@llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")


class Wiring(NamedTuple):
    """The addresses that a twin works on.

    Attributes:
        view: the words of the first level.
        layout: of memory.
        passes, notes, events, allocator, stack: of counters, notes, the words of `hooks`, the state of the heap,
            the words that say where the stack is.
        sizes: bytes of the types of arrays on the stack.
        access, within_range, allocate, release, within: names of the functions of `counted_access`.
    """

    view: Sequence[int]
    layout: Layout
    passes: int
    notes: int
    events: int
    allocator: int
    stack: int
    sizes: Mapping[str, int]
    access: str
    within_range: str
    allocate: str
    release: str
    within: str


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
    return located(whole, placed) + known + _helpers(wiring) + _main(lowered) + _callable(lowered, planner)


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
        if _CALL.search(text):
            text = re.sub(
                r" #\d+", "", _CALL.sub(lambda match: f"@{_TAKEN.get(match[1], 'rl_' + match[1])}(", text)
            )
        text = _SAVES.sub(r"@rl_stack\1(", text)
        if "@llvm.lifetime." in text:
            return []
    return [text]


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
        given = f"i64 %{name}.a, i64 {low}, i64 {nbytes}, i64 {access.elements[-1]}, i64 {access.nbytes}"
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
        *called(named(lowered.main), lowered),
    ]
    return "\n".join([*lines, "  ret i32 0", "left:", "  ret i32 1", "}", ""])


def _helpers(wiring: Wiring) -> str:
    view = ", ".join(f"i64 {each}" for each in wiring.view)
    many = ", ".join(["i64"] * (len(wiring.view) + 5))
    given = f"ptr @rl_result, ptr @rl_raised, {view}, i64 %a, i64 %n, i64 %q, i64 %r, i64 %w"
    memory = wiring.layout.memory
    size = memory.end - memory.low
    words = {"kind": KIND, "ref": REF, "where": WHERE, "nbytes": NBYTES, "stop": hooks.STOP, "loop": hooks.AT}
    at = {name: wiring.events + 8 * word for name, word in words.items()}
    return f"""
@rl_buffer = internal global [64 x i64] zeroinitializer, align 64
@rl_result = internal global i64 0
@rl_raised = internal global ptr null
declare i32 @{wiring.access}(ptr, ptr, {many})
declare i32 @{wiring.within}(ptr, ptr, {many})
declare i32 @{wiring.within_range}(ptr, ptr, {many}, i64)
declare i32 @{wiring.allocate}(ptr, ptr, i64, i64)
declare i32 @{wiring.release}(ptr, ptr, i64, i64, i64)
declare void @longjmp(ptr, i32) noreturn
define internal void @rl_leave(i64 %kind, i64 %ref, i64 %where, i64 %nbytes) noinline cold noreturn {{
  store i64 %kind, ptr inttoptr (i64 {at["kind"]} to ptr)
  store i64 %ref, ptr inttoptr (i64 {at["ref"]} to ptr)
  store i64 %where, ptr inttoptr (i64 {at["where"]} to ptr)
  store i64 %nbytes, ptr inttoptr (i64 {at["nbytes"]} to ptr)
  call void @longjmp(ptr @rl_buffer, i32 1)
  unreachable
}}
define internal void @rl_stopped(i64 %loop) noinline cold noreturn {{
  store i64 %loop, ptr inttoptr (i64 {at["loop"]} to ptr)
  call void @longjmp(ptr @rl_buffer, i32 1)
  unreachable
}}
define internal void @rl_poll(i64 %loop) alwaysinline {{
  %stop = load atomic i64, ptr inttoptr (i64 {at["stop"]} to ptr) monotonic, align 8
  %goes = icmp eq i64 %stop, 0
  br i1 %goes, label %on, label %off
off:
  call void @rl_stopped(i64 %loop)
  unreachable
on:
  ret void
}}
define internal void @rl_divided(i1 %wrong, i64 %line) alwaysinline {{
  br i1 %wrong, label %no, label %yes
no:
  call void @rl_leave(i64 {BY_ZERO}, i64 %line, i64 0, i64 0)
  unreachable
yes:
  ret void
}}
define internal i1 @rl_may_touch(i64 %a) alwaysinline {{
  %inside = icmp ult i64 %a, {size}
  br i1 %inside, label %yes, label %no
yes:
  %granule = lshr i64 %a, 3
  %at = getelementptr i8, ptr inttoptr (i64 {wiring.layout.touchable.ctypes.data} to ptr), i64 %granule
  %known = load i8, ptr %at
  %low = and i64 %a, 7
  %byte = trunc i64 %low to i8
  %fine = icmp ugt i8 %known, %byte
  ret i1 %fine
no:
  ret i1 false
}}
{_accesses(wiring, size, given)}
define internal i64 @rl_span(i64 %a, i64 %low, i64 %size, i64 %b,
    i64 %n, i64 %q, i64 %r, i64 %w, i64 %c) noinline {{
  %none = icmp eq i64 %b, 0
  br i1 %none, label %nothing, label %some
nothing:
  ret i64 0
some:
  %ours = icmp ult i64 %a, {size}
  %theirs = xor i1 %ours, true
  %lenient = icmp eq i64 %size, -2
  %skipped = and i1 %theirs, %lenient
  br i1 %skipped, label %nothing, label %checked
checked:
  %unknown = icmp slt i64 %size, 0
  br i1 %unknown, label %look, label %compare
compare:
  %o = sub i64 %a, %low
  %left = sub i64 %size, %o
  %begins = icmp ule i64 %o, %size
  %ends = icmp ule i64 %b, %left
  %fits = and i1 %begins, %ends
  br i1 %fits, label %count, label %bad
look:
  %m = add i64 %b, -1
  %l = add i64 %a, %m
  %first = call i1 @rl_may_touch(i64 %a)
  %last = call i1 @rl_may_touch(i64 %l)
  %both = and i1 %first, %last
  br i1 %both, label %count, label %bad
count:
  %s = call i32 @{wiring.within_range}({given}, i64 %c)
  ret i64 %c
bad:
  call void @rl_leave(i64 {OUT}, i64 %r, i64 %a, i64 %b)
  unreachable
}}
{_heap(wiring, size)}"""


def _accesses(wiring: Wiring, size: int, given: str) -> str:
    """What is called before an access, for any, and for those that are known to lie within a unit (".w")."""
    forms = (("", wiring.access), (".w", wiring.within))
    return "".join(_access(form, callee, size, given) for form, callee in forms)


def _access(form: str, callee: str, size: int, given: str) -> str:
    return f"""
define internal void @rl_access{form}(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w) alwaysinline {{
  %s = call i32 @{callee}({given})
  ret void
}}
define internal void @rl_within{form}(i64 %a, i64 %low, i64 %places,
    i64 %n, i64 %q, i64 %r, i64 %w) alwaysinline {{
  %o = sub i64 %a, %low
  %inside = icmp ult i64 %o, %places
  br i1 %inside, label %yes, label %no
yes:
  call void @rl_access{form}(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w)
  ret void
no:
  call void @rl_leave(i64 {OUT}, i64 %r, i64 %a, i64 %n)
  unreachable
}}
define internal void @rl_anywhere{form}(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w) alwaysinline {{
  %m = add i64 %n, -1
  %l = add i64 %a, %m
  %first = call i1 @rl_may_touch(i64 %a)
  %last = call i1 @rl_may_touch(i64 %l)
  %inside = and i1 %first, %last
  br i1 %inside, label %yes, label %no
yes:
  call void @rl_access{form}(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w)
  ret void
no:
  call void @rl_leave(i64 {OUT}, i64 %r, i64 %a, i64 %n)
  unreachable
}}
define internal i64 @rl_if_ours{form}(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w) alwaysinline {{
  %inside = icmp ult i64 %a, {size}
  br i1 %inside, label %yes, label %no
yes:
  call void @rl_anywhere{form}(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w)
  ret i64 1
no:
  %words = inttoptr i64 %w to ptr
  %outside = getelementptr i64, ptr %words, i64 {OUTSIDE}
  %was = load i64, ptr %outside
  %is = add i64 %was, 1
  store i64 %is, ptr %outside
  ret i64 0
}}
"""


def _heap(wiring: Wiring, size: int) -> str:
    """What stands for malloc and its like, and the stack's arrays of a size that is not known before."""
    low = wiring.layout.memory.low
    touchable, sizes = wiring.layout.touchable.ctypes.data, wiring.layout.sizes.ctypes.data
    others = "".join(
        f"define internal ptr @rl_{name}({', '.join(f'i64 %{n}' for n in range(count))}) {{\n"
        f"  %r = call ptr @rl_block(i64 %{which})\n  ret ptr %r\n}}\n"
        for name, count, which in (
            ("malloc", 1, 0), ("aligned_alloc", 2, 1), ("_Znwm", 1, 0), ("_Znam", 1, 0),
            ("_ZnwmSt11align_val_t", 2, 0), ("_ZnamSt11align_val_t", 2, 0),
        )
    )  # fmt: skip
    others += "".join(
        f"define internal ptr @rl_{name}(i64 %0, ptr %1) {{\n  %r = call ptr @rl_block(i64 %0)\n  ret ptr %r\n}}\n"
        for name in ("_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t")
    )
    parameters = {"m": ", i64 %1", "mSt11align_val_t": ", i64 %1, i64 %2", "St11align_val_t": ", i64 %1"}
    for name in RELEASES:
        more = parameters.get(name.partition("Pv")[2], "")
        body = "  call void @rl_give_back(ptr %0)\n  ret void\n}\n"
        others += f"define internal void @rl_{name}(ptr %0{more}) {{\n{body}"
    return f"""
define internal void @rl_open(i64 %a, i64 %bytes) {{
  %granule = lshr i64 %a, 3
  %at = getelementptr i8, ptr inttoptr (i64 {touchable} to ptr), i64 %granule
  %whole = lshr i64 %bytes, 3
  call void @llvm.memset.p0.i64(ptr %at, i8 8, i64 %whole, i1 false)
  %last = getelementptr i8, ptr %at, i64 %whole
  %rest = and i64 %bytes, 7
  %byte = trunc i64 %rest to i8
  store i8 %byte, ptr %last
  ret void
}}
define internal void @rl_shut(i64 %a, i64 %bytes) {{
  %granule = lshr i64 %a, 3
  %at = getelementptr i8, ptr inttoptr (i64 {touchable} to ptr), i64 %granule
  %up = add i64 %bytes, 7
  %whole = lshr i64 %up, 3
  call void @llvm.memset.p0.i64(ptr %at, i8 0, i64 %whole, i1 false)
  ret void
}}
define internal ptr @rl_block(i64 %bytes) noinline {{
  %huge = icmp uge i64 %bytes, {size}
  br i1 %huge, label %full, label %try
try:
  %raised = alloca ptr
  %result = alloca i64
  %more = add i64 %bytes, 1
  %s = call i32 @{wiring.allocate}(ptr %result, ptr %raised, i64 {wiring.allocator}, i64 %more)
  %p = load i64, ptr %result
  %none = icmp eq i64 %p, 0
  br i1 %none, label %full, label %good
full:
  call void @rl_leave(i64 {FULL}, i64 0, i64 0, i64 %bytes)
  unreachable
good:
  %a = sub i64 %p, {low}
  call void @rl_open(i64 %a, i64 %bytes)
  %unit = lshr i64 %a, 6
  %at = getelementptr i64, ptr inttoptr (i64 {sizes} to ptr), i64 %unit
  store i64 %more, ptr %at
  %r = inttoptr i64 %p to ptr
  ret ptr %r
}}
define internal i64 @rl_size_of(i64 %a) {{
  %inside = icmp ult i64 %a, {size}
  %odd = and i64 %a, 63
  %even = icmp eq i64 %odd, 0
  %may = and i1 %inside, %even
  br i1 %may, label %look, label %bad
look:
  %unit = lshr i64 %a, 6
  %at = getelementptr i64, ptr inttoptr (i64 {sizes} to ptr), i64 %unit
  %more = load i64, ptr %at
  %none = icmp eq i64 %more, 0
  br i1 %none, label %bad, label %good
bad:
  call void @rl_leave(i64 {NO_BLOCK}, i64 0, i64 %a, i64 0)
  unreachable
good:
  ret i64 %more
}}
define internal void @rl_give_back(ptr %0) noinline {{
  %null = icmp eq ptr %0, null
  br i1 %null, label %done, label %go
go:
  %p = ptrtoint ptr %0 to i64
  %a = sub i64 %p, {low}
  %more = call i64 @rl_size_of(i64 %a)
  call void @rl_shut(i64 %a, i64 %more)
  %unit = lshr i64 %a, 6
  %at = getelementptr i64, ptr inttoptr (i64 {sizes} to ptr), i64 %unit
  store i64 0, ptr %at
  %raised = alloca ptr
  %nothing = alloca i64
  %s = call i32 @{wiring.release}(ptr %nothing, ptr %raised, i64 {wiring.allocator}, i64 %p, i64 %more)
  br label %done
done:
  ret void
}}
define internal ptr @rl_calloc(i64 %0, i64 %1) {{
  %bytes = mul i64 %0, %1
  %r = call ptr @rl_block(i64 %bytes)
  call void @llvm.memset.p0.i64(ptr %r, i8 0, i64 %bytes, i1 false)
  ret ptr %r
}}
define internal ptr @rl_realloc(ptr %0, i64 %1) {{
  %r = call ptr @rl_block(i64 %1)
  %null = icmp eq ptr %0, null
  br i1 %null, label %done, label %copy
copy:
  %p = ptrtoint ptr %0 to i64
  %a = sub i64 %p, {low}
  %more = call i64 @rl_size_of(i64 %a)
  %had = add i64 %more, -1
  %less = icmp ult i64 %had, %1
  %bytes = select i1 %less, i64 %had, i64 %1
  call void @llvm.memcpy.p0.p0.i64(ptr %r, ptr %0, i64 %bytes, i1 false)
  call void @rl_give_back(ptr %0)
  br label %done
done:
  ret ptr %r
}}
define internal i32 @rl_posix_memalign(ptr %0, i64 %1, i64 %2) {{
  %r = call ptr @rl_block(i64 %2)
  store ptr %r, ptr %0
  ret i32 0
}}
define internal ptr @rl_stacksave() {{
  %p = load ptr, ptr inttoptr (i64 {wiring.stack} to ptr)
  ret ptr %p
}}
define internal void @rl_stackrestore(ptr %0) {{
  %was = load i64, ptr inttoptr (i64 {wiring.stack} to ptr)
  %is = ptrtoint ptr %0 to i64
  %bytes = sub i64 %was, %is
  %a = sub i64 %is, {low}
  call void @rl_shut(i64 %a, i64 %bytes)
  store ptr %0, ptr inttoptr (i64 {wiring.stack} to ptr)
  ret void
}}
define internal ptr @rl_stack(i64 %bytes) noinline {{
  %p = load i64, ptr inttoptr (i64 {wiring.stack} to ptr)
  %up = add i64 %bytes, 127
  %room = and i64 %up, -64
  %next = add i64 %p, %room
  %end = load i64, ptr inttoptr (i64 {wiring.stack + 8} to ptr)
  %left = sub i64 %end, %p
  %fits = icmp ult i64 %room, %left
  %small = icmp ult i64 %bytes, {size}
  %both = and i1 %fits, %small
  br i1 %both, label %good, label %full
full:
  call void @rl_leave(i64 {FULL}, i64 1, i64 0, i64 %bytes)
  unreachable
good:
  store i64 %next, ptr inttoptr (i64 {wiring.stack} to ptr)
  %most = load i64, ptr inttoptr (i64 {wiring.stack + 16} to ptr)
  %higher = icmp ugt i64 %next, %most
  %now = select i1 %higher, i64 %next, i64 %most
  store i64 %now, ptr inttoptr (i64 {wiring.stack + 16} to ptr)
  %a = sub i64 %p, {low}
  call void @rl_open(i64 %a, i64 %bytes)
  %r = inttoptr i64 %p to ptr
  ret ptr %r
}}
{others}"""
