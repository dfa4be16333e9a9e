"""What a last cache serves of data that are gone round: shares found again from sweeps made of them."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.machines import served_share
from rooflab.types.machine import Curve, Level, Machine, Source
from rooflab.units import MIB

HERE = Source("measured", "a test")
CACHE, MEMORY = 100e9, 25e9  # bytes/s
NEAR_S, FAR_S = 10e-9, 110e-9
SIZES = tuple(float(size * MIB) for size in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256))
WHOLE = 0.95  # of the cache's bandwidth from which on all is taken to be served
# By MiB; of smaller ones all, of larger ones nothing.
SHARES = {16: 0.9 * WHOLE, 24: 0.6 * WHOLE, 32: 0.4 * WHOLE, 48: 0.1 * WHOLE}


def share(size):
    return SHARES.get(round(size / MIB), 1.0 if size < 16 * MIB else 0.0)


def mixed(served):
    """Bytes/s where so much comes from the cache and the rest from memory."""
    return 1 / (served / CACHE + (1 - served) / MEMORY)


def machine(bandwidth=None, latency=None, shared_by=2, threads=1, scope="core", rows=None):
    rates = bandwidth or [mixed(share(size)) for size in SIZES]
    curves = [curve("read bandwidth", "byte/s", rates, threads, scope)]
    if rows:
        curves.append(curve("bandwidth of rows side by side", "byte/s", rows, 1, "core"))
    if latency:
        curves.append(curve("latency", "s", latency, 1, "core"))
    return Machine(
        name="a test's",
        kind="cpu",
        source=HERE,
        levels=(
            Level(name="L2", source=HERE, capacity_bytes=1.0 * MIB, shared_by=1, line_bytes=64),
            Level(
                name="L3",
                source=HERE,
                capacity_bytes=16.0 * MIB,
                shared_by=shared_by,
                line_bytes=64,
                latency_s=NEAR_S,
            ),
            Level(name="DRAM", source=HERE, latency_s=FAR_S),
        ),
        curves=tuple(curves),
    )


def curve(name, unit, values, threads, scope):
    values = tuple(values)
    return Curve(
        name=name,
        x_unit="byte",
        y_unit=unit,
        scope=scope,
        x=SIZES,
        best=values,
        median=values,
        source=HERE,
        threads=threads,
    )


def served_of(measured, scope="core"):
    found = served_share.of_last_cache(measured, scope)
    assert found is not None
    return found


@pytest.mark.parametrize(("mib", "expected"), [*SHARES.items(), (8, 1.0), (96, 0.0), (1, 1.0), (1000, 0.0)])
def test_shares_are_found_again(mib, expected):
    whole = min(1.0, expected / WHOLE)
    assert served_of(machine()).of(mib * MIB) == pytest.approx(whole, abs=1e-9)


def test_between_two_sizes_the_share_follows_their_logarithms():
    # half way from 16 to 24 MiB: half of 0.9 and half of 0.6
    served = served_of(machine())
    assert served.of(math.sqrt(16 * 24) * MIB) == pytest.approx(0.75)


def test_bytes_of_all_threads_that_share_the_cache_count():
    served = served_of(machine(threads=2, scope="all"), "all")
    assert served.of(48 * MIB) == pytest.approx(0.6)  # 24 MiB each


def test_neighbours_are_seen_by_a_chase_that_loses_what_streams_keep():
    # Half of a stream is served at 32 MiB (the first size with 0.5 or less), in 32 MiB / 50 GB/s = 0.6 ms; of a
    # chase half at 8 MiB, which takes 131,072 loads of 60 ns: 7.9 ms. So others fill 24 MiB in 7.2 ms: 3.5 GB/s.
    chased = [NEAR_S if size < 8 * MIB else 0.5 * (NEAR_S + FAR_S) if size == 8 * MIB else FAR_S for size in SIZES]
    found = served_of(machine(latency=chased))
    stream_s = 32 * MIB / mixed(SHARES[32])
    expected = 24 * MIB / (8 * MIB / 64 * 60e-9 - stream_s)
    assert found.neighbours_bytes_per_s == pytest.approx(expected)
    # the same point of the sweep, whose own neighbours are counted in; and one that takes longer
    assert found.of(32 * MIB, stream_s) == pytest.approx(0.4)
    assert found.of(8 * MIB, 8e-3) < 0.5


@pytest.mark.parametrize("shared_by", [1, 2])
def test_nobody_is_seen_where_the_chase_keeps_as_much_or_the_cache_is_a_cores_own(shared_by):
    chased = [NEAR_S if size < 32 * MIB else FAR_S for size in SIZES]
    if shared_by == 1:
        chased = [FAR_S] * len(SIZES)
    found = served_of(machine(latency=chased, shared_by=shared_by))
    assert found.neighbours_bytes_per_s == 0.0


def test_rows_have_shares_of_their_own_and_two_places_lie_between():
    # of rows that alone need twice the bytes of one stream to be lost: nothing from 24 MiB on
    rows = [mixed(WHOLE if size < 24 * MIB else 0.0) for size in SIZES]
    measured = machine(rows=rows)
    one, side = served_of(measured), served_share.of_rows(measured)
    assert side is not None
    assert (one.of(24 * MIB), side.of(24 * MIB)) == pytest.approx((0.6, 0.0), abs=1e-9)
    found = [served_share.between(one, side, places, 24 * MIB, 0.0) for places in (0, 1, 2, 3, 7)]
    assert found == pytest.approx([0.6, 0.6, 0.3, 0.0, 0.0], abs=1e-9)
    # they are never served more than one stream alone
    assert served_share.between(one, one._replace(shares=(1.0,) * len(one.sizes)), 3, 24 * MIB, 0.0) == one.of(
        24 * MIB
    )
    assert served_share.of_rows(machine()) is None


def test_without_a_sweep_or_where_memory_is_as_fast_nothing_is_known():
    plain = machine()
    assert served_share.of_last_cache(Machine(name="m", kind="cpu", source=HERE, levels=plain.levels)) is None
    assert served_share.of_last_cache(machine(bandwidth=[CACHE] * len(SIZES))) is None
    assert served_share.of_last_cache(plain, "all") is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_numbers_that_never_rise_are_the_nearest_ones(values):
    # oracle: at each place the least over beginnings of the most over ends of means between (Barlow, 1972)
    expected = [
        min(max(mean(values[a : b + 1]) for b in range(n, len(values))) for a in range(n + 1))
        for n in range(len(values))
    ]
    found = served_share.falling(values)
    assert found == pytest.approx(expected, abs=1e-12)
    assert all(after <= before for before, after in itertools.pairwise(found))


def mean(values):
    return sum(values) / len(values)
