"""BabelStream's output. The samples are built from the documented layout (main.cpp), not by the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflab.observe.importers.roofs import babelstream

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "babelstream"
_TEXT = """BabelStream
Version: 5.0
Implementation: CUDA
Running kernels 100 times
Precision: double
Array size: {size:.1f} MB (=0.0 GB)
Using CUDA device {device}
Function    MBytes/sec  Min (sec)   Max         Average
Triad       {rate:.3f}  {seconds:.5f}     0.1000      0.10000
"""


def _of(tmp_path, elements, rate, device):
    path = tmp_path / "out.txt"
    seconds = 3 * 8 * elements / (rate * 1e6)
    path.write_text(_TEXT.format(size=elements * 8e-6, device=device, rate=rate, seconds=seconds))
    return babelstream.load(path)


def test_the_text_of_a_known_card():
    machine = babelstream.load(SAMPLES / "cuda.txt")
    assert (machine.name, machine.kind, machine.vendor) == ("NVIDIA H100 80GB HBM3 (BabelStream)", "gpu", "NVIDIA")
    # 2^28 doubles: Copy names 2 × 2,147,483,648 bytes in 1.37 ms
    assert machine.level("HBM").rate("copy").value == pytest.approx(2 * 2**31 / 0.00137, rel=1e-5)
    assert {rate.what for rate in machine.levels[0].rates} == {"copy", "scale", "add", "triad", "dot", "any"}
    assert all(check.ok for check in machine.checks)


def test_the_csv_in_mebibytes():
    machine = babelstream.load(SAMPLES / "omp.csv")
    # 2^25 doubles: Dot reads 2 × 268,435,456 bytes in 10 ms, printed as 51,200 MiB/s
    assert machine.level("DRAM").rate("dot").value == pytest.approx(2 * 2**28 / 0.0100, rel=1e-5)
    assert machine.kind == "cpu"
    assert "taken for a CPU" in machine.note


def test_arrays_within_the_cards_cache_are_the_caches_rate(tmp_path):
    """Case A33: 3 arrays of 8 MiB on a card of 32 MiB of L2 and 288 GB/s show 968 GB/s."""
    machine = _of(tmp_path, 1_048_576, 968_000, "NVIDIA GeForce RTX 4060 Ti")
    assert [level.name for level in machine.levels] == ["L2"]
    assert any("fits in the L2" in check.message for check in machine.checks if not check.ok)


def test_more_than_the_card_can_do_fails_a_check(tmp_path):
    """Case A37's kind: 1 GiB arrays at 968 GB/s on a card of 288 GB/s are 336 % of what it can do."""
    machine = _of(tmp_path, 2**27, 968_000, "NVIDIA GeForce RTX 4060 Ti")
    (failed,) = [check for check in machine.checks if not check.ok]
    assert "336 %" in failed.message


def test_a_device_name_is_never_a_path(tmp_path):
    secret = tmp_path / "secret.toml"
    secret.write_text('name = "secret"\nkind = "gpu"\n')
    machine = _of(tmp_path, 2**27, 200_000, str(secret))
    assert machine.vendor is None


def test_triad_alone_is_in_gigabytes(tmp_path):
    path = tmp_path / "triad.txt"
    path.write_text(
        "BabelStream\nVersion: 5.0\nImplementation: HIP\nRunning triad 100 times\nNumber of elements: 33554432\n"
        "Precision: double\nArray size: 268.4 MB (=0.3 GB)\n--------\n"
        "Runtime (seconds): 0.06000\nBandwidth (GB/s):  1342.177\n"
    )
    machine = babelstream.load(path)
    # 100 × 24 × 2^25 bytes in 0.06 s
    assert machine.level("DRAM").rate("triad").value == pytest.approx(100 * 24 * 2**25 / 0.06, rel=1e-5)
    assert all(check.ok for check in machine.checks if check.name != "size against caches")


def test_runs_of_several_sizes_are_held_against_their_own_arrays(tmp_path):
    # 3 × 268.4 MB in 0.6 ms, then 3 × 2147.5 MB in 4.8 ms: 1342 GB/s both
    runs = []
    for elements, seconds in ((2**28, 0.0048), (2**25, 0.0006)):
        rate = 3 * 8 * elements / seconds / 1e6
        runs.append(_TEXT.format(size=elements * 8e-6, device="Example", rate=rate, seconds=seconds))
    path = tmp_path / "sizes.txt"
    path.write_text("".join(runs))
    machine = babelstream.load(path)
    assert machine.level("DRAM").rate("triad").value == pytest.approx(3 * 8 * 2**28 / 0.0048, rel=1e-6)
    assert all(check.ok for check in machine.checks)


def test_a_table_that_was_pasted_without_its_title(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text(
        """Function    MBytes/sec  Min (sec)   Max         Average
Copy        1451000.0   0.00037     0.00041     0.00038
"""
    )
    assert babelstream.sniff(path.read_bytes())
    assert babelstream.load(path).level("DRAM").rate("copy").value == 1451e9
