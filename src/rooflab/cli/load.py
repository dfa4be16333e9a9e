"""The command `load`: what a profiler or rooflab wrote, read and shown."""

from __future__ import annotations

import click

from rooflab.cli.options import deliver, examples, output_options


@click.command(
    short_help="Read a profile, or a result that rooflab saved: what limited the run.",
    epilog=examples(
        "rooflab load trace.json.gz",
        "rooflab load kernels.csv --machine h200-sxm -o profile.html",
        "rooflab load rank0.json.gz rank1.json.gz rank2.json.gz rank3.json.gz",
    ),
)
@click.argument("files", metavar="FILE…", nargs=-1, required=True)
@click.option("--machine", metavar="NAME", help="That it ran on.  [default: as the file says]")
@output_options("Profile")
def load(files: tuple[str, ...], machine: str | None, as_json: bool, paths: tuple[str, ...]) -> int:
    """Read FILE, whatever wrote it: each operation counted, predicted and measured, and where the time went.

    FILE is a trace of the PyTorch profiler (CUDA, ROCm, CPU), a table of Nsight Compute, or a result that rooflab
    saved; packed with gzip or xz too. It is recognised by what it holds, not by its name. Several files are shown
    side by side; one that cannot be read is said, and the exit code is 2.
    """
    from rooflab import views
    from rooflab.story import load as read

    views.check_paths(paths, "Profile" if len(files) == 1 else "Profiles")
    found = read(*files, machine=machine)
    code = deliver(found, paths, as_json)
    failed = getattr(found, "failed", ()) if len(files) > 1 else ()
    for sentence in failed:
        click.echo(f"rooflab: {sentence}", err=True)
    return 2 if failed else code
