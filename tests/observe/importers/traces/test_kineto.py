"""Traces of PyTorch's profiler: real ones, other clocks and old forms, damaged ones."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from rooflab.errors import FileError
from rooflab.observe.importers import load
from rooflab.observe.importers.traces import kineto
from rooflab.observe.reading.opened import allowing
from rooflab.types.trace import KERNEL, Trace
from support.observe.kineto_files import BASE_US, call, file, kernel, launch, text

SAMPLE = Path(__file__).parents[4] / "examples" / "gpt2-h200-trace.json.gz"


@pytest.fixture(scope="module")
def gpt2() -> Trace:
    return kineto.load(SAMPLE)


def test_a_real_trace_has_what_its_json_has(gpt2):
    """Against `json.load` of the same file, event by event."""
    events = json.loads(gzip.decompress(SAMPLE.read_bytes()))["traceEvents"]
    kernels = [one for one in events if one.get("cat") in ("kernel", "gpu_memset", "gpu_memcpy")]
    calls = [one for one in events if one.get("cat") in ("cpu_op", "user_annotation")]
    assert (len(gpt2.kernels), len(gpt2.calls)) == (len(kernels), len(calls))
    assert gpt2.kernels.duration_s.sum() == pytest.approx(sum(one["dur"] for one in kernels) * 1e-6)
    first = min(kernels, key=lambda one: one["ts"])
    assert gpt2.names[gpt2.kernels.name[0]] == first["name"]
    assert gpt2.kernels.correlation[0] == first["args"]["correlation"]
    shape = gpt2.shapes[gpt2.kernels.shape[0]]
    assert list(shape.grid or ()) == first["args"]["grid"]
    start_us = min(
        one["ts"] for one in events if one.get("cat") in ("kernel", "cpu_op", "cuda_runtime", "cuda_driver")
    )
    assert gpt2.kernels.start_s[0] == pytest.approx((first["ts"] - start_us) * 1e-6, abs=2e-9)
    assert gpt2.devices[0].name == "NVIDIA H200"
    assert gpt2.devices[0].compute_units == 132
    assert (gpt2.dropped, gpt2.notes) == ((), ())


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bytes])
def test_packed_or_not(tmp_path, pack):
    path = tmp_path / "named.anything"
    path.write_bytes(pack(text(kernel(0, 5)).encode()))
    trace = load(path)
    assert isinstance(trace, Trace)
    assert len(trace.kernels) == 1


@pytest.mark.parametrize("piece", [200, 333, 1000])
def test_pieces_of_any_size_give_the_same(tmp_path, monkeypatch, piece):
    path = file(
        tmp_path, *[kernel(10 * n, 3 + n, name=f"k{n % 3}") for n in range(40)], deviceProperties=[{"id": 0}]
    )
    whole = kineto.load(path)
    monkeypatch.setattr(kineto, "_PIECE_BYTES", piece)
    parts = kineto.load(path)
    assert np.array_equal(parts.kernels.duration_s, whole.kernels.duration_s)
    assert parts.devices == whole.devices
    assert parts.dropped == ()


def test_events_may_come_before_or_after_the_rest_or_alone(tmp_path):
    events = [kernel(0, 1), kernel(5, 1)]
    for document in (
        {"traceEvents": events, "deviceProperties": [{"id": 0, "name": "A"}, {"id": 1, "name": "B"}]},
        {"deviceProperties": [{"id": 0, "name": "A"}, {"id": 1, "name": "B"}], "traceEvents": events},
    ):
        path = tmp_path / "t.json"
        path.write_text(json.dumps(document, indent=2), encoding="utf-8")
        trace = kineto.load(path)
        assert len(trace.kernels) == 2
        assert [one.name for one in trace.devices] == ["A", "B"]
    path.write_text(json.dumps(events), encoding="utf-8")
    assert len(kineto.load(path).kernels) == 2


def test_numbers_that_are_no_json_are_of_one_event(tmp_path):
    # pytorch/kineto issue 105: a copy of no duration has a bandwidth of "inf"
    copy = (
        '{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 100, "dur": 0, "args": '
    )
    copy += '{"device": 0, "stream": 7, "bytes": 200, "memory bandwidth (GB/s)": inf}}'
    path = tmp_path / "inf.json"
    path.write_text(f'{{"traceEvents": [{copy}, {json.dumps(kernel(3, 4))}]}}', encoding="utf-8")
    trace = kineto.load(path)
    assert sorted(trace.kernels.nbytes[np.isfinite(trace.kernels.nbytes)]) == [200]
    assert len(trace.kernels) == 2
    assert trace.dropped == ()


def test_times_that_cannot_be_true_are_dropped_and_counted(tmp_path):
    # pytorch/kineto issue 109: activities with ts and dur of 0 among others at 1.6e15
    lost = [{**kernel(0, 0), "ts": 0, "dur": 0} for _ in range(3)]
    odd = [{**kernel(0, 0), "dur": -1}, {**kernel(0, 0), "ts": "soon"}, {**kernel(0, 0), "dur": None}]
    trace = kineto.load(file(tmp_path, kernel(1, 2), *lost, *odd, kernel(9, 1)))
    assert len(trace.kernels) == 2
    assert trace.kernels.start_s[-1] == pytest.approx(8e-6)
    assert [(one.count, one.why) for one in trace.dropped] == [
        (6, "without a start or a duration that can be true")
    ]


def halves(event: dict, *within: dict) -> list[dict]:
    """An event as its beginning and its end, with what happens in between."""
    begin = {key: value for key, value in event.items() if key != "dur"} | {"ph": "B"}
    end = {"ph": "E", "pid": event["pid"], "tid": event["tid"], "ts": event["ts"] + event["dur"]}
    return [begin, *within, end]


def test_an_event_may_be_told_by_its_beginning_and_its_end(tmp_path):
    inner = kernel(3, 2)
    plain = kineto.load(file(tmp_path, kernel(1, 8), inner, kernel(20, 5)))
    folder = tmp_path / "pairs"
    folder.mkdir()
    pairs = kineto.load(file(folder, *halves(kernel(1, 8), *halves(inner)), kernel(20, 5)))
    assert sorted(pairs.kernels.duration_s) == sorted(plain.kernels.duration_s)
    assert sorted(pairs.kernels.start_s) == sorted(plain.kernels.start_s)
    assert pairs.dropped == ()


def test_a_pair_in_nanoseconds_beyond_a_float_lasts_as_long(tmp_path):
    first = 1_790_857_026_000_000_007
    trace = kineto.load(
        file(tmp_path, *halves({**kernel(0, 0), "ts": first, "dur": 41}), kernel(0, 0) | {"ts": first})
    )
    assert max(trace.kernels.duration_s) == pytest.approx(41e-9)


def test_beginnings_without_an_end_and_ends_without_a_beginning_are_counted(tmp_path):
    first, second = halves(kernel(1, 2)), halves(kernel(5, 2))
    trace = kineto.load(file(tmp_path, first[1], *second, first[0], {**first[0], "tid": 99}, kernel(9, 1)))
    assert len(trace.kernels) == 2
    assert [(one.count, one.why) for one in trace.dropped] == [
        (3, "begin without an end, or end without a beginning")
    ]


@pytest.mark.parametrize("piece", [300, 1000, 2**20])
def test_a_pair_may_lie_in_two_pieces_of_the_file(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(kineto, "_PIECE_BYTES", piece)
    several = [each for at in range(0, 60, 3) for each in halves(kernel(at, 2))]
    shared = {**kernel(70, 2), "args": {**kernel(70, 2)["args"], "Collective name": "allreduce"}}
    begin, end = halves(kernel(80, 10), shared)[0], halves(kernel(80, 10))[1]
    trace = kineto.load(file(tmp_path, *several, begin, shared, *several[:2], end, kernel(100, 3)))
    assert len(trace.kernels) == 24
    assert sum(trace.kernels.duration_s) == pytest.approx((21 * 2 + 2 + 10 + 3) * 1e-6)


def test_text_for_numbers_and_nanoseconds_beyond_a_float(tmp_path):
    texts = [{**kernel(0, 0), "ts": f"{BASE_US + at}", "dur": "2.5"} for at in (0, 100)]
    trace = kineto.load(file(tmp_path, *texts))
    assert trace.kernels.duration_s.tolist() == pytest.approx([2.5e-6] * 2)
    # Nanoseconds since 1970 as whole numbers: a float would be wrong by 256 ns.
    first = 1_790_857_026_000_000_007
    events = [{**kernel(0, 0), "ts": first + at, "dur": 40} for at in (0, 41)]
    trace = kineto.load(file(tmp_path, *events))
    assert trace.kernels.start_s.tolist() == pytest.approx([0, 41e-9], abs=1e-12)
    assert trace.kernels.duration_s.tolist() == pytest.approx([40e-9] * 2)


def test_modules_are_kept_of_the_stacks_and_nothing_else(tmp_path):
    module = call(0, 50, "nn.Module: Linear_3", cat="python_function")
    other = call(0, 50, "torch/nn/modules/linear.py(130): forward", cat="python_function")
    trace = kineto.load(file(tmp_path, module, other))
    assert [trace.names[name] for name in trace.calls.name] == ["nn.Module: Linear_3"]


def test_without_a_kernel_or_shapes_the_notes_say_so(tmp_path):
    trace = kineto.load(file(tmp_path, call(0, 5, "aten::add", **{"External id": 1})))
    assert len(trace.kernels) == 0
    assert any("record_shapes=True" in note for note in trace.notes)
    assert any("the times are the host's" in note for note in trace.notes)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty, expected a profile"),
        (b"\x89PNG\r\n\x1a\n....", "looks like a picture"),
        (b"hello world", "begins with b'hello world'"),
        (b'{"traceEvents": 7}', 'no list of "traceEvents"'),
        (b'{"traceEvents": [{"ph": "X" "cat"}, {,}]}', "none of its"),
    ],
)
def test_what_is_no_trace_is_one_line(tmp_path, content, said):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(FileError, match="file: ") as caught:
        load(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


DOCUMENT = text(
    *[kernel(10 * n, 3, name=f"kernel<{n}>", correlation=n) for n in range(6)],
    *[launch(10 * n - 5, correlation=n) for n in range(6)],
    *[call(10 * n - 6, 4, "aten::mm", **{"External id": n, "Input Dims": [[4, 4], [4, 4]]}) for n in range(6)],
    deviceProperties=[{"id": 0, "name": "NVIDIA H200"}],
).encode()


def usable(content: bytes, folder: Path) -> Trace | None:
    """The trace, or None where the file is refused; anything but an error of rooflab's fails the test."""
    path = folder / "damaged.json"
    path.write_bytes(content)
    try:
        trace = load(path)
    except FileError:
        return None
    assert isinstance(trace, Trace)
    return trace


@settings(deadline=None, max_examples=150)
@given(cut=st.integers(0, len(DOCUMENT)))
def test_a_file_cut_short_gives_the_events_before_the_cut(tmp_path_factory, cut):
    trace = usable(DOCUMENT[:cut], tmp_path_factory.mktemp("cut"))
    whole = DOCUMENT[:cut].count(b'"stream": 7') if trace is not None else 0
    if trace is not None:
        assert whole - 1 <= np.count_nonzero(trace.kernels.kind == KERNEL) <= whole
        assert cut == len(DOCUMENT) or trace.dropped or cut > DOCUMENT.rfind(b"]")


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.integers(0, len(DOCUMENT) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_flipped_bytes_lose_no_more_than_their_events(tmp_path_factory, flips):
    content = bytearray(DOCUMENT)
    for at, value in flips:
        content[at] = value
    trace = usable(bytes(content), tmp_path_factory.mktemp("flip"))
    if trace is not None:
        assert len(trace.kernels) <= 6


@pytest.mark.slow
def test_a_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(text(kernel(0, 5)).encode() + b" " * 80_000_000))
    with pytest.raises(FileError, match=r"times its .* bytes, as a bomb does; .*--limit"):
        load(path)
    with allowing(50e6), pytest.raises(FileError, match=r"more than 50.0 MB unpacked; .*--limit"):
        load(path)
    with allowing(1e9):
        assert isinstance(load(path), Trace)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_what_stands_before_the_cut_of_a_packed_file_is_read(tmp_path, pack):
    """Also where the cut lies within the first piece that is unpacked at once."""
    events = [kernel(10 * number, 5) for number in range(4000)]
    whole = pack(text(*events).encode())
    path = tmp_path / "cut"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    trace = load(path)
    assert isinstance(trace, Trace)
    assert 500 < len(trace.kernels) < 4000
    assert any("ends within" in one.why for one in trace.dropped)


def test_an_empty_list_is_no_trace(tmp_path):
    path = tmp_path / "empty.json"
    path.write_text('{"traceEvents": []}')
    with pytest.raises(FileError, match="its list of events is empty"):
        kineto.load(path)


def test_traces_from_before_kineto_have_their_kernels(tmp_path):
    """Built from what torch.autograd.profiler of PyTorch 1.4 writes (export_chrome_trace), not written by it."""
    events = [
        {"name": "mm", "ph": "X", "ts": 10.5, "dur": 100.0, "tid": 1, "pid": "CPU functions", "args": {}},
        {"name": "mm", "ph": "f", "ts": 50.0, "tid": 1, "pid": "CUDA functions", "id": 0, "cat": "cpu_to_cuda"},
        {"name": "mm", "ph": "X", "ts": 50.0, "dur": 30.0, "tid": 1, "pid": "CUDA functions", "args": {}},
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    trace = load(path)
    assert isinstance(trace, Trace)
    assert (len(trace.kernels), len(trace.calls)) == (1, 1)
    assert trace.kernels.duration_s[0] == pytest.approx(30e-6)
    assert trace.kernels.device[0] == 1


def test_a_mark_of_utf8_does_not_hide_the_device(tmp_path):
    path = tmp_path / "trace.json"
    begin = b'{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}], "traceEvents": ['
    path.write_bytes(b"\xef\xbb\xbf" + begin + json.dumps(kernel(0, 5)).encode() + b"]}")
    assert [one.name for one in kineto.load(path).devices] == ["NVIDIA H200"]
