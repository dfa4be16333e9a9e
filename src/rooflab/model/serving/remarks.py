"""What is said beside an answer: what a reader must know of it, and how it was computed."""

from __future__ import annotations

import numpy as np

from rooflab.model.serving.asked import Asked
from rooflab.model.serving.first_token import waits_for_messages
from rooflab.model.serving.server import Server
from rooflab.types.serving import LoadPoint, Replay
from rooflab.units import duration, si
from rooflab.work.llm.architecture import Experts

# Engines that load weights stored so, by how their names begin (vLLM's and SGLang's documentation of quantisation:
# bitsandbytes and GGUF; TensorRT-LLM's has neither; EXL2 is ExLlama's own).
_LOADED_BY = {
    "EXL2": ("ExLlama",),
    "bitsandbytes": ("vLLM", "SGLang", "transformers"),
    "GGUF": ("llama.cpp", "ik_llama.cpp", "vLLM", "SGLang", "transformers"),
}
_SHORT = 17  # tokens: below it, requests that came together stay together


def warnings(server: Server, asked: Asked, loads: tuple[LoadPoint, ...], replay: Replay | None) -> list[str]:
    """What a reader must know: requests that wait, are refused or too long, engines that do not run there."""
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
    said += [*_not_loaded(server), *_cut_blocks(server)]
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


def _not_loaded(server: Server) -> list[str]:
    """Weights in a format that the engine does not load."""
    stored, engine = server.step.precision.linear, server.step.engine.name
    words = {"exl2": "EXL2", "bnb": "bitsandbytes"}
    sort = words.get(stored.name.partition("_")[0], "GGUF" if "llama.cpp" in stored.source.ref else "")
    if not sort or engine.startswith(_LOADED_BY[sort]):
        return []
    others = ", ".join(_LOADED_BY[sort])
    return [
        f"{engine} does not load {sort}'s weights ({stored.name}); {others} do. Its times here "
        "are those of products that read as many bytes."
    ]


_BLOCK = 128  # numbers of a row that share a scale in DeepSeek's format, which others took over


def _cut_blocks(server: Server) -> list[str]:
    """Experts whose blocks of numbers with one scale would be cut among ranks.

    vLLM and SGLang refuse them as they load weights (fp8.py: "not divisible by weight quantization block_n").
    """
    engine, layout = server.step.engine.name, server.layout
    if server.step.precision.experts.activations != "block" or not engine.startswith(("vLLM", "SGLang")):
        return []
    ways = layout.expert_tensor_ranks
    if ways == 1:
        return []
    inners = {block.feed.inner for block in server.step.model.blocks if isinstance(block.feed, Experts)}
    cut = next((inner for inner in sorted(inners) if inner % (_BLOCK * ways)), None)
    if cut is None:
        return []
    return [
        f"{engine} does not load experts whose blocks of {_BLOCK} numbers are cut: {cut:,} over {ways} ranks; "
        f"--ep {layout.stage_ranks} keeps experts whole."
    ]


def of_sending(server: Server, tokens_per_s: float, prompts_apart: bool) -> list[str]:
    """That one process cannot send as many tokens as the devices make, where it comes to that."""
    sent = tokens_per_s / server.engines / server.accepted
    if prompts_apart or not waits_for_messages(sent, server.message_s):
        return []
    most = f"{1.0 / server.message_s:,.0f} a second of a copy"
    return [
        f"{server.step.engine.name} sends tokens from one process, {most}: "
        "requests wait for it, not for the devices. More copies help, or tokens that are sent several together."
    ]


def notes(server: Server, first: Server | None, asked: Asked) -> list[str]:
    """How it was computed: the scheduler's rules, what times mean, what lies outside, copies and stages."""
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
