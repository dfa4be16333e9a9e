"""`rooflab lab` and `rooflab transfer`: options in, answers and one-line errors out."""

from __future__ import annotations

import json

import pytest


def test_lab_draws_a_sweep_of_bandwidth(command):
    code, out, err = command("lab")
    assert (code, err) == (0, "")
    assert out.startswith("Lab: a streaming kernel over bandwidth\n")
    assert "The kernel reads 10.5 MB, 1 FLOP/byte, sequential" in out  # 10 MiB
    # 10 GFLOP/s at one operation a byte
    assert "Memory and arithmetic take the same time at 10.0 GB/s." in out


def test_lab_json_holds_the_numbers_of_the_cache_example(command):
    given = ("--bandwidth", "10 Gbit/s", "--latency", "100 ns", "--bytes", "10 MB", "--from", "0.1", "--to", "0.5")
    code, out, _ = command("lab", "hit-rate", *given, "--points", "2", "--json")
    assert code == 0
    raw = json.loads(out)
    assert raw["values"] == [0.1, 0.5]
    assert [f"{each['memory_s']:.3e}" for each in raw["results"]] == ["7.216e-03", "4.080e-03"]
    assert [f"{each['total_s']:.3e}" for each in raw["results"]] == ["8.216e-03", "5.080e-03"]


def test_lab_takes_a_real_machine(command):
    code, out, _ = command(
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


@pytest.mark.slow
def test_lab_writes_files(command, tmp_path):
    path = tmp_path / "lab.svg"
    code, _, err = command("lab", "-o", path)
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
def test_nonsense_is_refused_in_one_line(command, arguments, said):
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert err == f"rooflab: {said}\n"


FEEDING = ("transfer", "150 GB", "network", "disk", "DRAM", "PCIe", "HBM", "--machine", "h200-sxm")


def test_transfer_says_what_binds_and_how_long_the_device_waits(command):
    given = ("--rate", "network=10 Gbit/s", "--threads", "4", "--sample", "150 kB", "--samples-per-s", "10000")
    code, out, err = command(*FEEDING, *given)
    assert (code, err) == (0, "")
    # 150 GB / 1.25 GB/s; nobody states the rate of DRAM, which may be slower
    assert out.startswith(
        "150 GB through 5 stages: > 2.00 min, < 1.25 GB/s, bound by network, the slowest of those k"
    )
    assert "at most 8,333 samples/s arrive, the device computes 10,000: bound by network" in out
    assert "it is idle at least 17 % of the time." in out
    assert "Left out, no rate known: DRAM" in out
    code, out, _ = command(*FEEDING, *given, "--rate", "DRAM=100 GB/s")
    assert out.startswith("150 GB through 5 stages: 2.00 min, 1.25 GB/s, bound by network\n")
    said = "8,333 samples/s arrive, the device computes 10,000: bound by network, it is idle 17 % of the time."
    assert said in out


def test_a_way_with_a_stage_of_unknown_rate_takes_longer_than_the_sum(command):
    code, out, _ = command("transfer", "10 GB", "a", "DRAM", "--rate", "a=1 GB/s", "--serial", "--json")
    assert (code, json.loads(out)["complete"], json.loads(out)["unknown"]) == (0, False, ["DRAM"])
    code, out, _ = command("transfer", "10 GB", "a", "DRAM", "--rate", "a=1 GB/s", "--serial")
    assert out.startswith(
        "10.0 GB through 2 stages: > 10.0 s, < 1.00 GB/s, bound by a, the slowest of those known\n"
    )


def test_transfer_json_in_turn(command):
    code, out, _ = command(
        "transfer", "10 GB", "a", "b", "--rate", "a=1 GB/s", "--rate", "b=10 GB/s", "--serial", "--json"
    )
    assert code == 0
    raw = json.loads(out)
    assert raw["time_s"] == pytest.approx(11)
    assert [each["stage"]["name"] for each in raw["stages"]] == ["a", "b"]
    assert raw["feed"] is None


BAD_TRANSFERS = (
    (("transfer", "1 GB", "disk", "--rate", "disk"), "--rate disk: expected STAGE=VALUE"),
    (("transfer", "1 GB", "disk", "--expand", "disk=x"), "--expand disk=x: 'x' is not a number"),
    (("transfer", "1 GB", "disk", "--threads", "0"), "--threads 0: '0' is not a whole number above zero"),
    (
        ("transfer", "1 GB", "disk", "--threads", "2", "--threads", "4"),
        "--threads 2 4: expected one N, or STAGE=N",
    ),
    (("transfer", "1", "disk"), "'1' has no unit, expected a number and a unit"),
)


@pytest.mark.parametrize(("arguments", "said"), BAD_TRANSFERS)
def test_nonsense_about_a_transfer_is_refused_in_one_line(command, arguments, said):
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"rooflab: {said}")
    assert err.count("\n") == 1
