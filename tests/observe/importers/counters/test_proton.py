"""Trees of Triton's Proton. The sample is built from the schema that Proton's source documents, not written by it:
kernels with FLOP and bytes that the program stated, a scope that states them for a kernel of a library, and the
device.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rooflab.errors import FileError
from rooflab.observe.importers.counters import proton
from rooflab.observe.matching.counted_rows import counted_rows

SAMPLE = Path(__file__).parents[3] / "samples" / "profiles" / "proton" / "tree.hatchet"
CUDA = {"device_id": "0", "device_type": "CUDA"}
H200 = {"arch": "90", "bus_width": 6144, "clock_rate": 1980000, "memory_clock_rate": 3201000, "num_sms": 132}


def node(name, *children, **metrics):
    return {"children": list(children), "frame": {"name": name, "type": "function"}, "metrics": metrics}


def kernel(name, nanoseconds, count=1, **more):
    return node(name, **{**CUDA, "time (ns)": nanoseconds, "count": count, **more})


def tree(folder, *nodes, facts=H200):
    path = folder / "p.hatchet"
    root = node("ROOT", *nodes, **{"count": 0, "time (ns)": 0})
    path.write_text(json.dumps([root, {"CUDA": {"0": facts}}]), encoding="utf-8")
    return proton.load(path)


def by_name(counters):
    return {row.name: row for row in counters.rows}


def test_a_kernel_that_states_what_it_does():
    """Ten products of 4096³ in fp16 in 2 ms: each 2·4096³ FLOP, 3 · 2 · 4096² bytes, 200 µs."""
    row = by_name(proton.load(SAMPLE))["matmul_kernel"]
    assert (row.runs, row.time_s) == (10, pytest.approx(200e-6))
    assert [(one.engine, one.dtype, one.count) for one in row.flop] == [("matrix", "fp16", 2 * 4096**3)]
    assert row.at("DRAM").nbytes == 3 * 2 * 4096**2
    assert row.module == "train.forward"


def test_a_scope_that_states_it_holds_its_kernels_time():
    counters = proton.load(SAMPLE)
    row = by_name(counters)["cublas [M=4096]"]
    assert (row.runs, row.time_s, row.total_flop) == (5, pytest.approx(200e-6), 2 * 4096**3)
    assert not any(name.startswith("nvjet") for name in by_name(counters))


def test_what_proton_itself_ran_is_left_out_and_said():
    counters = proton.load(SAMPLE)
    assert sum(row.time_s * row.runs for row in counters.rows) == pytest.approx((2000 + 1000 + 80 + 30) * 1e-6)
    assert any("8 us of Proton's own kernels" in note for note in counters.notes)


def test_what_nobody_stated_is_not_known():
    row = by_name(proton.load(SAMPLE))["vectorized_add"]
    assert (row.flop, row.traffic, row.module) == (None, (), "train.backward")


def test_the_roof_of_the_devices_memory():
    """6144 bits at 3201 MHz, twice a clock: 2 · 6144/8 · 3.201e9 = 4.917e12 B/s, which the H200's data sheet
    rounds to 4.8 TB/s.
    """
    counters = proton.load(SAMPLE)
    assert counters.machine is not None
    memory = counters.machine.level("DRAM").rate(basis="theoretical")
    assert memory is not None
    assert (memory.value, memory.source.kind) == (2 * 6144 / 8 * 3.201e9, "derived")
    assert counters.device is not None
    assert (counters.device.capability, counters.device.compute_units) == ("9.0", 132)


def test_kernels_of_one_name_in_two_scopes_are_two_rows(tmp_path):
    counters = tree(tmp_path, node("a", kernel("k", 100)), node("b", kernel("k", 300)))
    rows = {row.module: row for row in counted_rows(counters.rows)}
    assert rows["a"].time_s == pytest.approx(100e-9)
    assert rows["b"].time_s == pytest.approx(300e-9)


def test_a_kernels_own_statement_is_not_added_to_its_scopes(tmp_path):
    counters = tree(tmp_path, node("s", kernel("k", 100, flops32=7.0), flops32=99.0))
    (row,) = counters.rows
    assert (row.name, row.total_flop) == ("k", 7)
    assert any("left out" in note for note in counters.notes)


def test_names_of_older_versions(tmp_path):
    old = node("k", **{"Time (ns)": 500, "Count": 5, "DeviceId": 0})
    (row,) = tree(tmp_path, old).rows
    assert (row.runs, row.time_s) == (5, pytest.approx(100e-9))


def test_times_and_counts_that_cannot_be_true(tmp_path):
    bad = [kernel("a", -5), kernel("b", 5, count=0), kernel("c", "soon"), kernel("d", 5, count=1.5)]
    counters = tree(tmp_path, *bad, kernel("good", 5, bytes=-1, flops=float("nan")))
    (row,) = counters.rows
    assert (row.name, row.traffic, row.flop) == ("good", (), None)
    assert [one.count for one in counters.dropped] == [4]


def test_a_cut_file_keeps_the_nodes_that_are_whole(tmp_path):
    text = SAMPLE.read_text(encoding="utf-8")
    path = tmp_path / "cut"
    path.write_text(text[: text.index("vectorized_add")], encoding="utf-8")
    counters = proton.load(path)
    assert "matmul_kernel" in by_name(counters)
    assert [one.why for one in counters.dropped] == [
        "the file is damaged: nodes are read one by one, without the scopes around them"
    ]


def test_nesting_without_end(tmp_path):
    deep = kernel("k", 5)
    for _ in range(300):
        deep = node("s", deep)
    with pytest.raises(FileError, match="no kernel with its time"):
        tree(tmp_path, deep)
    path = tmp_path / "deeper"
    path.write_text('[{"frame": {"name": "a"}, "metrics": {"time (ns)": 1}, "children": ' + "[" * 100_000)
    with pytest.raises(FileError, match=str(path)):
        proton.load(path)


def test_cycles_within_kernels_are_no_times(tmp_path):
    with pytest.raises(FileError, match="cycles"):
        tree(tmp_path, node("k", cycles=100, normalized_cycles=3.5))


def test_facts_of_no_device(tmp_path):
    assert tree(tmp_path, kernel("k", 5), facts={"bus_width": "wide"}).machine is None
