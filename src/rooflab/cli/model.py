"""The command about the model itself: `calibrate` its constants to one's own timings."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import click

_MACHINE = "The machine that was timed: a name of `rooflab machines`, or a file such as `rooflab measure` writes."
_CONSTANTS = "Start from, and stay near, the constants in this file."
# A blank line before, and this mark above, an example keeps click from refilling it.
_AS_IS = "\b\n"


@click.command(
    short_help="Refit the model's constants to your own timings.",
    epilog=f"{_AS_IS}Example:\n  rooflab calibrate timings.csv --machine h200-sxm -o my-h200.toml",
)
@click.argument("timings")
@click.option("--machine", metavar="NAME", required=True, help=_MACHINE)
@click.option("--cache", type=click.Choice(("warm", "cold")), default="warm", show_default=True, help="As timed.")
@click.option("--constants", metavar="FILE", help=_CONSTANTS)
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout and nothing else.")
@click.option("-o", "--output", "path", metavar="FILE.toml", help="Write the changed constants to FILE.toml.")
def calibrate(
    timings: str, machine: str, cache: Any, constants: str | None, as_json: bool, path: str | None
) -> int:
    """Refit the fitted constants of a machine's family to TIMINGS, and say what changed and whether it helps.

    TIMINGS is a CSV file, or a JSON file with a list of objects of the same keys. kind, shapes and
    dtype are those of `rooflab op`. The time has its unit, or is a number in a column time_s, time_ms,
    time_us or time_ns: of the operation run again and again without the host in the way (a CUDA graph),
    on a CPU as called. framework (numpy, torch) says which a CPU ran. Every other column is a setting
    of the operation. A report's JSON works too where its rows carry {"observation": {"time_s": ...}}.
    Give 8 rows at least; rows that cannot be read are left out and said.

    A constant that the times do not bear on stays. Predict with the new ones by --constants FILE.toml.

    \b
      kind,shapes,dtype,time,causal
      matmul,4096x4096 4096x4096,bf16,187 us,
      softmax,8192x8192,fp32,161.2 us,
      attention,8x32x2048x128,bf16,0.71 ms,true
    """
    from rooflab.views.export import check_writable

    check_writable([path] if path else [], (".toml",), "my-h200.toml")
    from rooflab.story import calibrate as run
    from rooflab.views.progress import progress

    with progress() as told:
        found = run(timings, machine, cache=cache, constants=constants, progress=told)
    if as_json:
        from rooflab.views.export import json_text

        click.echo(json_text(_plain(found)).encode(), nl=False)
    else:
        from rooflab.views import calibration

        calibration.show(found)
    if path:
        from rooflab.model import overrides

        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        Path(path).write_text(overrides.text(found, Path(timings).name, today), encoding="utf-8")
        click.echo(f"rooflab: wrote {path}", err=True)
    return 0


def _plain(found: Any) -> dict[str, Any]:
    """The calibration for other programs: the new constants are among its changes."""
    import msgspec

    return {name: value for name, value in msgspec.to_builtins(found).items() if name != "constants"}
