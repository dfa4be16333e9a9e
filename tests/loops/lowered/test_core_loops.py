"""What a core sees of compiled loops: chains through registers and memory, missed branches, operations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import prange

from rooflab.loops import core_profiles
from rooflab.loops.lowered import chains, choices, core_loops, flow, machine_code, owned_code, team_loops
from rooflab.loops.lowered.ir_text import functions
from rooflab.loops.lowered.operations import kind_of
from rooflab.machines.bench.experiments.core_programs import vector_bytes
from rooflab.types.loop import FlowStep


def in_memory(a, s, q):
    # s and q may be the same memory, so that q[0] cannot stay in a register
    for j in range(a.shape[0]):
        s[j] = s[j] + a[j]
        q[0] = q[0] + a[j]


def recurrence(a, b):
    x = 1.0
    for i in range(a.shape[0]):
        x = a[i] / (x + b[i])
    return x


def independent(a, b):
    for i in range(a.shape[0]):
        b[i] = 2.0 * a[i]


def at_random(a, b):
    for i in range(a.shape[0]):
        if a[i] > 0.5:
            b[i] = math.exp(a[i])


N = 4000


def main(fn, *args):
    """The loop of the compiled code that does most."""
    found = core_loops.found_in(fn, args)
    return max(found, key=lambda each: sum(each.operations.values()))


@pytest.fixture(scope="module")
def numbers():
    return np.random.default_rng(0).random(N)


def test_a_sum_in_memory_waits_for_its_store(numbers):
    loop = main(in_memory, numbers, np.zeros(N), np.zeros(1))
    # each addition loads what the one before stored; in an unrolled pass several
    each = loop.chain["fp add"]
    assert loop.chain["store forward"] == each
    assert loop.passes * each == pytest.approx(N, abs=8)
    # operations: as many additions as elements, whatever the unrolling
    assert loop.operations["fp add"] == pytest.approx(2 * N, abs=16)


def test_arrays_of_a_team_lie_apart_and_its_loops_have_the_lines_of_the_source(numbers):
    rows = numbers.reshape(40, 100)

    def in_rows(a, s):
        for i in prange(a.shape[0]):
            for j in range(a.shape[1]):
                s[i] = s[i] + a[i, j]

    values = rows, np.zeros(40)
    serial, team = main(in_rows, *values), team_loops.found_in(in_rows, values)
    first = in_rows.__code__.co_firstlineno
    inner = [each for each in team if each.operations.get("fp add")]
    # each sum is stored, as the next load of a may be of it; the team's stays in a register
    assert serial.operations["store"] >= 0.9 * 4000
    assert not any(kind.startswith("store") for each in inner for kind in each.operations)
    # one thread ran it all
    assert sum(each.operations["fp add"] for each in inner) == 4000
    assert {each.line for each in inner} <= {first + 2, first + 3}
    assert {each.line for each in team} <= {0, *range(first, first + 4)}


def test_what_a_team_calls_belongs_to_its_loop_over_prange(numbers):
    rows = numbers.reshape(40, 100)

    def normal(a, out):
        total = 0.0
        for i in prange(a.shape[0]):
            out[i] = (a[i] - a[i].mean()).max()
        return total

    found = team_loops.found_in(normal, (rows, np.zeros(40)))
    first = normal.__code__.co_firstlineno
    # means, differences and maxima are functions of numba's own, with lines of its files
    assert {each.line for each in found if each.passes > 40} == {first + 3}


def test_a_recurrence_waits_for_its_division(numbers):
    loop = main(recurrence, numbers, numbers)
    assert loop.chain["divide fp64"] == loop.chain["fp add"]
    assert "load" not in loop.chain
    assert loop.passes * loop.chain["divide fp64"] == pytest.approx(N, abs=8)
    assert len(loop.chain_lines) == 1


def test_what_waits_for_nothing_has_no_chain_but_its_counter(numbers):
    loop = main(independent, numbers, np.zeros(N))
    assert set(loop.chain) <= {"integer"}
    assert not any(kind.startswith("call") for kind in loop.operations)


def test_branches_on_random_data_are_missed_half_the_time(numbers):
    many = 1 << 19
    coins = np.random.default_rng(0).random(many)
    found = core_loops.found_in(at_random, (coins, np.zeros(many)))
    missed = sum(each.missed for each in found)
    # a fair coin for each element, more than are learnt by heart: a predictor misses half
    assert missed == pytest.approx(many / 2, rel=0.03)
    # that is the share on its line, whatever other branches the loop has
    worst = max(found, key=lambda each: each.missed)
    assert worst.missed_share == pytest.approx(0.5, abs=0.05)
    ordered = core_loops.found_in(at_random, (np.sort(numbers), np.zeros(N)))
    # learning each branch, and the one place where the order turns
    assert sum(each.missed for each in ordered) < 60
    calls = sum(each.operations.get("call exp fp64", 0.0) for each in found)
    assert calls == np.count_nonzero(coins > 0.5)


def test_few_random_branches_are_learnt_by_heart_in_repeated_runs(numbers):
    # a Zen 4 misses hardly one of 4,000 in a later run on the same data (measured)
    found = core_loops.found_in(at_random, (numbers, np.zeros(N)))
    assert sum(each.missed for each in found) < 0.05 * N
    # the passes and operations are those of one run
    assert sum(each.operations.get("call exp fp64", 0.0) for each in found) == np.count_nonzero(numbers > 0.5)


IR = """define double @f(ptr %p, double %start) {
entry:
  br label %loop
loop:
  %s = phi double [ %start, %entry ], [ %u, %loop ]
  %t = phi double [ %start, %entry ], [ %s, %loop ]
  %x = load double, ptr %p, align 8
  %m = fmul double %t, %x
  %u = fadd double %m, 1.0
  store double %u, ptr %p, align 8
  br i1 true, label %loop, label %end
end:
  ret double %u
}"""


def chain(links=()):
    (function,) = functions(IR)
    block = function.blocks["%loop"].instructions
    latency = {"fp multiply": 4.0, "fp add": 3.0, "load": 5.0, "store forward": 6.0}
    return chains.longest([block], 2, frozenset({"%loop"}), links, kind_of, lambda kind: latency.get(kind, 0.0))


def test_values_that_change_places():
    # s → t → m → u → s: a product and a sum in two passes
    found = chain()
    assert found.cycles == (4 + 3) / 2
    assert found.operations == {"fp multiply": 0.5, "fp add": 0.5}


def test_a_store_that_the_next_pass_loads():
    # x waits for the store of u a pass before: 6 + 4 + 3 in one pass, longer than 7 in two
    found = chain([chains.Link("  store double %u, ptr %p, align 8", "%x", 1)])
    assert found.cycles == 6 + 4 + 3
    assert found.operations == {"fp multiply": 1.0, "fp add": 1.0, "store forward": 1.0}


def test_a_store_that_half_of_the_passes_find_breaks_the_chain_in_the_others():
    found = chain([chains.Link("  store double %u, ptr %p, align 8", "%x", 1, share=0.5)])
    assert (found.cycles, found.kept) == (6 + 4 + 3, 0.5)


def summed_where(a, mask):
    s = 0.0
    for i in range(a.shape[0]):
        if mask[i]:
            s += a[i]
    return s


def test_a_sum_that_passes_by_some_elements_is_a_shorter_chain_not_a_broken_one(numbers):
    loop = main(summed_where, numbers, np.arange(N) % 4 != 0)
    assert loop.chain_kept == pytest.approx(1.0)
    assert loop.chain["fp add"] * loop.passes == pytest.approx(0.75 * N, rel=0.02)


FORK = """define double @f(ptr %p, i1 %c) {
entry:
  br label %loop
loop:
  %s = phi double [ 0.0, %entry ], [ %t, %join ]
  br i1 %c, label %some, label %join
some:
  %x = load double, ptr %p, align 8
  %u = fadd double %s, %x
  br label %join
join:
  %t = phi double [ INSTEAD, %loop ], [ %u, %some ]
  br i1 true, label %loop, label %end
end:
  ret double %t
}"""


@pytest.mark.parametrize(("instead", "cycles", "kept"), [("%s", 3 / 4, 1.0), ("0.0", 3.0, 1 / 4)])
def test_a_chain_is_shorter_where_it_passes_by_and_broken_where_it_begins_anew(instead, cycles, kept):
    # one pass of four adds; the others hand on what they found, or nothing
    (function,) = functions(FORK.replace("INSTEAD", instead))
    labels = ["%loop", "%some", "%join"]
    blocks = [function.blocks[each].instructions for each in labels]
    came = {(2, "%loop"): 3.0, (2, "%some"): 1.0}
    found = chains.longest(
        blocks, 1, frozenset(labels), (), kind_of, {"fp add": 3.0}.get, lambda to, label: came[to, label]
    )
    assert (found.cycles, found.kept) == (pytest.approx(cycles), pytest.approx(kept))


def test_what_a_vector_is_handed_on_as_depends_on_its_width_and_place():
    (function,) = functions("define void @f() {\n  %x = load <4 x double>, ptr %p, align 8\n}")
    load = function.blocks["%0"].instructions[0]
    assert chains.handed_on(load) == "store forward vector"
    assert chains.handed_on(load, crosses=True) == "store forward vector split"
    whole = load._replace(text="  %x = load i64, ptr %p, align 8")
    assert chains.handed_on(whole) == "store forward integer"


def rows_again(a, b, c):
    # a row of c again and again, a few vectors long: each time what the time before stored
    for k in range(a.shape[0]):
        for j in range(c.shape[0]):
            c[j] += a[k] * b[j]


def test_a_row_of_vectors_waits_for_what_the_loop_around_stored_before():
    loop = main(rows_again, np.ones(500), np.ones(32), np.zeros(32))
    handed = [step for step in loop.flow if step.handed]
    assert handed
    assert all(step.how.startswith("store forward") for step in handed)
    assert any(kind.startswith("store forward") for kind in loop.chain)


def test_sums_go_through_memory_over_calls():
    # s += exp(x): the sum of a pass waits for the one before, which no register held while exp ran
    steps = (
        FlowStep("load", 1.0),
        FlowStep("call exp fp64", 1.0, ((0, 0),)),
        FlowStep("fp add", 1.0, ((1, 0), (2, 1))),
    )
    assert flow.over_calls(steps) == (
        *steps[:2],
        FlowStep("fp add", 1.0, ((1, 0), (3, 1))),
        FlowStep("store forward", 0.0, ((2, 0),)),
    )
    # without a call between it stays in a register
    plain = (steps[0], FlowStep("fp add", 1.0, ((0, 0), (1, 1))))
    assert flow.over_calls(plain) == plain


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("  %x = fadd <8 x double> %a, %b", ("fp add", 8 * 8)),
        ("  %x = load <4 x float>, ptr %p, align 4", ("load vector", 4 * 4)),
        ("  store double %x, ptr %p, align 8", ("store", 8)),
        ("  %x = fdiv double %a, %b", ("divide fp64", 8)),
        ("  %x = call double @llvm.exp.f64(double %a)", ("call exp fp64", 1)),
        ("  %x = call float @hypotf(float %a, float %b)", ("call hypot fp32", 1)),
        ("  %x = select i1 %c, double %a, double %b", ("fp select", 8)),
        ("  %x = sitofp i64 %a to double", ("convert from whole", 8)),
        ("  %x = fptoui float %a to i8", ("convert to whole", 8)),
        ("  %x = sitofp <4 x i32> %a to <4 x double>", ("convert", 32)),
        ("  %x = call ptr @NRT_Allocate(i64 %n)", ("call allocation", 1)),
        ("  %x = call ptr @numba_get_np_random_state()", ("call random_state", 1)),
        ("  call void @NRT_incref(ptr %a)", ("locked", 1)),
        ("  %x = atomicrmw add ptr %p, i64 1 monotonic", ("locked", 1)),
        ("  br i1 %c, label %a, label %b", ("branch", 1)),
        ("  %x = udiv i64 %a, 10", ("integer divide constant", 1)),
        ("  %x = udiv <8 x i16> %a, splat (i16 25)", ("vector multiply", 1)),
        ("  %x = srem i32 %a, 65521", ("integer remainder constant", 1)),
        ("  %x = urem i64 %a, 64", ("integer", 1)),
    ],
)
def test_kinds_of_operations(text, kind):
    (function,) = functions(f"define void @f() {{\n{text}\n}}")
    name, count = kind_of(function.blocks["%0"].instructions[0])
    # those of 64 bytes are kinds of their own, where there are such
    assert name.removesuffix(" wide") == kind[0]
    assert name.endswith(" wide") == (kind[1] == 64 and vector_bytes() == 64)
    # vectors in pieces of those of this machine, of 16 bytes at least
    assert 1 <= count <= max(1, kind[1] / 16)


def test_the_lesser_of_two_is_one_instruction_and_another_choice_waits():
    text = """
  %c = fcmp olt double %x, %best
  %least = select i1 %c, double %x, double %best
  %d = fcmp olt double %x, %limit
  %other = select i1 %d, double %y, double %z
  %f = fcmp olt double %y, %limit
  %where = select i1 %f, i64 %n, i64 %m
  %e = fcmp olt double %x, %limit
  br i1 %e, label %a, label %b"""
    (function,) = functions(f"define void @f() {{{text}\n}}")
    instructions = function.blocks["%0"].instructions
    kind_in = choices.kinds(instructions)
    kinds = {each.result: kind_in(each)[0] for each in instructions}
    assert kinds["%c"] == "fp compare"
    # by a mask, and by the flags that a jump and a choice among whole numbers test
    assert kinds["%d"] == kinds["%e"] == kinds["%f"] == "fp compare apart"


def binned(x, counts):
    for i in range(x.shape[0]):
        counts[int(x[i] * 300.0)] += 1


def indexed(k, counts):
    for i in range(k.shape[0]):
        counts[k[i]] += 1


def test_an_address_that_is_loaded_comes_in_time_one_that_is_converted_does_not(numbers):
    # of 300 bins at random some meet one that was stored to a few passes before
    assert main(binned, numbers, np.zeros(300, np.int64)).collided > 0
    assert main(indexed, (numbers * 300).astype(np.int64), np.zeros(300, np.int64)).collided == 0


def test_what_cannot_be_profiled_is_said(monkeypatch, numbers):
    def fail(fn, values):
        raise KeyError("%odd")

    monkeypatch.setattr(core_loops, "found_in", fail)
    found, said = core_profiles.loops_of(independent, (numbers, numbers), 0.1)
    assert found == ()
    assert said == ("its compiled code could not be profiled (KeyError: '%odd'): times follow its source",)


def test_what_takes_long_to_count_is_not_profiled_and_the_report_says_so(numbers):
    found, said = core_profiles.loops_of(independent, (numbers, numbers), 1e3)
    assert found == ()
    assert said[0].startswith("counting took 1000 s, and a profile of its compiled code would take longer still")


def test_passes_flow_through_blocks_of_the_code_generator():
    # head → root or the library's function (below 0) → split → head; the library's block stands before its entry
    def block(name, *before):
        return machine_code.Block(name, {}, 0, before)

    code = (block("%head", 3), block("%call.sqrt", 0), block("", 0), block("%head.split", 1, 2), block("%no", 3))
    ran, owners = owned_code.passes_of(code, {0: 100.0, 4: 1.0})
    assert ran[:4] == [100.0, 0.0, 100.0, 100.0]
    assert owners[:4] == [0, 0, 0, 0]


def below_two(a, steps):
    # ends as the data has it, after some passes
    for i in range(a.shape[0]):
        x, n = a[i], 0
        while n < 100 and x < 2.0:
            x = x * 1.01 + 0.01
            n += 1
        steps[i] = n


def test_a_chain_is_not_broken_where_its_loop_ends(numbers):
    loop = max(core_loops.found_in(below_two, (numbers, np.zeros(N))), key=lambda each: each.passes)
    assert loop.chain
    assert loop.chain_kept == 1.0


def doubled(a):
    found = []
    for i in range(a.shape[0]):
        found.append(2.0 * a[i])
    return found


def test_a_list_that_is_returned_is_made_of_objects(numbers):
    loops = core_loops.found_in(doubled, (numbers,))
    assert sum(each.operations.get("call boxing", 0.0) for each in loops) == N
    # an array is handed over as it is
    loops = core_loops.found_in(independent, (numbers, np.zeros(N)))
    assert not any("call boxing" in each.operations for each in loops)


def rows_against_columns(a, b):
    found = 0
    for i in range(len(a)):
        for j in range(len(b)):
            if b[j] == a[i]:
                # no choice of two results: nobody divides ahead
                found = (found + i) // (j + 1)
            else:
                found ^= j
    return found


def test_branches_that_come_round_row_by_row_are_learnt():
    # of each of four values one row of 4096 outcomes at random, which comes round a hundred times
    random = np.random.default_rng(0)
    a, b = random.integers(0, 4, 400), random.integers(0, 4, 4096)
    loops = core_loops.found_in(rows_against_columns, (a, b))
    cells = len(a) * len(b)
    assert sum(each.branches for each in loops) > cells
    assert sum(each.missed for each in loops) < 0.03 * cells
