"""Options that several commands share, each written once."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.types.machine import Machine
    from rooflab.types.setting import SettingChanges


Command = TypeVar("Command", bound=Callable[..., Any])

GROUPS, SORTS = ("module", "kind", "op"), ("time", "flop", "bytes", "intensity", "order")
MODES, CACHE_STATES, POWERS = ("eager", "graph", "compiled"), ("warm", "cold"), ("burst", "sustained")
LIBRARIES = ("numpy", "torch")
# A blank line before, and this mark above, an example keeps click from refilling it.
_AS_IS = "\b\n"


def examples(*lines: str) -> str:
    """The epilog of a command's help."""
    return f"{_AS_IS}Example{'s' if len(lines) > 1 else ''}:\n" + "\n".join(f"  {line}" for line in lines)


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
    if machine is None or os.path.exists(machine):
        return [] if machine is None else [machine]
    return [name.strip() for name in machine.split(",") if name.strip()]
