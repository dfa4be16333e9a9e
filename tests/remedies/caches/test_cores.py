"""Advice for several cores: false sharing found, mended and simulated again; nothing where nothing is wrong."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rooflab
from rooflab import Cache, core_streams, views
from rooflab.cachesim.coherence.simulate import simulate
from rooflab.cachesim.coherence.stream import listed
from rooflab.model import sharing_cores
from rooflab.remedies.caches import cores, layouts
from rooflab.remedies.caches.usage import usage

pytestmark = pytest.mark.slow  # the simulator of several cores takes half a minute to compile
LEVELS = [Cache(32768, 8, name="L1"), Cache(524288, 8, name="L2")]
GUEST = Path(__file__).parents[3] / "examples" / "zen4-guest.toml"


def advised(streams, **more):
    return rooflab.simulate_cores(streams, levels=None if "machine" in more else LEVELS, **more)


def test_counters_in_one_line_are_moved_apart_and_counted_as_if_written_so():
    found = advised(core_streams.counters(2, 1000)).advice
    first = next(each for each in found.each if each.rule == "false-sharing")
    apart = advised(core_streams.counters(2, 1000, padding_bytes=64))
    # The padded layout of the rule is that of the stream's own option: its bytes are simulated, not guessed.
    assert first.after_bytes == sum(
        each.levels[-1].read_bytes + each.levels[-1].write_bytes for each in apart.cores
    )
    assert first.after_bytes == 2 * 64  # each core reads its own line once
    assert (first.before_s, first.after_s) == (None, None)  # no machine, no time


def test_with_a_machine_the_gain_is_a_time_that_holds_what_was_measured():
    found = advised(core_streams.counters(2, 100_000), machine=GUEST).advice
    first = next(each for each in found.each if each.rule == "false-sharing")
    assert first.gain_low_s < first.gain_s < first.gain_high_s < first.before_s
    # Measured on such a guest: 1.5 ns an increment in one line, 0.75 apart: half of the time.
    assert first.gain_low_s / first.before_s < 0.5 < first.gain_high_s / first.before_s


def test_what_is_as_advised_gets_no_advice():
    found = advised(core_streams.counters(4, 500, padding_bytes=64)).advice
    assert (found.each, found.trades, found.unasked) == ((), (), ())


def test_sums_of_all_cores_are_added_up_in_each_first():
    found = advised(core_streams.counters(2, 1000)).advice
    assert "local-sums" in [each.rule for each in found.each]
    # Only loaded: nobody adds, so there is nothing to keep.
    reads = [[("load", "a", n % 8) for n in range(400)] for _ in range(2)]
    assert advised(reads).advice.each == ()


def test_unknown_latencies_are_said_and_no_time_is_made_up():
    found = advised(core_streams.counters(2, 1000), machine="epyc-7763").advice
    assert all(each.gain_s is None for each in found.each)
    (said,) = found.unasked
    assert said.startswith("times: AMD EPYC 7763")
    assert said.endswith(" states no latency from core to core (rooflab measure finds it)")


def test_it_is_not_asked_where_the_user_does_not_want_it():
    assert advised(core_streams.counters(2, 1000), advise=False).advice is None


def test_it_is_shown_in_the_terminal_and_escaped_on_the_page():
    streams = [[("load", "<b>", n), ("store", "<b>", n)] * 200 for n in range(2)]
    result = advised(streams)
    out = io.StringIO()
    views.show(result, out)
    assert "What would help\n1. Begin what each core writes of <b>" in out.getvalue()
    assert "<b> on a line" not in views.room("CoreSimulation").html(result)


ITEMS = st.lists(
    st.tuples(st.sampled_from(("load", "store", "atomic")), st.just("a"), st.integers(0, 31)),
    min_size=1,
    max_size=60,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(ITEMS, min_size=2, max_size=4))
def test_moved_apart_no_line_is_written_by_two_cores_that_share_no_item(lists):
    streams = listed(lists)
    used = usage(streams)["a"]
    # Oracle: the cores that store each item, in plain Python.
    stored: dict[int, set[int]] = {}
    for core, entries in enumerate(lists):
        for operation, _, index in entries:
            if operation != "load":
                stored.setdefault(index, set()).add(core)
    for index, writers in stored.items():
        assert used.writers[index] == (writers.pop() if len(writers) == 1 else -2)
    layout = layouts.apart(used, len(lists), 64)
    if layout is None:
        return
    items = used.array.items
    assert len(set(layout.offsets[:items].tolist())) == items  # no two items in one place
    moved = layouts.moved(streams, {"a": layout})
    before, after = (simulate(each, LEVELS, races=False) for each in (streams, moved))
    assert after.accesses == before.accesses
    singles = [(int(layout.offsets[n]) // 64, int(used.writers[n])) for n in range(items) if used.writers[n] >= 0]
    owners: dict[int, set[int]] = {}
    for line, writer in singles:
        owners.setdefault(line, set()).add(writer)
    assert all(len(each) == 1 for each in owners.values())


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 4), st.integers(100, 400), st.sampled_from((8, 16, 32)))
def test_the_advised_layout_is_not_advised_again(count, increments, step):
    streams = core_streams.counters(count, increments, padding_bytes=step)
    layout = layouts.apart(usage(streams)["count"], count, 64)
    assert layout is not None
    moved = layouts.moved(streams, {"count": layout})
    again = cores.advise(simulate(moved, LEVELS), moved, lambda each: simulate(each, LEVELS), None)
    assert "false-sharing" not in [each.rule for each in again.each]


def test_a_machine_without_a_clock_or_link_is_named():
    result = advised(core_streams.counters(2, 100))
    said = sharing_cores.core_times(result, rooflab.machine("h200"), True)
    assert isinstance(said, str)
    assert "H200" in said
