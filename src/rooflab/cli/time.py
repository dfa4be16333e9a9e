"""The command `time`: a function of a file timed here, warm and cold, under this machine's roofs."""

from __future__ import annotations

from typing import Any

import click

from rooflab.cli.delivery import deliver, output_options, quiet
from rooflab.cli.options import Wanted, examples, prediction_options, whole_numbers
from rooflab.errors import RooflabError


@click.command(
    short_help="Time a function here, warm and cold, and say how good that is.",
    epilog=examples(
        "rooflab time examples/timed.py:triad --n 10000000 --machine here.toml",
        "rooflab time examples/timed.py:network --batch 64 --machine here.toml",
        "rooflab time numpy:sort --args examples/timed.py:numbers --n 100000",
    ),
)
@click.argument("target")
@click.option("--args", "maker", metavar="[FILE.py:]NAME", help="The function that makes the arguments.")
@click.option(
    "--n", type=click.IntRange(min=1), metavar="N", help="The size that the arguments' function is called with."
)
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Short for --dim batch=N.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=N", help="Another keyword of it, or of TARGET.")
@click.option("--warm", is_flag=True, help="Leave out the calls with cold caches.")
@click.option("--flop", type=float, metavar="N", help="FLOP of one call, where they cannot be counted.")
@click.option("--bytes", "bytes_moved", type=float, metavar="N", help="Bytes that one call must move, likewise.")
@click.option("--dtype", metavar="NAME", help="Number format of --flop.  [default: fp64]")
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="For all of it; a call of more than half of them is not timed.",
)
@prediction_options
@output_options("TimedCall")
def time(
    target: str,
    maker: str | None,
    n: int | None,
    batch: int | None,
    dims: tuple[str, ...],
    warm: bool,
    flop: float | None,
    bytes_moved: float | None,
    dtype: str | None,
    limit_s: float,
    wanted: Wanted,
    as_json: bool,
    paths: tuple[str, ...],
) -> int:
    """Time TARGET, FILE.py:NAME or package.module:NAME, on this machine.

    Its arguments come from the function that --args names, else from NAME_args or args of its file, as for
    `rooflab loop`. One that needs none is called once; where it returns (function or module, inputs), as for
    `rooflab analyze`, that is timed on those, else it is timed itself.

    \b
      def triad(a, b, c):                    # rooflab time FILE.py:triad --n 10000000
          np.add(b, 3 * c, out=a)
      def args(n=1000):
          return np.zeros(n), np.ones(n), np.ones(n)
    """
    from rooflab import story, views
    from rooflab.cli import time_target
    from rooflab.observe.called import FIRST
    from rooflab.views.common.progress import progress

    views.check_paths(paths, "TimedCall")
    if wanted.kind == "Variants":
        raise RooflabError("time needs the one --machine that this is, without --what-if")
    for unwanted in ("cache", "what_if"):
        if unwanted in wanted.setting:
            raise RooflabError(f"time: leave out --{unwanted}: warm and cold are both timed, as this machine is")
    sizes = whole_numbers(dims, "--dim")
    if batch is not None:
        sizes["batch"] = batch
    with time_target.watched(target, limit_s) as watch:
        call = time_target.load(target, maker, n, sizes, watch.begin)
        watch.end()
        with progress() as told:

            def tell(what: str, done: float, total: float) -> None:
                # After its first call `story.time` keeps to the limit.
                watch.begin() if what == FIRST else watch.end()
                if not quiet():
                    told(what, done, total)

            how: dict[str, Any] = {"machine": next(iter(wanted.machines.values()), None), **wanted.setting}
            found = story.time(
                call.fn,
                *call.args,
                kwargs=call.kwargs,
                name=call.name,
                flop=flop,
                bytes_moved=bytes_moved,
                dtype=dtype,
                cold=not warm,
                limit_s=limit_s,
                progress=tell,
                **how,
            )
    return deliver(found, paths, as_json)
