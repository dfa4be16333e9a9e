"""The command `lab`: one parameter of the teaching model swept, drawn, saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rooflab.cli.delivery import deliver, output_options
from rooflab.cli.options import examples
from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.model.lab import System

_SWEPT = ("bandwidth", "intensity", "hit-rate")
# Where a sweep begins and ends unless it is said: around the default core's ridge.
_ENDS = {"bandwidth": ("100 MB/s", "1 TB/s"), "intensity": ("0.01", "100"), "hit-rate": ("0", "1")}


@click.command(
    short_help="Sweep the small teaching model of the roofline.",
    epilog=examples('rooflab lab hit-rate --fast "500 Gbit/s" --bandwidth "10 Gbit/s" -o lab.html'),
)
@click.argument("parameter", type=click.Choice(_SWEPT), default="bandwidth")
@click.option("--from", "first", metavar="VALUE", help="First value of PARAMETER.")
@click.option("--to", "last", metavar="VALUE", help="Last value of PARAMETER.")
@click.option("--points", type=click.IntRange(min=2), metavar="N", help="Values; by default 1, 2, 5 a decade.")
@click.option(
    "--bytes", "nbytes", metavar="BYTES", default="10 MiB", show_default=True, help="What the kernel reads."
)
@click.option(
    "--ops-per-byte", type=float, metavar="N", default=1.0, show_default=True, help="FLOP for each byte."
)
@click.option(
    "--access",
    type=click.Choice(("sequential", "random")),
    default="sequential",
    show_default=True,
    help="Every byte of a line, or 8 bytes of one elsewhere.",
)
@click.option("--peak", metavar="RATE", help="Of the core.  [default: 10 GFLOP/s]")
@click.option("--bandwidth", metavar="RATE", help="Of the memory, the slow tier of two.  [default: 10 GB/s]")
@click.option("--latency", metavar="TIME", help="Of the memory, the slow tier of two.  [default: 50 ns]")
@click.option("--fast", metavar="RATE", help="Two tiers: bandwidth of the fast one.")
@click.option(
    "--hit-rate",
    type=float,
    metavar="SHARE",
    default=0.9,
    show_default=True,
    help="Two tiers: share of the fast one.",
)
@click.option("--overlap/--serial", default=None, help="Compute while reading, or when all is read.")
@click.option("--machine", metavar="NAME", help="Take bandwidth, latency and peak from this machine.")
@click.option(
    "--dtype", metavar="NAME", default="fp32", show_default=True, help="With --machine: number format of the peak."
)
@output_options("Sweep")
def lab(
    parameter: str,
    first: str | None,
    last: str | None,
    points: int | None,
    nbytes: str,
    ops_per_byte: float,
    access: str,
    peak: str | None,
    bandwidth: str | None,
    latency: str | None,
    fast: str | None,
    hit_rate: float,
    overlap: bool | None,
    machine: str | None,
    dtype: str,
    as_json: bool,
    paths: tuple[str, ...],
) -> int:
    """Sweep PARAMETER (bandwidth, intensity or hit-rate) of the smallest model of the roofline.

    A kernel reads bytes from a memory and computes a few operations for each: which of the two takes
    longer, and where it turns.
    """
    from rooflab import units, views
    from rooflab.model import lab as model

    views.check_paths(paths, "Sweep")
    if parameter == "hit-rate" and fast is None:
        fast = "500 Gbit/s"
    system = _system(machine, dtype, peak, bandwidth, latency, overlap)
    system = _two_tiers(system, fast, hit_rate)
    kernel = model.StreamingKernel(
        nbytes=units.parse(nbytes, "byte"),
        ops_per_byte=ops_per_byte,
        access_pattern="random" if access == "random" else "sequential",
    )
    ends = [
        _value(parameter, text or default) for text, default in zip((first, last), _ENDS[parameter], strict=True)
    ]
    sweep = model.sweep(kernel, system, parameter, _values(parameter, ends[0], ends[1], points))
    return deliver(sweep, paths, as_json)


def _system(
    machine: str | None,
    dtype: str,
    peak: str | None,
    bandwidth: str | None,
    latency: str | None,
    overlap: bool | None,
) -> System:
    """The machine's numbers, or the default ones, with those that were given in their place."""
    from msgspec.structs import replace

    from rooflab import units
    from rooflab.model.lab import ComputeCore, Memory, System, of_machine
    from rooflab.story import machine as find

    if machine is None:
        system = System(
            core=ComputeCore(peak_flop_per_s=10e9), memory=Memory(bandwidth_bytes_per_s=10e9, latency_s=50e-9)
        )
    else:
        system = of_machine(find(machine), dtype)
    memory, core = system.memory, system.core
    assert isinstance(memory, Memory)  # two tiers are made later
    if bandwidth:
        memory = replace(memory, bandwidth_bytes_per_s=units.parse(bandwidth, "byte/s"))
    if latency:
        memory = replace(memory, latency_s=units.parse(latency, "s"))
    if peak:
        core = ComputeCore(peak_flop_per_s=units.parse(peak, "flop/s"))
    return System(core=core, memory=memory, overlap=system.overlap if overlap is None else overlap)


def _two_tiers(system: System, fast: str | None, hit_rate: float) -> System:
    from msgspec.structs import replace

    from rooflab import units
    from rooflab.model.lab import Memory, TwoTierMemory

    if fast is None:
        return system
    slow = system.memory
    assert isinstance(slow, Memory)
    first = Memory(bandwidth_bytes_per_s=units.parse(fast, "byte/s"))
    two = TwoTierMemory(fast=first, slow=slow, hit_rate=hit_rate)
    return replace(system, memory=two)


def _value(parameter: str, text: str) -> float:
    from rooflab import units

    if parameter == "bandwidth":
        return units.parse(text, "byte/s")
    try:
        return float(text)
    except ValueError:
        raise RooflabError(f"{parameter} {text!r} is not a number, expected such as 0.5") from None


def _values(parameter: str, first: float, last: float, points: int | None) -> list[float]:
    """From `first` to `last`: evenly spaced shares, else 1, 2, 5 a decade or so many in equal steps of ratio."""
    if not first < last:
        raise RooflabError(f"lab: a sweep goes from {first:g} to {last:g}, expected --from below --to")
    if parameter == "hit-rate" or first <= 0:
        count = points or 11
        even = [first + (last - first) * i / (count - 1) for i in range(count)]
        # The last misses cost most: a tenth is too coarse a step there.
        fine = [0.95, 0.99] if parameter == "hit-rate" and points is None else []
        return sorted({*even, *(value for value in fine if first < value < last)})
    if points:
        return [first * (last / first) ** (i / (points - 1)) for i in range(points)]
    from rooflab.views.common.axes import powers

    return sorted({first, *powers(first, last, 10.0, (1, 2, 5)), last})
