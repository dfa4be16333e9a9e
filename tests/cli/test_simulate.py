"""`rooflab simulate` and `rooflab loop` as a user meets them: what is printed, JSON, one line for bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import rooflab
from rooflab import core_streams, streams
from rooflab.types.simulation import Simulation

SMALL = ("--level", "32KiB/8")

LOOPS = """\
import numpy as np


def past_the_end(a):
    for i in range(len(a)):
        a[i] = a[i + 1]


def boxed(a):
    for i in range(len(a)):
        a[i] = a[i]


def strided(a):
    for i in range(len(a)):
        a[i] += 1.0


def shifted(a):
    for i in range(len(a)):
        a[i] = int(a[i]) << a[i]


def listing(a):
    for i in range(len(a)):
        a[i] = unknown(a[i])


def endless(a):
    while a[0] < 1.0:
        a[1] += 1.0


def args(n):
    return (np.zeros(n),)


def boxed_args(n):
    return (np.array([None] * n),)


def strided_args(n):
    return (np.zeros(2 * n)[::2],)
"""


@pytest.fixture(scope="module")
def loops(tmp_path_factory):
    path = tmp_path_factory.mktemp("loops") / "mine.py"
    path.write_text(LOOPS, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """A folder of small files: a trace with one bad line, and files that are none."""
    folder = tmp_path_factory.mktemp("traces")
    (folder / "good.din").write_text("0 1000\n1 1008\n0 zzz\n0 2000\n", encoding="utf-8")
    (folder / "empty.din").write_bytes(b"")
    (folder / "letter.txt").write_text("Dear reader,\nthis is no trace.\n", encoding="utf-8")
    (folder / "report.json").write_text('{"traceEvents": []}', encoding="utf-8")
    return folder


def fresh(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "rooflab", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "COLUMNS": "120"},
    )


def test_a_stream_in_the_terminal(called):
    said = called("simulate", "sequential", "64KiB", *SMALL)
    assert "8,192 accesses, simulated exactly" in said  # 64 KiB ÷ 8 bytes
    (row,) = [line for line in said.splitlines() if line.startswith("L1")]
    # 64 KiB ÷ 64 = 1,024 lines, each missed once; half of them, 32 KiB, are displaced.
    assert row.split()[1:6] == ["7,168", "1,024", "87.50", "%", "512"]


def test_json_is_all_of_stdout_and_is_read_back(called, tmp_path):
    path = tmp_path / "found.json"
    text = called("simulate", "matmul", "16", "--set", "order=ikj", *SMALL, "--classify", "--json", "-o", path)
    assert json.loads(path.read_text("utf-8")) == json.loads(text)
    found = Simulation.from_dict(json.loads(text))
    again = rooflab.simulate(
        rooflab.streams.matmul(16, order="ikj"), levels=[rooflab.Cache(32768, 8)], classify=True
    )
    assert [level.misses for level in found.levels] == [level.misses for level in again.levels]
    # Three 16 × 16 matrices of doubles are 3 · 2,048 ÷ 64 lines, and all of them fit.
    assert (found.levels[0].misses, found.levels[0].compulsory, found.levels[0].conflict) == (96, 96, 0)


def test_levels_are_numbered_and_a_tlb_is_beside_them(called):
    said = json.loads(
        called("simulate", "strided", "1MiB", "4KiB", *SMALL, "--level", "512KiB/8", "--tlb", "64/full", "--json")
    )
    assert [level["name"] for level in said["levels"]] == ["L1", "L2"]
    assert [buffer["misses"] for buffer in said["tlbs"]] == [256]  # one a page of 4 KiB


@pytest.mark.slow
def test_a_policy_and_a_prefetcher_are_taken(called):
    said = json.loads(
        called("simulate", "sequential", "64KiB", *SMALL, "--policy", "fifo", "--prefetch", "next-line", "--json")
    )
    assert said["levels"][0]["cache"]["policy"] == "fifo"
    # Each miss fetches the line behind it too: half of 1,024 misses are left.
    assert (said["levels"][0]["misses"], said["levels"][0]["prefetches"]) == (512, 512)


@pytest.mark.slow
def test_a_machine_gives_caches_times_and_what_was_assumed(called, root):
    said = called("simulate", "triad", "1000", "--machine", root / "examples" / "zen4-guest.toml")
    assert "Time by level" in said
    assert "228 GB/s" in said  # of L1, as that file states it
    assert "- replacement is taken as LRU" in said


def test_a_curve_in_the_terminal_and_as_json(called):
    said = called("simulate", "sequential", "1KiB", "--curve")
    assert said.splitlines()[-1].split() == ["64", "B", "16", "12.500", "%", "1.02", "kB"]
    curve = json.loads(called("simulate", "sequential", "1KiB", "--curve", "--json"))
    assert (curve["requests"], curve["compulsory"]) == (128, 16)  # doubles and lines of 1 KiB


def test_a_trace_counts_its_bad_lines_and_says_what_it_was_read_as(called, traces):
    said = called("simulate", traces / "good.din", *SMALL)
    assert "3 accesses, simulated exactly" in said
    assert "lines dropped: 1 no hexadecimal address." in said
    assert "- read as din" in said
    assert "- every access taken as 4 bytes: din does not say" in said
    found = json.loads(called("simulate", traces / "good.din", *SMALL, "--json"))
    assert (found["levels"][0]["hits"], found["levels"][0]["misses"]) == (1, 2)
    assert found["dropped"] == {"no hexadecimal address": 1}


def test_every_stream_is_listed_with_its_settings(called):
    said = called("simulate", "--list")
    assert "matmul (n, order, tile, m, k, item_bytes, registers)" in said
    assert "triad (n, item_bytes, stores)" in said
    assert "triad --cores N (n)" in said
    named = [line.partition(" ")[0] for line in said.splitlines() if not line.startswith(" ")]
    # Streams of one core, then those of several; two take arrays, which only Python can give.
    alone = [name for name in sorted(streams.__all__) if name not in ("recorded", "spmv_csr")]
    assert named == [*alone, *sorted(core_streams.__all__)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("matmul", 8, "--level", "33000/8"),
            "not a whole number of sets of 8 × 64 bytes (512); 32,768 or 33,280",
        ),
        (("matmul", 8, "--level", "0/8"), "capacity_bytes is 0, expected a whole number above zero"),
        (("matmul", 8, "--level", "32KiB/0"), "ways is 0, expected a whole number above zero"),
        (("matmul", 8, "--level", "32KiB/8/48"), "line_bytes is 48, expected a power of two"),
        (("matmul", 8, "--level", "32KiB"), "'32KiB' is not CAPACITY/WAYS or CAPACITY/WAYS/LINE"),
        (("matmul", 8, "--level", "x/8"), "'x/8': 'x' is not a quantity"),
        (("matmul", 0, *SMALL), "matmul: n is 0, expected a whole number above zero"),
        (("sequential", 0, *SMALL), "sequential: nbytes is 0, expected a whole number above zero"),
        (("matmul", *SMALL), "matmul needs n, such as `rooflab simulate matmul 256`"),
        (("matmul", "many", *SMALL), "matmul: n is 'many', expected a number"),
        (("matmull", 8, *SMALL), "unknown stream 'matmull'; did you mean matmul?"),
        (("matmul", 8, "--set", "order=iij"), "unknown order of matmul 'iij'"),
        (("matmul", 8, "--set", "ordre=ijk"), "unknown setting of matmul 'ordre'; did you mean order?"),
        (("matmul", 8, "--set", "order"), "--set order: expected NAME=VALUE, such as order=ikj"),
        (("matmul", 8, *SMALL, "--policy", "lruu"), "unknown policy of cache 'lruu'; did you mean lru"),
        (("matmul", 8, "--level", "48KiB/12", "--policy", "plru"), "12 ways, expected a power of two up to 64"),
        (("matmul", 8, *SMALL, "--prefetch", "nxt"), "unknown prefetch of cache 'nxt'; did you mean next-line?"),
        (("matmul", 8, "--policy", "lru"), "--policy and --prefetch are of the caches that --level gives"),
        (("matmul", 8, *SMALL, "--machine", "h200-sxm"), "--level and --machine both say which caches"),
        (("matmul", 8, *SMALL, "--tlb", "64"), "TLB '64' is not ENTRIES/WAYS or ENTRIES/WAYS/PAGE"),
        (("matmul", 8, *SMALL, "--trace-format", "din"), "--trace-format and --instructions are of a trace file"),
        (("matmul", 8, "--curve", "--classify"), "--curve is of every capacity at once"),
        (("matmul", 8, "--curve", "--time-limit", 1), "--curve is of every capacity at once"),
        (("matmul", -5, *SMALL), "matmul: a size is -5, expected a whole number above zero"),
        ((*SMALL, "sequential", "-64KiB"), "sequential: a size is -64KiB, expected a whole number above zero"),
        (("matmul", 8, *SMALL, "--time-limit", 0), "time_limit_s is 0.0, expected a positive number of seconds"),
        (("matmul", 8, *SMALL, "--time-limit", -1), "time_limit_s is -1.0, expected a positive number of seconds"),
        (("matmul", 8, *SMALL, "--classfy"), "No such option '--classfy'. Did you mean '--classify'?"),
        (
            ("matmul", 8, *SMALL, "-o", "found.txt"),
            "found.txt: suffix '.txt', expected one of .json, .csv, .parquet, .html",
        ),
        ((), "simulate needs a stream (--list shows them) or a trace file"),
    ],
)
def test_a_bad_simulate_is_one_line(refused, arguments, said):
    assert said in refused("simulate", *arguments)


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("none.din", (), "none.din: no such file"),
        ("empty.din", (), "empty.din: empty, expected an address trace (din, xdin, lackey, drmemtrace, champsim)"),
        ("letter.txt", (), "not a known address trace"),
        ("letter.txt", (), "it begins with 'Dear reader,'"),
        ("report.json", (), "it looks like JSON"),
        ("good.din", ("--trace-format", "lackey"), "no line reads as lackey (' L 1fff000758,8'); it begins with"),
        ("good.din", ("--trace-format", "dinn"), "unknown trace format 'dinn'; did you mean din"),
        ("good.din", ("--set", "n=3"), "is a trace file: it takes no values and no --set"),
    ],
)
def test_a_bad_trace_is_one_line(refused, traces, name, more, said):
    assert said in refused("simulate", traces / name, *SMALL, *more)


def test_a_trace_has_a_curve_and_misses_told_apart(called, traces):
    curve = json.loads(called("simulate", traces / "good.din", "--curve", "--json"))
    assert (curve["requests"], curve["compulsory"], curve["distances"], curve["counts"]) == (3, 2, [0], [1])
    found = json.loads(called("simulate", traces / "good.din", *SMALL, "--classify", "--json"))
    assert (found["levels"][0]["misses"], found["levels"][0]["compulsory"]) == (2, 2)


def test_what_is_dirty_at_the_end_is_written_back_unless_it_is_to_stay(called):
    stored = ("simulate", "random", "8KiB", "5000", "--set", "store=true", *SMALL, "--json")
    # 5,000 stores to 1,024 doubles miss no line of 128: all are dirty, none is evicted.
    assert json.loads(called(*stored))["levels"][0]["write_bytes"] == 8192
    assert json.loads(called(*stored, "--no-flush"))["levels"][0]["write_bytes"] == 0


def test_a_stream_that_takes_too_long_is_cut_short_and_says_so(called):
    said = called("simulate", "random", "64MiB", "1000000000", *SMALL, "--time-limit", "0.2")
    assert "stopped early: counts are of what ran" in said


@pytest.mark.slow
def test_ctrl_c_ends_a_simulation_at_once_and_leaves_no_file(tmp_path):
    path = tmp_path / "found.json"
    arguments = ("simulate", "random", "64MiB", "100000000000", *SMALL, "-o", str(path))
    process = subprocess.Popen(
        [sys.executable, "-m", "rooflab", *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        time.sleep(8)  # well into the simulation, which would take half an hour
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    finally:
        process.kill()
    assert process.returncode == 130
    assert err.strip() == "rooflab: interrupted, nothing was saved"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("past_the_end", 6, "a[i + 1] is out of bounds at i = 9: index 10 of axis 0 of a, which has 10 elements"),
        (
            "shifted",
            None,
            "numba cannot compile it at 'a[i] = int(a[i]) << a[i]': it knows no lshift of int64, float64",
        ),
        ("listing", 26, "NameError: name 'unknown' is not defined"),
        ("boxed", None, "argument a is an array of Python objects, expected one of numbers"),
    ],
)
def test_a_loop_that_cannot_be_counted_is_one_line(refused, loops, name, line, said):
    message = refused("loop", f"{loops}:{name}", "--n", 10)
    assert said in message
    assert name in message
    assert line is None or f"mine.py:{line}: " in message


def test_a_strided_array_is_counted_as_it_lies(called, loops):
    found = json.loads(called("loop", f"{loops}:strided", "--n", 512, "--untimed", "--json"))
    assert found["accesses"] == 1024  # a load and a store an element
    # Every other double of 8 KiB: 128 lines, though only 4 KiB are used.
    assert found["simulation"]["levels"][0]["misses"] == 128


@pytest.mark.slow
def test_a_loop_that_does_not_end_is_marked_partial_in_a_process_of_its_own(loops):
    done = fresh("loop", f"{loops}:endless", "--n", 10, "--time-limit", 0.5)
    assert done.returncode == 0, done.stderr
    assert "the count was stopped after 0.5 s" in done.stdout
    assert "all counts are of what ran until then" in " ".join(done.stdout.split())
    assert "not run: the count did not end" in done.stdout
    assert "Measured" not in done.stdout


@pytest.mark.slow
def test_json_of_a_loop_that_does_not_end_says_so(called, loops):
    found = json.loads(called("loop", f"{loops}:endless", "--n", 10, "--time-limit", 0.5, "--json"))
    assert found["complete"] is False
    assert found["simulation"]["complete"] is False
    assert found["runs"] == []


@pytest.mark.slow
def test_bad_input_ends_a_process_with_2_and_one_line(loops):
    done = fresh("loop", f"{loops}:past_the_end", "--n", 10)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert "mine.py:6: past_the_end: a[i + 1] is out of bounds at i = 9" in done.stderr


@pytest.mark.slow
def test_a_file_is_written_though_the_reader_of_stdout_has_left(tmp_path):
    path = tmp_path / "found.json"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "rooflab", "simulate", "sequential", "1KiB", *SMALL, "-o", str(path)],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(writer)
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"rooflab: wrote {path}\n"
    assert Simulation.from_dict(json.loads(path.read_text("utf-8"))).accesses == 128
