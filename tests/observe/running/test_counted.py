"""Counters of the CPU on a command: a stand-in for perf plays what a Xeon with counters would say."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

import rooflab
from rooflab.observe.importers.counters import perf_lines
from rooflab.observe.running import perf, watched
from rooflab.observe.running.command import execute
from support.observe import fake_perf

COMMAND = [sys.executable, "-S", "-c", "import sys; sys.exit(0)"]
# FLOP: 1e9 scalar + 2e9 × 4 of 256 bits fp64 + 1e9 × 16 of 512 bits fp32 = 25e9
# DRAM: two controllers × (100 MiB read + 50 MiB written)
COUNTS = {
    "instructions:u": [4e9, "", 100.0],
    "fp_arith_inst_retired.scalar_double": [1e9, "", 100.0],
    "fp_arith_inst_retired.256b_packed_double": [2e9, "", 100.0],
    "fp_arith_inst_retired.512b_packed_single": [1e9, "", 100.0],
    **{
        f"fp_arith_inst_retired.{name}": [0, "", 100.0]
        for name in (
            "scalar_single",
            "128b_packed_double",
            "128b_packed_single",
            "256b_packed_single",
            "512b_packed_double",
        )
    },
    **{
        f"uncore_imc_{n}/{event}/": [value, "MiB", 100.0]
        for n in (0, 1)
        for event, value in (("cas_count_read", 100.0), ("cas_count_write", 50.0))
    },
}
FLOP, READ, WRITTEN = 25e9, 200 * 2**20, 100 * 2**20


@pytest.fixture
def counting(tmp_path, monkeypatch):
    """Makes `run` find those events and that perf; gives the arguments that perf was called with."""

    def prepare(counts=COUNTS, fails=None, **more):
        log = fake_perf.put_on_path(tmp_path, monkeypatch, counts, fails)
        monkeypatch.setattr(watched, "available", lambda: fake_perf.events(tmp_path, **more))
        return lambda: log.read_text().splitlines()

    return prepare


def test_flop_and_bytes_of_an_execution(counting):
    calls = counting()
    run = rooflab.run(COMMAND, machine="xeon-8480plus")
    assert run.exit_code == 0
    row = run.profile.rows[0]
    assert (row.flop, row.nbytes) == (pytest.approx(FLOP), pytest.approx(READ + WRITTEN))
    assert row.time_s == run.time_s
    assert row.counted.instructions == 4e9
    (dram,) = row.counted.traffic
    assert (dram.read_bytes, dram.write_bytes, dram.basis) == (READ, WRITTEN, "counted")
    assert row.placement is not None
    assert not run.lacks
    core, machine = calls()
    assert " -p " in core
    assert machine.endswith(" -a")
    assert "cpu/event=0xc7,umask=0x10,name=fp_arith_inst_retired.256b_packed_double/u" in core
    assert any("without x87" in note for note in run.notes)


def test_it_is_shown_and_read_back(counting, tmp_path):
    counting()
    run = rooflab.run(COMMAND, machine="xeon-8480plus")
    run.save(tmp_path / "run.md", tmp_path / "run.json")
    assert rooflab.load(tmp_path / "run.json") == run
    assert "Counted: 25.0 GFLOP" in (tmp_path / "run.md").read_text("utf-8")


def test_events_that_took_turns_are_said_and_more_runs_offered(counting):
    shared = {name: [value, unit, 50.0 if "fp_" in name else 100.0] for name, (value, unit, _) in COUNTS.items()}
    counting(shared, at_once=4)
    run = rooflab.run(COMMAND)
    assert any("extrapolated by perf" in note and "50 %" in note for note in run.profile.notes)
    assert any("--runs 2 counts each whole" in note for note in run.notes)
    assert min(one.running for one in run.counts) == 0.5


def test_sets_are_divided_among_runs(counting):
    calls = counting(at_once=4)
    run = rooflab.run(COMMAND, runs=2)
    first, second = (call for call in calls() if " -p " in call)
    assert "scalar_double" in first
    assert "512b_packed_single" not in first
    assert "512b_packed_single" in second
    assert first.count("instructions:u") == second.count("instructions:u") == 1
    assert run.profile.rows[0].flop == pytest.approx(FLOP)  # as of one execution
    assert {one.run for one in run.counts if one.event == "instructions:u"} == {1, 2}
    assert not any("sets" in note for note in run.notes)


def test_without_memory_controllers_misses_are_a_lower_bound_and_no_bytes(counting):
    counting({**COUNTS, "longest_lat_cache.miss": [1e6, "", 100.0]}, memory=False)
    run = rooflab.run(COMMAND)
    # 1e6 lines of 64 bytes; 25e9 FLOP / 64e6 B = 391
    assert any(line.startswith("At least 64.0 MB") and "at most 391 FLOP/B" in line for line in run.verdict)
    assert run.profile.rows[0].nbytes is None
    assert "bytes of memory were not counted: the kernel lists no counters" in run.lacks[0]


def test_memory_controllers_that_are_refused_say_what_to_set(tmp_path):
    found = fake_perf.events(tmp_path, refuses=frozenset({20}))
    assert not found.memory
    assert "EACCES (sudo sysctl kernel.perf_event_paranoid=0)" in found.lacks[0]


def test_a_perf_that_fails_is_said_and_the_command_runs(counting, tmp_path):
    counting(fails="event syntax error: 'cpu/event=0xc7'")
    run = rooflab.run(["sh", "-c", f"echo ran > {tmp_path}/ran; exit 4"])
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert run.exit_code == 4
    assert run.profile is None
    assert "not counted: event syntax error" in run.lacks[0]


def test_an_old_perf_is_said(counting):
    counting(fails="Error: unknown option `control'\n\n Usage: perf stat")
    assert "perf 5.10 or newer" in rooflab.run(COMMAND).lacks[0]


def test_events_that_were_not_counted_are_unknown_not_zero(counting):
    counting({"instructions:u": [5e9, "", 100.0]})
    run = rooflab.run(COMMAND)
    assert run.profile.rows[0].flop is None
    assert all(one.value is None for one in run.counts if one.event.startswith("fp_"))


def test_executions_that_differ_are_said(counting, tmp_path, monkeypatch):
    counting(at_once=4)
    table = tmp_path / "counts.json"
    given = json.loads(table.read_text())
    run_first = watched._counted

    def and_then(*arguments):
        done = run_first(*arguments)
        given["counts"]["instructions:u"][0] = 8e9
        table.write_text(json.dumps(given))
        return done

    monkeypatch.setattr(watched, "_counted", and_then)
    run = rooflab.run(COMMAND, runs=2)
    assert any("4e+09 to 8e+09 instructions" in note for note in run.notes)


@pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf")
def test_perf_itself_counts_from_the_first_instruction_to_the_last():
    with perf.Session(["page-faults:u", "task-clock"], []) as session:
        ended = execute(["sh", "-c", "exit 3"], attach=session.attach, gated=True, detach=session.detach)
    if session.refused is not None:
        pytest.skip(f"perf does not count here: {session.refused}")
    assert ended.exit_code == 3
    (run,) = perf_lines.read(session.text).runs
    counted = {one.event: one.value for one in run.readings}
    assert counted["page-faults:u"] > 20
    # The system's count has those of what the gate cost the kernel too.
    assert counted["page-faults:u"] <= ended.usage.minor_faults + 5


def test_no_counters_asked_for():
    assert rooflab.run(COMMAND, counters=False).lacks == (watched.NOT_ASKED,)
