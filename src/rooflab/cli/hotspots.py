"""The command `hotspots`: a Python program sampled while it runs."""

from __future__ import annotations

import click

from rooflab.cli.delivery import deliver, output_options
from rooflab.cli.options import examples


@click.command(
    short_help="Sample a Python program: which functions and loops take its time.",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog=examples(
        "rooflab hotspots -- python script.py",
        "rooflab hotspots --native -o hotspots.html -- python -m package",
    ),
)
@click.argument("command", metavar="-- CMD…", nargs=-1, type=click.UNPROCESSED)
@click.option("--rate", "hz", type=int, default=100, show_default=True, metavar="HZ", help="Samples a second.")
@click.option("--native", is_flag=True, help="Tell time in libraries from time in the interpreter; slower.")
@output_options("Hotspots", "stderr")
def hotspots(command: tuple[str, ...], hz: int, native: bool, as_json: bool, paths: tuple[str, ...]) -> int:
    """Run CMD, a Python program as it stands, and say which functions, loops and lines its time goes to.

    Each comes with the command that takes it apart: a loop over elements of arrays, a program of PyTorch or JAX, a
    product of matrices. Its input and output are left alone and signals are handed on to it; the result comes on
    stderr after it. The exit code is the command's own. py-spy takes the samples: pip install 'rooflab[hotspots]'.
    """
    from rooflab import views
    from rooflab.story import hotspots as sample

    views.check_paths(paths, "Hotspots")
    found = sample(command, hz=hz, native=native)
    code = deliver(found, paths, as_json, err=True)
    return found.exit_code or code
