"""Advice for the accesses of one core: each change found where it helps, counted again, silent where made."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
from rooflab import Cache, simulate, streams
from rooflab.types.measured import Tlb
from rooflab.types.source import Source

SMALL = [Cache(4096, 4), Cache(32768, 8)]
GUEST = "examples/zen4-guest.toml"


def advised(stream, levels=SMALL, **how):
    return simulate(stream, levels=levels, advise=True, **how)


def rules_of(simulation) -> list[str]:
    return [one.rule for one in simulation.advice.each]


def memory_bytes(simulation) -> int:
    return simulation.memory_read_bytes + simulation.memory_write_bytes


def test_a_product_down_columns_says_what_its_changes_count():
    best = advised(streams.matmul(96)).advice.each[0]
    assert best.rule == "tile"
    assert any("or: Exchange the loops" in line for line in best.evidence)
    # By columns each line of 8 doubles of B is read for 8 steps of k, where it was read for each.
    assert any("or: Store B by columns" in line for line in best.evidence)
    assert best.before_bytes == memory_bytes(simulate(streams.matmul(96), levels=SMALL))
    assert 0 < best.after_bytes < best.before_bytes
    assert best.before_s is best.gain_low_s is None  # no machine says how fast


def test_strided_items_side_by_side_move_the_items_alone():
    best = advised(streams.strided(2**20, 512)).advice.each[0]
    assert best.rule == "structure-of-arrays"
    assert best.before_bytes == 2**20 // 512 * 64  # a line for each item
    assert best.after_bytes == 2**20 // 512 * 8  # 8 bytes for each


def test_arrays_in_one_set_are_moved_apart():
    direct = [Cache(4096, 1)]
    best = next(one for one in advised(streams.copy(4096), direct).advice.each if one.rule == "pad-rows")
    # Both arrays begin on pages: in 4 KiB with one way each access throws out the other's line.
    assert best.before_bytes == 4096 * 64 * 2 + 4096 * 64
    assert best.after_bytes == 2 * 4096 * 8 + 4096 * 8


def test_rows_that_meet_in_few_sets_are_made_longer():
    # 256 rows of 2 KiB down a column: 2 of 64 sets, 16 lines held; a line longer each and they use all of them.
    stream = streams.transpose(256)
    assert "pad-rows" in rules_of(advised(stream, [Cache(32768, 8)]))


def test_what_is_written_once_goes_past_the_caches():
    best = next(one for one in advised(streams.triad(16384)).advice.each if one.rule == "non-temporal")
    assert (best.before_bytes, best.after_bytes) == (16384 * 8 * 4, 16384 * 8 * 3)  # triad: 4 moved, 3 named


@pytest.mark.parametrize(
    "stream",
    [
        streams.sequential(2**18),
        streams.triad(16384, stores="nontemporal"),
        streams.transpose(256, tile=8),
        streams.matmul(64, order="ikj", tile=16),
    ],
    ids=lambda stream: stream.name,
)
def test_what_is_as_advised_is_left_alone(stream):
    assert advised(stream, [Cache(32768, 8), Cache(262144, 8)]).advice.each == ()


def test_loops_that_follow_data_are_said_not_to_be_asked():
    assert advised(streams.random(2**16, 1000)).advice.unasked == (
        "interchange, tile, layouts: its addresses follow from data, not from loops",
    )
    with pytest.raises(rooflab.RooflabError, match=r"rooflab\.loop"):
        simulate("trace.din", levels=SMALL, advise=True)


@pytest.fixture(scope="module")
def paged():
    """A machine whose small pages are held for 64 and 1,024 pages, huge ones for 512."""
    machine = rooflab.machine(GUEST)
    source = Source(kind="measured", ref="made up")
    small = Tlb(page_bytes=4096, source=source, entries=(64, 1024), miss_s=(2e-9, 20e-9), held_pages=8192)
    huge = Tlb(page_bytes=2**21, source=source, held_pages=512)
    environment = {**machine.environment, "huge_pages": "madvise"}
    return msgspec.structs.replace(machine, tlbs=(small, huge), environment=environment)


def test_a_chase_gains_the_waits_that_huge_pages_take_away(paged):
    stream = streams.pointer_chase(2**24, 20_000)  # 4,096 pages
    simulation = simulate(stream, machine=paged, advise=True)
    one = next(each for each in simulation.advice.each if each.rule == "huge-pages")
    held = simulate(stream, machine=paged, tlbs=[rooflab.types.simulation.tlb(n) for n in (64, 1024)]).tlbs
    waits = (held[0].misses - held[1].misses) * 2e-9 + held[1].misses * 20e-9
    assert one.gain_s == pytest.approx(waits)
    latencies = [each.latency_s for each in simulation.times]
    served = [*(level.hits for level in simulation.levels), simulation.levels[-1].misses]
    assert one.after_s == pytest.approx(sum(a * b for a, b in zip(latencies, served, strict=True)))


def test_independent_loads_gain_the_same_share_or_nothing(paged):
    one = next(
        each
        for each in simulate(streams.random(2**24, 20_000), machine=paged, advise=True).advice.each
        if each.rule == "huge-pages"
    )
    assert one.gain_low_s == 0
    assert 0 < one.gain_share < 0.5


def test_pages_that_are_held_or_not_measured_are_not_advised(paged):
    assert "huge-pages" not in rules_of(
        simulate(streams.random(2**17, 1000), machine=paged, advise=True)
    )  # 32 pages
    without = msgspec.structs.replace(paged, tlbs=())
    said = simulate(streams.random(2**24, 1000), machine=without, advise=True).advice
    assert [line.partition(":")[0] for line in said.unasked] == ["interchange, tile, layouts", "huge-pages"]
    far = simulate(
        streams.random(2**31, 1000), machine=paged, advise=True
    ).advice  # 1,024 huge pages: 512 measured
    assert any("measured up to 1 GiB" in line for line in far.unasked)
