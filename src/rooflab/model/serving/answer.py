"""One setting answered: times at its load, memory by kind, steps by layer, the same at other loads, a stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rooflab.errors import RooflabError
from rooflab.model.serving import replay as replays
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.requests import Requests
from rooflab.model.serving.server import Server
from rooflab.model.serving.steady import Steady
from rooflab.model.serving.step import Step
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
    """What is asked of a server: tokens of a request in the mean, and clients or a stream of requests.

    `prefill_copies` compute prompts alone and hand the KV cache on to the others; 0 where every copy does both.
    """

    prompt: float
    answer: float
    cached: float = 0.0
    concurrency: int | None = None
    rate_per_s: float | None = None
    requests: Requests | None = None
    prefill_copies: int = 0


def answer(
    server: Server, asked: Asked, *, node: str | None = None, price_per_hour: float | None = None
) -> Serving:
    """What `server` does with it; `price_per_hour` of one device.

    Raises:
        RooflabError: a request does not fit, by how much.
    """
    server.check(asked.prompt, asked.answer)
    _check_apart(server, asked)
    table = server.table(asked.prompt, asked.answer, asked.cached)
    loads = _loads(server, asked, table)
    replay = None if asked.requests is None else _replay(server, asked)
    if replay is None:
        assert asked.concurrency is not None  # `Asked` has one or the other
        used = min(server.engines, asked.concurrency)  # of fewer clients than batches, some have none
        at = _of(server, asked, table, np.array([asked.concurrency / used]))
        ttft_s, tpot_s, queue_s = (float(each[0]) for each in (at.ttft_s, at.tpot_s, at.queue_s))
        requests_per_s = float(at.requests_per_s[0]) * used
        tokens_per_s, running = requests_per_s * asked.answer, float(at.running[0]) * used
        decoding = float(at.decoding[0])
    else:
        ttft_s, queue_s = replay["TTFT"].mean, replay["waiting"].mean
        tpot_s = replay["TPOT"].mean if asked.answer > 1 else ttft_s
        requests_per_s, tokens_per_s = replay.requests_per_s, replay.output_tokens_per_s
        running = replay.mean_running
        decoding = running / server.engines / max(replay.utilisation, 1e-9)
    steps = _steps(server, asked, max(decoding, 1.0))
    first, decode, alone = steps
    ttft_floor = first.floor_s[0] * max(np.ceil((asked.prompt - asked.cached) / server.token_budget), 1.0)
    return Serving(
        model=server.step.model.name,
        parameters=server.step.model.parameters,
        active_parameters=server.step.model.active_parameters,
        deployment=deployment(server, node, asked.prefill_copies),
        demand=_demand(asked),
        ttft=_estimate(ttft_s, first, float(ttft_floor)),
        tpot=None if asked.answer <= 1 else _estimate(tpot_s, decode, float(alone.floor_s[0])),
        queue_s=queue_s,
        requests_per_s=requests_per_s,
        output_tokens_per_s=tokens_per_s,
        running=running,
        memory=_memory(server, asked, max(running / server.copies, 1.0)),
        steps=(
            _step_time("a prompt", first, _budgeted(server, asked), 0.0, asked.cached),
            _step_time("decode", decode, 0.0, max(decoding, 1.0), _context(asked)),
        ),
        loads=loads,
        replay=replay,
        price_per_hour=None if price_per_hour is None else price_per_hour * server.devices,
        sources=(server.scheduler.source, *dict.fromkeys(server.step.machine.sources)),
        warnings=tuple(_warnings(server, asked, loads, replay)),
        notes=tuple(_notes(server, asked)),
    )


def deployment(server: Server, node: str | None = None, prefill_copies: int = 0) -> Deployment:
    """Where and how it runs, in plain values."""
    layout, precision = server.layout, server.step.precision
    return Deployment(
        machine=server.step.machine.name,
        node=node,
        engine=server.step.engine.name,
        weights=precision.name,
        cache=precision.cache,
        devices=server.devices,
        copies=server.copies,
        layout=layout.name,
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        experts=layout.experts,
        data=layout.data,
        prefill_copies=prefill_copies,
    )


def _check_apart(server: Server, asked: Asked) -> None:
    """Whether some copies can compute prompts for the others.

    Raises:
        RooflabError: none is left to decode, or a closed loop.
    """
    if not asked.prefill_copies:
        return
    if not 0 < asked.prefill_copies < server.copies:
        raise RooflabError(
            f"prefill: got {asked.prefill_copies} of {server.copies} copies ({server.layout.name} each on "
            f"{server.devices} devices), expected 1 to {server.copies - 1}: the others decode; more --gpus "
            "are more copies"
        )
    if asked.requests is None:
        raise RooflabError("prefill and decode apart: give a rate or a stream, which are run event by event")


def _demand(asked: Asked) -> Demand:
    if asked.requests is not None:
        name = asked.requests.name
    else:
        cached = f" ({asked.cached:,.0f} of them cached)" if asked.cached else ""
        name = f"{asked.concurrency:,} clients, {asked.prompt:,.0f} tokens in{cached} and {asked.answer:,.0f} out"
    return Demand(
        prompt_tokens=asked.prompt,
        answer_tokens=asked.answer,
        cached_tokens=asked.cached,
        concurrency=asked.concurrency,
        rate_per_s=asked.rate_per_s,
        name=name,
    )


def _context(asked: Asked) -> float:
    return asked.prompt + asked.answer / 2.0


def _budgeted(server: Server, asked: Asked) -> float:
    return min(asked.prompt - asked.cached, server.token_budget)


def _of(server: Server, asked: Asked, table: object, clients: np.ndarray) -> Steady:
    return server.loaded(clients, asked.prompt, asked.answer, asked.cached, table)  # type: ignore[arg-type]


def _loads(server: Server, asked: Asked, table: object) -> tuple[LoadPoint, ...]:
    """The same setting from one client a batch to twice what runs at once."""
    most = 2.0 * max(server.most_running(asked.prompt, asked.answer), 1.0)
    most = max(most, (asked.concurrency or 1) / server.engines)
    clients = 2.0 ** np.arange(0.0, np.ceil(np.log2(most)) + 0.5, 0.5)
    clients = np.unique(np.round(clients * server.engines)) / server.engines
    at = _of(server, asked, table, clients)
    return tuple(
        LoadPoint(
            concurrency=float(clients[n]) * server.engines,
            ttft_s=float(at.ttft_s[n]),
            tpot_s=float(at.tpot_s[n]),
            queue_s=float(at.queue_s[n]),
            requests_per_s=float(at.requests_per_s[n]) * server.engines,
            tokens_per_s=float(at.requests_per_s[n]) * server.engines * asked.answer,
            running=float(at.running[n]) * server.engines,
        )
        for n in range(len(clients))
    )


def _replay(server: Server, asked: Asked) -> Replay:
    from rooflab.model.serving.events import Rules

    requests = asked.requests
    assert requests is not None
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
        reserve=scheduler.reserve,
        between_s=server.outside_s(asked.prompt - asked.cached) if requests.clients else 0.0,
    )
    pool = replays.Pool(server.wide_table(longest, kept), rules, server.engines)
    if asked.prefill_copies:
        first = pool._replace(copies=asked.prefill_copies * server.layout.pipeline)
        rest = pool._replace(copies=pool.copies - first.copies)
        served = replays.serve_apart(requests, first, rest, server.transfer_s)
    else:
        served = replays.serve_together(requests, pool)
    return replays.summary(served, server.outside_s(asked.prompt - asked.cached))


def _steps(server: Server, asked: Asked, decoding: float) -> tuple[Step, Step, Step]:
    """A step of one prompt, one that only decodes, and one of a single sequence."""
    new, context = _budgeted(server, asked), _context(asked)
    return (
        server.step.time(Batch(1.0, new, asked.cached)),
        server.step.time(Batch(decode_sequences=decoding, decode_context=context)),
        server.step.time(Batch(decode_sequences=1.0, decode_context=asked.prompt)),
    )


def _estimate(value_s: float, like: Step, floor_s: float) -> Estimate:
    """With the bar of a step that is like it."""
    low, high = float(like.low[0] / like.seconds[0]), float(like.high[0] / like.seconds[0])
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
        most_running=None if held is None else held * server.layout.pipeline,
    )


def _warnings(server: Server, asked: Asked, loads: tuple[LoadPoint, ...], replay: Replay | None) -> list[str]:
    said = []
    context, tokens = server.step.model.context, asked.prompt + asked.answer
    if context is not None and tokens > context:
        said.append(f"{tokens:,.0f} tokens of a request: {server.step.model.name} is made for {context:,}.")
    most = max(each.requests_per_s for each in loads)
    if asked.rate_per_s is not None and asked.rate_per_s > most and not asked.prefill_copies:
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


def _notes(server: Server, asked: Asked) -> list[str]:
    scheduler, step = server.scheduler, server.step
    how = "prompts and sequences that decode share a step" if server.mixed else "prompts have steps of their own"
    lines = [
        f"scheduler of {step.engine.name}: at most {server.token_budget:,} tokens and {server.most_sequences:,} "
        f"sequences a step, {how}, {'prompts are cut' if scheduler.chunked else 'a prompt is not cut'}",
        "TTFT counts waiting and the steps of the prompt; TPOT is (end to end − TTFT) / (tokens − 1), in the mean",
        "the bar is that of a step alike: what kernels and engines differ by, not what requests differ by",
    ]
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
    if asked.prefill_copies:
        moved = duration(float(server.transfer_s(np.array([asked.prompt]))[0]))
        lines.append(
            f"{asked.prefill_copies} of {server.copies} copies compute prompts and give the first token; the KV "
            f"cache of a mean prompt is on its way to the others for {moved}"
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
