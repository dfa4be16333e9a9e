"""The commands `serve` and `serve-plan`: a model on hardware, one setting; settings held against a demand."""

from __future__ import annotations

import click

from rooflab.cli.delivery import deliver, output_options, stage
from rooflab.cli.options import examples, machine_names, pairs
from rooflab.errors import RooflabError

_LENGTHS = (
    click.option("--isl", type=int, default=1024, show_default=True, metavar="N", help="Tokens of a prompt."),
    click.option("--osl", type=int, default=1024, show_default=True, metavar="N", help="Tokens of an answer."),
    click.option("--cached", type=int, default=0, metavar="N", help="Tokens of a prompt that are in the cache."),
    click.option("--cache", default="bf16", show_default=True, metavar="NAME", help="Format of keys and values."),
)
_BESIDE = (
    click.option(
        "--cached-on", default="device", metavar="PLACE", help="Where they lie: device or host.  [device]"
    ),
    click.option(
        "--lora-rank", type=int, default=0, metavar="R", help="LoRA adapters of that rank.  [default: none]"
    ),
    click.option("--loras", type=int, default=1, metavar="N", help="How many, which requests take alike.  [1]"),
    click.option(
        "--drafts", type=int, default=0, metavar="N", help="Tokens that a step drafts by its last layer."
    ),
    click.option("--accepted", type=float, default=1.0, metavar="X", help="With them, tokens a step in the mean."),
    click.option("--imbalance", type=float, metavar="X", help="Busiest rank of experts over the mean.  [chance]"),
    click.option("--image-tokens", type=int, default=0, metavar="N", help="Of a prompt, those of pictures."),
    click.option("--images", type=int, default=1, metavar="N", help="How many pictures they are.  [1]"),
    click.option("--overlap", is_flag=True, help="Half batches compute and communicate in turn."),
)
_RATE = "10/s, 600/min"


def _lengths(command):
    for option in reversed((*_LENGTHS, *_BESIDE)):
        command = option(command)
    return command


@click.command(
    short_help="What a language model does on hardware: TTFT, TPOT, throughput, memory.",
    epilog=examples(
        "rooflab serve llama-3.1-70b --machine dgx-h100 --concurrency 64",
        "rooflab serve ./config.json --machine h100-sxm --gpus 4 --tp 4 --precision fp8 --isl 8192 --osl 512",
        "rooflab serve qwen3-32b --machine h200 --rate 3/s --spread 0.5 -o answer.html",
        "rooflab serve llama-3.1-8b --machine l40s --stream requests.csv",
    ),
)
@click.argument("model", metavar="MODEL")
@click.option("--machine", required=True, metavar="NAME", help="A device or node of `rooflab machine`, or a file.")
@click.option("--gpus", type=int, metavar="N", help="Devices.  [default: a node's; else the fewest that hold it]")
@click.option("--engine", default="vllm", show_default=True, metavar="NAME", help="The serving engine.")
@click.option("--tp", type=int, metavar="N", help="Tensor-parallel ways.  [default: the fewest that hold it]")
@click.option("--pp", type=int, default=1, metavar="N", help="Stages of layers.  [default: 1]")
@click.option("--ep", type=int, default=1, metavar="N", help="Ways of whole experts.  [default: 1]")
@click.option("--dp", type=int, default=1, metavar="N", help="Ways of attention's sequences.  [default: 1]")
@click.option("--cp", type=int, default=1, metavar="N", help="Ways of a sequence's tokens.  [default: 1]")
@click.option("--sp", is_flag=True, help="Share norms among tensor-parallel ranks.")
@click.option(
    "--precision", metavar="NAME", help="Of the weights: bf16, fp8, nvfp4, q4_0 …  [default: as published]"
)
@_lengths
@click.option("--concurrency", type=int, metavar="N", help="Clients in a closed loop.  [default: 32]")
@click.option("--rate", metavar="RATE", help=f"Requests that come at random times: {_RATE}.")
@click.option("--stream", metavar="FILE", help="Requests of a file: CSV or JSON lines of arrivals and lengths.")
@click.option("--requests", type=int, default=2000, show_default=True, metavar="N", help="How many, with --rate.")
@click.option(
    "--burstiness", type=float, default=1.0, metavar="X", help="With --rate: below 1 they come in bursts."
)
@click.option("--spread", type=float, default=0.0, metavar="SHARE", help="With --rate: lengths within that share.")
@click.option("--seed", type=int, default=0, metavar="N", help="Of the random numbers.")
@click.option("--step-tokens", type=int, metavar="N", help="Most tokens of a step.  [default: the engine's]")
@click.option("--sequences", type=int, metavar="N", help="Most sequences of a step.  [default: the engine's]")
@click.option("--wait-steps", type=int, default=0, metavar="N", help="Steps that prompts wait for fuller ones.")
@click.option("--wait-share", type=float, default=0.5, metavar="X", help="How full, of a step's tokens.  [0.5]")
@click.option("--disagg", metavar="P:D", help="P copies compute prompts for D others, which decode.")
@click.option("--prefill-tp", type=int, metavar="N", help="With --disagg: ways of the former.  [default: --tp]")
@click.option("--links", metavar="FILE", help="What nccl-tests measured of the machine's links.")
@click.option("--price", type=float, metavar="X", help="Of a device for an hour.")
@output_options("Serving")
def serve(model: str, machine: str, rate: str | None, as_json: bool, paths: tuple[str, ...], **setting) -> int:
    """Predict what MODEL does on a machine, as an engine serves it.

    MODEL is a name (`rooflab serve --help` lists none; an unknown one lists the nearest), a config.json of Hugging
    Face, a GGUF file, a safetensors index, or a folder that holds one. No weights are read and no framework is
    needed.

    A closed loop is answered in its steady state; --rate and --stream run every request through the engine's
    scheduler.
    """
    from rooflab import story, views

    views.check_paths(paths, "Serving")
    with stage(f"serving {model}"):
        found = story.serve(model, machine, rate=None if rate is None else per_second(rate, "--rate"), **setting)
    return deliver(found, paths, as_json)


def per_second(text: str, option: str) -> float:
    """What "10/s" or "600/min" says, a second.

    Raises:
        RooflabError: another form.
    """
    number, _, unit = text.partition("/")
    spans = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}
    try:
        return float(number) / spans[unit.strip()]
    except (ValueError, KeyError):
        raise RooflabError(f"{option} {text}: expected requests a second, such as {_RATE}") from None


@click.command(
    "serve-plan",
    short_help="Which setup to serve a model with: layouts, formats and batches held against a goal.",
    epilog=examples(
        "rooflab serve-plan llama-3.1-70b --machine h100-sxm,mi300x --slo ttft=500ms,tpot=30ms",
        "rooflab serve-plan deepseek-v3 --machine h200 --slo tpot=40ms --rate 10/s --price h200=3.5 -o plan.html",
    ),
)
@click.argument("model", metavar="MODEL")
@click.option(
    "--machine", required=True, metavar="NAMES", help="Devices or nodes: a,b,c are held against each other."
)
@click.option("--slo", metavar="GOAL", help="Times at most, in the mean: ttft=500ms,tpot=30ms.")
@click.option("--rate", metavar="RATE", help=f"Requests that all copies answer: {_RATE}.")
@click.option("--price", metavar="FILE|NAME=X,…", help="Of an hour of each machine: a TOML file, or h100-sxm=2.5.")
@click.option("--gpus", type=int, metavar="N", help="Most devices of one copy.  [default: a node's, else 8]")
@click.option("--links", metavar="FILE", help="What nccl-tests measured of the machine's links.")
@click.option("--engine", default="vllm", show_default=True, metavar="NAME", help="The serving engine.")
@click.option("--precision", metavar="NAMES", help="Of the weights.  [default: published, and what is narrower]")
@_lengths
@output_options("ServingPlan")
def serve_plan(
    model: str,
    machine: str,
    slo: str | None,
    rate: str | None,
    price: str | None,
    precision: str | None,
    as_json: bool,
    paths: tuple[str, ...],
    **setting,
) -> int:
    """Hold settings of MODEL against a goal: parallelism, number of devices, batch and number format.

    The best of each layout, the front between speed for a user and for a device (or its price), why each loses its
    time.
    """
    from rooflab import story, views

    views.check_paths(paths, "ServingPlan")
    times = pairs([] if slo is None else slo.split(","), "--slo", "ttft=TIME or tpot=TIME")
    unknown = set(times) - {"ttft", "tpot"}
    if unknown:
        raise RooflabError(f"--slo {slo}: {', '.join(sorted(unknown))}: expected ttft and tpot")
    with stage(f"planning {model}"):
        found = story.serve_plan(
            model,
            machine_names(machine),
            rate=None if rate is None else per_second(rate, "--rate"),
            price=price if price is None or "=" not in price else prices_of(price),
            precision=None if precision is None else precision.split(","),
            **times,
            **setting,
        )
    return deliver(found, paths, as_json)


def prices_of(text: str) -> dict[str, float]:
    """What "h100-sxm=2.5,mi300x=2" says.

    Raises:
        RooflabError: another form.
    """
    found = {}
    for name, value in pairs(text.split(","), "--price", "NAME=X").items():
        try:
            found[name] = float(value)
        except ValueError:
            raise RooflabError(f"--price {name}={value}: {value!r} is not a number") from None
    return found
