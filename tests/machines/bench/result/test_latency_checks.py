"""Self-checks of latencies: order from level to level, and agreement of the runs."""

from __future__ import annotations

import pytest

from rooflab.machines.bench.result.latency_checks import latency_order, latency_spread
from rooflab.types.machine import Level, Link, Machine, Source

SOURCE = Source("measured", "rooflab measure")


def machine(*rows: tuple[str, float, float | None], loaded_ns: float | None = None, links=()) -> Machine:
    levels = tuple(
        Level(
            name=name,
            source=SOURCE,
            latency_s=ns * 1e-9,
            latency_spread=spread,
            latency_runs=7,
            loaded_latency_s=loaded_ns * 1e-9 if loaded_ns and name == "DRAM" else None,
            loaded_latency_spread=0.1 if loaded_ns and name == "DRAM" else None,
        )
        for name, ns, spread in rows
    )
    return Machine(name="made", kind="cpu", source=SOURCE, levels=levels, links=links)


def hand_over(ns: float, spread: float) -> Link:
    return Link(name="core to core", to="another core", source=SOURCE, latency_s=ns * 1e-9, spread=spread, runs=9)


QUIET = (("L1", 1.3, 0.01), ("L2", 3.9, 0.03), ("L3", 21.0, 0.14), ("DRAM", 97.0, 0.05))


def test_a_quiet_machine_passes() -> None:
    quiet = machine(*QUIET, loaded_ns=140, links=(hand_over(48, 0.1),))
    assert [check.ok for check in (*latency_order(quiet), *latency_spread(quiet))] == [True, True]
    (spread,) = latency_spread(quiet)
    assert (
        spread.message == "The runs of all 6 latencies agree within their bounds."
    )  # 4 levels, loaded, hand-over


@pytest.mark.parametrize(("level", "spread", "ok"), [("L2", 0.06, False), ("L3", 0.06, True), ("L3", 0.45, False)])
def test_private_levels_are_held_to_more(level: str, spread: float, ok: bool) -> None:
    rows = [(name, ns, spread if name == level else own) for name, ns, own in QUIET]
    (check,) = latency_spread(machine(*rows))
    assert check.ok == ok
    assert ok or level in check.message


def test_a_noisy_one_says_its_median() -> None:
    # Half of the runs over 21 / (1 − 0.4) = 35 ns.
    (check,) = latency_spread(machine(QUIET[0], ("L3", 21.0, 0.4)))
    assert "L3 21.0 ns, half of the runs over 35.0 ns" in check.message


def test_a_hand_over_that_is_sometimes_slow() -> None:
    (check,) = latency_spread(machine(*QUIET, links=(hand_over(31, 0.9),)))
    assert not check.ok
    assert "core to core 31.0 ns, half of the runs over 310 ns" in check.message


@pytest.mark.parametrize(
    ("rows", "loaded", "links", "wrong"),
    [
        ((("L1", 1.3, 0.0), ("L2", 9.0, 0.0), ("L3", 8.0, 0.0)), None, (), "L2 9.00 ns is over L3 8.00 ns"),
        (QUIET, 60.0, (), "DRAM 97.0 ns is over DRAM under load 60.0 ns"),
        (QUIET, None, (hand_over(0.9, 0.0),), "L1 1.30 ns is over core to core 0.900 ns"),
    ],
)
def test_order(rows, loaded, links, wrong: str) -> None:
    (check,) = latency_order(machine(*rows, loaded_ns=loaded, links=links))
    assert not check.ok
    assert wrong in check.message


def test_what_was_measured_once_is_not_judged() -> None:
    assert list(latency_spread(machine(("L1", 1.3, None), ("L2", 4.0, None)))) == []
