"""The command about caches: `simulate` a stream, or the accesses of a trace file."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rooflab.cli import cores as of_cores
from rooflab.cli.delivery import deliver, echo_json, output_options, write_views
from rooflab.cli.options import examples, pairs
from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.types.simulation import Cache

T = TypeVar("T")
_LISTEN_S = 0.2  # how often the main thread looks for Ctrl-C


class _Command(click.Command):
    """A command whose values may not be negative, and that says so."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        texts = tuple(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption:
            size = next((each for each in texts if each.startswith("-") and each[1:2].isdigit()), None)
            if size is None:
                raise
            from rooflab.cli import stream_names

            name = next(
                (each for each in texts if each in (*stream_names.NAMES, *stream_names.CORE_NAMES)), "simulate"
            )
        raise RooflabError(f"{name}: a size is {size}, expected a whole number above zero")


@click.command(
    cls=_Command,
    short_help="Simulate caches exactly: a stream of accesses, or a trace file.",
    epilog=examples(
        "rooflab simulate matmul 256 --level 32KiB/8 --level 512KiB/8 --level 16MiB/16",
        "rooflab simulate stencil2d 2048 --machine epyc-7763",
        "rooflab simulate trace.din.gz --level 32KiB/8",
    ),
)
@click.argument("what", required=False)
@click.argument("values", nargs=-1)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the stream, as order=ikj."
)
@click.option(
    "--level",
    "levels",
    multiple=True,
    metavar="SIZE/WAYS[/LINE][,WORDS]",
    help="A cache, near to far: 32KiB/8, or 8KiB/full/64,fifo,write-through.",
)
@click.option("--tlb", "tlbs", multiple=True, metavar="ENTRIES/WAYS[/PAGE]", help="A TLB, near to far: 64/full.")
@click.option("--machine", metavar="NAME", help="Its caches: a name of `rooflab machine`, or a file.")
@click.option(
    "--policy",
    metavar="NAME",
    help="Of every --level that names none: lru, plru, fifo, random, srrip, nru, qlru_h11_m1_r0_u0, …",
)
@click.option("--prefetch", multiple=True, metavar="NAME", help="First --level only: next-line, adjacent, stride.")
@click.option("--classify", is_flag=True, help="Classify misses (compulsory, capacity, conflict).")
@click.option("--curve", is_flag=True, help="Print the miss-ratio curve (fully associative LRU) instead.")
@click.option("--steps", is_flag=True, help="Show the first accesses one by one: what each cache holds after it.")
@click.option("--no-flush", is_flag=True, help="Do not write back dirty lines at the end.")
@click.option(
    "--time-limit",
    "time_limit_s",
    type=float,
    metavar="SECONDS",
    help="Stop soon after; counts are then partial.",
)
@click.option(
    "--exact", is_flag=True, help="Simulate every access (no loop fast-forwarding); same counts, slower."
)
@click.option("--trace-format", metavar="NAME", help="Trace files only: din, xdin, lackey, drmemtrace, champsim.")
@click.option("--instructions", is_flag=True, help="Trace files only: instruction fetches are loads too.")
@of_cores.options
@click.option("--no-advice", is_flag=True, help="Do not look for what would help (one core, a stream).")
@click.option("--list", "list_streams", is_flag=True, help="List the streams and their settings.")
@output_options("Simulation")
def simulate(
    what: str | None,
    values: tuple[str, ...],
    settings: tuple[str, ...],
    levels: tuple[str, ...],
    tlbs: tuple[str, ...],
    machine: str | None,
    policy: str | None,
    prefetch: tuple[str, ...],
    classify: bool,
    curve: bool,
    steps: bool,
    no_flush: bool,
    time_limit_s: float | None,
    exact: bool,
    trace_format: str | None,
    instructions: bool,
    cores: int | None,
    protocol: str | None,
    quantum: int | None,
    costs: tuple[str, ...],
    no_races: bool,
    no_advice: bool,
    list_streams: bool,
    as_json: bool,
    paths: tuple[str, ...],
) -> int:
    """Simulate what caches do with the stream WHAT of those VALUES, or with the address trace in the file WHAT.

    Caches are given by --level or --machine; by default they are those of this host.
    """
    if list_streams:
        _list_streams()
        return 0
    if what is None:
        raise click.UsageError("simulate needs a stream (--list shows them) or a trace file")
    from rooflab import story, views

    if steps and cores is None:
        _check_steps(what, paths, curve, tlbs)
    else:
        views.check_paths(paths, "CoreSimulation" if cores is not None else "MissCurve" if curve else "Simulation")

    if levels and machine:
        raise click.UsageError("--level and --machine both say which caches; give one of them")
    if cores is not None:
        alone = {"--tlb": tlbs, "--prefetch": prefetch, "--classify": classify, "--curve": curve, "--exact": exact}
        alone |= {"--no-flush": no_flush, "--time-limit": time_limit_s, "--steps": steps}
        of_cores.refuse(
            alone | {"--trace-format": trace_format, "--instructions": instructions}, "of one core alone"
        )
        shared = of_cores.simulation(
            what,
            values,
            pairs(settings, "--set", "NAME=VALUE, such as order=ikj"),
            cores,
            machine=machine,
            levels=_caches(levels, policy, prefetch),
            protocol=protocol,
            quantum=quantum,
            costs=costs,
            races=not no_races,
        )
        return deliver(shared, paths, as_json)
    several = {"--protocol": protocol, "--quantum": quantum, "--cost": costs, "--no-races": no_races}
    of_cores.refuse(several, "of several cores: give --cores N too")
    source = _source(what, values, settings)
    of_trace = isinstance(source, Path)
    if (trace_format or instructions) and not of_trace:
        raise click.UsageError(f"--trace-format and --instructions are of a trace file, and {what} is a stream")
    read: dict[str, Any] = {"trace_format": trace_format, "instructions": "load" if instructions else "skip"}
    if curve:
        if levels or machine or tlbs or classify or exact or no_flush or time_limit_s:
            raise click.UsageError(
                "--curve is of every capacity at once: no --level, --machine, --tlb, --classify, --exact, "
                "--no-flush or --time-limit"
            )
        return deliver(interruptible(lambda: story.miss_curve(source, **read)), paths, as_json)
    settled = {
        "machine": machine,
        "levels": _caches(levels, policy, prefetch),
        "tlbs": _buffers(tlbs),
        "classify": classify,
        "exact": exact,
        "flush": not no_flush,
        "time_limit_s": time_limit_s,
        "steps": steps,
        "advise": not (no_advice or of_trace or steps),
        **read,
    }
    if steps:
        return _show_steps(interruptible(lambda: story.simulate(source, **settled)), paths, as_json)
    return deliver(interruptible(lambda: story.simulate(source, **settled)), paths, as_json)


def _check_steps(what: str, paths: tuple[str, ...], curve: bool, tlbs: tuple[str, ...]) -> None:
    """Return where accesses can be shown one by one, and written to `paths`."""
    from rooflab.cli import stream_names
    from rooflab.views.common import files
    from rooflab.views.simulation.files import STEP_WRITERS

    if curve or tlbs:
        raise click.UsageError("--steps shows caches access by access: no --curve or --tlb")
    if what not in stream_names.NAMES:
        raise click.UsageError(f"--steps is of a stream (--list shows them), and {what} is none")
    files.check_paths(paths, tuple(STEP_WRITERS), "steps.svg")


def _show_steps(simulation: Any, paths: tuple[str, ...], as_json: bool) -> int:
    from rooflab.views.simulation.files import STEP_WRITERS, show_steps

    code = write_views(simulation, paths, STEP_WRITERS)
    if as_json:
        echo_json(simulation.to_dict())
    else:
        show_steps(simulation)
    return code


def _source(what: str, values: tuple[str, ...], settings: tuple[str, ...]) -> Any:
    from rooflab.cli import stream_names

    path = Path(what)
    if what not in stream_names.NAMES and (path.suffix or path.exists()):
        if values or settings:
            raise click.UsageError(f"{what} is a trace file: it takes no values and no --set")
        return path
    return stream_names.stream(what, values, pairs(settings, "--set", "NAME=VALUE, such as order=ikj"))


def _caches(levels: tuple[str, ...], policy: str | None, prefetch: tuple[str, ...]) -> list[Cache] | None:
    from rooflab.cli import stream_names

    if not levels:
        if policy or prefetch:
            raise click.UsageError("--policy and --prefetch are of the caches that --level gives")
        return None
    more = {"policy": policy} if policy else {}
    first = {**more, "prefetch": prefetch} if prefetch else more
    return [stream_names.cache(text, **(more if n else first)) for n, text in enumerate(levels)]


def _buffers(tlbs: tuple[str, ...]) -> list[Cache]:
    from rooflab.cli import stream_names

    return [stream_names.buffer(text) for text in tlbs]


def interruptible(work: Callable[[], T]) -> T:
    """What `work` returns, done beside the main thread: Ctrl-C ends the process though compiled code runs."""
    done: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((work(), None))
        except BaseException as error:  # noqa: BLE001 — handed on to the main thread, whatever it is
            done.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    while True:
        try:
            result, error = done.get(timeout=_LISTEN_S)
        except queue.Empty:
            continue
        if error is not None:
            raise error
        return result  # type: ignore[return-value]


def _list_streams() -> None:
    import inspect

    from rooflab.cachesim import streams
    from rooflab.cli import stream_names

    for name in stream_names.NAMES:
        maker = getattr(streams, name)
        settings = ", ".join(str(each).split(":")[0] for each in inspect.signature(maker).parameters.values())
        click.echo(f"{name} ({settings})\n    {inspect.getdoc(maker).splitlines()[0]}")  # type: ignore[union-attr]
    of_cores.list_streams()
