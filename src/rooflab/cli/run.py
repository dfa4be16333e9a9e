"""The command `run`: a command run and watched."""

from __future__ import annotations

import importlib
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from rooflab.cli.delivery import deliver, output_options, quiet
from rooflab.cli.options import examples

_RUNS_FOR_S = 1.0  # before anything is imported beside a command
_SHOWN_BY = (
    "rich.console",
    "rich.table",
    "rich.text",
    "rooflab.observe.running.verdict",
    "rooflab.types.run",
    "rooflab.views.run",
)


@click.command(
    short_help="Run a command: time, cores, faults, memory; FLOP and bytes where the CPU counts.",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog=examples(
        "rooflab run -- ./simulate --steps 100",
        "rooflab run --machine here.toml -o run.html -- python script.py",
        "rooflab run --profile -- python train.py",
        "rooflab run --runs 5 --quiet -o run.json -- ./simulate > out.txt",
    ),
)
@click.argument("command", metavar="-- CMD…", nargs=-1, type=click.UNPROCESSED)
@click.option("--machine", metavar="NAME", help="Whose roofs what was counted is held against: a name or a file.")
@click.option(
    "--runs",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Run it N times: the median, a column for each; the CPU's events divided among them.",
)
@click.option("--no-counters", is_flag=True, help="Count no events of the CPU.")
@click.option("--profile", is_flag=True, help="Record it by the profiler of PyTorch or JAX, whichever it imports.")
@click.option(
    "--profile-steps",
    type=int,
    default=3,
    show_default=True,
    metavar="N",
    help="Record N optimizer steps, after 2 of warm-up.",
)
@click.option(
    "--profile-seconds",
    "profile_s",
    type=float,
    default=5.0,
    show_default=True,
    metavar="S",
    help="Record S seconds at most.",
)
@click.option("--traces", metavar="FOLDER", help="Keep the profiler's own files in FOLDER.")
@output_options("Run", "stderr")
def run(
    command: tuple[str, ...],
    machine: str | None,
    runs: int,
    no_counters: bool,
    profile: bool,
    profile_steps: int,
    profile_s: float,
    traces: str | None,
    as_json: bool,
    paths: tuple[str, ...],
) -> int:
    """Run CMD as it stands and say what it did to the machine.

    Its input and output are left alone and signals are handed on to it; the result comes after it on stderr, so
    that a pipe of its output stays clean. The exit code is the command's own; 128 + n where signal n killed it.

    Where the CPU has counters and the system grants them, `perf` counts FLOP and the bytes of memory, and with
    --machine they are a point on its roofline. Events that do not fit at once take turns, which is said; --runs
    divides them among several runs. Without counters: time, cores, faults, memory, waits, and what is missing.

    --profile records a program as it stands: optimizer steps where it takes any, else from the import of torch or
    the first function that JAX compiles on, and shows what `rooflab load` shows of such a file.
    """
    from rooflab import views
    from rooflab.story import run as watch

    views.check_paths(paths, "Run")
    with _getting_ready():
        found = watch(
            command,
            machine=machine,
            runs=runs,
            counters=not no_counters,
            profile=profile,
            profile_steps=profile_steps,
            profile_s=profile_s,
            traces=traces,
        )
    code = deliver(found, paths, as_json, err=True)
    return found.exit_code or code


@contextmanager
def _getting_ready() -> Iterator[None]:
    """What shows the result is imported while a long command runs, where there are CPUs for both."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if quiet() or cpus < 2 or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    timer = threading.Timer(_RUNS_FOR_S, _import, _SHOWN_BY)
    # A thread takes over what is blocked here: signals are for the one that waits for the command.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    timer.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _import(*names: str) -> None:
    for name in names:
        importlib.import_module(name)
