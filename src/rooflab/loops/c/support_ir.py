"""What a counted function of C calls, as IR: checks of accesses, the way out of a run, the heap, the stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rooflab.loops.c.memory import Layout
from rooflab.loops.c.plan import RELEASES
from rooflab.loops.lowered.twin_ir import COUNTED_OUTSIDE
from rooflab.loops.twin import hooks

OUT, ENDED, FULL, NO_BLOCK, BY_ZERO, NO_FUNCTION = 1, 2, 3, 4, 5, 6  # why a run ended before its end: word AXIS
KIND, REF, WHERE, NBYTES = hooks.AXIS, hooks.REF, hooks.INDEX, hooks.LENGTH


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


def support(wiring: Wiring) -> str:
    """All of it, on the addresses of `wiring`."""
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
    guarded = f"""  br i1 %inside, label %yes, label %no
yes:
  call void @rl_access{form}(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w)
  ret void
no:
  call void @rl_leave(i64 {OUT}, i64 %r, i64 %a, i64 %n)
  unreachable
}}
"""
    return f"""
define internal void @rl_access{form}(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w) alwaysinline {{
  %s = call i32 @{callee}({given})
  ret void
}}
define internal void @rl_within{form}(i64 %a, i64 %low, i64 %places,
    i64 %n, i64 %q, i64 %r, i64 %w) alwaysinline {{
  %o = sub i64 %a, %low
  %inside = icmp ult i64 %o, %places
{guarded}define internal void @rl_anywhere{form}(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w) alwaysinline {{
  %m = add i64 %n, -1
  %l = add i64 %a, %m
  %first = call i1 @rl_may_touch(i64 %a)
  %last = call i1 @rl_may_touch(i64 %l)
  %inside = and i1 %first, %last
{guarded}define internal i64 @rl_if_ours{form}(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w) alwaysinline {{
  %inside = icmp ult i64 %a, {size}
  br i1 %inside, label %yes, label %no
yes:
  call void @rl_anywhere{form}(i64 %a, i64 %n, i64 %q, i64 %r, i64 %w)
  ret i64 1
{COUNTED_OUTSIDE}"""


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
