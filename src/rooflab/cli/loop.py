"""The command about loops: `loop` takes one apart, of Python or C, or sweeps its tile sizes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypedDict

import click

from rooflab.cli.delivery import deliver, needs_machine, output_options, picture_in, quiet
from rooflab.cli.options import advice_option, examples, whole_numbers
from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.types.loop import LoopReport
    from rooflab.types.machine import Machine


@click.command(
    short_help="Say what limits a loop of Python or C at every cache level.",
    epilog=examples(
        "rooflab loop examples/loops.py:stencil --n 2048",
        "rooflab loop examples/c_loops.c:stencil --args examples/c_loops.py --n 128",
    ),
)
@click.argument("text", metavar="TARGET")
@click.option(
    "--n", type=click.IntRange(min=1), metavar="N", help="The size that the file's args(n) is called with."
)
@click.option("--dim", "dims", multiple=True, metavar="NAME=N", help="Another parameter of args.")
@click.option(
    "--args",
    "args_text",
    metavar="[FILE.py:]NAME",
    help="The function that makes the arguments; FILE.py alone: its TARGET_args(n) or args(n). C needs one.",
)
@click.option(
    "--cflags",
    metavar="FLAGS",
    help="Of C: the compiler's flags [default: compile_commands.json, or -O3 …], and further files of C.",
)
@click.option("--machine", metavar="NAME", help="Its caches and roofs: a name of `rooflab machine`, or a file.")
@click.option("--tile", "tiles", multiple=True, metavar="NAME=A:B:STEP", help="Try these sizes of parameter NAME.")
@click.option(
    "--time-limit",
    "time_limit_s",
    type=click.FloatRange(min=0.01),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop counting after so long; counts are then partial.",
)
@click.option("--classify", is_flag=True, help="Classify misses (compulsory, capacity, conflict); slower.")
@click.option("--untimed", is_flag=True, help="Count and simulate only: do not compile and time the loop itself.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Predict loops over prange on up to N cores, and run them on those there are; all cores by default. "
    "Given, it also says what so many move to and from memory.",
)
@advice_option
@click.option(
    "--advice-time",
    "advice_s",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Try no further change after so long; the report is printed before.",
)
@output_options("LoopReport")
def loop(
    text: str,
    n: int | None,
    args_text: str | None,
    cflags: str | None,
    dims: tuple[str, ...],
    machine: str | None,
    tiles: tuple[str, ...],
    time_limit_s: float,
    classify: bool,
    untimed: bool,
    threads: int | None,
    advice: int | None,
    advice_s: float,
    as_json: bool,
    paths: tuple[str, ...],
) -> int:
    """Say what limits the loop TARGET, FILE.py:NAME: its FLOP, its traffic at every cache level, its time.

    Of C, TARGET is FILE.c:NAME (or .cpp, .cc, .cxx; or LLVM IR in .ll or .bc), compiled by clang, and its
    arguments come from a file of Python (--args).

    The arguments come from the function that --args names, else from NAME_args(n) or args(n) of the same file,
    which returns them.

    \b
      def triad(a, b, c, s):                 # rooflab loop FILE.py:triad --n 4000000
          for i in range(len(a)):
              a[i] = b[i] + s * c[i]
      def args(n):
          return np.zeros(n), np.ones(n), np.ones(n), 3.0
    """
    from rooflab import story
    from rooflab.cli import loop_target

    _check(paths, tiles, machine, untimed, classify, threads)
    tried = _sizes(tiles)
    target = None if machine is None else story.machine(machine)
    named = whole_numbers(dims, "--dim", "seed=8")
    # files come first, as who reads the terminal may stop reading; JSON is one
    early = _Early(advice) if not (paths or as_json or tiles or quiet() or advice == 0) else None
    how = _How(
        machine=target,
        timed=not untimed,
        time_limit_s=time_limit_s,
        classify=classify,
        threads=threads,
        advise=advice != 0,
        told=early,
    )
    if loop_target.is_of_c(text):
        if tiles:
            raise RooflabError(f"{text}: --tile is of Python functions: give the size of C's tiles with --dim")
        loop_target.check_c(text, cflags)
        given = loop_target.load_c(text, args_text, n, named)
        with _waiting(f"taking {text} apart", early):
            report = story.loop(text, *given, cflags=cflags, **how)
        return _ended(report, early, paths, as_json, advice)
    if cflags is not None:
        raise RooflabError(
            f"{text}: --cflags {cflags} are of functions of C; numba compiles Python, as a decorator says:"
            " @njit(fastmath=True)"
        )
    fn, args = loop_target.load(text, n, named, args_text)
    if tried:
        with _waiting(f"simulating every tile size of {fn.__name__}"):
            sweep = story.sweep_tiles(fn, tried, *args, machine=target, time_limit_s=time_limit_s)
        return deliver(sweep, paths, as_json)
    with _waiting(f"taking {fn.__name__} apart", early):
        report = story.loop(fn, *args, advice_s=advice_s, **how)
    return _ended(report, early, paths, as_json, advice)


class _How(TypedDict):
    """Keywords of `story.loop` that loops of Python and of C share."""

    machine: Machine | None
    timed: bool
    time_limit_s: float
    classify: bool
    threads: int | None
    advise: bool
    told: _Early | None


def _check(
    paths: Sequence[str],
    tiles: Sequence[str],
    machine: str | None,
    untimed: bool,
    classify: bool,
    threads: int | None,
) -> None:
    """Refuse options that do not go together, before any work."""
    from rooflab import views

    views.check_paths(paths, "TileSweep" if tiles else "LoopReport")
    if not tiles:
        needs_machine(paths, machine)
    picture = picture_in(paths)
    if picture and untimed and not tiles:
        raise RooflabError(
            f"{picture}: a picture of a loop needs the measured time: leave out --untimed; .html and .json "
            "do without"
        )
    if tiles and classify:
        raise RooflabError("--classify is of one loop, --tile of many sizes: take the size with --dim, or in args")
    if threads is not None and (tiles or untimed or machine is None):
        raise RooflabError(
            f"--threads {threads} predicts loops over prange from a timed run under the roofs of a machine: give "
            "--machine, and leave out --untimed and --tile"
        )


def _sizes(tiles: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The sizes to try of each parameter that --tile names."""
    from rooflab.loops import tiles as sizes

    tried: dict[str, tuple[int, ...]] = {}
    for each in tiles:
        name, values = sizes.parse(each)
        if name in tried:
            raise RooflabError(
                f"--tile {each}: {name} is there already, expected each name once: NAME=SIZE,SIZE,…"
            )
        tried[name] = values
    return tried


class _Early:
    """Prints a report as soon as it stands but for what would help; meanwhile a line says what is waited for."""

    def __init__(self, advice: int | None) -> None:
        self.shown, self.waiting, self._advice = False, ExitStack(), advice

    def __call__(self, report: LoopReport) -> None:
        from rooflab import views

        self.waiting.close()
        views.show(report, advice=self._advice)
        sys.stdout.flush()
        self.shown = True
        self.waiting.enter_context(_line("trying what would help"))


def _ended(
    report: LoopReport, early: _Early | None, paths: Sequence[str], as_json: bool, advice: int | None
) -> int:
    """Print what was not printed yet, and write `paths`; the exit code."""
    if early is None or not early.shown:
        return deliver(report, paths, as_json, advice=advice)
    from rooflab.views.loop import terminal

    terminal.show_advice(report, advice=advice)
    return 0


@contextmanager
def _waiting(what: str, early: _Early | None = None) -> Iterator[None]:
    """A line on a terminal's stderr meanwhile: the very first run compiles the simulator. Nothing in a pipe."""
    with ExitStack() if early is None else early.waiting as waiting:
        waiting.enter_context(_line(f"{what} (a new loop: some seconds; the very first: 10 s more)"))
        yield


@contextmanager
def _line(text: str) -> Iterator[None]:
    from rooflab.views.common.progress import progress

    with progress() as show:
        show(text, 0, 0)
        yield
