"""What will a model do on that hardware, and which setup should I rent? Serving, predicted and planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, TypedDict, Unpack

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.model.serving.extras import Extras
    from rooflab.types.machine import Machine
    from rooflab.types.serving import Serving
    from rooflab.types.serving_plan import ServingPlan


def serve(
    model: str | PathLike[str],
    machine: Machine | str,
    *,
    gpus: int | None = None,
    engine: str = "vllm",
    tp: int | None = None,
    pp: int = 1,
    ep: int = 1,
    dp: int = 1,
    cp: int = 1,
    sp: bool = False,
    precision: str | None = None,
    cache: str = "bf16",
    isl: int = 1024,
    osl: int = 1024,
    cached: int = 0,
    concurrency: int | None = None,
    rate: float | None = None,
    stream: str | PathLike[str] | None = None,
    requests: int = 2000,
    burstiness: float = 1.0,
    spread: float = 0.0,
    seed: int = 0,
    links: str | PathLike[str] | None = None,
    step_tokens: int | None = None,
    sequences: int | None = None,
    disagg: str | tuple[int, int] | None = None,
    prefill_tp: int | None = None,
    price: float | None = None,
    wait_steps: int = 0,
    wait_share: float = 0.5,
    **beside: Unpack[Beside],
) -> Serving:
    """What `model` does on `machine`: time to first token, time per token, throughput, memory.

    A closed loop of `concurrency` clients (32 where nothing else is asked) is answered in its steady state; a
    `rate` or a `stream` is run through the engine's scheduler event by event.

    Args:
        model: a name of the shipped list, or a config.json, a GGUF file, a safetensors index, a folder with one.
        machine: a device or a node of the catalogue, or a file of one.
        gpus: how many devices; by default all of a node, of a device the fewest that hold the model.
        engine: "vllm", "sglang", "tensorrt-llm", "llama-cpp", "ik-llama-cpp", "transformers", "exllamav2".
        tp, pp, ep, dp, cp: ways of tensor, pipeline and expert parallelism, of data parallelism of the attention,
            and of the tokens of a sequence (context parallelism); `sp` shares norms among tensor-parallel ranks.
            By default the fewest tensor-parallel ways that hold model and requests; what is left are copies.
        precision: of the weights: "bf16", "fp8", "nvfp4", "q4_0", …; as published by default.
        cache: of keys and values.
        isl, osl: tokens of a prompt and of an answer; `cached` of the prompt are in the cache already.
        concurrency: clients that send the next request when the last is answered.
        rate: requests a second, at random times; `requests` of them, `burstiness` below 1 for bursts, lengths
            `spread` evenly within that share, by `seed`.
        stream: a CSV or JSON-lines file of arrivals and lengths.
        step_tokens, sequences: most of a step, in place of the engine's defaults.
        disagg: prefill and decode apart, as "2:6": two copies compute prompts and hand the KV cache on to six,
            which decode; a copy for prompts has `prefill_tp` tensor-parallel ways where not as many as the others.
        links: nccl-tests' output, whose times stand for the links' in place of the family's constants.
        price: of a device for an hour.
        wait_steps: for how many steps that decode new prompts are held back until a step would hold `wait_share`
            of its tokens (TensorRT-LLM's batch_wait_timeout_iters); of a rate or a stream.
        beside: adapters, drafts, pictures and what else is served beside: see `Beside`.

    Raises:
        UnknownNameError: an unknown model, machine, engine or format, with near matches.
        RooflabError: what does not fit, by how much; numbers that make no sense.

    >>> serve("llama-3.1-8b", "h100-sxm", concurrency=16).deployment.devices
    1
    """
    from rooflab.model.serving import answer, choose, request_files
    from rooflab.model.serving import requests as streams
    from rooflab.model.serving.asked import Asked

    asked_for = [
        name for name, value in (("concurrency", concurrency), ("rate", rate), ("stream", stream)) if value
    ]
    for name, value in (("rate", rate), ("concurrency", concurrency), ("price", price)):
        if value is not None and not value > 0:
            raise RooflabError(f"{name}: got {value:g}, expected a number above 0")
    if len(asked_for) > 1:
        raise RooflabError(f"{' and '.join(asked_for)}: expected one of them")
    if wait_steps < 0 or not 0 < wait_share <= 1:
        raise RooflabError(
            f"wait_steps: got {wait_steps} steps for {wait_share:g} of a step's tokens, expected 0 or more, and a "
            "share above 0 up to 1"
        )
    if wait_steps and rate is None and stream is None:
        raise RooflabError("wait_steps: a closed loop's steady state has no waiting for fuller steps; say --rate")
    streams.check_lengths(isl, osl, cached)
    if stream is not None:
        coming = request_files.read_requests(str(stream))
        span_s = float(coming.arrival_s[-1])
        asked = Asked(
            prompt=float(coming.prompt.mean()),
            answer=float(coming.answer.mean()),
            cached=float(coming.cached.mean()),
            rate_per_s=len(coming.prompt) / span_s if span_s > 0 else None,
            requests=coming,
        )
    elif rate is not None:
        coming = streams.at_random(
            *(rate, requests, isl, osl), spread=spread, cached=cached, burstiness=burstiness, seed=seed
        )
        asked = Asked(prompt=isl, answer=osl, cached=cached, rate_per_s=rate, requests=coming)
    else:
        asked = Asked(prompt=isl, answer=osl, cached=cached, concurrency=concurrency or 32)
    wanted = choose.Wanted(
        engine=engine,
        devices=gpus,
        tensor=tp,
        pipeline=pp,
        experts=ep,
        data=dp,
        context=cp,
        sequence=sp,
        weights=precision,
        cache=cache,
        disagg=copies_of(disagg) if isinstance(disagg, str) else disagg,
        prefill_tensor=prefill_tp,
        links=measured_links(links),
        step_tokens=step_tokens,
        sequences=sequences,
        wait_steps=wait_steps,
        wait_share=wait_share,
        extras=extras_of(beside, asked.cached),
    )
    server, first, node, more = choose.server_for(model, machine, wanted, asked)
    return answer.answer(server, asked, first=first, node=node, price_per_hour=price, more=more)


class Beside(TypedDict, total=False):
    """What is served beside plain requests.

    Keys:
        lora_rank, loras: of LoRA adapters beside each projection of the layers; how many there are, which requests
            take alike.
        drafts, accepted: tokens that a step drafts for each sequence by the model's last layer (multi-token
            prediction), and how many a step gives each in the mean, which depends on the text: your number.
        imbalance: rows of the busiest rank of experts in multiples of the mean; by default what chance makes.
        image_tokens, images: of a prompt, tokens of pictures, and how many pictures they are.
        overlap: two half batches a step, one of which computes while the other communicates.
        cached_on: "device", or "host": where the cached tokens of a prompt lie.
    """

    lora_rank: int
    loras: int
    drafts: int
    accepted: float
    imbalance: float | None
    image_tokens: int
    images: int
    overlap: bool
    cached_on: str


def extras_of(beside: Beside, cached: float) -> Extras:
    """What they say, checked as far as they go by themselves.

    Raises:
        UnknownNameError: another place of cached tokens.
        RooflabError: cached tokens on the host where there are none.
    """
    from rooflab.errors import UnknownNameError
    from rooflab.model.serving.extras import Extras

    given = dict(beside)
    place = str(given.pop("cached_on", "device"))
    if place not in ("device", "host"):
        raise UnknownNameError("place of cached tokens", place, ("device", "host"))
    if place == "host" and not cached:
        raise RooflabError("cached_on host: no tokens of a prompt are cached; say how many (--cached)")
    return Extras(on_host=place == "host", **given)  # type: ignore[arg-type]


def measured_links(path: str | PathLike[str] | None) -> Machine | None:
    """What nccl-tests' output at `path` measured.

    Raises:
        FileError: it cannot be read, or is none.
    """
    from pathlib import Path

    from rooflab.errors import FileError
    from rooflab.observe.importers.roofs import nccl_tests

    if path is None:
        return None
    try:
        head = Path(path).read_bytes()[:65536]
    except OSError as error:
        raise FileError(f"links {path}: {error.strerror or error}") from None
    if not nccl_tests.sniff(head):
        raise FileError(
            f"links {path}: not nccl-tests' output, expected its table with size, time, algbw and busbw"
        )
    return nccl_tests.load(Path(path))


def copies_of(text: str) -> tuple[int, int]:
    """What "2:6" says: copies that compute prompts, and copies that decode.

    Raises:
        RooflabError: another form.
    """
    prefills, _, decodes = text.partition(":")
    if not (prefills.isdecimal() and decodes.isdecimal() and int(prefills) > 0 and int(decodes) > 0):
        raise RooflabError(
            f"disagg: got {text!r}, expected copies that compute prompts and copies that decode, such as 2:6"
        )
    return int(prefills), int(decodes)


def serve_plan(
    model: str | PathLike[str],
    machines: str | Machine | Sequence[str | Machine],
    *,
    ttft: float | str | None = None,
    tpot: float | str | None = None,
    rate: float | None = None,
    price: Mapping[str, float] | str | PathLike[str] | None = None,
    gpus: int | None = None,
    engine: str = "vllm",
    precision: Sequence[str] | None = None,
    cache: str = "bf16",
    isl: int = 1024,
    osl: int = 1024,
    cached: int = 0,
    links: str | PathLike[str] | None = None,
    **beside: Unpack[Beside],
) -> ServingPlan:
    """Which setup to take for `model`: layouts, formats and batches on each machine, held against a goal.

    Args:
        model: as of `serve`.
        machines: devices or nodes, or files of them.
        ttft, tpot: times that it may take at most, in the mean, in seconds or as "500ms"; None for no limit.
        rate: requests a second that all copies together shall answer.
        price: of an hour of each machine, by its name ({"h100-sxm": 2.5}), or a TOML file with such a table
            `prices` and, if you like, `currency`. A node's price is shared out over its devices.
        gpus: most devices of one copy; by default a node's, eight of a device.
        precision: formats of weights; by default the published one, and the narrower ones that the device
            multiplies.
        engine, cache, isl, osl, cached, beside: as of `serve`; `links` too, of a single machine.

    Raises:
        UnknownNameError: an unknown model, machine, engine or format, with near matches.
        RooflabError: no layout holds the model, by how much; a goal below the floor, which is named.

    >>> found = serve_plan("llama-3.1-8b", "h100-sxm", tpot="20ms", gpus=1)
    >>> found.best.deployment.devices
    1
    """
    from rooflab import units
    from rooflab.machines import catalog
    from rooflab.model.serving import plan, prices
    from rooflab.model.serving.requests import check_lengths
    from rooflab.types.serving_plan import Goal
    from rooflab.work.llm import models

    check_lengths(isl, osl, cached)
    several = [machines] if isinstance(machines, str) or not isinstance(machines, Sequence) else machines
    if not several:
        raise RooflabError("machines: got none, expected at least one")
    found = [catalog.find(each) if isinstance(each, str) else each for each in several]
    ttft_s, tpot_s = (units.parse(each, "s") if isinstance(each, str) else each for each in (ttft, tpot))
    table, currency = prices.of_devices(price, found)
    search = plan.Search(
        machines=found,
        goal=Goal(ttft_s=ttft_s, tpot_s=tpot_s, rate_per_s=rate),
        prompt=isl,
        answer=osl,
        cached=cached,
        engine=engine,
        cache=cache,
        weights=precision,
        devices=gpus,
        prices=table,
        currency=currency,
        links=measured_links(links),
        extras=extras_of(beside, cached),
    )
    if links is not None and len(found) > 1:
        raise RooflabError(f"links {links}: of one machine, got {len(found)}; plan them one by one")
    return plan.plan(models.model(str(model)), search)
