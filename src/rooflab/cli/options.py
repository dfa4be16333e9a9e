"""Options that several commands share, each written once, and how a result leaves a command."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from rooflab.errors import RooflabError, one_line

if TYPE_CHECKING:
    from rooflab.types.machine import Machine
    from rooflab.types.setting import SettingChanges
    from rooflab.views.common.files import Written

Command = TypeVar("Command", bound=Callable[..., Any])

INTERRUPTED = 130  # the exit code of a command that Ctrl-C ended

# The formats of each type of result, as its room in views has them.
SUFFIXES = {
    "Machine": ".json, .toml, .csv, .parquet, .md, .html, .svg, .png or .pdf",
    **dict.fromkeys(
        (
            "Report",
            "LoopReport",
            "Transfer",
            "Sweep",
            "Profile",
            "Profiles",
            "Comparison",
            "Run",
            "Hotspots",
            "TimedCall",
            "Fleet",
            "Serving",
            "ServingPlan",
        ),
        ".json, .csv, .parquet, .md, .html, .svg, .png or .pdf",
    ),
    "Simulation": ".json, .md, .html, .svg, .png or .pdf; .csv, .parquet of one core",
    "Calibration": ".json, .toml, .md or .html",
    "Checkup": ".json, .csv, .parquet, .md or .html",
}
GROUPS, SORTS = ("module", "kind", "op"), ("time", "flop", "bytes", "intensity", "order")
MODES, CACHE_STATES, POWERS = ("eager", "graph", "compiled"), ("warm", "cold"), ("burst", "sustained")
LIBRARIES = ("numpy", "torch")
# A blank line before, and this mark above, an example keeps click from refilling it.
_AS_IS = "\b\n"


def examples(*lines: str) -> str:
    """The epilog of a command's help."""
    return f"{_AS_IS}Example{'s' if len(lines) > 1 else ''}:\n" + "\n".join(f"  {line}" for line in lines)


def output_options(kind: str, stream: str = "stdout") -> Callable[[Command], Command]:
    """The options --json and -o of a command whose result is of the type called `kind` and printed to `stream`."""
    where = f"Write the result to FILE ({SUFFIXES[kind]}); may be given again."

    def add(command: Command) -> Command:
        for option in (
            *(_LOOKS if ".svg" in SUFFIXES[kind] else ()),
            click.option("-o", "--output", "paths", multiple=True, metavar="FILE", help=where),
            click.option("--json", "as_json", is_flag=True, help=f"Print JSON to {stream} and nothing else."),
            _QUIET,
        ):
            command = option(command)
        return command

    return add


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Check `value` of a look and keep it for `look`: commands hand pictures on and know nothing of looks."""
    if parameter.name == "scale" and value is not None:
        from rooflab.views.common.style import check_scale

        check_scale(value)
    context.meta[f"rooflab.{parameter.name}"] = value


_QUIET = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    callback=_keep,
    expose_value=False,
    help="Print nothing but errors; files are written.",
)
_LOOKS = (
    click.option(
        "--scale",
        type=float,
        metavar="N",
        callback=_keep,
        expose_value=False,
        help="Pixels of a PNG for one of the chart's.  [default: 2; paper: 300 dpi]",
    ),
    click.option(
        "--style",
        type=click.Choice(("screen", "dark", "paper", "paper-wide")),
        default="screen",
        callback=_keep,
        expose_value=False,
        help="Of pictures. paper: 3.5 in wide, type of 7 pt and more; paper-wide: 7 in.  [default: screen]",
    ),
)


def look() -> dict[str, Any]:
    """What --style and --scale of the command that runs say, as `views.write` takes them."""
    context = click.get_current_context(silent=True)
    kept = {} if context is None else context.meta
    return {"style": kept.get("rooflab.style") or "screen", "scale": kept.get("rooflab.scale")}


def write_views(result: object, paths: Sequence[str], writers: Any) -> int:
    """Write a view of `result` that is not its usual one to `paths`, in the look asked for; the exit code."""
    from rooflab.views.common import files, style

    if not paths:
        return 0
    asked = look()
    return report_written(files.write_all(result, paths, writers, style.find(asked["style"]), asked["scale"]))


def show_graph(report: Any, paths: Sequence[str], as_json: bool) -> int:
    """Write the graph of `report`'s program to `paths` and print it; the exit code."""
    from rooflab.views import graph
    from rooflab.views.graph.files import as_dict

    code = write_views(report, paths, graph.WRITERS)
    if as_json:
        echo_json(as_dict(report))
    else:
        graph.show(report)
    return code


def deliver(result: Any, paths: Sequence[str], as_json: bool, *, err: bool = False, **how: Any) -> int:
    """Write `result` to `paths`, then print it: as JSON, or as its room shows it; to stderr where `err` is true.

    Returns:
        The exit code: 2 where a format cannot be made of it; the others are written, and it is printed.
    """
    from rooflab import views

    # First: whoever reads the terminal may stop reading.
    code = 0
    if paths:
        with stage(f"writing {', '.join(paths)}"):
            written = views.write(result, *paths, **look())
        code = report_written(written)
    if as_json:
        echo_json(result.to_dict(), err)
    elif not quiet():
        views.show(result, sys.stderr if err else None, **how)
    return code


@contextmanager
def held_by(*files: str) -> Iterator[None]:
    """Say in one line where what `files` hold cannot be shown: a saved result may have been edited or damaged.

    Whatever a result of rooflab has can be shown. Fields are held to their types as they are read, not to each
    other: a list may be shorter than another that goes with it, a rate below zero.
    """
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = (
            "" if trace is None else f", {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        )
        said = f"{type(error).__name__}: {one_line(str(error))}{where}"
        raise RooflabError(
            f"{', '.join(files)}: holds a value that does not go with the others ({said}); expected what rooflab "
            "saved, unchanged: save it again, or report this with the file if nobody edited it"
        ) from error


@contextmanager
def stage(text: str) -> Iterator[None]:
    """Say on a terminal what is being done, where it takes more than a second; nothing where --quiet was given."""
    from rooflab.views.common.progress import progress

    if quiet():
        yield
        return
    with progress(after_s=1.0) as show:
        show(text, 0, 0)
        yield


def quiet() -> bool:
    """Whether --quiet was given to the command that runs."""
    context = click.get_current_context(silent=True)
    return bool(context is not None and context.meta.get("rooflab.quiet"))


def picture_in(paths: Sequence[str]) -> str | None:
    """The first of `paths` that is a picture."""
    return next((path for path in paths if path.lower().endswith((".svg", ".png", ".pdf"))), None)


def needs_machine(paths: Sequence[str], machine: object) -> None:
    """Return unless `paths` are pictures alone and there is no `machine` whose roofs they would be drawn under.

    Beside other formats a picture is refused when files are written: it does not lose the others.

    Raises:
        RooflabError: names the picture, and what to give.
    """
    picture = picture_in(paths)
    others = [path for path in paths if picture_in([path]) is None]
    if picture is not None and not others and not machine:
        raise RooflabError(
            f"{picture}: a picture needs --machine, whose roofs it is drawn under; .html and .json do without"
        )


def report_written(written: Written) -> int:
    """Say on stderr which files were written and which not; the exit code."""
    if written.paths and not quiet():
        click.echo(f"rooflab: wrote {', '.join(written.paths)}", err=True)
    for sentence in written.refused:
        click.echo(f"rooflab: {sentence}", err=True)
    return 2 if written.refused else 0


def echo_json(value: object, err: bool = False) -> None:
    """Print `value` as JSON to stdout, or to stderr."""
    from rooflab.views.common.files import json_text

    click.echo(json_text(value).encode(), nl=False, err=err)


def pairs(texts: Sequence[str], option: str, form: str = "NAME=VALUE") -> dict[str, str]:
    """What "NAME=VALUE" texts say, by name.

    Raises:
        RooflabError: a text of another form, or a name that comes twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value:
            raise RooflabError(f"{option} {text}: expected {form}")
        if name in values:
            raise RooflabError(f"{option} {text}: {name} is there already, expected each name once")
        values[name] = value
    return values


def whole_numbers(texts: Sequence[str], option: str, example: str = "batch=8") -> dict[str, int]:
    """What "NAME=N" texts say, by name.

    Raises:
        RooflabError: a text of another form, or what is not a whole number.
    """
    form = f"NAME=N with a whole number from zero on, such as {example}"
    values = {}
    for name, text in pairs(texts, option, form).items():
        if not text.isdecimal():
            raise RooflabError(f"{option} {name}={text}: {text!r} is not a whole number, expected {form}")
        values[name] = int(text)
    return values


def _changes(context: click.Context, parameter: click.Parameter, value: str) -> int | None:
    """How many changes are asked for: None for all of them."""
    if value in ("all", "none"):
        return None if value == "all" else 0
    if not value.isdecimal():
        raise click.BadParameter(f"{value!r} is not a number of changes, expected 3, all or none")
    return int(value)


def over_options(purpose: str) -> Callable[[Command], Command]:
    """The options --on and --workers of a command that spreads work; `purpose` says which."""
    on = (
        f"{purpose} on the workers of a Dask scheduler (tcp://HOST:8786), or on the ranks of a job that srun, "
        "mpirun or torchrun started, which meet in a folder (ranks:FOLDER)."
    )

    def add(command: Command) -> Command:
        command = click.option(
            "--workers",
            type=click.IntRange(min=1),
            metavar="N",
            help="Number of processes here.  [default: as many as are worth it]",
        )(command)
        return click.option("--on", metavar="WHERE", help=on)(command)

    return add


advice_option = click.option(
    "--advice",
    default="3",
    show_default=True,
    metavar="N",
    callback=_changes,
    help="Changes that would help, with what each saves: a number, all, none.",
)

own_time_option = click.option(
    "--time",
    metavar="TIME",
    help="Your own timing (660us): its share of the roof, of the floor, and what would explain it.",
)

_SELECTION = (
    click.option("--kind", metavar="KIND", help="List operations of that kind: matmul, pointwise, …"),
    click.option("--module", metavar="PATH", help="List operations of that module and those below it."),
    click.option("--op", "name", metavar="TEXT", help="List operations with that in their names."),
    click.option("--phase", type=click.Choice(("forward", "backward", "optimizer")), help="List that phase's."),
    click.option(
        "--bound",
        type=click.Choice(("memory", "compute", "overhead", "balanced")),
        help="List operations that are bound so.",
    ),
)


def selection_options(command: Command) -> Command:
    """The options that choose operations of a report, handed to `command` as `selection`; None without any."""

    @functools.wraps(command)
    def run(
        *args: Any,
        kind: str | None,
        module: str | None,
        name: str | None,
        phase: str | None,
        bound: str | None,
        **more: Any,
    ) -> Any:
        from rooflab.views.report.selection import Selection

        of = bound if bound in (None, "balanced") else f"{bound}-bound"
        asked = Selection(kind, module, name, phase, of)
        return command(*args, selection=asked if asked.asked() else None, **more)

    for option in reversed(_SELECTION):
        run = option(run)
    return run  # type: ignore[return-value]


class Wanted(NamedTuple):
    """What the options of a prediction say, read and checked.

    Attributes:
        machines: by the names they were given by, in order; empty without a prediction.
        what_ifs: texts, each a variant of its own.
        setting: of all variants.
    """

    machines: dict[str, Machine]
    what_ifs: tuple[str, ...]
    setting: SettingChanges

    @property
    def kind(self) -> str:
        """The type of the result: a report, or variants of one."""
        return "Variants" if len(self.machines) * (1 + len(self.what_ifs)) > 1 else "Report"


_MACHINE = "Predict time and what binds on it: a name of `rooflab machine`, or a file; a,b,c are compared."
_MODE = "How it runs.  [default: eager for PyTorch, compiled for JAX, graph for the others]"
_PREDICTION = (
    click.option("--machine", metavar="NAME", help=_MACHINE),
    click.option("--mode", type=click.Choice(MODES), help=_MODE),
    click.option(
        "--cache", type=click.Choice(CACHE_STATES), help="cold: caches start empty.  [default: warm; op: cold]"
    ),
    click.option(
        "--power", type=click.Choice(POWERS), help="sustained: power and heat limit the clock.  [default: burst]"
    ),
    click.option("--dispatch", metavar="TIME", help="Host time of one operation in eager mode: 12us."),
    click.option(
        "--what-if",
        "what_ifs",
        multiple=True,
        metavar="NAME=VALUE,…",
        help="Change the machine or the work (bandwidth=2x,dtype=fp8); may be given again.",
    ),
    click.option("--constants", metavar="FILE", help="Constants that `rooflab calibrate` wrote."),
    click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads of a CPU.  [default: all]"),
    click.option(
        "--library",
        type=click.Choice(LIBRARIES),
        help="Whose matrix products `op` stands for on a measured CPU.  [default: numpy]",
    ),
)


def prediction_options(command: Command) -> Command:
    """The options of `SettingChanges`, handed to `command` as one keyword `wanted`."""

    @functools.wraps(command)
    def run(
        *args: Any,
        machine: str | None,
        mode: Any,
        cache: Any,
        power: Any,
        dispatch: str | None,
        what_ifs: tuple[str, ...],
        constants: str | None,
        threads: int | None,
        library: Any,
        **more: Any,
    ) -> Any:
        from rooflab import story, units
        from rooflab.model.program import setting as settings

        changes = {"mode": mode, "cache": cache, "power": power, "constants": constants, "threads": threads}
        changes["library"] = library
        changes = {name: value for name, value in changes.items() if value is not None}
        if machine is None and (changes or dispatch or what_ifs):
            name = next(iter(changes), "dispatch" if dispatch else "what-if")
            raise click.UsageError(f"--{name} is of a prediction, and that needs a --machine")
        if dispatch is not None:
            changes["dispatch_s"] = units.parse(dispatch, "s")
        for text in what_ifs:
            settings.what_if(text)
        machines = {name: story.machine(name) for name in machine_names(machine)}
        return command(*args, wanted=Wanted(machines, what_ifs, settings.check(changes)), **more)

    for option in reversed(_PREDICTION):
        run = option(run)
    return run  # type: ignore[return-value]


def machine_names(machine: str | None) -> list[str]:
    """The names in "a,b,c"; a path with a comma in it is one name."""
    import os

    if machine is None or os.path.exists(machine):
        return [] if machine is None else [machine]
    return [name.strip() for name in machine.split(",") if name.strip()]
