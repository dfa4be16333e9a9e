"""The commands `fleet …`: many machines measured and held against each other."""

from __future__ import annotations

import click

from rooflab.cli.delivery import deliver, output_options
from rooflab.cli.options import examples, over_options


@click.group(short_help="Measure every node of a fleet: which one is slow?")
def fleet() -> None:
    """Many machines at once."""


@fleet.command(
    short_help="Measure every node once: which node, socket or link is slow?",
    epilog=examples(
        "rooflab fleet measure --on tcp://head:8786 -o fleet.html -o fleet.json",
        "srun -N 16 --ntasks-per-node 1 rooflab fleet measure --on ranks:$SCRATCH/meet -o fleet.html",
        "rooflab fleet measure --each worker --workers 5 --quick    # this host five times: how it scatters",
    ),
)
@over_options("Measure")
@click.option(
    "--each",
    type=click.Choice(("host", "worker")),
    default="host",
    show_default=True,
    help="Measure once on each; worker: where workers are bound to sockets, those of a host in turn.",
)
@click.option("--quick", is_flag=True, help="Quick measurements: about 6 s instead of 20.")
@click.option("--once", is_flag=True, help="Do not measure again what looks slow.")
@output_options("Fleet")
def measure(
    on: str | None,
    workers: int | None,
    each: str,
    quick: bool,
    once: bool,
    as_json: bool,
    paths: tuple[str, ...],
) -> int:
    """Measure every node of a fleet, all at the same time, and say which one is slow, in what, with the evidence.

    A node stands apart by robust statistics against the median of its kind, from five nodes on, and is measured
    again before it is called slow. Its share of its own theory is said beside. The exit code is 1 where a node is
    slow, 2 where one could not be measured. Ranks of a job other than 0 print nothing.
    """
    from rooflab import views
    from rooflab.executors import merges
    from rooflab.story import fleet_measure
    from rooflab.views.common.progress import progress

    views.check_paths(paths, "Fleet")
    with progress() as show:
        found = fleet_measure(on, quick=quick, each=each, workers=workers, again=not once, progress=show)  # type: ignore[arg-type]
    if not merges(on):
        return 0
    code = deliver(found, paths, as_json)
    return code or (2 if found.failed else 1 if found.suspects else 0)
