"""Machine code sorted into kinds; selects that are jumps there found, and simulated as branches."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from llvmlite import binding

from rooflab.loops.lowered import chains, core_loops, machine_code, profile
from rooflab.loops.lowered.ir_text import functions

X86 = binding.get_default_triple().startswith("x86_64")
pytestmark = pytest.mark.skipif(not X86, reason="only x86's machine code is read")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("vaddpd\t(%rax), %ymm1, %ymm2", {"slot": 1, "load vector": 1, "fp add vector": 1}),
        ("vmovupd\t%zmm0, (%rdi,%rax,8)", {"slot": 1, "store wide": 1}),
        ("vmovsd\t8(%rax), %xmm0", {"slot": 1, "load": 1}),
        ("vdivsd\t%xmm1, %xmm0, %xmm0", {"slot": 1, "divide fp64": 1}),
        ("vsqrtps\t%ymm1, %ymm0", {"slot": 1, "sqrt fp32 vector": 1}),
        # read, added to and written back: two micro-operations of the front
        ("incq\t(%rcx,%rbx,8)", {"slot": 2, "load integer": 1, "store integer": 1, "integer": 1}),
        ("lock\t\tincq\t(%rdi)", {"slot": 4, "load integer": 1, "store integer": 1, "locked": 1}),
        ("movl\t8(%rax), %ecx", {"slot": 1, "load integer": 1}),
        ("movq\t%rax, %rbx", {"slot": 1}),  # renamed
        ("xorl\t%eax, %eax", {"slot": 1}),  # a nought
        ("idivq\t%rcx", {"slot": 1, "integer divide": 1}),
        ("vfmadd231pd\t(%rax), %ymm1, %ymm2", {"slot": 1, "load vector": 1, "fp multiply-add vector": 1}),
        ("vgatherqpd\t(%rax,%ymm1,8), %ymm2 {%k1}", {"slot": 4, "gather": 4}),
        ("vbroadcastsd\t(%rax), %ymm1", {"slot": 1, "load vector": 1}),
        ("vcvtps2pd\t%ymm0, %zmm1", {"slot": 1, "convert wide": 1}),
        # between registers of vectors and of whole numbers: two micro-operations; one that is loaded, one
        ("vcvtsi2sd\t%rax, %xmm1, %xmm0", {"slot": 2, "convert from whole": 1}),
        ("vcvtsi2sdl\t(%rax), %xmm1, %xmm0", {"slot": 1, "load": 1, "convert": 1}),
        ("vcvttsd2si\t%xmm0, %rax", {"slot": 2, "convert to whole": 1, "to whole": 1}),
        ("vucomisd\t(%rax), %xmm0", {"slot": 2, "fp add": 1, "to whole": 1, "load": 1}),
        ("vmovq\t%xmm0, %rax", {"slot": 1, "to whole": 1}),
        ("vgatherqpd\t(%rax,%zmm1,8), %zmm2 {%k1}", {"slot": 8, "gather wide": 8}),
        ("vscatterqpd\t%zmm2, (%rax,%zmm1,8) {%k1}", {"slot": 8, "scatter wide": 8}),
        ("vpscatterdd\t%ymm2, (%rax,%ymm1,4) {%k1}", {"slot": 8, "scatter": 8}),
        ("vpermpd\t$1, %ymm0, %ymm1", {"slot": 1, "shuffle": 1}),
        # registers of 64 bytes go through units of 32 in two turns
        ("vpermt2pd\t%zmm0, %zmm1, %zmm2", {"slot": 1, "shuffle wide": 1}),
        ("vpaddq\t%zmm0, %zmm1, %zmm2", {"slot": 1, "vector integer wide": 1}),
        ("vpsrlq\t$3, %ymm0, %ymm2", {"slot": 1, "vector shift": 1}),
        ("vpcmpltud\t%zmm0, %zmm1, %k1", {"slot": 1, "vector shift wide": 1}),
        ("vpmulld\t%zmm0, %zmm1, %zmm2", {"slot": 1, "vector multiply wide": 1}),
        ("vpmovzxbd\t(%rax), %zmm1", {"slot": 1, "load vector": 1, "shuffle wide": 1}),  # 16 bytes
        ("vcvtdq2ps\t(%rax), %zmm1", {"slot": 1, "load wide": 1, "convert wide": 1}),  # 64
        # half of the units of whole numbers shift, and choose
        ("shlq\t$3, %rax", {"slot": 1, "integer shift": 1}),
        ("cmovlq\t%rax, %rbx", {"slot": 1, "integer shift": 1}),
    ],
)
def test_kinds(text, kinds):
    found, jumps = machine_code._operations([text])
    assert found == kinds
    assert jumps == 0


def test_a_comparison_and_its_jump_are_one():
    found, jumps = machine_code._operations(["cmpq\t%rax, %rbx", "jne\t.LBB0_1"])
    # one operation of a unit too: of 7 additions, cmp and jne a pass a Zen 4 takes no more than 8 / 4 cycles
    assert {kind: count for kind, count in found.items() if count} == {"slot": 1.0, "branch": 1}
    assert jumps == 1


def test_a_comparison_that_another_instruction_parts_from_its_jump_is_an_operation_of_its_own():
    found, _ = machine_code._operations(["cmpq\t%rax, %rbx", "leaq\t8(%rdi), %rdi", "jne\t.LBB0_1"])
    assert found == {"slot": 3.0, "integer": 2.0, "branch": 1}


def bisection(a, q, out):
    for i in range(len(q)):
        lo, hi = 0, len(a)
        while lo < hi:
            mid = (lo + hi) // 2
            if a[mid] < q[i]:
                lo = mid + 1
            else:
                hi = mid
        out[i] = lo


@pytest.mark.parametrize(("back", "slots"), [(".LBB0_1", 2.0), (".LBB0_2", 3.0)])
def test_a_jump_behind_a_loop_s_own_is_passed_once_its_passes_are_over(back, slots):
    # inc, then cmp and its jump, which are one; the last jump only where that is not taken
    text = f".LBB0_1:\n\tincq\t%rax\n\tcmpq\t%rax, %rsi\n\tjne\t{back}\n\tjmp\t.LBB0_2\n.LBB0_2:\n\tretq\n"
    first, _ = machine_code._blocks(text)
    assert first.operations["slot"] == slots
    assert first.operations["branch"] == slots - 1


SEARCHES = 40_000  # more branches than are learnt by heart in repeated runs


def blocks_of(fn, *args):
    from rooflab.loops.lowered import profile

    ir, name, _, _ = profile.optimised(fn, tuple(numba.typeof(each) for each in args))
    function = next(each for each in functions(ir) if each.name == name)
    return function, machine_code.blocks(ir)[name]


def test_what_the_code_generator_made_of_selects_is_what_is_simulated():
    random = np.random.default_rng(0)
    args = np.sort(random.random(4096)), random.random(SEARCHES), np.zeros(SEARCHES, np.int64)
    function, made = blocks_of(bisection, *args)
    jumping = machine_code.branching(function, made)
    loops = core_loops.found_in(numba.njit(bisection), args)
    missed = sum(each.missed for each in loops)
    # searches of 12 steps, half of which no predictor foretells; where cmov is used, only the loop's ends
    if jumping:
        assert 0.3 * SEARCHES * 12 < missed < 0.8 * SEARCHES * 12
    else:
        assert missed < 0.3 * SEARCHES * 12


def test_what_a_missed_branch_waits_for_is_what_it_tests():
    random = np.random.default_rng(0)
    args = np.sort(random.random(4096)), random.random(SEARCHES), np.zeros(SEARCHES, np.int64)
    function, made = blocks_of(bisection, *args)
    worst = max(core_loops.found_in(numba.njit(bisection), args), key=lambda each: each.missed)
    line = bisection.__code__.co_firstlineno + 5  # if a[mid] < q[i]
    assert worst.tested_lines == (line,)
    if machine_code.branching(function, made):
        # a choice that became a jump tests a comparison of a loaded number too, not the end of the loop alone
        assert worst.missed_after["fp compare"] > 0.5
        assert worst.missed_after["load"] > 0.5


def probing(keys, table, found):
    for i in range(keys.shape[0]):
        h = keys[i] & (table.shape[0] - 1)
        while table[h] != keys[i] and table[h] != 0:
            h = (h + 1) & (table.shape[0] - 1)
        if table[h] == keys[i]:
            found[0] += 1


def test_what_was_loaded_on_another_line_is_tested_there():
    random = np.random.default_rng(0)
    table = np.where(random.random(1024) < 0.4, np.arange(1024), 0)
    # more than are learnt by heart in repeated runs
    keys = random.integers(1, 1024, 200_000)
    loops = core_loops.found_in(numba.njit(probing), (keys, table, np.zeros(1, np.int64)))
    first = probing.__code__.co_firstlineno
    ends = [each for each in loops if each.missed_line == first + 5]
    assert ends
    assert all(first + 3 in each.tested_lines for each in ends)


def rounded(n, b):
    for _ in range(n):
        for j in range(b.shape[0]):
            b[j] = b[j] * 0.5 + 1.0


def test_accesses_across_two_lines_are_counted():
    room = np.zeros(1024 + 16)
    start = (-room.ctypes.data // 8) % 8
    counted = {}
    for shift in (0, 2):  # on a line's border, and 16 bytes behind it
        b = room[start + shift : start + shift + 1024]
        loops = core_loops.found_in(numba.njit(rounded), (1, b))
        counted[shift] = [
            sum(each.operations.get(f"load{what}", 0.0) for each in loops)
            for what in (" split", " split wide", " wide")
        ]
    assert counted[0][:2] == [0, 0]
    narrow, wide, loads = counted[2]
    # a register as wide as a line lies across two wherever it does not begin with one
    assert wide == pytest.approx(loads, rel=0.05)
    assert narrow + wide > 0


def steps(n, p):
    s = 0.0
    for _ in range(n):
        for j in range(p.shape[0]):
            s += p[j]
    return s


def test_a_sum_over_all_entries_begins_once():
    # two steps of the outer loop may run in one pass: two inner loops, each going on with the other's sum
    inner = [
        each
        for each in core_loops.found_in(numba.njit(steps), (50, np.ones(40)))
        if each.innermost and each.passes and each.chain.get("fp add")
    ]
    assert sum(each.entries for each in inner) >= 50
    assert all(each.restarts == 1 for each in inner)


def test_the_longest_way_through_a_pass():
    text = """define void @f(ptr %p, double %c) {
head:
  %i = phi i64 [ 0, %0 ], [ %n, %head ]
  %x = load double, ptr %p
  %y = fmul double %x, %c
  %z = fadd double %y, %c
  %w = fadd double %x, %c
  store double %z, ptr %p
  %n = add i64 %i, 1
  %m = icmp eq i64 %n, 9
  br i1 %m, label %out, label %head
}"""
    (function,) = functions(text)
    held = [function.blocks["%head"].instructions]
    found = chains.deepest(held, 1, frozenset({"%head"}), core_loops.kind_of, core_loops.usual_latency)
    # a load, a product and an addition: the other addition waits for less
    assert found == {"load": 1.0, "fp multiply": 1.0, "fp add": 1.0}


def distance(a, b, row):
    for i in range(a.shape[0]):
        before = row[0]
        row[0] = i + 1
        for j in range(1, b.shape[0] + 1):
            least = before + (0 if a[i] == b[j - 1] else 1)
            before = row[j]
            least = min(least, row[j] + 1)
            least = min(least, row[j - 1] + 1)
            row[j] = least


def test_minima_that_are_jumps_are_foretold():
    rng = np.random.default_rng(0)
    # more than are learnt by heart in repeated runs
    a, b = rng.integers(0, 4, 800), rng.integers(0, 4, 800)
    (taken, *_) = profile.take(distance, (a, b, np.arange(801)))
    jumps = sum(block.jumps for block in taken.machine)
    ends = sum(
        block.instructions[-1].opcode == "br" and " i1 " in block.instructions[-1].text
        for block in taken.function.blocks.values()
    )
    # where the code generator made more jumps than the IR has, each is simulated, and often missed
    if jumps > ends:
        assert sum(missed for _, _, missed in taken.selects.values()) > 1000
