"""Every example runs, and says what its first line promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import rooflab

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SAVED = EXAMPLES / "zen4-guest.toml"

RUNS = (
    ("compare_machines.py", (), "NVIDIA H200 SXM 141GB      4.80 TB/s     989 TFLOP/s   206 FLOP/byte"),
    # A machine without a bf16 peak in its file is said to have none.
    ("compare_machines.py", ("snapdragon-x-elite",), "its file states no bf16 peak"),
    ("ladder.py", (), "HBM (HBM3e)                                  233 µs ████████████\n"),
    ("ladder.py", (SAVED,), "Moving 1 GB on AMD EPYC"),
    ("accept_node.py", (SAVED, SAVED), " rates compared, 0 slower\n"),
    # NumPy's two passes move 16 + 24 bytes where the algorithm names 24: 1.67 times.
    ("what_limits_my_triad.py", (), "its two passes move 1.67 × the bytes"),
    # n/6 for square fp32 matrices
    # Every store takes the line from the other core; what it had last is asked for again 2 × 100,000 − 1 times.
    ("false_sharing.py", (), "128 bytes apart, 100,000 increments each: 0 false-sharing misses, 0 lines lost"),
    # Rows of half a line: each of 10,000 stores takes the other's copy; the last is never asked for again.
    ("sharing.py", (), "histogram by part: races on 0 items; 10,000 lines lost, 0 true and 9,999 false sharing\n"),
    ("teaching_tables.py", (), "matmul 4096³, fp32                     682.7 FLOP/byte"),
    # 3 arrays of 200,000 doubles read (the stored one before it is written), 1 written back
    ("loops.py", (), "triad          0.40 MFLOP  L2 6.40 MB, L3 6.40 MB, memory 6.40 MB\n"),
    ("two_layers.py", (), "as a graph (compute-bound)"),
    # 2 · (64 · 1024) · 64, and 64 · 64 for each of the scale and the relu
    ("own_formulas.py", (), "8396800.0 FLOP\n"),
    ("honest.py", ("lazy-evaluation",), "lazy evaluation: a generator of 100,000 squares\n  reports "),
    ("timed.py", (), "numpy.add: True that it was called more than a hundred times\n"),
    # 10 MiB / (1 Gbit/s) + 50 ns
    ("example_bandwidth_sweep.py", (), "Memory time: 8.388613e-02 s\n"),
    # 0.1 × 10 MB / 62.5 GB/s + 0.9 × 10 MB / 1.25 GB/s + 100 ns
    ("example_cache_sweep.py", (), "Memory time: 7.216e-03 s\n"),
    # 2n³ / (2n³/32 + n²) / 4 bytes = 7.88: past the ridge of 100 GFLOP/s / 20 GB/s = 5 FLOP/byte
    (
        "example_tiling.py",
        (),
        "   32     272.6 MB    7.88 FLOP/byte    13.63 ms   21.47 ms  compute-bound  fits\n",
    ),
)


def run(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arguments", "said"), RUNS)
def test_an_example_runs(name, arguments, said):
    done = run(name, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout


# Run by the blocks of documentation pages, which are skipped where their framework is not installed.
RUN_BY_PAGES = {
    "c_loops.py": "docs/tutorials/loops-in-c.md",
    "jax_layers.py": "docs/frameworks/jax.md",
    "numpy_softmax.py": "docs/frameworks/numpy.md",
    "tinygrad_layers.py": "docs/frameworks/tinygrad.md",
    "write_onnx.py": "docs/frameworks/onnx.md",
}


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("[!_]*.py")} == {name for name, _, _ in RUNS} | set(RUN_BY_PAGES)
    for name, page in RUN_BY_PAGES.items():
        text = (EXAMPLES.parent / page).read_text(encoding="utf-8")
        assert re.search(rf"^\$ .*examples/{name}", text, re.MULTILINE)


@pytest.mark.slow
def test_a_slower_node_is_not_accepted(tmp_path):
    slower = SAVED.read_text(encoding="utf-8")
    read = rooflab.machine(SAVED).level("L1").rate("read", basis="attained")
    for each in (f"value = {read.value!r}", f"median = {read.median!r}"):
        name, _, number = each.partition(" = ")
        assert each in slower
        slower = slower.replace(each, f"{name} = {float(number) / 2!r}", 1)
    path = tmp_path / "slower.toml"
    path.write_text(slower, encoding="utf-8")
    done = run("accept_node.py", SAVED, path)
    assert done.returncode == 1
    assert done.stdout.startswith("slower: L1 read ")
    assert "(-50%)\n" in done.stdout
    assert done.stdout.endswith(" rates compared, 1 slower\n")


def test_accept_node_says_how_it_is_called():
    done = run("accept_node.py")
    assert done.returncode == 1
    assert "Run: python examples/accept_node.py ACCEPTED.toml CANDIDATE.toml" in done.stderr


# What people teach from, each with where it comes from.
TAUGHT = (
    ("vector add, fp32", "0.08333 FLOP/byte"),  # 1 FLOP over 12 bytes: 2 reads + 1 write
    ("ReLU, fp32", "0.125 FLOP/byte"),  # 1 FLOP over 8 bytes
    ("softmax of 1024, fp32", "0.625 FLOP/byte"),  # max, subtract, exp, sum, divide: 5 over 8 bytes
    ("matmul 64³, fp32", "10.67 FLOP/byte"),  # 2n³ / (3n² × 4) = n/6
    ("matmul 256³, fp32", "42.67 FLOP/byte"),
    ("matmul 1024³, fp32", "170.7 FLOP/byte"),
    ("matmul 4096³, fp32", "682.7 FLOP/byte"),
    # NVIDIA, GPU Performance Background User's Guide, table 1
    ("linear 4096 × 1024, batch 512", "315.1 FLOP/byte"),
    ("linear 4096 × 1024, batch 1", "0.9988 FLOP/byte"),
    ("max pooling 3 × 3", "2.25 FLOP/byte"),
    ("ReLU  ", "0.25 FLOP/byte"),
    # NVIDIA, Matrix Multiplication Background User's Guide
    ("GEMM 8192 × 128 × 8192", "124.1 FLOP/byte"),
    ("GEMM 8192³", "2731 FLOP/byte"),
    # Horace He, Making Deep Learning Go Brrrr: read and write per pass, one output's size each
    ("three passes 6 ×", "one fused pass 2 ×"),
)


def test_the_tables_people_teach_from():
    lines = run("teaching_tables.py").stdout.splitlines()
    for name, value in TAUGHT:
        assert any(name in line and value in line for line in lines), (name, value)


def test_flash_attention_takes_the_squared_terms_away():
    rows = [
        line.split()
        for line in run("teaching_tables.py").stdout.splitlines()
        if line.split()[:1] in (["512"], ["1024"], ["2048"], ["4096"])
    ]
    sizes, unfused, fused = zip(*((int(row[0]), float(row[1]), float(row[3])) for row in rows), strict=True)
    assert sizes == (512, 1024, 2048, 4096)
    # Q, K, V and O of 16 heads of 64 in fp16: 4 × N × 2,048 bytes
    assert fused == tuple(round(4 * n * 2048 / 1e6, 1) for n in sizes)
    # Unfused adds scores and probabilities, each written and read: 4 × N² × 16 × 2 bytes
    assert unfused == tuple(round((4 * n * 2048 + 4 * n * n * 32) / 1e6, 1) for n in sizes)


SWEEP = """\
=== Low bandwidth ===
Problem size: 10 MB
Bandwidth: 1.0 Gbit/s
Ops per byte: 1.0
Memory time: 8.388613e-02 s
Compute time: 1.048576e-03 s
Total time: 8.493471e-02 s
Regime: memory-bound

=== High bandwidth ===
Problem size: 10 MB
Bandwidth: 100.0 Gbit/s
Ops per byte: 1.0
Memory time: 8.389108e-04 s
Compute time: 1.048576e-03 s
Total time: 1.887487e-03 s
Regime: compute-bound

=== Low arithmetic intensity ===
"""
CACHES = """\
=== Poor locality ===
Hit rate: 0.10
Fast BW: 500.0 Gbit/s
Slow BW: 10.0 Gbit/s
Memory time: 7.216e-03 s
Compute time: 1.000e-03 s
Total time: 8.216e-03 s
Regime: memory-bound

=== Moderate locality ===
Hit rate: 0.50
Fast BW: 500.0 Gbit/s
Slow BW: 10.0 Gbit/s
Memory time: 4.080e-03 s
Compute time: 1.000e-03 s
Total time: 5.080e-03 s
Regime: memory-bound

=== Good locality ===
Hit rate: 0.95
Fast BW: 500.0 Gbit/s
Slow BW: 10.0 Gbit/s
Memory time: 5.521e-04 s
Compute time: 1.000e-03 s
Total time: 1.552e-03 s
Regime: compute-bound
"""


def run_as_module(name: str) -> str:
    command = [sys.executable, "-W", "error", "-m", f"examples.{name}"]
    done = subprocess.run(command, cwd=EXAMPLES.parent, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.slow
def test_the_bandwidth_sweep_to_the_digit():
    said = run("example_bandwidth_sweep.py").stdout
    assert said.startswith(SWEEP)
    rest = said.removeprefix(SWEEP)
    assert [line for line in rest.splitlines() if line.startswith(("===", "Regime"))] == [
        "Regime: memory-bound",
        "=== High arithmetic intensity ===",
        "Regime: compute-bound",
    ]
    assert run_as_module("example_bandwidth_sweep") == said


def test_the_cache_sweep_to_the_digit():
    assert run_as_module("example_cache_sweep") == CACHES
    assert run("example_cache_sweep.py").stdout == CACHES


def test_formulas_of_ones_own():
    """2 · 64·1024 · 64 and 64·64 by the example's formula, 64·64 comparisons of relu's are FLOP too."""
    pytest.importorskip("torch")
    assert run("own_formulas.py").stdout == f"{2 * 64 * 1024 * 64 + 2 * 64 * 64:.1f} FLOP\n"
