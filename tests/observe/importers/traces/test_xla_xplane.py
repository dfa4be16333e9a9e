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


def test_operations_are_counted_from_the_compiled_program():
    """relu(x·w) twice with 256x256, a convolution 3→8 of 32x32 by 3x3, sum, sort of 8192, softmax: all in fp32."""
    trace = xla_xplane.load(SAMPLE)
    rows = {row.name: row for row in ledger(trace).rows}
    product = rows["ynn_fusion.4"]  # a fusion of a product alone
    assert (product.kind, product.executions, product.flop) == ("matmul", 3, 3 * 2 * 256**3)
    assert product.nbytes == 3 * 3 * 4 * 256**2
    assert product.module == "f.layers"
    assert rows["convolution"].flop == 3 * 2 * (32 * 32 * 8) * 27
    relu = rows["broadcast_maximum_fusion.1"]
    assert (relu.flop, relu.nbytes) == (3 * 256**2, 3 * 2 * 4 * 256**2)
    # maximum of each row, subtraction, exponential: one operation an element each; in once, out once.
    exponent = rows["ynn_fusion.1"]
    assert (exponent.flop, exponent.nbytes) == (3 * 3 * 256**2, 3 * 2 * 4 * 256**2)
    whole = rows["ynn_fusion.2"]  # the sum of all; the number that it begins with is read too
    assert (whole.flop, whole.nbytes) == (3 * 256**2, 3 * 4 * (256**2 + 1 + 1))
    # Four elements of 8192 are read, and written.
    assert rows["wrapped_slice"].nbytes == 3 * 2 * 4 * 4
    assert all(row.cost is not None for row in rows.values())


def instruction(number, opcode, sizes, operands=(), called=(), element=11, more=b"", name=""):
    shape = message((2, element), *((3, size) for size in sizes))
    body = message((1, name or f"{opcode}.{number}"), (2, opcode), (3, shape), (35, number))
    body += b"".join(field(36, one) for one in operands) + b"".join(field(38, one) for one in called)
    return body + more


def compiled(*computations):
    """A program: (number of the computation, number of its result, its instructions) of each."""
    parts = [
        message((1, f"c{key}"), *((2, one) for one in ones), (5, key), (6, root))
        for key, root, ones in computations
    ]
    return message((1, message((1, "jit_g"), *((3, part) for part in parts))))


def profiled(folder, program, *names):
    """A run of the instructions called `names`, a microsecond each."""
    entry = message((1, 6), (2, message((1, 6), (2, "jit_g(6)"), (5, message((1, 1), (6, program))))))
    held = field(1, field(2, "/host:metadata") + field(4, entry))
    stats = {1: "hlo_op", 2: "hlo_module", 3: "program_id"}
    known = [message((1, 1), (5, name)) for name in names]
    events = [
        event(1, 10**6 * place, 10**6, one, message((1, 2), (5, "jit_g")), message((1, 3), (3, 6)))
        for place, one in enumerate(known)
    ]
    return read(folder, held + plane("/host:CPU", [line("worker", *events)], {1: "thunk"}, stats))


def test_a_batched_product_of_bf16(tmp_path):
    dims = field(30, message((1, 2), (2, 1), (3, 0), (4, 0)))
    program = compiled(
        (
            1,
            3,
            [
                instruction(1, "parameter", (8, 64, 32), element=16),
                instruction(2, "parameter", (8, 32, 16), element=16),
                instruction(3, "dot", (8, 64, 16), (1, 2), element=16, more=dims),
            ],
        )
    )
    (row,) = ledger(profiled(tmp_path, program, "dot.3")).rows
    assert (row.flop, row.nbytes) == (2 * 8 * 64 * 16 * 32, 2 * 8 * (64 * 32 + 32 * 16 + 64 * 16))
    assert row.cost is not None
    assert [(one.engine, one.dtype) for one in row.cost.flop] == [("matrix", "bf16")]


def test_an_update_in_place_writes_what_it_updates(tmp_path):
    """One row of 1000 in a cache: 64 elements read, 64 written; the rest stays where it is."""
    body = [
        instruction(11, "parameter", (1000, 64), more=field(9, 0)),
        instruction(12, "parameter", (1, 64), more=field(9, 1)),
        instruction(13, "negate", (1, 64), (12,)),
        instruction(14, "parameter", (), element=4, more=field(9, 2)),
        instruction(15, "dynamic-update-slice", (1000, 64), (11, 13, 14)),
    ]
    entry = [
        instruction(1, "parameter", (1000, 64)),
        instruction(2, "parameter", (1, 64)),
        instruction(3, "parameter", (), element=4),
        instruction(4, "fusion", (1000, 64), (1, 2, 3), (2,), name="update"),
    ]
    (row,) = ledger(profiled(tmp_path, compiled((2, 15, body), (1, 4, entry)), "update")).rows
    assert (row.flop, row.nbytes) == (64, 4 * (64 + 64) + 4)  # and the place, a number of 4 bytes


def test_what_no_rule_counts_is_not_counted(tmp_path):
    entry = [
        instruction(1, "parameter", (8,)),
        instruction(2, "custom-call", (8,), (1,)),
        instruction(3, "fusion", (8,), (1,), (2,), name="fused"),
    ]
    body = [instruction(11, "parameter", (8,)), instruction(12, "custom-call", (8,), (11,))]
    rows = ledger(profiled(tmp_path, compiled((2, 12, body), (1, 3, entry)), "custom-call.2", "fused")).rows
    assert [row.cost for row in rows] == [None, None]
    assert all("custom-call" in (row.why or "") for row in rows)


def test_a_damaged_program_leaves_the_times(tmp_path):
    trace = profiled(tmp_path, b"\x0a\xff\x01", "dot.3")
    assert len(trace.kernels) == 1
    assert trace.dropped
    assert ledger(trace).rows[0].cost is None


def test_what_runs_within_a_loop_has_a_path_of_its_own(tmp_path):
    """The loop's own path is not put before that of what it runs; gradients are known by JAX's scopes."""
    stats = {1: "hlo_op", 2: "tf_op", 3: "flops"}
    scope = message((1, 2), (5, "jit(f)/transpose(jvp(layer))/while/body/dot:"))
    inner = event(1, 2, 4, message((1, 1), (5, "dot.1")), scope, message((1, 3), (3, 64)))
    outer = event(2, 0, 9, message((1, 1), (5, "while.1")), message((1, 2), (5, "jit(f)/while:")))
    host = plane("/host:CPU", [line("worker", outer, inner)], {1: "dot.1", 2: "while.1"}, stats)
    (row,) = ledger(read(tmp_path, host)).rows
    assert (row.name, row.module, row.phase) == ("dot.1", "f.transpose(jvp(layer)).while.body", "backward")


def test_a_window_and_a_reduction_in_another_format(tmp_path):
    """Windows of 4 over 16: 4 · 4 operations. A sum of bf16 whose body computes in fp32."""
    window = field(15, message((1, message((1, 4), (2, 4)))))
    adds = [
        instruction(11, "parameter", (), more=field(9, 0)),
        instruction(12, "parameter", (), more=field(9, 1)),
        instruction(13, "add", (), (11, 12)),
        instruction(14, "convert", (), (13,)),
    ]
    entry = [
        instruction(1, "parameter", (16,)),
        instruction(2, "constant", ()),
        instruction(3, "reduce-window", (4,), (1, 2), (2,), more=window),
        instruction(4, "reduce", (), (1, 2), (2,)),
    ]
    trace = profiled(tmp_path, compiled((2, 14, adds), (1, 4, entry)), "reduce-window.3", "reduce.4")
    assert {row.name: row.flop for row in ledger(trace).rows} == {"reduce-window.3": 16, "reduce.4": 16}
