"""Loops in LLVM IR that time how a core reaches its caches: chains of loads, columns, bins, branches on data."""

from __future__ import annotations

import numpy as np

from rooflab.machines.bench.experiments.core_programs import CHAIN, NONE, Item, compiled, looped, renamed
from rooflab.types.core_timing import LINE_ROW

# A column of a matrix: its lines so far apart that an L1 of 64 sets, or of a few more, has 1 to 8 of them for it.
# It lies in so few pages that their translations are at hand.
_COLUMN_BYTES, APART_BYTES = 1 << 18, (512, 1024, 2048, 4096)
TWO_SUMS, ELSEWHERE = " into two sums", " elsewhere"
_COUNTED, FEW_BINS, MANY_BINS = 4096, 16, 256
# Share of loads that meet one of the 32 stores before them where 16 bins are chosen at random; none does where 256
# are taken in turn.
MEETING = 1 - (1 - 1 / FEW_BINS) ** 32
RANDOM_BYTES = 1 << 20  # more branches than any predictor learns by heart


def gather(lanes: int, beside: int = 0) -> str:
    """Four gathers a pass from L1, each of a whole vector; `beside` each instructions that are only renamed."""
    kind = f"<{lanes} x double>"
    order = ", ".join(f"i64 {3 * n + 1}" for n in range(lanes))
    mask = ", ".join(["i1 true"] * lanes)
    lines = [
        f"  %i0 = load volatile <{lanes} x i64>, ptr %fp, align 8",
        f"  %a = and <{lanes} x i64> %i0, <{order}>",
    ]
    for n in range(4):
        lines += [
            f"  %p{n} = getelementptr [{n + 1} x double], ptr %out, <{lanes} x i64> %a",
            f"  %v{n} = call {kind} @llvm.masked.gather.v{lanes}f64.v{lanes}p0(<{lanes} x ptr> %p{n}, i32 8,"
            f" <{lanes} x i1> <{mask}>, {kind} zeroinitializer)",
            f"  store volatile {kind} %v{n}, ptr %gp, align 8",
            *renamed(beside),
        ]
    declared = (
        f"declare {kind} @llvm.masked.gather.v{lanes}f64.v{lanes}p0(<{lanes} x ptr>, i32, <{lanes} x i1>, {kind})"
    )
    return declared + looped(lines)


def scatter(lanes: int, beside: int = 0) -> str:
    """Four scatters a pass into L1, each of a whole vector; `beside` each instructions that are only renamed."""
    kind = f"<{lanes} x double>"
    order = ", ".join(f"i64 {n}" for n in range(lanes))
    mask = ", ".join(["i1 true"] * lanes)
    name = f"@llvm.masked.scatter.v{lanes}f64.v{lanes}p0"
    lines = [
        f"  %i0 = load volatile <{lanes} x i64>, ptr %fp, align 8",
        f"  %a = add <{lanes} x i64> %i0, <{order}>",
        f"  %x = load volatile {kind}, ptr %gp, align 8",
    ]
    for n in range(4):
        lines += [
            f"  %p{n} = getelementptr [{n + 1} x double], ptr %out, <{lanes} x i64> %a",
            f"  call void {name}({kind} %x, <{lanes} x ptr> %p{n}, i32 8, <{lanes} x i1> <{mask}>)",
            *renamed(beside),
        ]
    declared = f"declare void {name}({kind}, <{lanes} x ptr>, i32, <{lanes} x i1>)"
    return declared + looped(lines)


def gathers_in_chain(lanes: int) -> Item:
    """Four gathers a pass, each of which says where the next finds its numbers."""
    kind, mask = f"<{lanes} x i64>", ", ".join(["i1 true"] * lanes)
    name = f"@llvm.masked.gather.v{lanes}i64.v{lanes}p0"
    lines = [f"  %v0 = phi {kind} [ zeroinitializer, %entry ], [ %v4, %loop ]"]
    for n in range(4):
        lines += [
            f"  %p{n} = getelementptr i64, ptr %startp, {kind} %v{n}",
            f"  %v{n + 1} = call {kind} {name}(<{lanes} x ptr> %p{n}, i32 8, <{lanes} x i1> <{mask}>,"
            f" {kind} zeroinitializer)",
        ]
    text = looped(lines).replace("  ret void", f"  store {kind} %v4, ptr %out, align 8\n  ret void")
    declared = f"declare {kind} {name}(<{lanes} x ptr>, i32, <{lanes} x i1>, {kind})"
    held = np.arange(64)
    return Item(compiled(declared + text), 4, held.ctypes.data, (NONE, NONE), (held,))


def pointers(length: int) -> Item:
    """Loads that each say where the next finds its address: all differ, as some cores guess what does not."""
    order = np.random.default_rng(0).permutation(256)
    held = np.zeros(256, np.int64)
    held[order] = held.ctypes.data + 8 * np.roll(order, -1)
    steps = [f"  %p{n + 1} = load ptr, ptr %p{n}, align 8" for n in range(length)]
    text = (
        looped([*steps])
        .replace("  %p1 =", f"  %p0 = phi ptr [ %startp, %entry ], [ %p{length}, %loop ]\n  %p1 =", 1)
        .replace("  ret void", f"  store ptr %p{length}, ptr %out\n  ret void")
    )
    return Item(compiled(text), length, held.ctypes.data, (NONE, NONE), (held,))


def indices(length: int) -> Item:
    """Loads that each say which number of an array the next one is: addresses are computed on the way."""
    order = np.random.default_rng(0).permutation(256)
    held = np.zeros(256, np.int64)
    held[order] = np.roll(order, -1)
    steps = []
    for n in range(length):
        steps += [
            f"  %p{n + 1} = getelementptr i64, ptr %startp, i64 %x{n}",
            f"  %x{n + 1} = load i64, ptr %p{n + 1}, align 8",
        ]
    text = (
        looped(steps)
        .replace("  %p1 =", f"  %x0 = phi i64 [ 0, %entry ], [ %x{length}, %loop ]\n  %p1 =", 1)
        .replace("  ret void", f"  store i64 %x{length}, ptr %out\n  ret void")
    )
    return Item(compiled(text), length, held.ctypes.data, (NONE, NONE), (held,))


def columns() -> dict[str, Item]:
    """Numbers in more lines than their sets of L1 hold, by how far apart they lie: added up, changed, stored."""
    places = (np.ones(_COLUMN_BYTES // 8), np.ones(4 * _COLUMN_BYTES // 8))
    items: dict[str, Item] = {}
    for kind, sums, place in (
        ("read", 1, 0),
        ("read", 2, 0),
        ("changed", 0, 0),
        ("changed", 0, 1),
        ("stored", 0, 0),
    ):
        run, held = compiled(_column(kind, sums)), places[place]
        for apart in APART_BYTES:
            name = LINE_ROW.format(kind=kind, apart=apart) + (TWO_SUMS if sums > 1 else ELSEWHERE if place else "")
            step = np.full(1, apart, np.int64)
            turns = np.full(1, _COLUMN_BYTES // apart // 4 - 1, np.int64)
            items[name] = Item(run, 4, held.ctypes.data, (step, turns), (held,))
    return items


def _column(kind: str, sums: int) -> str:
    """A walk down a column, whose rows lie as far apart as is read at run time, into so many sums in turn."""
    lines = [f"  %s{n} = phi double [ 0.0, %entry ], [ %s{n + 4}, %loop ]" for n in range(sums)]
    lines += ["  %at = and i64 %i, %turns", "  %far = mul i64 %at, %four"]
    sum_of = [f"%s{n}" for n in range(sums)]
    for n in range(4):
        lines += [
            f"  %f{n} = mul i64 %step, {n}",
            f"  %o{n} = add i64 %far, %f{n}",
            f"  %p{n} = getelementptr i8, ptr %startp, i64 %o{n}",
        ]
        if kind != "stored":
            lines.append(f"  %v{n} = load volatile double, ptr %p{n}, align 8")
        if kind == "read":
            made = f"%s{4 + n - (4 - sums)}" if n >= 4 - sums else f"%t{n}"
            lines.append(f"  {made} = fadd double {sum_of[n % sums]}, %v{n}")
            sum_of[n % sums] = made
        else:
            value = "1.0" if kind == "stored" else f"%v{n}"
            lines.append(f"  store volatile double {value}, ptr %p{n}, align 8")
    text = looped(lines).replace(
        "entry:",
        "entry:\n  %step = load i64, ptr %fp\n  %turns = load i64, ptr %gp\n  %four = shl i64 %step, 2",
        1,
    )
    kept = "".join(f"  store volatile double {each}, ptr %out\n" for each in sum_of)
    return text.replace("  ret void", f"{kept}  ret void")


def counted(bins: int) -> Item:
    """Increments of bins, four a pass, whose numbers come late: a division, which the address waits for.

    A few bins are chosen at random, so that a load may be started before an older store to its address is known;
    many are taken in turn.
    """
    held = np.random.default_rng(0).integers(0, bins, _COUNTED) if bins == FEW_BINS else np.arange(_COUNTED) % bins
    lines = [f"  %at = and i64 %i, {_COUNTED // 4 - 1}", "  %first = mul i64 %at, 32"]
    for n in range(4):
        lines += [
            f"  %o{n} = add i64 %first, {8 * n}",
            f"  %q{n} = getelementptr i8, ptr %startp, i64 %o{n}",
            f"  %k{n} = load i64, ptr %q{n}, align 8",
            f"  %f{n} = sitofp i64 %k{n} to double",
            f"  %d{n} = fdiv double %f{n}, %f",
            f"  %b{n} = fptosi double %d{n} to i64",
            f"  %p{n} = getelementptr i64, ptr %out, i64 %b{n}",
            f"  %x{n} = load volatile i64, ptr %p{n}, align 8",
            f"  %y{n} = add i64 %x{n}, 1",
            f"  store volatile i64 %y{n}, ptr %p{n}, align 8",
        ]
    text = looped(lines).replace("entry:", "entry:\n  %f = load double, ptr %fp", 1)
    values, ones = held.astype(np.int64), np.ones(64)
    return Item(compiled(text), 4, values.ctypes.data, (ones, ones), (values,))


def store_chain(kind: str, add: str, offset: int = 0) -> str:
    """A number added to in memory: load, add, store, and the load of the next waits for the store.

    `offset`: bytes from where a line of a cache begins.
    """
    lines = [f"  %place = getelementptr i8, ptr %out, i64 {offset}"]
    for n in range(CHAIN):
        lines += [
            f"  %x{n} = load volatile {kind}, ptr %place, align 8",
            f"  %y{n} = {add} {kind} %x{n}, %f",
            f"  store volatile {kind} %y{n}, ptr %place, align 8",
        ]
    return looped(lines).replace("entry:", f"entry:\n  %f = load {kind}, ptr %fp, align 8", 1)


def side_by_side(what: str, width: int, offset: int, count: int) -> str:
    """So many loads or stores a pass within L1, of vectors of so many bytes (0: numbers), so far from a line."""
    kind = f"<{width // 8} x double>" if width else "double"
    lines = []
    for n in range(count):
        lines.append(f"  %p{n} = getelementptr i8, ptr %out, i64 {n * (width or 8) + offset}")
        if what == "load":
            lines.append(f"  %v{n} = load volatile {kind}, ptr %p{n}, align 8")
        else:
            lines.append(f"  store volatile {kind} %start, ptr %p{n}, align 8")
    loaded = f"entry:\n  %start = load {kind}, ptr %gp, align 8"
    return looped(lines).replace("entry:", loaded, 1)


BRANCHES = f"""
define void @run(i64 %n, ptr %bytes, ptr %fp, ptr %gp, ptr %out) {{
entry:
  %first = load i64, ptr %gp
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %joined ]
  %seen = add i64 %first, %i
  %at = and i64 %seen, {RANDOM_BYTES - 1}
  %where = getelementptr i8, ptr %bytes, i64 %at
  %byte = load i8, ptr %where
  %low = icmp eq i8 %byte, 0
  br i1 %low, label %one, label %other
one:
  store volatile i64 %i, ptr %out, align 8
  br label %joined
other:
  %far = getelementptr i8, ptr %out, i64 64
  store volatile i64 %i, ptr %far, align 8
  br label %joined
joined:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  %last = add i64 %first, %n
  store i64 %last, ptr %gp
  ret void
}}"""


BRANCHES_OF_FLOATS = (
    BRANCHES.replace("getelementptr i8, ptr %bytes", "getelementptr float, ptr %bytes")
    .replace("load i8, ptr %where", "load float, ptr %where")
    .replace("icmp eq i8 %byte, 0", "fcmp olt float %byte, 5.000000e-01")
)
