"""nccl-tests' output. The sample is built from the documented layout (util.cu's prints), not by the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflab.observe.importers.roofs import nccl_tests

SAMPLE = Path(__file__).parents[3] / "samples" / "profiles" / "nccl_tests" / "all_reduce.txt"


def _of(tmp_path, old, new):
    path = tmp_path / "out.txt"
    text = SAMPLE.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return nccl_tests.load(path)


def test_a_link_and_a_curve():
    # 20 µs, then 480 GB/s of bus bandwidth: 2^32 bytes take 20 µs + 2^32 × 1.75 / 480e9 s, out of place
    machine = nccl_tests.load(SAMPLE)
    assert (machine.name, machine.kind) == ("8 × NVIDIA H100 80GB HBM3 (nccl-tests)", "system")
    (link,) = machine.links
    exact = 1.75 * 2**32 / (20e-6 + 2**32 * 1.75 / 480e9)
    assert link.each_way_bytes_per_s == pytest.approx(exact, rel=2e-3)
    assert (link.name, link.to) == ("all_reduce", "7 other ranks")
    (curve,) = machine.curves
    assert curve.x == tuple(2.0**power for power in range(20, 34, 2))
    assert curve.best[-1] == link.each_way_bytes_per_s
    assert all(check.ok for check in machine.checks)


def test_a_bus_bandwidth_that_is_not_of_its_ranks_fails_its_check(tmp_path):
    # one rank less: 2 × 6 / 7 = 1.714, not 1.75; too near to tell. Half the ranks: 2 × 3 / 4 = 1.5
    lines = SAMPLE.read_text().splitlines()
    path = tmp_path / "half.txt"
    path.write_text("\n".join(line for line in lines if not any(f"Rank  {n}" in line for n in (4, 5, 6, 7))))
    machine = nccl_tests.load(path)
    (failed,) = [check for check in machine.checks if not check.ok]
    assert failed.name == "all_reduce: busbw against algbw"


def test_wrong_results_fail_a_check(tmp_path):
    machine = _of(tmp_path, "Out of bounds values : 0 OK", "Out of bounds values : 12 FAILED")
    (failed,) = [check for check in machine.checks if not check.ok]
    assert "12 results were wrong" in failed.message


def test_marks_of_a_launcher_are_taken_off(tmp_path):
    path = tmp_path / "mpi.txt"
    path.write_text("\n".join(f"[1,0]<stdout>:{line}" for line in SAMPLE.read_text().splitlines()))
    assert nccl_tests.sniff(path.read_bytes())
    (found,), (expected,) = nccl_tests.load(path).links, nccl_tests.load(SAMPLE).links
    assert found.each_way_bytes_per_s == expected.each_way_bytes_per_s


def test_a_lost_cell_loses_its_line_alone(tmp_path):
    text = SAMPLE.read_text()
    (last,) = [line for line in text.splitlines() if line.strip().startswith(str(2**32))]
    machine = _of(tmp_path, last, last.rpartition("  ")[0])
    assert len(machine.curves[0].x) == 6
    assert "1 line could not be used" in machine.note


def test_a_table_that_was_pasted_with_an_indent(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("".join(f"    {line}\n" for line in SAMPLE.read_text().splitlines()))
    assert nccl_tests.sniff(path.read_bytes())
    indented, plain = nccl_tests.load(path), nccl_tests.load(SAMPLE)
    assert (indented.links[0].each_way_bytes_per_s, indented.name) == (
        plain.links[0].each_way_bytes_per_s,
        plain.name,
    )
