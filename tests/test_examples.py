"""Every example runs, and says what its first line promises."""

from __future__ import annotations

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
    ("teaching_tables.py", (), "matmul 4096³, fp32                     682.7 FLOP/byte"),
    ("two_layers.py", (), "batch  1024:  315.5 FLOP/byte, the first layer is compute-bound"),
)


def run(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(("name", "arguments", "said"), RUNS)
def test_an_example_runs(name, arguments, said):
    done = run(name, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {name for name, _, _ in RUNS}


def test_a_slower_node_is_not_accepted(tmp_path):
    slower = SAVED.read_text(encoding="utf-8")
    read = rooflab.machine(SAVED).level("L1").rate("read", basis="attained")
    slower = slower.replace(f"value = {read.value!r}", f"value = {read.value / 2!r}", 1)
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
