"""Where a loop lies under a machine's roofs, and how long it is predicted to take."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.model.device.constants import load_family
from rooflab.model.loop import late_branches, placement, rates
from rooflab.types.loop import Code, LineCounts, LoopReport, Timed, Walk
from rooflab.types.simulation import Cache, LevelCounts, Simulation
from rooflab.types.work import Flop


@pytest.fixture(scope="module")
def guest(root):
    return rooflab.machine(root / "examples" / "zen4-guest.toml")


def counts(name, capacity, read, write, misses=0):
    return LevelCounts(
        name=name,
        cache=Cache(capacity, 8, name=name),
        hits=0,
        misses=misses,
        evictions=0,
        writebacks=0,
        read_bytes=read,
        write_bytes=write,
    )


def report(read, write, *, flop=0, code=None, **more):
    """A loop that moves as much at every level, and takes 10 ms."""
    levels = tuple(
        counts(name, capacity, read, write, misses=read // 64)
        for name, capacity in (("L1", 1 << 15), ("L2", 1 << 20), ("L3", 1 << 24))
    )
    return LoopReport(
        name="t",
        where="t.py:1",
        arguments={},
        flop_by=(Flop("vector", "fp64", flop),) if flop else (),
        accesses=(read + write) // 8,
        accessed_bytes=read + write,
        stored_bytes=write,
        simulation=Simulation(name="t", levels=levels, accesses=(read + write) // 8),
        runs=(Timed(threads=1, cache="warm", best_s=0.01, median_s=0.01, spread=0.0, runs=5),),
        code=code,
        **more,
    )


@pytest.mark.parametrize(
    ("share", "gigabytes_per_s"),
    [
        # What crosses, where stores read their lines first: triad names 24 bytes and moves 32, copy 16 and 24,
        # write 8 and 16. The file's rates of one core: read 32.07, triad 32.67, copy 30.40, write 26.44.
        (0.0, 32.07),
        (1 / 4, 32.67 * 32 / 24),
        (1 / 3, 30.40 * 24 / 16),
        (1 / 2, 26.44 * 2),
        # between read and triad half-way in seconds per byte
        (1 / 8, 2 / (1 / 32.07 + 1 / (32.67 * 32 / 24))),
        (0.9, 26.44 * 2),
    ],
)
def test_a_mix_of_reads_and_writes_gets_its_own_bandwidth(guest, share, gigabytes_per_s):
    rate = rates.bytes_per_s(guest.level("memory"), "core", share, nearest=False)
    assert rate == pytest.approx(gigabytes_per_s * 1e9, rel=2e-3)


def test_at_l1_no_line_is_read_first(guest):
    # triad: 16 bytes read and 8 written, as named
    rate = rates.bytes_per_s(guest.level("L1"), "core", 1 / 3, nearest=True)
    assert rate == guest.level("L1").rate("triad", scope="core", basis="attained", stores="ordinary").value


def test_theory_stands_in_where_nothing_was_measured():
    level = rooflab.machine("epyc-7763").level("L1")
    theory = level.rate(scope="core") or level.rate()
    assert theory is not None
    assert rates.bytes_per_s(level, theory.scope, 0.3, nearest=True) == theory.value


def test_bytes_from_memory_take_the_longest_and_bind(guest):
    made = placement.place_on(report(96_000_000, 32_000_000, flop=8_000_000), guest)
    assert [point.level for point in made.points] == ["L1", "L2", "L3", "DRAM"]
    memory = made.point("dram")
    assert memory.intensity == 8 / 128
    assert memory.time_s == pytest.approx(128e6 / memory.bytes_per_s)
    assert memory.roof_flop_per_s == pytest.approx(memory.intensity * memory.bytes_per_s)
    assert memory.share == pytest.approx(8e6 / 0.01 / memory.roof_flop_per_s)
    assert (made.bound, made.binds) == ("memory-bound", "DRAM")
    found = made.prediction
    assert found.overlapped_s == memory.time_s
    assert found.overlapped_s <= found.time_s <= found.serial_s
    assert found.serial_s == pytest.approx(sum(point.time_s for point in made.points) + found.core_s)


def test_many_flop_bind_the_core(guest):
    made = placement.place_on(report(640, 64, flop=10**9), guest)
    assert (made.bound, made.binds) == ("compute-bound", "fp64 vector")
    # Products and sums are instructions of their own: half of the FMA rate.
    peak = guest.peak("fp64", scope="core", basis="attained")
    assert made.prediction.core_s >= 2 * 10**9 / peak.value


def code(**given):
    plain = {"lanes": 1, "loads": 2, "stores": 1, "flop": 2, "read_bytes": 640.0, "write_bytes": 64.0}
    return Code(**{**plain, "why_not": "said", **given})


def test_a_chain_of_additions_takes_its_latency(guest):
    made = placement.place_on(report(640, 64, flop=2_000_000, code=code(chain=1_000_000)), guest)
    # Zen 4: an addition takes 3 cycles; the clock under load stands in the file.
    clock = max(rate.value for rate in guest.clocks if rate.basis == "attained")
    assert made.prediction.core_s == pytest.approx(3e6 / clock)
    assert made.binds == "a chain of additions"


def test_short_chains_go_on_beside_each_other(guest):
    def core_s(trips):
        given = code(chain=10**6, instructions=8, passes=1e6, trips=10**6, entries=10**6 // trips)
        return placement.place_on(report(640, 64, flop=10**6, code=given), guest).prediction.core_s

    clock = max(rate.value for rate in guest.clocks if rate.basis == "attained")
    assert core_s(1000) == pytest.approx(3e6 / clock, rel=1e-6)
    # 10 trips of 8 instructions: two rows lie in a window of 180, and the instructions bind: 8/5.7 + 6/10 each.
    assert core_s(10) == pytest.approx((8 / 5.7 + 6 / 10) * 1e6 / clock, rel=1e-6)


def test_work_between_gathers_leaves_room_for_fewer_at_once(guest):
    def memory_s(instructions):
        # A miss a pass: of 180 instructions begun, those of 180 / instructions passes.
        given = code(instructions=instructions, passes=1e6, trips=10**6, entries=1)
        missed = report(64 * 10**6, 0, code=given, gathered={"L1": 10**6, "L2": 10**6, "L3": 10**6})
        return placement.place_on(missed, guest).points[-1].time_s

    latency = next(level.latency_s for level in guest.levels if level.name == "DRAM")
    assert memory_s(60) == pytest.approx(1e6 * latency / 3, rel=1e-6)
    assert memory_s(600) == pytest.approx(1e6 * latency, rel=1e-6)
    assert memory_s(5) == memory_s(6) == pytest.approx(1e6 * latency / 16, rel=1e-6)


def test_short_loops_pay_for_entries_and_for_what_fills_no_pass(guest):
    def core_s(trips_each):
        entries = 1_000_000 // trips_each
        passes = 1_000_000 / 32
        given = code(lanes=8, instructions=20, passes=passes, trips=1_000_000, entries=entries, why_not=None)
        return placement.place_on(report(640, 64, flop=1, code=given), guest).prediction.core_s

    assert core_s(10_000) < core_s(1_000) < core_s(100) < core_s(10)


@pytest.mark.parametrize(
    ("loads", "stores", "instructions", "cycles"),
    [
        (2, 1, 57, 10.0),  # 5.7 instructions a cycle
        (40, 1, 57, 20.0),  # 2 loads a cycle
        (2, 16, 57, 16.0),  # 1 store
    ],
)
def test_a_pass_takes_as_long_as_what_it_has_most_of(guest, loads, stores, instructions, cycles):
    given = code(loads=loads, stores=stores, instructions=instructions, passes=1e6, trips=1_000_000, entries=1)
    made = placement.place_on(report(640, 64, flop=1, code=given), guest)
    clock = max(rate.value for rate in guest.clocks if rate.basis == "attained")
    assert made.prediction.core_s == pytest.approx(1e6 * cycles / clock, rel=1e-4)
    assert made.prediction.core_why == "instructions"


def test_nearer_levels_add_what_more_they_move_and_the_core_goes_on_beside(guest):
    def moved(l1, l2, l3, **more):
        levels = [
            counts(name, size, nbytes, 0)
            for name, size, nbytes in (("L1", 1 << 15, l1), ("L2", 1 << 20, l2), ("L3", 1 << 24, l3))
        ]
        given = report(64_000_000, 0, **more)
        simulation = msgspec.structs.replace(given.simulation, levels=tuple(levels))
        return placement.place_on(msgspec.structs.replace(given, simulation=simulation), guest)

    same = moved(64_000_000, 64_000_000, 64_000_000)
    # What streams from memory passes the nearer levels within the time that was measured for it.
    both = same.point("L1").time_s + same.point("DRAM").time_s
    assert same.prediction.time_s == pytest.approx(both)
    twice = moved(128_000_000, 64_000_000, 64_000_000)
    # L2 serves as much again.
    assert twice.prediction.time_s == pytest.approx(both + twice.point("L2").time_s / 2)
    clock = max(rate.value for rate in guest.clocks if rate.basis == "attained")
    chain = code(chain=10_000_000, read_bytes=64e6, write_bytes=0.0)
    bound = moved(64_000_000, 64_000_000, 64_000_000, code=chain, flop=10_000_000)
    # 10 million additions of 3 cycles take longer than 64 MB from memory, and hide them.
    assert bound.prediction.time_s == pytest.approx(30e6 / clock)
    assert bound.bound == "compute-bound"


def test_accesses_that_wait_for_each_other_take_the_latency(guest):
    misses = {"L1": 10_000, "L2": 10_000, "L3": 10_000}
    streamed = placement.place_on(report(640_000, 0), guest).point("DRAM").time_s
    gathered = placement.place_on(report(640_000, 0, gathered=misses), guest).point("DRAM").time_s
    chased = placement.place_on(report(640_000, 0, chased=misses), guest).point("DRAM").time_s
    latency = guest.level("memory").latency_s
    assert streamed < gathered < chased
    assert chased == pytest.approx(10_000 * latency, rel=0.01)
    assert gathered == pytest.approx(10_000 * latency / load_family("cpu")("loop.gathered_in_flight"), rel=0.01)


def test_what_data_pick_comes_no_sooner_than_its_bytes(guest):
    # so many at once that only L3's bytes are left
    misses = {"L1": 10_000, "L2": 10_000, "L3": 0}
    picked = report(640_000, 0, gathered=misses)
    levels = [msgspec.structs.replace(each, latency_s=1e-10) for each in guest.levels]
    near = msgspec.structs.replace(guest, levels=tuple(levels), curves=())
    streamed = placement.place_on(report(640_000, 0), near).predictions[0].time_s
    assert placement.place_on(picked, near).predictions[0].time_s == pytest.approx(streamed)


@pytest.mark.parametrize(
    ("stride_bytes", "in_flight"),
    [
        (4096, 2.5),  # 64 lines: one of L1's 64 sets
        (512, 20.0),  # 8 sets; 20 without conflicts is the most
        (4096 + 64, 20.0),
    ],
)
def test_what_meets_in_few_sets_waits_longer(guest, stride_bytes, in_flight):
    misses = {"L1": 10_000, "L2": 10_000, "L3": 10_000}
    walk = Walk(line=1, text="A[i, j]", loop=0, stride_bytes=stride_bytes, misses=10_000, kind="read")
    made = placement.place_on(report(640_000, 0, strided=misses, walks=(walk,)), guest).point("DRAM").time_s
    assert made == pytest.approx(10_000 * guest.level("memory").latency_s / in_flight, rel=0.01)


def test_without_flop_the_share_is_of_the_bandwidth(guest):
    memory = placement.place_on(report(64_000_000, 64_000_000), guest).point("DRAM")
    assert memory.roof_flop_per_s is None
    assert memory.share == pytest.approx(128e6 / 0.01 / memory.bytes_per_s)


def test_a_graphics_card_is_refused():
    with pytest.raises(RooflabError, match="is a gpu; a Python loop runs on a CPU"):
        placement.place_on(report(640, 64), rooflab.machine("h200-sxm"))


def test_a_machine_without_rates_predicts_nothing(guest):
    levels = tuple(msgspec.structs.replace(level, rates=()) for level in guest.levels)
    made = placement.place_on(report(640, 64, flop=1), msgspec.structs.replace(guest, levels=levels))
    assert made.predictions == ()
    assert made.bound is None
    assert made.point("L1").bytes_per_s is None


def test_branches_on_what_lies_beyond_l1_are_known_late(guest):
    line = LineCounts(line=5, text="if a[m] < x:", flop=0, accesses=1000, misses={"L1": 500, "L2": 100, "L3": 0})
    stream = LineCounts(
        line=6, text="if a[i] < x:", flop=0, accesses=1000, misses={"L1": 125, "L2": 125, "L3": 125}
    )
    ahead = LineCounts(
        line=7,
        text="if a[k[i]] < x:",
        flop=0,
        accesses=1000,
        misses={"L1": 500, "L2": 100, "L3": 0},
        decided={"L1": 0, "L2": 0, "L3": 0},
    )
    given = report(64_000, 0, lines=(line, stream, ahead))
    l1, l2, l3 = (guest.level(name).latency_s for name in ("L1", "L2", "L3"))
    cycle_s = 0.25e-9
    # two of five accesses wait for L2, one of ten for L3; what streams or is picked in order is begun ahead
    expected = (0.4 * (l2 - l1) + 0.1 * (l3 - l1)) / cycle_s
    assert late_branches.cycles_by_line(given, guest, cycle_s) == {5: pytest.approx(expected)}
    # where all that misses is scattered, a missed branch shows a part of what was begun ahead too
    missed = given.simulation.levels[0].misses
    shown = late_branches.cycles_by_line(msgspec.structs.replace(given, gathered={"L1": missed}), guest, cycle_s)
    assert shown[5] == pytest.approx(expected)
    assert shown[7] == pytest.approx(load_family("cpu")("loop.late_ahead") * expected)
