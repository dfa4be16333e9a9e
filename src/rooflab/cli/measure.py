"""The command `measure`: the roofs of this machine."""

from __future__ import annotations

import click

from rooflab.cli.delivery import INTERRUPTED, deliver, output_options
from rooflab.cli.options import examples


@click.command(
    short_help="Measure the roofs of this machine.",
    epilog=examples("rooflab measure -o machine.html -o machine.toml"),
)
@output_options("Machine")
@click.option("--quick", is_flag=True, help="Fewer sizes and rounds, no disk: about 6 s instead of 20.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of threads.  [default: one per available core]",
)
@click.option(
    "--library", is_flag=True, help="Also time PyTorch's products, and more of NumPy's: about 20 s more."
)
@click.option("--sustained", is_flag=True, help="Also compare the clock of a long run with that of a short one.")
def measure(
    paths: tuple[str, ...], quick: bool, threads: int | None, library: bool, sustained: bool, as_json: bool
) -> int:
    """Measure the roofs of this machine: bandwidth, latency and peaks of what this process may use."""
    from rooflab import views

    views.check_paths(paths, "Machine")
    # Before anything heavy is imported: too little memory is granted to measure in.
    from rooflab.machines.detect import detect, require_memory

    require_memory(detect(gpus=False))
    from rooflab.story import measure as run
    from rooflab.views.common.progress import progress

    with progress() as show:
        machine = run(quick=quick, threads=threads, sustained=sustained, library=library, progress=show)
    code = deliver(machine, paths, as_json)
    if machine.incomplete is None:
        return code
    click.echo(f"rooflab: incomplete: {machine.incomplete}; what was measured so far is shown", err=True)
    return INTERRUPTED
