"""The command `run`: a command run and watched."""

from __future__ import annotations

import click

from rooflab.cli.options import deliver, examples, output_options


@click.command(
    short_help="Run a command: its time, cores, page faults, memory and waits.",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog=examples(
        "rooflab run -- ./simulate --steps 100",
        "rooflab run -o run.html -- python script.py",
        "rooflab run --runs 5 --quiet -o run.json -- ./simulate > out.txt",
    ),
)
@click.argument("command", metavar="-- CMD…", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--runs",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Run it N times: the median, and a column for each.",
)
@output_options("Run", "stderr")
def run(
    command: tuple[str, ...],
    runs: int,
    as_json: bool,
    paths: tuple[str, ...],
) -> int:
    """Run CMD as it stands and say what it did to the machine.

    Its input and output are left alone and signals are handed on to it; the result comes after it on stderr, so
    that a pipe of its output stays clean. The exit code is the command's own; 128 + n where signal n killed it.

    Events of the CPU (FLOP, bytes of memory) are not counted: `rooflab load` reads what `perf stat -j` wrote.
    """
    from rooflab import views
    from rooflab.story import run as watch

    views.check_paths(paths, "Run")
    found = watch(command, runs=runs)
    code = deliver(found, paths, as_json, err=True)
    return found.exit_code or code
