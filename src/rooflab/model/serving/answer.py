"""One setting answered: times at its load, memory by kind, steps by layer, the same at other loads, a stream."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rooflab.model.serving import flows, remarks
from rooflab.model.serving.asked import Asked
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.first_token import FirstToken, first_token_factor, waits_for_places
from rooflab.model.serving.server import Server
from rooflab.model.serving.steady import Steady
from rooflab.model.serving.step import Step
from rooflab.types.serving import (
    Demand,
    Deployment,
    DeviceMemory,
    Estimate,
    LoadPoint,
    Serving,
    StepPart,
    StepTime,
)

_BINDS = ("compute", "memory", "cache", "links", "overhead")


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
    of = flows.load_of(server, first, asked)
    loads = _loads(server, asked, of)
    replay = None if asked.requests is None else flows.replay(server, first, asked)
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
    waits = waits_for_places(running / server.engines, most) and queue_s > 0
    sending = remarks.of_sending(server, tokens_per_s, first is not None)
    first_token = FirstToken(
        ttft_s=ttft_s,
        own_s=float(prompt.seconds[0]) * chunks,
        outside_s=server.outside_s(asked.prompt - asked.cached),
        full=first is not None or waits or bool(sending),
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
        warnings=(*((more,) if more else ()), *remarks.warnings(server, asked, loads, replay), *sending),
        notes=tuple(remarks.notes(server, first, asked)),
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
