"""`rooflab simulate … --cores N`: what the caches of several cores do to each other."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import click

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rooflab.types.sharing import CoreSimulation
    from rooflab.types.simulation import Cache

OPTIONS = (
    click.option(
        "--cores", type=click.IntRange(min=1), metavar="N", help="Several cores: sharing and data races."
    ),
    click.option("--protocol", metavar="NAME", help="With --cores: mesi (by default) or moesi."),
    click.option("--quantum", type=int, metavar="N", help="With --cores: operations of each core's turn; 1."),
    click.option(
        "--cost", "costs", multiple=True, metavar="NAME=N", help="With --cores: go by time: L1=4, memory=200, …"
    ),
    click.option("--no-races", is_flag=True, help="With --cores: do not look for data races (faster)."),
)


def options(command: Any) -> Any:
    """`command` with the options about several cores, in the order of `OPTIONS`."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def refuse(given: Mapping[str, object], why: str) -> None:
    """Raise where one of the options in `given` was given.

    Raises:
        UsageError: names those that were, and why they are not taken.
    """
    names = [name for name, value in given.items() if value not in (None, False, ())]
    if names:
        raise click.UsageError(f"{' and '.join(names)}: {why}")


def simulation(
    what: str,
    values: Sequence[str],
    settings: Mapping[str, str],
    cores: int,
    *,
    machine: str | None,
    levels: Sequence[Cache] | None,
    protocol: str | None,
    quantum: int | None,
    costs: Sequence[str],
    races: bool,
) -> CoreSimulation:
    """What `cores` cores do to each other with the stream, or the function of a file, that `what` names."""
    from rooflab import story

    found, args, shared_by = _streams(what, values, settings, cores)
    return story.simulate_cores(
        found,
        *args,
        cores=shared_by,
        machine=machine,
        levels=levels,
        protocol=protocol or "mesi",  # type: ignore[arg-type]
        quantum=quantum,
        costs=_costs(costs),
        races=races,
    )


def show(found: CoreSimulation) -> None:
    """Print `found` to the terminal."""
    from rooflab.views import sharing_terminal

    sharing_terminal.show(found)


def list_streams() -> None:
    """Print the streams of several cores with their settings."""
    from rooflab.cachesim import by_name, core_streams

    for name in by_name.CORE_NAMES:
        made = getattr(core_streams, name)
        parameters = inspect.signature(made).parameters
        told = ", ".join(str(each).split(":")[0] for key, each in parameters.items() if key != "cores")
        click.echo(f"{name} --cores N ({told})\n    {(inspect.getdoc(made) or '').splitlines()[0]}")


def _streams(
    what: str, values: Sequence[str], settings: Mapping[str, str], cores: int
) -> tuple[Any, tuple[Any, ...], int | None]:
    """What to simulate, the arguments of a loop, and how many cores share its trips (None: streams)."""
    from rooflab.cachesim import by_name

    if ".py:" not in what:
        return by_name.streams_of_cores(what, cores, values, settings), (), None
    from rooflab.loops import target as loops
    from rooflab.work import target

    _, fn = target.named(what)
    sizes = [_whole(what, "value", each) for each in values]
    dims = {name: _whole(what, name, text) for name, text in settings.items()}
    if next(iter(inspect.signature(fn).parameters), None) == "cores":
        with target.located(what):
            return fn(cores, *sizes, **dims), (), None
    if len(sizes) > 1:
        raise RooflabError(f"{what}: {len(sizes)} values, expected one, the n of args(n); others by --set NAME=N")
    loop = loops.load(what, sizes[0] if sizes else None, dims)
    return loop.fn, loop.args, cores


def _whole(what: str, name: str, text: str) -> int:
    if not text.isdecimal():
        raise RooflabError(f"{what}: {name} is {text!r}, expected a whole number")
    return int(text)


def _costs(pairs: Sequence[str]) -> dict[str, float] | None:
    made: dict[str, float] = {}
    for text in pairs:
        name, _, said = text.partition("=")
        if not name or not said.isdecimal():
            raise RooflabError(f"--cost {text}: expected NAME=N with a whole number, such as L1=4 or memory=200")
        made[name] = int(said)
    return made or None
