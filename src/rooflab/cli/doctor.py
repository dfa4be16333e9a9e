"""The command `doctor`: what this environment grants and lacks."""

from __future__ import annotations

import click

from rooflab.cli.delivery import deliver, output_options
from rooflab.cli.options import examples


@click.command(
    short_help="Say what this environment grants and lacks, and what to do.",
    epilog=examples("rooflab doctor\nrooflab doctor -o doctor.md    # to paste into an issue: no names, no paths"),
)
@click.option("--quick", is_flag=True, help="Look only: try no library and no tool.")
@output_options("Checkup")
def doctor(quick: bool, as_json: bool, paths: tuple[str, ...]) -> int:
    """Say what this environment grants to rooflab and what it lacks, what each means, and what to do.

    Counters, clocks, memory, containers, libraries, GPUs and profilers; libraries are tried by a small real use.
    The exit code is 0 where rooflab works, whatever else is missing, and 1 where it cannot.
    """
    from rooflab import story, views
    from rooflab.views.common.progress import progress

    views.check_paths(paths, "Checkup")
    with progress(after_s=1.0) as show:
        found = story.doctor(quick=quick, progress=show)
    code = deliver(found, paths, as_json)
    return code or (0 if found.works else 1)
