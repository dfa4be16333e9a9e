"""A whole measurement: what it finds has the right shape, and Ctrl-C keeps what was measured before it.

No speed is asserted: only structure, arithmetic and what the machine says of itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rooflab
from rooflab.errors import MeasureError
from rooflab.machines.bench import measuring, sweeps
from rooflab.machines.bench.findings import Findings
from rooflab.machines.bench.plan import QUICK, Plan, Sizes
from rooflab.machines.bench.result.assemble import assemble
from rooflab.machines.bench.run.interruptible import interruptible
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.machines.bench.run.trials import Bench
from rooflab.machines.bench.session import Session, Stage
from rooflab.machines.detect import Host, detect, granted_cores, granted_threads
from rooflab.types.machine import Machine, Rate
from rooflab.views.common.files import json_text

# It times what other tests would disturb.
pytestmark = pytest.mark.alone

ORDER = ["L1", "L2", "L3", "L4", "DRAM", "disk", "page cache", "files in memory"]


@pytest.fixture(scope="session")
def host() -> Host:
    return detect(gpus=False)


@pytest.fixture(scope="session")
def progress_seen() -> list[tuple[str, float, float]]:
    return []


@pytest.fixture(scope="session")
def machine(progress_seen: list[tuple[str, float, float]]) -> Machine:
    """One quick measurement of this machine, shared by all tests that look at one."""
    return rooflab.measure(quick=True, progress=lambda *stage: progress_seen.append(stage))


def all_rates(subject: Machine) -> list[Rate]:
    return [*subject.peaks, *subject.clocks, *(rate for level in subject.levels for rate in level.rates)]


@pytest.mark.slow
def test_levels_go_from_near_to_far(machine: Machine) -> None:
    names = [level.name for level in machine.levels]
    assert names == sorted(names, key=ORDER.index)
    assert len(set(names)) == len(names)
    assert "L1" in names
    assert "DRAM" in names


@pytest.mark.slow
def test_capacities_grow_from_level_to_level(machine: Machine) -> None:
    found = [level.capacity_bytes for level in machine.levels if level.name[0] in "LD" and level.capacity_bytes]
    assert found == sorted(found)


@pytest.mark.slow
def test_every_rate_has_its_source_and_convention(machine: Machine) -> None:
    rates = all_rates(machine)
    assert rates
    for rate in rates:
        assert rate.source.ref
        assert rate.value > 0
        if rate.basis == "attained":
            assert rate.source.kind == "measured"
            assert rate.runs is not None
            assert rate.median is not None
            assert 0 < rate.median <= rate.value
            assert rate.spread == pytest.approx(1 - rate.median / rate.value)
        else:
            # Theory is derived, and has no runs.
            assert rate.source.kind in ("derived", "assumed", "datasheet")
            assert (rate.runs, rate.spread, rate.median) == (None, None, None)
        if rate.per_s == "byte" and rate.what in ("write", "copy", "triad") and rate.basis == "attained":
            assert rate.stores is not None or rate.threads == 1


@pytest.mark.slow
def test_theory_is_units_times_clock(machine: Machine) -> None:
    for rate in all_rates(machine):
        if rate.basis == "theoretical" and rate.units and rate.per_unit_per_clock and rate.clock_hz:
            assert rate.value == pytest.approx(rate.units * rate.per_unit_per_clock * rate.clock_hz)


@pytest.mark.slow
def test_no_rate_is_given_twice(machine: Machine) -> None:
    for rates in (machine.peaks, *(level.rates for level in machine.levels)):
        keys = [(one.what, one.dtype, one.engine, one.scope, one.stores, one.basis, one.per_s) for one in rates]
        assert len(keys) == len(set(keys))


@pytest.mark.slow
def test_both_scopes_at_every_level(machine: Machine, host: Host) -> None:
    cores = len(granted_cores(host))
    assert machine.compute_units == cores
    for level in machine.levels:
        for one in ("core", "all") if level.rates and level.name[0] in "LD" else ():
            rate = level.rate("read", scope=one, basis="attained")  # type: ignore[arg-type]
            assert rate is not None, (level.name, one)
            assert rate.threads == (1 if one == "core" else cores)


@pytest.mark.slow
def test_curves_have_ascending_sizes_and_name_their_plateaus(machine: Machine) -> None:
    by_name = {(curve.name, curve.scope): curve for curve in machine.curves}
    read, chase = by_name["read bandwidth", "core"], by_name["latency", "core"]
    for curve in machine.curves:
        assert list(curve.x) == sorted(set(curve.x))
        assert len(curve.x) == len(curve.best) == len(curve.median)
        assert min(curve.best) > 0
    assert (read.y_unit, chase.y_unit) == ("byte/s", "s")
    assert [one.level for one in read.plateaus] == [
        level.name for level in machine.levels if level.rates and level.name[0] in "LD"
    ]
    # Best is the most of a bandwidth and the least of a latency.
    assert all(best >= median for best, median in zip(read.best, read.median, strict=True))
    assert all(best <= median for best, median in zip(chase.best, chase.median, strict=True))


@pytest.mark.slow
def test_points_runtimes_and_clocks(machine: Machine) -> None:
    assert [point.name for point in machine.points] == ["triad", "stencil", "matmul"]
    triad, stencil, matmul = machine.points
    assert triad.intensity == pytest.approx(2 / 24)
    # 5 FLOP for 16 bytes and the halo's
    assert 0.9 * 5 / 16 < stencil.intensity <= 5 / 16
    assert matmul.flop == 2 * 1024**3
    assert [one.framework for one in machine.runtimes] == ["numpy"]  # a quick run compiles no function
    assert any(rate.what == "clock under load" for rate in machine.clocks)


@pytest.mark.slow
def test_the_environment_says_where_and_when(machine: Machine, host: Host) -> None:
    environment = machine.environment
    for name in (
        "date",
        "seconds",
        "system",
        "python",
        "rooflab",
        "numpy",
        "numba",
        "llvmlite",
        "architecture",
        "cpus",
    ):
        assert environment[name], name
    assert environment["cpus"] == [str(cpu) for cpu in granted_cores(host)]
    assert machine.name == host.name
    assert machine.incomplete is None


@pytest.mark.slow
def test_checks_are_sentences(machine: Machine) -> None:
    names = [check.name for check in machine.checks]
    assert len(names) == len(set(names))
    assert {"spread", "bandwidth order", "latency order", "known kernels"} <= set(names)
    for check in machine.checks:
        assert check.message.endswith(".")
        assert "\n" not in check.message


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["json", "toml"])
def test_what_is_saved_is_read_back_equal(machine: Machine, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"machine.{suffix}"
    machine.save(str(path))
    assert rooflab.machine(path) == machine


@pytest.mark.slow
def test_json_is_read_back_equal(machine: Machine) -> None:
    assert Machine.from_dict(json.loads(json_text(machine))) == machine


@pytest.mark.slow
def test_progress_rises_to_one(machine: Machine, progress_seen: list[tuple[str, float, float]]) -> None:
    done = [at / total for _, at, total in progress_seen]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0.0, 1.0)
    assert len({name for name, _, _ in progress_seen}) > 5


def command(*arguments: str, cpu: int | None = None) -> list[str]:
    """This Python running `rooflab measure`, on one CPU where one is given."""
    pin = f"import os; os.sched_setaffinity(0, {{{cpu}}}); " if cpu is not None else ""
    return [sys.executable, "-c", f"{pin}from rooflab.cli import main; main()", "measure", *arguments]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system pins no process")
def test_with_one_allowed_cpu_one_core_is_all_of_them(host: Host) -> None:
    cpu = host.allowed_cpus[-1]
    done = subprocess.run(
        command("--quick", "--json", cpu=cpu), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found = Machine.from_dict(json.loads(done.stdout))
    assert found.compute_units == 1
    assert found.environment["cpus"] == [str(cpu)]
    assert not [link for link in found.links if link.name == "core to core"]
    assert not [curve for curve in found.curves if curve.scope == "all"]
    for rates in (found.peaks, *(level.rates for level in found.levels if level.name[0] in "LD")):
        core = {
            (one.what, one.dtype, one.engine, one.stores, one.basis): one.value
            for one in rates
            if one.scope == "core"
        }
        whole = {
            (one.what, one.dtype, one.engine, one.stores, one.basis): one.value
            for one in rates
            if one.scope == "all"
        }
        assert core == whole
    if len(host.cpus) > 1:
        assert "1 of" in str(found.environment["granted"])


def test_a_small_address_space_is_refused_in_one_line() -> None:
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (600_000_000, 600_000_000)); "
    python, flag, code, *arguments = command("--quick")
    done = subprocess.run(
        [python, flag, limited + code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith(
        "rooflab: out of memory: the address space is limited to 600 MB, expected at least"
    )


@pytest.mark.slow
def test_more_threads_than_granted_are_refused(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    done = subprocess.run(
        command("--threads", "9999", "-o", str(path)), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    granted = len(granted_threads(host))
    said = f"rooflab: --threads: got 9999, expected 1 to {granted}, the hardware threads that are granted"
    assert done.stderr.strip().splitlines()[-1].strip() == said
    assert not path.exists()
    assert "Traceback" not in done.stderr


def interrupted(tmp_path: Path, when: Callable[[], bool]) -> tuple[int, str, Path]:
    """A quick run that gets Ctrl-C once `when` holds: its exit code, stderr, and output file."""
    path = tmp_path / "machine.json"
    # A group of its own: the signal must not reach the tests.
    running = subprocess.Popen(
        command("--quick", "-o", str(path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while running.poll() is None and not when():
            time.sleep(0.02)
        if running.poll() is None:
            running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    finally:
        if running.poll() is None:
            running.kill()
            running.communicate()
    return running.returncode, said, path


def after(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


@pytest.mark.slow
def test_ctrl_c_in_the_middle_saves_what_was_measured(tmp_path: Path) -> None:
    code, said, path = interrupted(tmp_path, after(3.0))
    assert "Traceback" not in said
    assert code == 130, said
    if not path.exists():
        # A slow machine was still compiling, or in its first sweep: then that is said.
        assert "nothing was saved" in said
        return
    found = rooflab.machine(path)
    assert found.incomplete is not None
    assert found.incomplete.startswith("interrupted while measuring ")
    assert found.checks[0].name == "complete"
    assert not found.checks[0].ok
    assert "incomplete" in said
    assert next(curve.name for curve in found.curves) == "read bandwidth"


@pytest.mark.slow
def test_ctrl_c_at_once_saves_nothing(tmp_path: Path) -> None:
    code, said, path = interrupted(tmp_path, after(0.3))
    assert code in (130, -signal.SIGINT), said  # the latter before Python is up
    assert not path.exists()


def test_the_signal_is_noted_and_raised_between_runs() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interruptible() as tick:
        tick()
        signal.raise_signal(signal.SIGINT)  # noted: nothing is raised here
        # A second one is Python's own again.
        assert signal.getsignal(signal.SIGINT) == before
        with pytest.raises(KeyboardInterrupt):
            tick()
    assert signal.getsignal(signal.SIGINT) == before


def test_the_handler_is_put_back_after_an_error() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="inside"), interruptible():
        raise ValueError("inside")
    assert signal.getsignal(signal.SIGINT) == before


def test_other_threads_leave_signals_alone() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with interruptible() as tick:
            tick()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def stages_run(host: Host, *stages: tuple[str, Callable[[Session], None]]) -> Findings:
    """What is found by made-up stages, each a name and what it does."""
    findings = Findings(host, host.allowed_cpus, (), Sizes((), (), (), None), QUICK)
    bench = Bench(None, {}, np.random.default_rng(0))  # type: ignore[arg-type]
    measuring.run_stages(
        Session(findings, bench, ThreadArenas({}), (), ()),
        [Stage(name, 1.0, measure) for name, measure in stages],
        lambda stage, done, total: None,
    )
    return findings


def _nothing(running: Session) -> None:
    return


def _interrupt(running: Session) -> None:
    raise KeyboardInterrupt


def _sweep_done(running: Session) -> None:
    running.findings.sweeps["core"] = {}


def test_interrupted_before_anything_was_measured(host: Host) -> None:
    with pytest.raises(KeyboardInterrupt):
        stages_run(host, ("sweep", _interrupt), ("latency", _nothing))


def test_interrupted_later_says_where_and_skips_the_rest(host: Host) -> None:
    ran = []
    findings = stages_run(
        host, ("sweep", _sweep_done), ("latency", _interrupt), ("disk", lambda running: ran.append(1))
    )
    assert findings.incomplete == "interrupted while measuring latency"
    assert ran == []


def test_a_whole_run_is_not_incomplete(host: Host) -> None:
    assert stages_run(host, ("sweep", _sweep_done), ("latency", _nothing)).incomplete is None


def test_an_error_in_a_stage_is_not_swallowed(host: Host) -> None:
    def fail(running: Session) -> None:
        raise MeasureError("kernel x: wrong result")

    with pytest.raises(MeasureError, match="wrong result"):
        stages_run(host, ("sweep", _sweep_done), ("latency", fail))


@pytest.mark.slow
def test_interrupted_between_the_two_sweeps_keeps_the_levels(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    if len(granted_cores(host)) < 2:
        pytest.skip("one CPU is granted: there is one sweep")
    sweep = sweeps.sweep

    def first_only(bench: Any, arenas: Any, form: Any, sizes: Any, cpus: Any, scope: Any, *rest: Any) -> Any:
        if scope == "all":
            raise KeyboardInterrupt
        return sweep(bench, arenas, form, sizes, cpus, scope, 2, 0.001, 0.5)

    monkeypatch.setattr(sweeps, "sweep", first_only)
    plan = Plan(per_octave=2)
    found = measuring.run(host, plan)
    assert found.incomplete is not None
    assert [level.name for level in assemble(found, "2026-01-15").levels][-1] == "DRAM"


@pytest.mark.slow
def test_numpys_products_are_fitted_or_a_check_says_why_not(machine: Machine) -> None:
    rows = [row for row in machine.products if row.routine == "product"]
    if {(row.library, row.dtype) for row in rows} != {("numpy", "fp32"), ("numpy", "fp64")}:
        # With much beside it too few are timed, or times that cannot be true.
        assert any(not check.ok for check in machine.checks if check.name in ("products", "possible products"))
    assert all(row.threads >= 1 for row in rows)
    for row in machine.products:
        assert all(value >= 0 for value in row.terms.values())
        assert row.samples
        assert row.spread
