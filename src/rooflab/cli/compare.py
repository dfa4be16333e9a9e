"""The command `compare`: what differs between saved results, and conditions under which it fails."""

from __future__ import annotations

import click

from rooflab.cli.delivery import deliver, held_by, output_options
from rooflab.cli.options import examples

GATE_FAILED = 1


@click.command(
    short_help="Compare saved results: what changed, by how much, and why.",
    epilog=examples(
        "rooflab compare before.json after.json",
        'rooflab compare before.json after.json --fail-if "time>+5%" -o compare.md',
        "rooflab compare report.json trace.json.gz -o compare.html",
        "rooflab compare h200-sxm a100-sxm-80gb",
    ),
)
@click.argument("results", metavar="FILE…", nargs=-1)
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help='Exit with 1 where it holds: "time>+5%", "memory>80GB", "op:aten.mm time>+10us"; may be given again.',
)
@click.option("--machine", metavar="NAME", help="That profiles were recorded on.  [default: as their files say]")
@click.option(
    "--per-sample/--whole",
    "per_sample",
    default=None,
    help="Divide by samples, or not.  [default: where inputs differ in their first size]",
)
@output_options("Comparison")
def compare(
    results: tuple[str, ...],
    conditions: tuple[str, ...],
    machine: str | None,
    per_sample: bool | None,
    as_json: bool,
    paths: tuple[str, ...],
) -> int:
    """Hold each FILE against the first: totals, operations matched, the difference in time by cause.

    FILE is what rooflab saved (a report, variants, a loop, a machine, a simulation, …), a profile that `load`
    reads, or a machine of the catalogue. A report may stand beside a profile of the same program.
    FILE#NAME is one of the variants in a file. Differences that error bars can explain are no change.

    The exit code is 0; 1 where a condition of --fail-if holds or cannot be told; 2 for bad input.
    """
    from rooflab import views
    from rooflab.comparing import conditions as grammar
    from rooflab.story import compare as compared

    views.check_paths(paths, "Comparison")
    for text in conditions:
        grammar.parse(text)
    with held_by(*results):
        found = compared(*results, fail_if=conditions, per_sample=per_sample, machine=machine)
        code = deliver(found, paths, as_json)
    for gate in found.gates:
        if gate.outcome != "passed":
            click.echo(f"rooflab: {gate.condition}: {gate.outcome} ({gate.against}): {gate.says}", err=True)
    return code or (0 if found.ok else GATE_FAILED)
