"""How a result leaves a command: its formats, the options that ask for them, files, JSON, the terminal."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from rooflab.errors import RooflabError, one_line

if TYPE_CHECKING:
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
        return _json_alone(command) if stream == "stdout" else command

    return add


_late: list[bytes] | None = None  # the JSON of the command that runs, printed when stdout is its own again


def _json_alone(command: Command) -> Command:
    """`command`, to which --json leaves stdout alone: what a program prints there goes to stderr."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        if not options["as_json"]:
            return command(*args, **options)
        global _late
        _late = []
        try:
            with _stdout_to_stderr():
                code = command(*args, **options)
            for text in _late:
                click.echo(text, nl=False)
        finally:
            _late = None
        return code

    return cast("Command", run)


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """What is printed to stdout meanwhile, by Python or by compiled code, goes to stderr."""
    shown = sys.stdout
    shown.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        shown.flush()
        sys.stderr.flush()
        if "ctypes" in sys.modules:  # compiled code may have printed: what C holds back is its
            sys.modules["ctypes"].CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
        sys.stdout = shown


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

    text = json_text(value).encode()
    if _late is not None and not err:
        _late.append(text)
    else:
        click.echo(text, nl=False, err=err)
