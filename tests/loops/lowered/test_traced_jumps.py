"""Jumps of machine code noted as a run makes them: of switches, of conditions joined of two, out of tables."""

import ctypes

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import binding
from numba import prange
from numba.typed import List

import rooflab
from rooflab.loops.lowered import core_loops, machine_code, profile, traced_jumps
from rooflab.machines.bench.experiments import thread_teams

pytestmark = pytest.mark.skipif(
    not binding.get_process_triple().startswith(("x86_64", "amd64")), reason="only the assembly of x86 is traced"
)
MANY = 1 << 18  # more branches than are learnt by heart in repeated runs


def words(text):
    found = lines = 0
    inside = False
    for c in text:
        if c == 10:
            lines += 1
        if c == 32 or c == 10 or c == 9:
            inside = False
        elif not inside:
            inside = True
            found += 1
    return found, lines


def both(x, y, out):
    found = 0
    for i in range(len(x)):
        if x[i] > 0.5 and y[i] > 0.5:
            out[found] = i
            found += 1
    return found


def doubled(x):
    for i in range(len(x)):
        x[i] = 2.0 * x[i]


def taken(fn, *args):
    return profile.take(numba.njit(fn), args)[0]


def jumps(made):
    return [each for block in made.jumps.values() for each in block]


def test_each_comparison_of_a_switch_is_foretold():
    # which of two sorts a letter is, nobody foretells: half are missed
    text = np.random.default_rng(0).choice(np.array([32, 101], np.uint8), MANY)
    found = core_loops.found_in(numba.njit(words), (text,))
    assert sum(each.missed for each in found) == pytest.approx(MANY / 2, rel=0.1)
    ordered = core_loops.found_in(numba.njit(words), (np.sort(text),))
    assert sum(each.missed for each in ordered) < 100


def test_what_a_switch_tests_is_found():
    text = np.random.default_rng(0).choice(np.array([32, 101], np.uint8), MANY)
    worst = max(core_loops.found_in(numba.njit(words), (text,)), key=lambda each: each.missed)
    first = words.__code__.co_firstlineno
    assert worst.tested_lines
    assert all(first < line <= first + 6 for line in worst.tested_lines)
    assert worst.missed_after.get("load", 0.0) + worst.missed_after.get("load integer", 0.0) > 0.5


def test_of_a_condition_joined_of_two_both_jumps_are_foretold():
    random = np.random.default_rng(0)
    args = random.random(MANY), random.random(MANY), np.zeros(MANY, np.int64)
    made = taken(both, *args)
    # half of the first condition's; of the second half too, which is asked where the first holds
    assert sum(each.missed for each in jumps(made)) == pytest.approx(0.75 * MANY, rel=0.05)


def test_jumps_run_as_often_as_a_plain_count_says():
    random = np.random.default_rng(0)
    x, y = random.random(1000), random.random(1000)
    made = jumps(taken(both, x, y, np.zeros(1000, np.int64)))
    condition = both.__code__.co_firstlineno + 3
    ran = sum(each.ran for each in made if each.line == condition)
    # the first condition of each element, the second where that holds, and few around the loop
    firsts = (int(np.count_nonzero(one > 0.5)) for one in (x, y))
    assert min(abs(ran - 1000 - first) for first in firsts) <= 4


def test_a_trace_changes_neither_arguments_nor_results():
    x = np.arange(1000.0)
    given = x.copy()
    made = taken(doubled, given)
    # of two runs, the one for the trace has copies
    assert np.array_equal(given, 2 * x)
    assert made.jumps is not None


def test_registers_and_flags_are_kept_across_what_notes_a_jump():
    def collatz(most):
        longest = 0
        for start in range(1, most):
            n, steps = start, 0
            while n != 1 and steps < 1000:
                n = n // 2 if n % 2 == 0 else 3 * n + 1
                steps += 1
            longest = max(longest, steps)
        return longest

    results = []

    def call(engine):
        where = engine.get_global_value_address(made.environment[0])
        ctypes.c_void_p.from_address(where).value = id(made.environment[1])
        prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        results.append(prototype(engine.get_function_address(made.wrapper))(None, (3000,), None))

    made = profile.optimised(numba.njit(collatz), (numba.typeof(3000),))
    traced = traced_jumps.take(machine_code.written(made.ir), call)
    assert results == [collatz(3000)]
    assert len(traced.trace) == traced.ran.sum()
    for number, ran in enumerate(traced.ran):
        assert np.count_nonzero(traced.trace >> 1 == number) == ran


def test_values_that_a_run_may_change_beyond_its_arrays_are_not_run_twice():
    assert traced_jumps.repeatable((1, 2.0, np.zeros(3), (np.zeros(2), True)))
    assert traced_jumps.repeatable((np.zeros(1, "f8,i4")[0],))
    assert not traced_jumps.repeatable((np.random.default_rng(0),))
    assert not traced_jumps.repeatable(([1, 2],))


def test_a_report_says_where_jumps_were_not_followed():
    made = profile.take(numba.njit(words), (List([32, 101, 10]),))[0]
    assert made.jumps is None
    assert made.untraced
    found = core_loops.of_profile(made)
    assert any(each.untraced for each in found)
    (line,) = core_loops.said(found)
    assert "not followed (its arguments" in line
    assert core_loops.said(core_loops.found_in(numba.njit(doubled), (np.arange(9.0),))) == ()


def steps_of_a_machine(codes, out):
    a, b = 1, 0
    for i in range(len(codes)):
        c = codes[i]
        if c == 0:
            out[i] = a
        elif c == 1:
            a = a * 3 + b
        elif c == 2:
            b = a ^ i
        elif c == 3:
            out[a & 7] = b
        elif c == 4:
            a = a - out[b & 7]
        elif c == 5:
            b = b // 3
        elif c == 6:
            out[b & 7] += a
        else:
            a = b + i
    return a + b


def test_places_out_of_a_table_are_foretold_one_against_the_others():
    codes = np.random.default_rng(0).integers(0, 8, MANY).astype(np.uint8)
    found = core_loops.found_in(numba.njit(steps_of_a_machine), (codes, np.zeros(MANY, np.int64)))
    # of eight at random nobody foretells more than one in eight
    assert 0.99 * 7 / 8 * MANY < sum(each.missed for each in found) < MANY
    again = core_loops.found_in(numba.njit(steps_of_a_machine), (np.arange(MANY) % 8, np.zeros(MANY, np.int64)))
    assert sum(each.missed for each in again) < 0.01 * MANY


def test_questions_of_a_table_are_those_of_a_plain_loop():
    places = [-7, -9, -7, -8, -9, -8, -7]
    words = [3, *(word for place in places for word in (4, place)), 2]  # jump 1, then jump 2 by a table, jump 1
    traced = traced_jumps.Traced(
        (traced_jumps.Jump("f", 0, 1),) * 3, np.zeros(3, np.int64), np.array(words, np.int32)
    )
    asked, of_jump = traced_jumps.compared(traced)
    seen, expected = [-7, -9, -8], [3]
    for place in places:
        for number, one in enumerate(seen[:-1]):
            expected.append(3 + number << 1 | (place == one))
            if place == one:
                break
    assert asked.tolist() == [*expected, 2]
    assert of_jump.tolist() == [0, 1, 2, 2, 2]


def test_blocks_of_code_run_as_often_as_those_of_the_ir_that_they_are_of():
    random = np.random.default_rng(0)
    texts = random.choice(np.array([9, 10, 32, 101, 102], np.uint8), 801)
    for made in (
        taken(words, texts),
        taken(both, random.random(801), random.random(801), np.zeros(801, np.int64)),
    ):
        passes = {label.replace('"', ""): count for label, count in made.passes.items()}
        names = [each.name for each in made.machine]
        alone = [(name, ran) for name, ran in zip(names, made.code_passes, strict=True) if names.count(name) == 1]
        assert sum(name in passes for name, _ in alone) > 3
        assert all(passes[name] == ran for name, ran in alone if name in passes)


def test_letters_are_loaded_once_each_however_their_code_was_copied():
    texts = np.random.default_rng(0).choice(np.array([9, 10, 32, 101, 102], np.uint8), 801)
    found = core_loops.found_in(numba.njit(words), (texts,))
    loads = [each.operations.get("load integer", 0.0) for each in found if each.line and each.passes]
    assert sum(loads) == pytest.approx(801, abs=8)


@given(length=st.integers(0, 500), threads=st.integers(1, 5), entries=st.integers(0, 9))
def test_threads_have_all_of_a_trace_between_them_each_in_order(length, threads, entries):
    parts = traced_jumps.dealt(np.arange(length), threads, entries)
    assert len(parts) == threads
    assert sorted(np.concatenate(parts).tolist()) == list(range(length))
    assert all((np.diff(part) > 0).all() for part in parts)


def test_each_thread_has_its_part_of_each_entry():
    one, other = traced_jumps.dealt(np.arange(12), 2, 3)
    assert one.tolist() == [0, 1, 4, 5, 8, 9]
    assert other.tolist() == [2, 3, 6, 7, 10, 11]


def above_half(x, out):
    for i in prange(x.shape[0]):
        n = 0
        while n < x[i]:
            n += 1 + n % 3
        out[i] = n


@pytest.mark.slow
def test_what_is_too_long_to_learn_for_one_core_is_not_for_each_of_four():
    args = np.random.default_rng(0).integers(0, 3, 200_000), np.zeros(200_000)

    def missed(threads):
        found = profile.take(numba.njit(parallel=True)(above_half), args, team=threads)
        return sum(one.missed for each in found for held in (each.jumps or {}).values() for one in held)

    alone, together = missed(1), missed(4)
    # 200,000 trips in one of three ways: one predictor learns hardly any, each of four nearly all of 50,000
    assert alone > 50_000
    assert together < alone / 2


@pytest.mark.slow
@pytest.mark.skipif(thread_teams.most() < 2, reason="needs two CPUs: numba has one thread here")
def test_of_a_decorated_function_one_thread_learns_the_whole_run_and_each_of_a_team_its_part():
    args = np.random.default_rng(0).integers(0, 3, 120_000), np.zeros(120_000)
    made = rooflab.loop(numba.njit(parallel=True)(above_half), *args)
    alone, together = (sum(each.missed for each in loops) for loops in (made.core_loops, made.team_loops))
    assert 0 < together < alone
