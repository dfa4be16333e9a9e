"""`rooflab simulate … --cores N`: what the caches of several cores do to each other."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import click

from rooflab.cli.options import whole_numbers
from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rooflab.types.core_simulation import CoreSimulation
    from rooflab.types.simulation import Cache

OPTIONS = (
    click.option(
        "--cores", type=click.IntRange(min=1), metavar="N", help="Several cores: sharing and data races."
    ),
    click.option(
        "--protocol", metavar="NAME", help="Coherence protocol of --cores: mesi or moesi.  [default: mesi]"
    ),
    click.option(
        "--quantum", type=int, metavar="N", help="Accesses per core per turn, round robin.  [default: 1]"
    ),
    click.option(
        "--cost", "costs", multiple=True, metavar="NAME=N", help="Interleave cores by latency: L1=4, memory=200, …"
    ),
    click.option("--no-races", is_flag=True, help="Do not look for data races between --cores (faster)."),
)


def options(command: Any) -> Any:
    """`command` with the options about several cores, in the order of `OPTIONS`."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def refuse(options: Mapping[str, object], why: str) -> None:
    """Raise where one of the options in `options` was given.

    Raises:
        UsageError: names those that were, and why they are not taken.
    """
    names = [name for name, value in options.items() if value not in (None, False, ())]
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

    source, args, shared_by = _streams(what, values, settings, cores)
    return story.simulate_cores(
        source,
        *args,
        cores=shared_by,
        machine=machine,
        levels=levels,
        protocol=protocol or "mesi",  # type: ignore[arg-type]
        quantum=quantum,
        costs=_costs(costs),
        races=races,
    )


def list_streams() -> None:
    """Print the streams of several cores with their settings."""
    from rooflab.cachesim.coherence import streams
    from rooflab.cli import stream_names

    for name in stream_names.CORE_NAMES:
        maker = getattr(streams, name)
        parameters = inspect.signature(maker).parameters
        settings = ", ".join(str(each).split(":")[0] for key, each in parameters.items() if key != "cores")
        click.echo(f"{name} --cores N ({settings})\n    {(inspect.getdoc(maker) or '').splitlines()[0]}")


def _streams(
    what: str, values: Sequence[str], settings: Mapping[str, str], cores: int
) -> tuple[Any, tuple[Any, ...], int | None]:
    """What to simulate, the arguments of a loop, and how many cores share its trips (None: streams)."""
    from rooflab.cli import stream_names

    if ".py:" not in what:
        return stream_names.streams_of_cores(what, cores, values, settings), (), None
    from rooflab.cli import loop_target as loops
    from rooflab.cli import program_target

    _, fn = program_target.named(what)
    sizes = [_whole(what, "value", each) for each in values]
    dims = {name: _whole(what, name, text) for name, text in settings.items()}
    if next(iter(inspect.signature(fn).parameters), None) == "cores":
        with program_target.located(what):
            return fn(cores, *sizes, **dims), (), None
    if len(sizes) > 1:
        raise RooflabError(f"{what}: {len(sizes)} values, expected one, the n of args(n); others by --set NAME=N")
    loop = loops.load(what, sizes[0] if sizes else None, dims)
    return loop.fn, loop.args, cores


def _whole(what: str, name: str, text: str) -> int:
    if not text.isdecimal():
        raise RooflabError(f"{what}: {name} is {text!r}, expected a whole number")
    return int(text)


def _costs(texts: Sequence[str]) -> dict[str, float] | None:
    numbers = whole_numbers(texts, "--cost", "L1=4 or memory=200")
    return {name: float(number) for name, number in numbers.items()} or None
