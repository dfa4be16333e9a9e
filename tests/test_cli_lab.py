"""`rooflab lab` and `rooflab transfer`: options in, answers and one-line errors out."""

from __future__ import annotations

import json
import sys

import pytest

from rooflab import cli


@pytest.fixture
def run(monkeypatch, capsys):
    """Calls `rooflab` and gives the exit code, stdout and stderr."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["rooflab", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capsys.readouterr()

    return call


def test_lab_draws_a_sweep_of_bandwidth(run):
    code, out, err = run("lab")
    assert (code, err) == (0, "")
    assert out.startswith("Lab: a streaming kernel over bandwidth\n")
    assert "kernel  reads 10.5 MB, 1 FLOP/byte, sequential" in out  # 10 MiB
    # 10 GFLOP/s at one operation a byte
    assert "Memory and arithmetic take the same time at 10.0 GB/s." in out


def test_lab_json_holds_the_numbers_of_the_cache_example(run):
    given = ("--bandwidth", "10 Gbit/s", "--latency", "100 ns", "--bytes", "10 MB", "--from", "0.1", "--to", "0.5")
    code, out, _ = run("lab", "hit-rate", *given, "--points", "2", "--json")
    assert code == 0
    raw = json.loads(out)
    assert raw["values"] == [0.1, 0.5]
    assert [f"{each['memory_s']:.3e}" for each in raw["results"]] == ["7.216e-03", "4.080e-03"]
    assert [f"{each['total_s']:.3e}" for each in raw["results"]] == ["8.216e-03", "5.080e-03"]


def test_lab_takes_a_real_machine(run):
    code, out, _ = run(
        "lab",
        "intensity",
        "--machine",
        "h200-sxm",
        "--dtype",
        "bf16",
        "--to",
        "1000",
        "--bytes",
        "10 GB",
        "--json",
    )
    assert code == 0
    raw = json.loads(out)
    assert raw["system"]["memory"]["bandwidth_bytes_per_s"] == 4.8e12
    assert raw["system"]["overlap"] is True
    # 989.5 TFLOP/s / 4.8 TB/s
    assert 200 < raw["turns_at"] < 210


def test_lab_writes_files(run, tmp_path):
    path = tmp_path / "lab.svg"
    code, _, err = run("lab", "-o", path)
    assert (code, err) == (0, f"rooflab: wrote {path}\n")
    assert path.read_text(encoding="utf-8").startswith("<svg")


BAD = (
    (("lab", "--bandwidth", "10"), "'10' has no unit, expected a number and a unit, such as '3.35 TB/s'"),
    (("lab", "--peak", "10 GB/s"), "'10 GB/s' is in byte/s, expected flop/s, such as '989 TFLOP/s'"),
    (("lab", "hit-rate", "--to", "2"), "lab: hit_rate is 1.2, expected a share from 0 to 1, such as 0.95"),
    (
        ("lab", "intensity", "--from", "9", "--to", "1"),
        "lab: a sweep goes from 9 to 1, expected --from below --to",
    ),
    (("lab", "intensity", "--from", "few"), "intensity 'few' is not a number, expected such as 0.5"),
    (("lab", "--ops-per-byte", "-1"), "lab: ops_per_byte is -1.0, expected zero or more"),
)


@pytest.mark.parametrize(("arguments", "said"), BAD)
def test_nonsense_is_refused_in_one_line(run, arguments, said):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err == f"rooflab: {said}\n"
