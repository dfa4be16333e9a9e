"""rocprofv3's results.json, built from what its writer names each field, not written by the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

import rooflab
from rooflab.errors import FileError
from rooflab.observe.importers.traces.rocprofv3_json import load
from rooflab.types.counted import Counters
from rooflab.types.trace import COPY, KERNEL, Trace

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "rocprofv3_json"


def trace(path: Path) -> Trace:
    found = load(path)
    assert isinstance(found, Trace)
    return found


def test_kernels_copies_calls_and_ranges():
    found = trace(SAMPLES / "trace_results.json")
    kernels = found.kernels
    assert kernels.kind.tolist() == [COPY, KERNEL, KERNEL]
    assert [found.names[one] for one in kernels.name] == ["Memcpy HtoD", "add(float*)", "gemm"]
    assert kernels.start_s.tolist() == pytest.approx([5e-6, 20e-6, 30e-6])
    assert kernels.duration_s.tolist() == pytest.approx([4e-6, 5e-6, 15e-6])
    assert kernels.nbytes[0] == 2**20
    assert (kernels.device.tolist(), kernels.stream.tolist()) == ([1, 1, 1], [3, 3, 3])
    shape = found.shapes[kernels.shape[2]]
    assert (shape.grid, shape.block, shape.shared_bytes) == ((8, 4, 1), (64, 2, 1), 1024)
    launches = found.launches
    assert [found.names[one] for one in launches.name] == [
        "hipLaunchKernel",
        "hipLaunchKernel",
        "hipDeviceSynchronize",
    ]
    assert launches.correlation[:2].tolist() == kernels.correlation[1:].tolist()
    assert [found.names[one] for one in found.calls.name] == ["step 1"]
    assert found.threads[0] == ("4242", "4243")


def test_the_device_finds_its_machine():
    profile = rooflab.load(SAMPLES / "trace_results.json")
    assert profile.device is not None
    assert (profile.device.name, profile.device.compute_units, profile.device.memory_bytes) == (
        "AMD Instinct MI300X",
        304,
        206_141_652_992,
    )
    assert profile.machine is not None
    assert profile.machine.name == "AMD Instinct MI300X"
    (device,) = profile.timeline.devices
    assert device.busy_s == pytest.approx(24e-6)


def test_counters_of_units_are_added():
    """4096 · 512 FLOP in bf16; two instances of TCC with 30 hits and 20 misses each."""
    found = load(SAMPLES / "counters_results.json")
    assert isinstance(found, Counters)
    (row,) = found.rows
    assert [(one.engine, one.dtype, one.count) for one in row.flop or ()] == [("matrix", "bf16", 2**21)]
    assert row.access is not None
    assert row.access.hit_rates == {"L2": 0.6}
    assert (row.name, row.time_s) == ("gemm", pytest.approx(15e-6))
    assert found.device is not None
    assert found.device.name == "AMD Instinct MI300X"


def test_the_records_before_a_missing_end_are_kept(tmp_path):
    text = (SAMPLES / "trace_results.json").read_text("utf-8")
    path = tmp_path / "cut.json"
    path.write_text(text[: text.index('"hip_api"')], encoding="utf-8")
    found = trace(path)
    assert len(found.kernels) == 3
    assert [found.names[one] for one in found.kernels.name] == ["Memcpy HtoD", "add(float*)", "gemm"]
    assert sum(one.count for one in found.dropped) == 1


def test_numbers_that_json_does_not_have_cost_one_record(tmp_path):
    text = (SAMPLES / "trace_results.json").read_text("utf-8")
    path = tmp_path / "nan.json"
    path.write_text(text.replace("5000000020000", "NaN"), encoding="utf-8")
    found = trace(path)
    assert len(found.kernels) == 2
    assert found.dropped[0].count == 1


def test_nothing_usable(tmp_path):
    path = tmp_path / "empty.json"
    path.write_text('{"rocprofiler-sdk-tool": [{"metadata": {}}]}', encoding="utf-8")
    with pytest.raises(FileError, match="no kernel, copy, call or counter") as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
