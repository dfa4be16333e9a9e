"""The command about loops: `loop` takes one apart, or sweeps its tile sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.types.loop import TileSweep

# A blank line before, and this mark above, an example keeps click from refilling it.
_AS_IS = "\b\n"


@click.command(
    short_help="Say what limits a Python loop at every cache level.",
    epilog=f"{_AS_IS}Example:\n  rooflab loop examples/loops.py:stencil --n 2048",
)
@click.argument("target")
@click.option(
    "--n", type=click.IntRange(min=1), metavar="N", help="The size that the file's args(n) is called with."
)
@click.option("--dim", "dims", multiple=True, metavar="NAME=N", help="Another parameter of args.")
@click.option("--machine", metavar="NAME", help="Its caches and roofs: a name of `rooflab machines`, or a file.")
@click.option("--tile", "tiles", multiple=True, metavar="NAME=A:B:STEP", help="Try these sizes of parameter NAME.")
@click.option(
    "--limit",
    type=click.FloatRange(min=0.01),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop counting after so long; counts are then partial.",
)
@click.option(
    "--classify", is_flag=True, help="Tell compulsory, capacity and conflict misses apart (counts slower)."
)
@click.option("--no-run", is_flag=True, help="Count and simulate only: do not compile and time the loop itself.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout and nothing else.")
@click.option(
    "-o",
    "--output",
    "paths",
    multiple=True,
    metavar="FILE",
    help="Write the report to FILE (.html, .json, .csv, .svg, .png, .pdf); may be given again.",
)
def loop(
    target: str,
    n: int | None,
    dims: tuple[str, ...],
    machine: str | None,
    tiles: tuple[str, ...],
    limit: float,
    classify: bool,
    no_run: bool,
    as_json: bool,
    paths: tuple[str, ...],
) -> int:
    """Say what limits the loop TARGET, FILE.py:NAME: its FLOP, its traffic at every cache level, its time.

    The arguments come from a function in the same file, NAME_args(n) or args(n), which returns them.

    \b
      def triad(a, b, c, s):                 # rooflab loop FILE.py:triad --n 4000000
          for i in range(len(a)):
              a[i] = b[i] + s * c[i]
      def args(n):
          return np.zeros(n), np.ones(n), np.ones(n), 3.0
    """
    from rooflab import story
    from rooflab.loops import target as targets
    from rooflab.loops import tiles as sizes
    from rooflab.views import loop_export, tile_export

    (tile_export if tiles else loop_export).check_writable(paths)
    pictures = [path for path in paths if path.lower().endswith((".svg", ".png", ".pdf"))]
    if pictures and not tiles and (machine is None or no_run):
        lacks = (
            "--machine, whose roofs it is drawn under"
            if machine is None
            else "the measured time: leave out --no-run"
        )
        raise RooflabError(f"{pictures[0]}: a picture of a loop needs {lacks}; .html and .json do without")
    if tiles and classify:
        raise RooflabError("--classify is of one loop, --tile of many sizes: take the size with --dim, or in args")
    wanted: dict[str, tuple[int, ...]] = {}
    for each in tiles:
        name, tried = sizes.parse(each)
        if name in wanted:
            raise RooflabError(
                f"--tile {each}: {name} is there already, expected each name once: NAME=SIZE,SIZE,…"
            )
        wanted[name] = tried
    found = None if machine is None else story.machine(machine)
    fn, args = targets.load(target, n, _numbers(dims))
    if wanted:
        with _waiting(f"simulating every tile size of {fn.__name__}"):
            sweep = story.sweep_tiles(fn, wanted, *args, machine=found, limit_s=limit)
        _save(tile_export.save, sweep, paths)
        _show(sweep, as_json)
        return 0
    with _waiting(f"taking {fn.__name__} apart"):
        report = story.loop(fn, *args, machine=found, run=not no_run, limit_s=limit, classify=classify)
    _save(loop_export.save, report, paths)
    if as_json:
        click.echo(loop_export.json_text(report).encode(), nl=False)
    else:
        report.show()
    return 0


@contextmanager
def _waiting(what: str) -> Iterator[None]:
    """A line on a terminal's stderr meanwhile: the very first run compiles the simulator. Nothing in a pipe."""
    from rooflab.views.progress import progress

    with progress() as show:
        show(f"{what} (a new loop: some seconds; the very first: 10 s more)", 0, 0)
        yield


def _save(save: Callable[..., None], made: object, paths: tuple[str, ...]) -> None:
    if paths:
        # Before stdout, whose reader may leave (`| head`).
        save(made, *paths)
        click.echo(f"rooflab: wrote {', '.join(paths)}", err=True)


def _show(sweep: TileSweep, as_json: bool) -> None:
    if not as_json:
        sweep.show()
        return
    from rooflab.views.export import json_text

    click.echo(json_text(sweep.to_dict()).encode(), nl=False)


def _numbers(pairs: tuple[str, ...]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for text in pairs:
        name, _, said = text.partition("=")
        if not name or not said.isdecimal():
            raise RooflabError(f"--dim {text}: expected NAME=N with a whole number from zero on")
        made[name] = int(said)
    return made
