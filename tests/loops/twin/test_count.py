"""The twin counts exactly what Python does: every access in its order, every FLOP, on any control flow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab.cachesim.level import hierarchy
from rooflab.cachesim.native.layout import LOAD, STORE
from rooflab.cachesim.run.replay import replay
from rooflab.loops import understanding
from rooflab.loops.lowered import count as lowered_count
from rooflab.loops.lowered import examine as lowered_examine
from rooflab.loops.twin import count
from rooflab.machines.cache_levels import given as chosen
from rooflab.types.simulation import Cache

_COUNTS = ("hits", "misses", "evictions", "writebacks", "read_bytes")
ROOMY = (Cache(32 << 10, 8, name="L1"), Cache(512 << 10, 8, name="L2"), Cache(16 << 20, 16, name="L3"))


def counted(fn, args, levels, warm=False):
    return lowered_count.of_loop(understanding.understand(fn, args), chosen(levels), 60.0, warm=warm)


def replayed(accesses, levels):
    """What the same simulator counts for the accesses that Python made."""
    built = hierarchy.build(levels, references=("all",))
    columns = [np.array(column, np.int64) for column in zip(*((a, n) for _, a, n, _ in accesses), strict=True)]
    requests = np.array([STORE if written else LOAD for *_, written in accesses], np.int64)
    replay(built.address, requests, *columns, np.zeros(len(requests), np.int64))
    return built.result("python")


def test_places_side_by_side_are_rows_of_an_array_in_the_loop_that_misses():
    def five_points(a, b, few):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                b[i, j] = a[i, j - 1] + a[i, j] + a[i, j + 1] + a[i - 1, j] + a[i + 1, j]
        for i in range(few.size):
            few[i] += 1.0

    grids = np.ones((200, 500)), np.ones((200, 500))  # 0.8 MB each, rows of 4 KB
    small = (Cache(32 << 10, 8, name="L1"), Cache(256 << 10, 8, name="L2"))
    # three rows of a; the one of b is a stream of its own
    assert counted(five_points, (*grids, np.ones(8)), small).side_by_side == 3

    def total(a):
        found = 0.0
        for i in range(a.size):
            found += a[i]
        return found

    assert counted(total, (np.ones(100_000),), small).side_by_side == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *(
            "triad",
            "stencil",
            "matmul",
            "matmul_in_memory",
            "transpose",
            "spmv",
            "pagerank",
            "decided_by_data",
            "leaves_early",
        ),
        *("change_places", "counted_back", "histogram", "exchanged", "cube", "chased", "triangle", "smoothed"),
        "blocked",
    ],
)
def test_accesses_flop_misses_and_results_are_those_of_plain_python(kernels, oracle, small, name):
    fn, args = getattr(kernels, name), kernels.made(name)
    log, result = oracle.run(fn, *args)
    made = counted(fn, args, small)
    assert made.simulation.accesses == len(log.accesses)
    assert sum(each.count for each in count.flop(made)) == log.flop
    assert made.outcome.result == result
    outputs = [each for each in made.outcome.outputs if isinstance(each, np.ndarray)]
    for output, written in zip(outputs, log.arrays.values(), strict=True):
        assert np.array_equal(output, written)
    python = replayed(log.accesses, small)
    for ours, theirs in zip(made.simulation.levels, python.levels, strict=True):
        if ours.name == "L1":
            assert ours.requests == theirs.requests
        for field in _COUNTS:
            if field != "writebacks":  # those of the end are counted too: see below
                assert getattr(ours, field) == getattr(theirs, field), (ours.name, field)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    rows=st.integers(1, 6),
    columns=st.integers(1, 7),
    step=st.integers(1, 3),
    order=st.sampled_from("CF"),
    dtype=st.sampled_from(["f4", "f8"]),
    seed=st.integers(0, 99),
)
def test_strided_views_and_both_orders_are_addressed_as_they_lie(
    kernels, oracle, small, rows, columns, step, order, dtype, seed
):
    rng = np.random.default_rng(seed)
    whole = np.array(rng.integers(0, 9, (rows * step, columns + 2)), dtype, order=order)
    view, out = whole[::step, 1 : columns + 1], np.zeros((columns, rows), dtype)
    # The log's copies are contiguous: the addresses are taken from the views themselves.
    log = []
    addresses = {
        each.name: each.address
        for each in understanding.understand(kernels.transpose, (view, out)).arguments.placed
    }
    for i in range(rows):
        for j in range(columns):
            log.append(("a", addresses["a"] + i * view.strides[0] + j * view.strides[1], view.itemsize, False))
            log.append(("b", addresses["b"] + j * out.strides[0] + i * out.strides[1], out.itemsize, True))
    made = counted(kernels.transpose, (view, out), small)
    for ours, theirs in zip(made.simulation.levels, replayed(log, small).levels, strict=True):
        assert (ours.hits, ours.misses) == (theirs.hits, theirs.misses)
    assert np.array_equal(made.outcome.outputs[1], view.T)
    assert not out.any(), "the caller's arrays are left alone"


def test_known_counts_of_a_matrix_product(kernels):
    # FACTS §5: n = 256, ijk, bases 0, 512 KiB, 1 MiB, true LRU.
    a = np.ones((256, 256))
    made = counted(kernels.matmul, (a, a.copy(), np.zeros_like(a)), ROOMY)
    assert [level.misses for level in made.simulation.levels] == [16_923_648, 732_656, 24_576]
    assert sum(each.count for each in count.flop(made)) == 2 * 256**3


def test_known_counts_of_a_stencil(kernels):
    # 5 points, n = 2048: L1 misses 4·(n−2)·n/8 (three rows do not fit, and the store), further 2·(n−1)·n/8
    a = np.zeros((2048, 2048))
    made = counted(kernels.stencil, (a, a.copy()), ROOMY)
    assert [level.misses for level in made.simulation.levels] == [2_095_104, 1_048_064, 1_048_064]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "args", "read", "written"),
    [
        # three arrays are read (the stored one before it is written), one is written back
        ("triad", lambda n: (np.zeros(n), np.ones(n), np.ones(n), 2.0), 24, 8),
        # one array is read by row, the other before it is written
        ("transpose", lambda n: (np.ones((n // 500, 500)), np.zeros((500, n // 500))), 16, 8),
    ],
)
def test_memory_traffic_is_the_closed_form(kernels, name, args, read, written):
    n = 400_000
    made = counted(getattr(kernels, name), args(n), ROOMY)
    assert made.simulation.memory_read_bytes == pytest.approx(read * n, rel=0.001)
    assert made.simulation.memory_write_bytes == pytest.approx(written * n, rel=0.001)


def test_what_is_left_dirty_is_written_back(kernels, small):
    # 50 elements are 400 bytes on 7 lines; all three caches hold them when the loop ends.
    made = counted(
        kernels.triad, kernels.made("triad"), (Cache(1 << 16, 8, name="L1"), Cache(1 << 18, 8, name="L2"))
    )
    assert [level.write_bytes for level in made.simulation.levels] == [7 * 64, 7 * 64]
    made = counted(kernels.triad, kernels.made("triad"), small)
    # Three lines in use meet in sets of two: L1 writes the line back after each of 50 stores, the others once.
    assert [level.write_bytes for level in made.simulation.levels] == [50 * 64, 7 * 64, 7 * 64]


def test_a_run_after_a_run_finds_what_fits(kernels):
    made = counted(kernels.triad, kernels.made("triad"), ROOMY, warm=True)
    assert made.simulation.levels[0].misses == 21  # 3 arrays of 7 lines
    assert [level.misses for level in made.warm.levels] == [0, 0, 0]


def test_counts_by_line_add_up(kernels, small):
    known = understanding.understand(kernels.decided_by_data, kernels.made("decided_by_data"))
    made = lowered_count.of_loop(known, chosen(small), 60.0)
    lines = count.lines(made, known.source)
    assert sum(each.accesses for each in lines) == made.simulation.accesses
    assert sum(each.flop for each in lines) == sum(each.count for each in count.flop(made))
    for level in made.simulation.levels:
        assert sum(each.misses[level.name] for each in lines) == level.misses
    assert lines[0].text == "while x[k] > tol and k < 10:"


def _rows_picked(table, order, total):
    for i in range(len(order)):
        for j in range(table.shape[1]):
            total[j] += table[order[i], j]


def _put_at(values, place, out):
    for i in range(len(values)):
        out[place[i]] = values[i]


def test_what_data_pick_is_counted_by_line_and_what_of_it_stores_or_begins_a_row():
    small = (Cache(32 << 10, 8, name="L1"), Cache(64 << 10, 8, name="L2"), Cache(128 << 10, 16, name="L3"))

    def by_line(function, *args):
        known = understanding.understand(function, args)
        made = lowered_count.of_loop(known, chosen(small), 60.0)
        return {each.text: each for each in count.lines(made, known.source) if any(each.gathered.values())}

    # each row elsewhere: four lines, of which one begins it
    order = np.arange(1024) * 37 % 1024
    (rows,) = by_line(_rows_picked, np.ones((1024, 32)), order, np.zeros(32)).values()
    assert rows.begun == pytest.approx(1 / 4, abs=0.05)
    assert not any(rows.scattered.values())
    (stored,) = by_line(_put_at, np.arange(1024.0), order * 16, np.zeros(16384)).values()
    assert stored.scattered == stored.gathered
    assert stored.begun == pytest.approx(1.0, abs=0.05)


def test_trips_and_their_nesting(kernels, small):
    made = counted(kernels.stencil, kernels.made("stencil"), small)
    assert [(each.variable, each.trips, each.depth) for each in count.loops(made)] == [
        ("i", 7, 0),
        ("j", 77, 1),
    ]


def test_arrays_that_share_memory_share_it_in_the_simulation(kernels, small):
    whole = np.arange(64.0)
    made = counted(kernels.triad, (np.zeros(32), whole[:32], whole[16:48], 2.0), small)
    # b and c overlap: 6 lines of theirs, 4 of a
    assert made.simulation.levels[-1].misses == 10


def test_ways_of_access(kernels, small):
    ways = {}
    wide = np.ones((40, 40)), np.zeros((40, 40))  # rows of 320 bytes: further than prefetchers follow
    for name in ("spmv", "chased", "transpose", "triad"):
        args = wide if name == "transpose" else kernels.made(name)
        for ref in counted(getattr(kernels, name), args, small).twin.text.refs:
            ways[name, ref.text] = ref.pattern
    assert ways["spmv", "x[column[k]]"] == "gather"
    assert ways["spmv", "value[k]"] == "stream"
    # the next place is waited for; what is picked from another array at it is not
    assert (ways["chased", "following[i]"], ways["chased", "seen[i]"]) == ("chase", "gather")
    assert ways["transpose", "b[j, i]"] == "stride"
    assert ways["triad", "b[i]"] == "stream"


_LEVELS_IN_ORDER = """
import sys
import numpy as np
from rooflab.cachesim.level import hierarchy
from rooflab.cachesim.level.level import compiled_level
from rooflab.cachesim.run.replay import replay
from rooflab.types.simulation import Cache
for ways in map(int, sys.argv[1].split()):
    compiled_level("lru", ways)
made = np.random.default_rng(0).integers(0, 1 << 12, 20_000)
built = hierarchy.build((Cache(1024, 8), Cache(4096, 8), Cache(16384, 16)), references=("all",))
replay(built.address, made & 1, made * 8, np.full(made.size, 8), np.zeros(made.size, np.int64))
print([(level.misses, level.writebacks) for level in built.result("t").levels])
"""


@pytest.mark.slow
def test_levels_found_compiled_on_disk_call_their_own_functions(fresh, tmp_path):
    # Two processes compile different levels; a third finds all on disk. Linked by the same names, one level
    # would call the other's functions.
    import os

    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, *others = (
        fresh("-c", _LEVELS_IN_ORDER, ways, env=env).stdout for ways in ("8 16", "2 4", "4 2", "2 4 8")
    )
    assert set(others) == {first}


@pytest.mark.slow
def test_rows_of_tiles_end_before_they_are_foreseen(kernels):
    caches = chosen((Cache(4096, 8, name="L1"),))

    def misses(t):
        known = understanding.understand(kernels.transpose_tiled, (np.ones((64, 64)), np.zeros((64, 64)), t))
        counted = lowered_count.of_loop(known, caches, 60.0, warm=False)
        level = counted.simulation.level("L1")
        read, write = (level.references[ref.number].misses for ref in counted.twin.text.refs)
        return count.strided(counted, known.source)["L1"] - write, read

    assert misses(8)[0] == misses(8)[1]  # rows of one line: all
    strided, read = misses(32)  # of four lines the first two
    assert strided == round(read / 2)


def test_arrays_that_are_only_read_are_handed_over_as_they_are(kernels):
    # A copy of every array took a fifth of the time of a triad's twin.
    whole = np.arange(20.0)
    known = understanding.understand(kernels.triad, (whole[:10], whole[10:], np.zeros(10), 2.0))
    a, b, c, _ = known.arguments.copied({"b"})
    assert c is known.arguments.values[2]
    # a is a view of what b is a view of: both are views of one copy.
    b[0] = -1
    assert whole[10] == 10
    assert a.base is b.base


def steps_down(a, b, c):
    n = a.shape[0]
    for j in range(n):
        for i in range(n):
            b[i, j] = b[i, j] + a[i, j]
    for j in range(n):
        for i in range(j, n):
            c[i, j] = a[j, i]


@pytest.mark.slow
def test_walks_down_columns_are_told_by_stride_and_by_what_becomes_of_their_lines():
    a, b, c = (np.ones((64, 64)) for _ in range(3))
    made = counted(steps_down, (a, b, c), (Cache(4096, 8, name="L1"),))
    level = made.simulation.levels[0]
    found = count.walks(made)
    # rows of 512 bytes; c is filled below its diagonal, where most steps go down a row too
    assert [(each.kind, each.stride_bytes, each.loop) for each in found] == [
        ("changed", 512, 1),
        ("read", 512, 1),
        ("stored", 512, 3),
    ]
    missed = {ref.text: level.references[ref.number].misses for ref in made.twin.text.refs if not ref.write}
    assert [each.misses for each in found[:2]] == [missed["b[i, j]"], missed["a[i, j]"]]


def halves(a, out):
    for i in range(a.shape[0]):
        for j in range(a.shape[1] // 2):
            out[i] += a[i, j]


def records(a, out):
    for i in range(a.shape[0]):
        out[i] = a[i, 0] + a[i, 4] + a[i, 8]


def moved(p, dt):
    for i in range(len(p)):
        p[i]["x"] += dt * p[i]["vx"]
        p[i]["y"] += dt * p[i]["vy"]


@pytest.mark.slow
def test_rows_that_do_not_follow_each_other_begin_elsewhere():
    cache = (Cache(4096, 8, name="L1"),)
    a, out = np.ones((64, 128)), np.zeros(64)
    # halves of rows of 1 KiB: all but the first begin far from where the one before ended
    assert count.jumps(counted(halves, (a, out), cache))["L1"] == pytest.approx(63, abs=1)


@pytest.mark.slow
def test_fields_of_records_that_step_over_lines_are_read_in_order_together():
    made = counted(records, (np.ones((512, 9)), np.zeros(512)), (Cache(4096, 8, name="L1"),))
    stepping = [ref.text for ref in made.twin.text.refs if ref.pattern == "stride"]
    assert stepping
    assert count.irregular(made, "stride") == {"L1": 0}
    assert count.jumps(made) == {"L1": 0}
    # fields of records of 36 bytes: each finds most of its lines taken in by the others
    held = np.zeros(4096, np.dtype([("x", "f8"), ("y", "f8"), ("vx", "f8"), ("vy", "f8"), ("id", "i4")]))
    report = lowered_examine.report(moved, (held, 0.1), chosen((Cache(4096, 8, name="L1"),)), time=False)
    assert report.jumps == {"L1": 0}


def butterflies(a, total):
    n = a.shape[0]
    step = 64
    while step < n:
        for again in range(8):
            for i in range(again % 2, n, step):
                total[0] += a[i]
        step *= 2


@pytest.mark.slow
def test_steps_that_change_in_the_course_of_a_run_are_stages():
    caches = chosen((Cache(512, 1, name="L1"),))
    report = lowered_examine.report(butterflies, (np.ones(4096), np.zeros(1)), caches, time=False)
    found = [each for each in report.walks if each.text == "a[i]"]
    # of 512 bytes, then of 1024, 2048, and of 4096 and more
    assert [(each.stage, each.stride_bytes) for each in found if each.stage > 3] == [
        (4, 512),
        (5, 1024),
        (6, 2048),
        (7, 4096),
    ]
    # each as long a share as it has steps: twice as many at half the step
    by_stage = {each.stage: each.misses for each in found}
    assert by_stage[4] == pytest.approx(2 * by_stage[5], rel=0.2)


def test_fields_of_records_take_lines_in_turn_and_jump_nowhere():
    # records of 36 bytes: which field is the first in a line differs from one to the next
    def moved(p):
        for i in range(p.shape[0]):
            p[i, 0] += p[i, 4]
            p[i, 2] += p[i, 6]

    cache = (Cache(32 << 10, 8, name="L1"),)
    assert count.jumps(counted(moved, (np.zeros((20_000, 9), np.float32),), cache)) == {"L1": 0}
