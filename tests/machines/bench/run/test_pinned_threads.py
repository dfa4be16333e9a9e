"""Pinned threads: where they run, that they start together, what an error in one does to the others."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from rooflab.machines.bench.run.pinned_threads import Job, PinnedThreads
from support.machines.workshop import Workshop


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system pins no threads")
def test_each_worker_is_pinned_to_its_cpu(workshop: Workshop) -> None:
    before = os.sched_getaffinity(0)
    for cpu in workshop.cpus:
        assert workshop.bench.pinned.submit(cpu, lambda: os.sched_getaffinity(0)).result() == {cpu}
    assert os.sched_getaffinity(0) == before, "the calling thread was pinned"


def test_a_worker_stays_the_same_thread(workshop: Workshop) -> None:
    seen = {workshop.bench.pinned.submit(workshop.cpu, threading.get_ident).result() for _ in range(3)}
    assert len(seen) == 1
    assert threading.get_ident() not in seen


def test_run_reports_every_job(workshop: Workshop) -> None:
    kernel = workshop.bench.kernels["clock"]
    jobs = [Job(cpu, kernel, 2000, a=workshop.arena.address, width=1) for cpu in workshop.cpus]
    run = workshop.bench.pinned.run(jobs)
    assert len(run.each_s) == len(jobs)
    assert all(seconds > 0 for seconds in run.each_s)
    # From the first start to the last end is at least the longest job's own time.
    assert run.seconds >= max(run.each_s)


def test_jobs_wait_for_each_other(workshop: Workshop) -> None:
    if len(workshop.cpus) < 2:
        pytest.skip("one CPU is granted: nothing starts together")
    # Each of the two waits for the other's count: had one started alone, it would wait for ever.
    kernel = workshop.bench.kernels["ping_pong"]
    workshop.arena.view(np.int64, 0, 64)[:] = 0
    jobs = [
        Job(cpu, kernel, 50, a=workshop.arena.address, width=turn) for turn, cpu in enumerate(workshop.cpus[:2])
    ]
    run = workshop.bench.pinned.run(jobs)
    # 50 turns each, counted by both in turn.
    assert workshop.arena.view(np.int64, 0, 8)[0] == 100
    assert len(run.each_s) == 2


def test_results_are_the_kernels(workshop: Workshop) -> None:
    kernel = workshop.bench.kernels["clock"]
    workshop.arena.view(np.int64, 0, 64)[:] = 5
    workshop.bench.pinned.run([Job(workshop.cpu, kernel, 1, a=workshop.arena.address, width=0)])
    # Adding and xoring zero 128 times.
    assert workshop.bench.pinned.results(workshop.cpu, np.int64, 1)[0] == 5


def test_results_are_a_copy(workshop: Workshop) -> None:
    first = workshop.bench.pinned.results(workshop.cpu, np.int64, 1)
    before = int(first[0])
    workshop.arena.view(np.int64, 0, 64)[:] = before + 1
    kernel = workshop.bench.kernels["clock"]
    workshop.bench.pinned.run([Job(workshop.cpu, kernel, 1, a=workshop.arena.address, width=0)])
    assert int(first[0]) == before


def test_an_error_in_submitted_work_is_raised_and_leaves_the_worker_alive(workshop: Workshop) -> None:
    def fail() -> None:
        raise ValueError("in the worker")

    with pytest.raises(ValueError, match="in the worker"):
        workshop.bench.pinned.submit(workshop.cpu, fail).result()
    assert workshop.bench.pinned.submit(workshop.cpu, lambda: 7).result() == 7


def test_leaving_the_crew_ends_its_threads(workshop: Workshop) -> None:
    with PinnedThreads(workshop.cpus[:1]) as pinned:
        worker = pinned.submit(workshop.cpu, threading.current_thread).result()
        assert isinstance(worker, threading.Thread)
        assert worker.name.startswith(f"rooflab-cpu{workshop.cpu}")
        assert worker.is_alive()
    assert not worker.is_alive()


_ONE_FAILS = """
import sys
from rooflab.machines.bench.run.arena import Arena
from rooflab.machines.bench.run.pinned_threads import Job, PinnedThreads
from rooflab.machines.bench.kernels.emit import clock_kernel
from rooflab.machines.bench.kernels.jit import compile_kernels

first, second = map(int, sys.argv[1:])
kernel = compile_kernels([clock_kernel()])["clock"]
arena = Arena.reserve(1 << 16)
arena.touch()
good = Job(first, kernel, 10, a=arena.address)
bad = {bad}
try:
    with PinnedThreads((first, second)) as pinned:
        pinned.run([good, bad])
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        # Refused by ctypes inside the worker: the other job already waits at the barrier.
        ("Job(second, kernel, 10, a=1.5)", "ArgumentError"),
        # No such worker: the first job has been submitted and waits for a second that never comes.
        ("Job(10**6, kernel, 10, a=arena.address)", "KeyError"),
    ],
)
def test_an_error_in_one_job_does_not_hang_the_others(workshop: Workshop, bad: str, error: str) -> None:
    if len(workshop.cpus) < 2:
        pytest.skip("one CPU is granted: no job waits for another")
    code = textwrap.dedent(_ONE_FAILS).replace("{bad}", bad)
    command = [sys.executable, "-c", code, *map(str, workshop.cpus)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=4, check=False)
    except subprocess.TimeoutExpired:
        pytest.fail("the other job waits at the barrier for ever")
    assert done.stdout.strip() == error, done.stderr
