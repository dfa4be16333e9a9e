"""The table of events: every row names what rooflab knows, and events are encoded as the kernel says."""

from __future__ import annotations

import re

import pytest

from rooflab.machines import event_rows, events
from rooflab.machines.detect import pmu
from rooflab.machines.detect.files import Tree
from rooflab.machines.detect.naming import read_table
from rooflab.observe.importers.counters.cpu_event_rows import BYTE_EVENTS, CHANNEL_EVENT, FLOP_EVENTS
from rooflab.observe.importers.counters.cpu_events import squashed

DEVICE = "sys/bus/event_source/devices/amd_df"


@pytest.fixture
def tree(tmp_path):
    """AMD's data fabric: event in two ranges of bits (arch/x86/events/amd/uncore.c), umask in one."""
    for name, text in {
        "type": "14",
        "format/event": "config:0-7,32-35,59-60",
        "format/umask": "config:8-15",
        "format/far": "config1:3",
        "events/named": "event=0x107,umask=0x38",
        "events/odd": "event=what",
    }.items():
        path = tmp_path / DEVICE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return Tree.at(tmp_path)


@pytest.mark.parametrize(
    ("terms", "config", "config1"),
    [
        ({"event": 0x07, "umask": 0x38}, 0x3807, 0),
        ({"event": 0x107, "umask": 0x38}, 0x3807 | 1 << 32, 0),  # its ninth bit is bit 32
        ({"event": 0x1007}, 0x07 | 1 << 59, 0),  # its thirteenth, after 8 + 4 others
        ({"event": 1, "far": 1}, 1, 8),
        ({"config": 0x55, "umask": 1}, 0x155, 0),
    ],
)
def test_terms_stand_where_the_kernel_says(tree, terms, config, config1):
    assert pmu.encoded(tree, "amd_df", terms) == pmu.Encoded(14, config, config1)


@pytest.mark.parametrize("terms", [{"event": 0x4000}, {"nothing": 1}, {"umask": 256}])
def test_what_a_device_does_not_know_is_no_event(tree, terms):
    assert pmu.encoded(tree, "amd_df", terms) is None


def test_events_that_the_kernel_names(tree):
    assert pmu.named(tree, "amd_df", "named") == pmu.Encoded(14, 0x3807 | 1 << 32)
    assert pmu.named(tree, "amd_df", "odd") is pmu.named(tree, "amd_df", "none") is None
    assert pmu.encoded(tree, "no_such", {"event": 1}) is None


def test_every_row_names_known_cpus_and_events_whose_counts_are_understood():
    cpus = {row["name"] for row in read_table()}
    flop, nbytes = {row.event for row in FLOP_EVENTS}, {row.event for row in BYTE_EVENTS}
    table = event_rows.table()
    for row in (*table.flop, *table.memory, *table.bound):
        assert set(row.microarchitectures) <= cpus, row
        assert row.source
    for row in table.flop:
        assert {squashed(str(one["name"])) for one in row.events} <= flop, row
        assert row.leaves_out
    for row in table.memory:
        names = {squashed(str(one["name"])) for one in row.events} | set(row.kernel_events)
        channels = [name for name in names if re.fullmatch(CHANNEL_EVENT, name)]
        assert names <= nbytes or len(channels) == len(names), row


@pytest.mark.parametrize("microarchitecture", ["Haswell", None])
def test_a_cpu_without_a_counter_of_flop_is_said(tmp_path, microarchitecture):
    from support.observe import fake_perf

    found = events.available(fake_perf.tree(tmp_path), lambda: microarchitecture, fake_perf.kernel(8))
    assert (
        f"FLOP were not counted: no counter of them is known on {microarchitecture or 'this CPU'}" in found.lacks
    )
    assert len(found.memory) == 4  # two controllers, reads and writes


def test_counters_that_stand_still_are_none(tmp_path):
    from rooflab.machines.detect.counters import Tried
    from support.observe import fake_perf

    asked = fake_perf.kernel(8)._replace(cycles=lambda: Tried(opened=True, counted=0))
    found = events.available(fake_perf.tree(tmp_path), lambda: "Zen 4", asked)
    assert not found.any
    assert "stay at zero" in found.lacks[0]
