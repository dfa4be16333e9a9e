"""The command `calibrate`: the model's constants refitted to one's own timings."""

from __future__ import annotations

from typing import Any

import click

from rooflab.cli.delivery import deliver, output_options
from rooflab.cli.options import CACHE_STATES, examples

_MACHINE = "The machine that was timed: a name of `rooflab machine`, or a file such as `rooflab measure` writes."


@click.command(
    short_help="Refit the model's constants to your own timings.",
    epilog=examples("rooflab calibrate timings.csv --machine h200-sxm -o my-h200.toml"),
)
@click.argument("timings")
@click.option("--machine", metavar="NAME", required=True, help=_MACHINE)
@click.option("--cache", type=click.Choice(CACHE_STATES), default="warm", show_default=True, help="As timed.")
@click.option("--constants", metavar="FILE", help="Start from, and stay near, the constants in this file.")
@output_options("Calibration")
def calibrate(
    timings: str, machine: str, cache: Any, constants: str | None, as_json: bool, paths: tuple[str, ...]
) -> int:
    """Refit the fitted constants of a machine's family to TIMINGS, and say what changed and whether it helps.

    TIMINGS is a CSV file, or a JSON file with a list of objects of the same keys. kind, shapes and
    dtype are those of `rooflab op`. The time has its unit, or is a number in a column time_s, time_ms,
    time_us or time_ns: of the operation run again and again without the host in the way (a CUDA graph),
    on a CPU as called. framework (numpy, torch) says which a CPU ran. Every other column is a setting
    of the operation. A report's JSON works too where its rows carry {"observation": {"time_s": ...}},
    as rooflab analyze --measure writes it.
    Give 8 rows at least; rows that cannot be read are left out and said.

    Constants that the times do not constrain are left unchanged. Predict with the new ones by
    --constants FILE.toml.

    \b
      kind,shapes,dtype,time,causal
      matmul,4096x4096 4096x4096,bf16,187 us,
      softmax,8192x8192,fp32,161.2 us,
      attention,8x32x2048x128,bf16,0.71 ms,true
    """
    from rooflab import views

    views.check_paths(paths, "Calibration")
    from rooflab.story import calibrate as run
    from rooflab.views.common.progress import progress

    with progress() as show:
        calibration = run(timings, machine, cache=cache, constants=constants, progress=show)
    return deliver(calibration, paths, as_json)
