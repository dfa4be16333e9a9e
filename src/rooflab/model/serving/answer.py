"""One setting answered: times at its load, memory by kind, steps by layer, the same at other loads, a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rooflab.errors import RooflabError
from rooflab.model.serving import replay as replays
from rooflab.model.serving.apart import Apart, steady_apart
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.first_token import FirstToken, first_token_factor, waits_for_places
from rooflab.model.serving.requests import Requests
from rooflab.model.serving.server import Server
from rooflab.model.serving.steady import Steady
from rooflab.model.serving.step import Step
from rooflab.model.serving.table import Table
from rooflab.types.serving import (
    Demand,
    Deployment,
    DeviceMemory,
    Estimate,
    LoadPoint,
    Replay,
    Serving,
    StepPart,
    StepTime,
)
from rooflab.units import duration, si

_SHORT = 17  # tokens: below it, requests that came together stay together
_BINDS = ("compute", "memory", "cache", "links", "overhead")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of a server: tokens of a request in the mean, and clients or a stream of requests."""

    prompt: float
    answer: float
    cached: float = 0.0
    concurrency: int | None = None
    rate_per_s: float | None = None
    requests: Requests | None = None


def answer(
    server: Server,
    asked: Asked,
    *,
    first: Server | None = None,
    node: str | None = None,
    price_per_hour: float | None = None,
    more: str = "",
) -> Serving:
    """What `server` does with it; `price_per_hour` of one device, `more` as of `choose.Chosen`.

    Where there are copies that compute prompts alone (`first`), they hand the KV cache on to those of `server`,
    which decode.

    Raises:
        RooflabError: a request does not fit, by how much.
    """
    server.check(asked.prompt, asked.answer)
    if first is not None:
        first.check(asked.prompt, 1)
    of = _load_of(server, first, asked)
    loads = _loads(server, asked, of)
    replay = None if asked.requests is None else _replay(server, first, asked)
    if replay is None:
        assert asked.concurrency is not None  # `Asked` has one or the other
        at = of(np.array([float(asked.concurrency)]))
        ttft_s, tpot_s, queue_s = (float(each[0]) for each in (at.ttft_s, at.tpot_s, at.queue_s))
        requests_per_s, running = float(at.requests_per_s[0]), float(at.running[0])
        tokens_per_s, decoding = requests_per_s * asked.answer, float(at.decoding[0])
    else:
        ttft_s, queue_s = replay["TTFT"].mean, replay["waiting"].mean
        tpot_s = replay["TPOT"].mean if asked.answer > 1 else ttft_s
        requests_per_s, tokens_per_s = replay.requests_per_s, replay.output_tokens_per_s
        running = replay.mean_running
        decoding = running / server.engines / max(replay.utilisation, 1e-9)
    prompts = first or server
    prompt, decode, alone = _steps(server, prompts, asked, max(decoding, 1.0))
    chunks = max(np.ceil((asked.prompt - asked.cached) / prompts.token_budget), 1.0)
    ttft_floor = _prompt_floor_s(prompts, asked)
    most = server.most_running(asked.prompt, asked.answer)
    first_token = FirstToken(
        ttft_s=ttft_s,
        own_s=float(prompt.seconds[0]) * chunks,
        outside_s=server.outside_s(asked.prompt - asked.cached),
        full=first is not None or (queue_s > 0 and waits_for_places(running / server.engines, most)),
        latent=server.step.latent,
    )
    return Serving(
        model=server.step.model.name,
        parameters=server.step.model.parameters,
        active_parameters=server.step.model.active_parameters,
        deployment=deployment(server, node, first),
        demand=_demand(server, asked),
        ttft=_estimate(ttft_s, prompt, ttft_floor, first_token_factor(prompt, first_token)),
        tpot=None if asked.answer <= 1 else _estimate(tpot_s, decode, float(alone.floor_s[0]) / server.accepted),
        queue_s=queue_s,
        requests_per_s=requests_per_s,
        output_tokens_per_s=tokens_per_s,
        running=running,
        memory=_memory(server, asked, max(running / server.copies, 1.0)),
        steps=(
            _step_time("a prompt", prompt, _budgeted(prompts, asked), 0.0, asked.cached),
            _step_time("decode", decode, 0.0, max(decoding, 1.0), _context(asked)),
        ),
        loads=loads,
        replay=replay,
        price_per_hour=None if price_per_hour is None else price_per_hour * _devices(server, first),
        sources=(server.scheduler.source, *dict.fromkeys(server.step.machine.sources)),
        warnings=(*((more,) if more else ()), *_warnings(server, asked, loads, replay)),
        notes=tuple(_notes(server, first, asked)),
    )


def _prompt_floor_s(server: Server, asked: Asked) -> float:
    """The floor of all steps of a prompt: of its mean chunk, which attends to those before it, by their number."""
    new = asked.prompt - asked.cached
    steps = max(np.ceil(new / server.token_budget), 1.0)
    chunk = new / steps
    step = server.step.time(Batch(1.0, chunk, asked.cached + (new - chunk) / 2.0))
    return float(step.floor_s[0] * steps)


def _devices(server: Server, first: Server | None) -> int:
    return server.devices + (0 if first is None else first.devices)


def deployment(server: Server, node: str | None = None, first: Server | None = None) -> Deployment:
    """Where and how it runs, in plain values; `first` computes prompts for it."""
    layout, precision, step = server.layout, server.step.precision, server.step
    return Deployment(
        machine=server.step.machine.name,
        node=node,
        engine=server.step.engine.name,
        weights=precision.name,
        cache=precision.cache,
        devices=_devices(server, first),
        copies=server.copies + (0 if first is None else first.copies),
        layout=layout.name,
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        experts=layout.experts,
        data=layout.data,
        context=layout.context,
        prefill_copies=0 if first is None else first.copies,
        prefill_layout="" if first is None else first.layout.name,
        lora_rank=step.extras.lora_rank,
        loras=step.extras.loras if step.extras.lora_rank else 0,
        drafts=step.extras.drafts,
        accepted=step.extras.accepted,
        imbalance=step.extras.imbalance,
        overlap=step.extras.overlap,
    )


def _demand(server: Server, asked: Asked) -> Demand:
    extras = server.step.extras
    if asked.requests is not None:
        name = asked.requests.name
    else:
        cached = f" ({asked.cached:,.0f} of them cached)" if asked.cached else ""
        many = "" if asked.concurrency == 1 else "s"
        lengths = f"{asked.prompt:,.0f} tokens in{cached} and {asked.answer:,.0f} out"
        name = f"{asked.concurrency:,} client{many}, {lengths}"
    return Demand(
        prompt_tokens=asked.prompt,
        answer_tokens=asked.answer,
        cached_tokens=asked.cached,
        image_tokens=extras.image_tokens,
        images=extras.images if extras.image_tokens else 0,
        cached_on_host=extras.on_host,
        concurrency=asked.concurrency,
        rate_per_s=asked.rate_per_s,
        name=name,
    )


def _context(asked: Asked) -> float:
    return asked.prompt + asked.answer / 2.0


def _budgeted(server: Server, asked: Asked) -> float:
    return min(asked.prompt - asked.cached, server.token_budget)


def _load_of(server: Server, first: Server | None, asked: Asked) -> Callable[[np.ndarray], Steady]:
    """What comes of numbers of clients in all: flows and requests of all copies, `decoding` of a batch."""
    lengths = (asked.prompt, asked.answer, asked.cached)
    table = server.table(*lengths)
    if first is not None:
        both = pools(first, first.table(asked.prompt, 1, asked.cached), server, table, *lengths)
        outside_s = server.outside_s(asked.prompt - asked.cached)

        def apart(clients: np.ndarray) -> Steady:
            at = steady_apart(both, clients).at
            return at._replace(ttft_s=at.ttft_s + outside_s, tpot_s=at.tpot_s / server.accepted)

        return apart

    def together(clients: np.ndarray) -> Steady:
        used = np.minimum(server.engines, clients)  # of fewer clients than batches, some have none
        at = server.loaded(clients / used, *lengths, table)
        return at._replace(requests_per_s=at.requests_per_s * used, running=at.running * used)

    return together


def pools(
    first: Server, prefill: Table, decode: Server, table: Table, prompt: float, answer: float, cached: float = 0.0
) -> Apart:
    """Copies that compute prompts and copies that decode, each with the table of its steps.

    Raises:
        RooflabError: answers of one token, which need no second copy.
    """
    if answer <= 1:
        raise RooflabError(
            "prefill and decode apart: an answer of one token is the prefill's; ask for more tokens"
        )
    return Apart(
        prefill=prefill,
        decode=table,
        prefills=float(first.engines),
        decodes=float(decode.engines),
        prompt=prompt,
        answer=float(decode.steps_of(answer)),
        cached=cached,
        token_budget=float(first.token_budget),
        most_running=max(decode.most_running(prompt, answer), 1.0),
        transfer_s=float(decode.transfer_s(np.array([prompt]))[0]),
        between_s=decode.outside_s(prompt - cached),
        ahead=decode.ahead,
    )


def _loads(server: Server, asked: Asked, of: Callable[[np.ndarray], Steady]) -> tuple[LoadPoint, ...]:
    """The same setting from one client a batch to twice what runs at once."""
    most = 2.0 * max(server.most_running(asked.prompt, asked.answer), 1.0)
    most = max(most, (asked.concurrency or 1) / server.engines)
    clients = 2.0 ** np.arange(0.0, np.ceil(np.log2(most)) + 0.5, 0.5)
    clients = np.unique(np.round(clients * server.engines))
    at = of(clients)
    return tuple(
        LoadPoint(
            concurrency=float(clients[n]),
            ttft_s=float(at.ttft_s[n]),
            tpot_s=float(at.tpot_s[n]),
            queue_s=float(at.queue_s[n]),
            requests_per_s=float(at.requests_per_s[n]),
            tokens_per_s=float(at.requests_per_s[n]) * asked.answer,
            running=float(at.running[n]),
        )
        for n in range(len(clients))
    )


def _replay(server: Server, first: Server | None, asked: Asked) -> Replay:
    requests = asked.requests
    assert requests is not None
    outside_s = server.outside_s(asked.prompt - asked.cached)
    accepted = server.accepted
    if accepted > 1.0:  # so many steps like plain ones
        requests = requests._replace(answer=np.ceil(server.steps_of(requests.answer)).astype(np.int64))
    pool = pool_of(server, asked, requests, outside_s)
    if first is None:
        served = replays.serve_together(requests, pool)
    else:
        served = replays.serve_apart(requests, pool_of(first, asked, requests, 0.0), pool, server.transfer_s)
    return replays.summary(served, outside_s, accepted)


def pool_of(server: Server, asked: Asked, requests: Requests, outside_s: float) -> replays.Pool:
    """The copies of `server` as a stream is run through them; `outside_s` lie between a client's requests."""
    from rooflab.model.serving.events import Rules

    longest = int((requests.prompt + requests.answer).max())
    kept = server.kept_tokens(asked.prompt, asked.answer)
    scheduler = server.scheduler
    rules = Rules(
        token_budget=server.token_budget,
        most_sequences=server.most_sequences,
        blocks=server.cache_tokens(kept) // scheduler.block_tokens,
        block_tokens=scheduler.block_tokens,
        chunked=scheduler.chunked,
        mixed=server.mixed,
        ahead=server.ahead,
        reserve=scheduler.reserve,
        between_s=outside_s if requests.clients else 0.0,
        wait_steps=scheduler.wait_steps,
        wait_tokens=scheduler.wait_tokens,
    )
    return replays.Pool(server.wide_table(longest, kept), rules, server.engines)


def _steps(server: Server, prompts: Server, asked: Asked, decoding: float) -> tuple[Step, Step, Step]:
    """A step of one prompt, one that only decodes, and one of a single sequence."""
    new, context = _budgeted(prompts, asked), _context(asked)
    return (
        prompts.step.time(Batch(1.0, new, asked.cached)),
        server.step.time(Batch(decode_sequences=decoding, decode_context=context)),
        server.step.time(Batch(decode_sequences=1.0, decode_context=asked.prompt)),
    )


def _estimate(value_s: float, like: Step, floor_s: float, factor: float | None = None) -> Estimate:
    """With the bar of a step that is like it, or `factor` up and down."""
    low, high = float(like.low[0] / like.seconds[0]), float(like.high[0] / like.seconds[0])
    if factor is not None:
        low, high = 1.0 / factor, factor
    return Estimate(time_s=value_s, low_s=max(value_s * low, floor_s), high_s=value_s * high, floor_s=floor_s)


def _step_time(name: str, step: Step, tokens: float, sequences: float, context: float) -> StepTime:
    time = _estimate(float(step.seconds[0]), step, float(step.floor_s[0]))
    layers: dict[str, list[float]] = {}
    bound: dict[str, dict[str, float]] = {}
    for part in step.parts:
        terms = [float(each[0]) for each in part[3:8]]
        sums = layers.setdefault(part.layer, [0.0] * 6)
        sums[0] += float(part.seconds[0])
        for number, term in enumerate(terms):
            sums[number + 1] += term
        by = bound.setdefault(part.layer, dict.fromkeys(_BINDS, 0.0))
        by[_BINDS[int(np.argmax(terms))]] += float(part.seconds[0])
    parts = [
        StepPart(
            layer=layer,
            time_s=sums[0],
            compute_s=sums[1],
            memory_s=sums[2],
            cache_s=sums[3],
            links_s=sums[4],
            overhead_s=sums[5],
            binds=max(bound[layer], key=lambda name: bound[layer][name]),
        )
        for layer, sums in layers.items()
        if sums[0] > 0
    ]
    host = StepPart(layer="host", time_s=float(step.host_s[0]), overhead_s=float(step.host_s[0]), binds="overhead")
    return StepTime(
        name=name,
        time=time,
        prompt_tokens=tokens,
        sequences=sequences,
        context_tokens=context,
        parts=(*sorted(parts, key=lambda each: -each.time_s), host),
    )


def _memory(server: Server, asked: Asked, running: float) -> DeviceMemory:
    kept = server.kept_tokens(asked.prompt, asked.answer)
    used = server.step.memory(running * kept, running)
    whole = server.step.device.memory_bytes
    held = server.cache_requests(kept)
    return DeviceMemory(
        weights=float(np.max(used.weights)),
        cache=float(np.max(used.cache)),
        states=float(np.max(used.states)),
        activations=float(np.max(used.activations)),
        workspace=float(np.max(used.workspace)),
        usable=used.has,
        capacity=None if whole is None else float(np.ravel(whole)[0]),
        kept_tokens=kept,
        most_running=None if held is None else held * server.layout.pipeline,
    )


def _warnings(server: Server, asked: Asked, loads: tuple[LoadPoint, ...], replay: Replay | None) -> list[str]:
    said = []
    context, tokens = server.step.model.context, asked.prompt + asked.answer
    if context is not None and tokens > context:
        said.append(f"{tokens:,.0f} tokens of a request: {server.step.model.name} is made for {context:,}.")
    model = server.step.model
    said += model.notes()
    if model.tower is not None and not server.step.extras.image_tokens:
        said.append(f"{model.name} takes pictures: a prompt is all text here; say --image-tokens for theirs.")
    if (
        server.step.engine.name.startswith(("vLLM", "SGLang", "TensorRT"))
        and server.step.machine.vendor == "Apple"
    ):
        said.append(f"{server.step.engine.name} does not run on Apple's GPUs; --engine llama-cpp does.")
    most = max(each.requests_per_s for each in loads)
    if asked.rate_per_s is not None and asked.rate_per_s > most:
        said.append(
            f"{asked.rate_per_s:g} requests/s come and {most:.3g} can be answered: the queue grows as long as the "
            f"stream lasts, so its times are those of this many requests"
        )
    if replay is not None and replay.dropped:
        assert asked.requests is not None
        said.append(
            f"{replay.dropped:,} of {replay.dropped + replay.requests + replay.refused:,} lines of the file are "
            f"no requests and were left out: {'; '.join(asked.requests.faults)}"
        )
    if replay is not None and replay.refused:
        said.append(f"{replay.refused:,} requests do not fit into the KV cache alone and were refused.")
    if replay is None and asked.concurrency is not None:
        running = server.most_running(asked.prompt, asked.answer) * server.engines
        if asked.concurrency > running:
            limit = (
                "the KV cache holds" if running < server.most_sequences * server.engines else "the scheduler runs"
            )
            said.append(f"{asked.concurrency:,} clients and {limit} {running:,.0f} of them: the others wait.")
    return said


def _notes(server: Server, first: Server | None, asked: Asked) -> list[str]:
    scheduler, step = server.scheduler, server.step
    beside = step.extras.notes(step.model)
    if step.extras.on_host:
        beside.append(
            f"{asked.cached:,.0f} cached tokens of a prompt lie on the host: {duration(server.before_s)} until "
            "they are there, before the scheduler takes the request"
        )
    how = "prompts and sequences that decode share a step" if server.mixed else "prompts have steps of their own"
    lines = [
        f"scheduler of {step.engine.name}: at most {server.token_budget:,} tokens and {server.most_sequences:,} "
        f"sequences a step, {how}, {'prompts are cut' if scheduler.chunked else 'a prompt is not cut'}",
        "TTFT counts waiting and the steps of the prompt; TPOT is (end to end − TTFT) / (tokens − 1), in the mean",
        "the bar of the TPOT is that of a step alike: what kernels and engines differ by, not what requests "
        "differ by; that of the TTFT is wider by what servers, tokenizers and arrivals differ by",
    ]
    lines += beside
    if asked.requests is None:
        lines.append(
            "a closed loop in its steady state, lengths a little apart so that requests end at different steps"
        )
        if 1 < asked.answer < _SHORT and (asked.concurrency or 1) > 1:
            lines.append(
                "so short answers come and go together: how a request's time divides between its first token and "
                "the others is less sure than its sum; --rate runs them one by one"
            )
    lines.append(
        f"{duration(server.outside_s(asked.prompt - asked.cached))} of the TTFT lie outside the scheduler: "
        f"server, tokenizer, queues ({step.engine.constants['request_s'].source.kind})"
    )
    if first is not None:
        moved = duration(float(server.transfer_s(np.array([asked.prompt]))[0]))
        lines.append(
            f"prefill on {first.copies} x {first.layout.name}; {server.copies} x {server.layout.name} decode and "
            f"answer the client, where the TTFT ends; the KV cache of a mean prompt is on its way for {moved}"
        )
    elif server.copies > 1:
        lines.append(f"{server.copies} copies, requests to each in turn")
    if server.layout.pipeline > 1:
        lines.append(
            f"{server.layout.pipeline} stages: as many batches under way, each with its share of the cache"
        )
    if server.cache_requests(1.0) is None:
        lines.append(f"{step.machine.name} states no memory: as many requests run as the scheduler lets")
    elif scheduler.reserve:
        lines.append("a request is admitted where its longest answer fits")
    lines.append(f"weights read once a step: {si(float(np.max(step.memory(0.0, 0.0).weights)), 'B')} a device")
    return lines
