"""XLA's own form of profiles: messages written here byte by byte, damaged ones, and the run that JAX recorded.

The sample is the same run as that of test_xla_trace, which holds that both agree.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflab.errors import FileError
from rooflab.observe.importers.traces import xla_xplane
from rooflab.observe.matching.ledger import ledger

SAMPLE = Path(__file__).parents[3] / "samples" / "profiles" / "xla_xplane" / "cpu.xplane.pb"


def varint(value):
    value &= 2**64 - 1
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def field(number, value):
    """A whole number, a text or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*pairs):
    return b"".join(field(number, value) for number, value in pairs)


def table(number, names):
    """A map from numbers to (number, name)."""
    return b"".join(
        field(number, message((1, key), (2, message((1, key), (2, name))))) for key, name in names.items()
    )


def plane(name, lines, events, stats, own=()):
    body = field(2, name)
    body += b"".join(field(3, line) for line in lines)
    return field(1, body + table(4, events) + table(5, stats) + b"".join(field(6, one) for one in own))


def line(name, *events, ns=1000):
    return message((2, name), (3, ns), *((4, event) for event in events))


def event(key, offset_ps, duration_ps, *stats):
    return message((1, key), (2, offset_ps), (3, duration_ps), *((4, stat) for stat in stats))


STATS = {1: "flops", 2: "bytes_accessed", 3: "hlo_category", 4: "core_count", 5: "memory_size", 6: "convolution"}


def device(*events, own=()):
    return plane("/device:TPU:0", [line("XLA Ops", *events)], {1: "fusion.1", 2: "copy.2"}, STATS, own)


def read(folder, data):
    path = folder / "p"
    path.write_bytes(data)
    return xla_xplane.load(path)


def test_a_devices_operations(tmp_path):
    """Times: the line's nanoseconds and the event's picoseconds. A category by reference to the table of names."""
    known = message((1, 1), (3, 4096)), message((1, 2), (4, 512)), message((1, 3), (7, 6))
    own = message((1, 4), (3, 2)), message((1, 5), (3, 2**34))
    trace = read(tmp_path, device(event(1, 5_000_000, 2_000_000, *known), event(2, 9_000_000, 1_000_000), own=own))
    assert list(trace.kernels.start_s) == pytest.approx([0.0, 4e-6])
    assert list(trace.kernels.duration_s) == pytest.approx([2e-6, 1e-6])
    first, second = ledger(trace).rows
    assert (first.name, first.flop, first.nbytes) == ("fusion.1", 4096, 512)
    assert first.counted is not None
    assert [one.engine for one in first.counted.flop or ()] == ["matrix"]
    assert (second.name, second.flop, second.nbytes) == ("copy.2", None, None)
    assert (trace.devices[0].compute_units, trace.devices[0].memory_bytes) == (2, 2**34)


def test_negative_times_and_events_without_a_name(tmp_path):
    trace = read(tmp_path, device(event(1, 0, 5), event(1, 0, -5), event(9, 0, 5), event(1, -(10**12), 5)))
    assert len(trace.kernels) == 1
    assert [one.count for one in trace.dropped] == [3]


def test_a_cut_file_keeps_the_planes_before(tmp_path):
    whole = device(event(1, 0, 5)) + device(event(2, 0, 5)).replace(b"TPU:0", b"TPU:1")
    trace = read(tmp_path, whole[:-20])
    assert "fusion.1" in trace.names
    assert any("damaged" in one.why for one in trace.dropped)


def test_a_damaged_event_loses_no_other(tmp_path):
    broken = b"\x0a\xff"  # a text that never ends
    trace = read(tmp_path, device(event(1, 0, 5), broken, event(2, 9, 5)))
    assert len(trace.kernels) == 2
    assert sum(one.count for one in trace.dropped) == 2  # the text, and the event that has no name


def test_lengths_beyond_all_bounds(tmp_path):
    with pytest.raises(FileError, match="no operation of XLA"):
        read(tmp_path, b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x12\x05/host:")


def test_no_operation(tmp_path):
    with pytest.raises(FileError, match="no operation of XLA"):
        read(tmp_path, plane("/host:CPU", [line("python", event(1, 0, 5))], {1: "main"}, {}))


@pytest.mark.parametrize("head", [b"", b"\x0a", b"\x0a\x05hello", b"\n\x03abc", b"\x0a\x20\x12\x0ehost:metadata"])
def test_other_bytes(head):
    assert not xla_xplane.sniff(head)


def test_the_sample_is_known():
    assert xla_xplane.sniff(SAMPLE.read_bytes()[:64])
