"""The command `load`: what a profiler or rooflab wrote, read and shown."""

from __future__ import annotations

import click

from rooflab.cli.options import deliver, examples, output_options


@click.command(
    short_help="Read a profile, or a result that rooflab saved: what limited the run.",
    epilog=examples("rooflab load trace.json.gz", "rooflab load kernels.csv --machine h200-sxm -o profile.html"),
)
@click.argument("file", metavar="FILE")
@click.option("--machine", metavar="NAME", help="That it ran on.  [default: as the file says]")
@output_options("Profile")
def load(file: str, machine: str | None, as_json: bool, paths: tuple[str, ...]) -> int:
    """Read FILE, whatever wrote it: each operation counted, predicted and measured, and where the time went.

    FILE is a trace of the PyTorch profiler (CUDA, ROCm, CPU), a table of Nsight Compute, or a result that rooflab
    saved; packed with gzip or xz too. It is recognised by what it holds, not by its name.
    """
    from rooflab import views
    from rooflab.story import load as read

    views.check_paths(paths, "Profile")
    return deliver(read(file, machine=machine), paths, as_json)
