"""The command `transfer`: data through stages to a device."""

from __future__ import annotations

from typing import Any

import click

from rooflab.cli.delivery import deliver, output_options
from rooflab.cli.options import examples, pairs
from rooflab.errors import RooflabError

_FORM = "STAGE=VALUE"


@click.command(
    short_help="Time data on its way to a device: which stage binds, how long it waits.",
    epilog=examples(
        'rooflab transfer "150 GB" network disk DRAM PCIe HBM --machine h200-sxm \\\n'
        '      --rate network="10 Gbit/s" --threads 4 --sample "150 kB" --samples-per-s 8000'
    ),
)
@click.argument("nbytes", metavar="BYTES")
@click.argument("stages", metavar="STAGES", nargs=-1, required=True)
@click.option("--machine", metavar="NAME", help="The device at the end: its memory and links.")
@click.option("--host", metavar="NAME", help="The computer it sits in, such as a file of `rooflab measure`.")
@click.option("--rate", "rates", multiple=True, metavar="STAGE=RATE", help="Bandwidth of a stage.")
@click.option("--latency", "latencies", multiple=True, metavar="STAGE=TIME", help="Latency of a request to it.")
@click.option("--expand", "expands", multiple=True, metavar="STAGE=N", help="Bytes out of it per byte in.")
@click.option("--threads", multiple=True, metavar="N|STAGE=N", help="Requests at once.  [default: 1]")
@click.option("--chunk", metavar="BYTES", default="8 MB", show_default=True, help="Bytes of one request.")
@click.option("--overlap/--serial", default=True, show_default=True, help="Stages side by side, or in turn.")
@click.option(
    "--pinned",
    "host_memory",
    flag_value="pinned",
    help="What the link to the host attains from pinned memory, not its theoretical rate.",
)
@click.option("--pageable", "host_memory", flag_value="pageable", help="The same from ordinary memory.")
@click.option("--sample", metavar="BYTES", help="Size of a training sample.")
@click.option("--samples-per-s", type=float, metavar="N", help="How many the device could compute.")
@output_options("Transfer")
def transfer(
    nbytes: str,
    stages: tuple[str, ...],
    machine: str | None,
    host: str | None,
    rates: tuple[str, ...],
    latencies: tuple[str, ...],
    expands: tuple[str, ...],
    threads: tuple[str, ...],
    chunk: str,
    overlap: bool,
    host_memory: Any,
    sample: str | None,
    samples_per_s: float | None,
    as_json: bool,
    paths: tuple[str, ...],
) -> int:
    """Time BYTES through STAGES to a device: seconds, which stage binds, whether the device waits.

    STAGES are network, disk, hdd, internet, DRAM, PCIe, HBM, any level or link of the machine or host,
    or a name of your own with its --rate. Rates that are not given are the machine's, the host's, or a
    typical part's, and the table says which.
    """
    from rooflab import views
    from rooflab.story import transfer as run

    views.check_paths(paths, "Transfer")
    result = run(
        nbytes,
        stages,
        machine=machine,
        host=host,
        rates=pairs(rates, "--rate", _FORM),
        latencies=pairs(latencies, "--latency", _FORM),
        expands={
            name: _number(text, "--expand", name) for name, text in pairs(expands, "--expand", _FORM).items()
        },
        threads=_threads(threads),
        chunk=chunk,
        overlap=overlap,
        sample=sample,
        host_memory=host_memory,
        device_samples_per_s=samples_per_s,
    )
    return deliver(result, paths, as_json)


def _number(text: str, option: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise RooflabError(f"{option} {name}={text}: {text!r} is not a number") from None


def _threads(texts: tuple[str, ...]) -> Any:
    """One number for every stage, or numbers by stage."""
    every = [text for text in texts if "=" not in text]
    if every and len(texts) > 1:
        raise RooflabError(f"--threads {' '.join(texts)}: expected one N, or STAGE=N for each")
    if every:
        return _count(every[0], "")
    return {name: _count(text, f"{name}=") for name, text in pairs(texts, "--threads", "STAGE=N").items()} or 1


def _count(text: str, name: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise RooflabError(f"--threads {name}{text}: {text!r} is not a whole number above zero")
    return int(text)
