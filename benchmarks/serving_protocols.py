"""How rows of the silicon sample were measured, where its columns do not say so: what server and client were told.

Sources: SemiAnalysisAI/InferenceX, benchmarks/*.sh and benchmarks/single_node/*.sh as of the rows' dates, and
utils/bench_serving; ai-dynamo/aiconfigurator, generator/rule_plugin/{benchmark/trtllm,vllm}.rule,
eval/benchmarks/genai_perf_runner.py and config/backend_templates/benchmark/bench_run.sh.j2.
"""

from __future__ import annotations

import dataclasses
import re
from typing import NamedTuple

import numpy as np

from rooflab.model.parallel.layout import Layout
from rooflab.model.serving.requests import Requests, at_random
from rooflab.model.serving.step import Speculation


class Protocol(NamedTuple):
    """How a row of the silicon sample was measured.

    Attributes:
        share: of the stated lengths, their mean; they lie evenly within `spread` of it, both ways.
        stream_interval: tokens that are sent together.
        step_tokens: most of a step; None where the server was left at its default.
        poll_steps: how many steps lie between two looks for new requests while all decode.
        gathers: whether a prompt waits until each data-parallel rank has one, 60 steps at most.
        wait_steps, wait_share: for how many steps that decode prompts wait until a step would hold that share of
            its tokens (TensorRT-LLM's batch_wait_timeout_iters and batch_wait_max_tokens_ratio).
        rounds: requests of each client.
        memory_share: of a device that the server was told to take; None where it was left at its default.
        cache: format of the KV cache where it is not that of the formats (`serving_rows`); "" where it is.
        prompts: how many different ones the client has, where a server caches prefixes; 0 for all.
        graphs_prompts: whether steps with prompts are replayed too, but for attention (piecewise CUDA graphs).
        speculation: drafts of each step.
        drafting: the same server with drafts, where both are measured and a row does not say which it is.
        compiles_s: how long a server that no request had warmed up compiles as it continues the first cut prompt.
        experts: whose products for groups of rows it was told to run in blocks of 8 bits; "" for its engine's own.
    """

    share: float = 1.0
    spread: float = 0.0
    stream_interval: float = 1.0
    step_tokens: int | None = None
    poll_steps: int = 1
    gathers: bool = False
    wait_steps: int = 0
    wait_share: float = 0.0
    rounds: int = 10
    memory_share: float | None = None
    cache: str = ""
    prompts: int = 0
    graphs_prompts: bool = False
    speculation: Speculation | None = None
    drafting: Protocol | None = None
    compiles_s: float = 0.0
    experts: str = ""


# Until FlashInfer's attention of a dense model is compiled at first use: a server is ready after 86.6 s, and after
# 28.8 where it was compiled before (vllm-project/vllm, issue 47456).
_COMPILES_S = 86.6 - 28.8

# Tokens that a step of multi-token prediction gives: of one draft by DeepSeek-V3's report (80 % and more of the
# second tokens are accepted); of three fitted on the rows of "fit" (Qwen's and DeepSeek's papers name 2 to 2.7);
# of two between them.
ACCEPTED = {1: 1.8, 2: 2.1, 3: 2.3}


def protocol(row: dict[str, str], layout: Layout, clients: float) -> Protocol:
    """Of one row, by its engine, model, card and version."""
    if "aic-auto-gap" in row["silicon_data_source"]:
        return _aiconfigurator(row, clients)
    # InferenceX draws lengths evenly between 0.8 and 1 of those stated and reports means.
    made = Protocol(share=0.9, spread=1.0 / 9.0)
    if row["backend"] == "trtllm":
        return _trtllm(made, row, layout, clients)
    return (_sglang if row["backend"] == "sglang" else _vllm)(made, row, layout, clients)


def _sglang(made: Protocol, row: dict[str, str], layout: Layout, clients: float) -> Protocol:
    """SGLang: chunks, memory and how often it looks for requests, by its scripts (dsr1_*, glm5_*, qwen3.5_*.sh).

    DeepSeek in fp8 on eight B200 is measured without drafts up to 64 clients and with them up to 512 (.github/
    configs), Qwen3.5 on four B300 both ways. GLM-5 on the H200 is left at its defaults, with a cache in 16 bits.
    """
    form, wide, blackwell = row["precision"], layout.ranks >= 8, row["system"].startswith(("b", "gb"))
    often = 30 if clients >= 16 else 10
    if "GLM" in row["model_path"]:
        if not blackwell:
            return made._replace(memory_share=0.85, cache="bf16", rounds=5)
        told = {"step_tokens": 32768, "memory_share": 0.9 if form == "fp4" else 0.85}
        return made._replace(**told, poll_steps=10 if form == "fp4" else 1)
    if "Qwen3.5" in row["model_path"] and blackwell:
        made = made._replace(step_tokens=32768, memory_share=0.82, poll_steps=often)
        if form == "fp8" and row["backend_version"] != "0.5.9":
            made = made._replace(step_tokens=16384, memory_share=0.8, poll_steps=10)
        drafts = form == "fp8" and row["backend_version"] == "0.5.9" and layout == Layout(tensor=4)
        return made._replace(drafting=_with(made, 3)) if drafts else made
    if "deepseek" not in row["model_path"].lower():
        return made
    if not blackwell:
        return made._replace(step_tokens=32768, memory_share=0.82)
    made = made._replace(compiles_s=_COMPILES_S if _cold(row) else 0.0)
    if form == "fp4":
        return made._replace(step_tokens=16384, memory_share=0.85, poll_steps=often)
    if not wide:
        return made._replace(step_tokens=8192, memory_share=0.95, poll_steps=10)
    plain = made._replace(step_tokens=32768, memory_share=0.82, poll_steps=often)
    if row["backend_version"] != "0.5.9" or layout.experts > 1 or not row["system"].startswith("b200"):
        return plain
    drafting = _with(plain._replace(step_tokens=16384), 2)
    return plain._replace(drafting=drafting) if clients <= 64 else drafting


def _cold(row: dict[str, str]) -> bool:
    """Whether nothing had been asked of the server: InferenceX warms up since pull request 480, January 2026.

    SGLang's trtllm_mla computes what has a prefix, and so a prompt's second part, by FlashInfer's wrapper
    (sgl-project/sglang, pull request 40266), whose kernels are compiled as they are first called.
    """
    measured = re.search(r"measured=(\d+-\d+)", row["silicon_data_source"])
    return measured is not None and measured[1] < "2026-02"


def _with(made: Protocol, drafts: int) -> Protocol:
    return made._replace(speculation=Speculation(drafts, ACCEPTED[drafts]))


def _vllm(made: Protocol, row: dict[str, str], layout: Layout, clients: float) -> Protocol:
    """vLLM: MiniMax's steps hold two prompts (H200: 16384 tokens or 32768); its cache had 16 bits before 0.18.

    On B200 vLLM 0.17 was told not to call FlashInfer's nor DeepGEMM's products for experts, which leaves Triton's
    (VLLM_USE_FLASHINFER_MOE_FP8 and VLLM_MOE_USE_DEEP_GEMM 0 until pull request 947).
    """
    if "MiniMax" not in row["model_path"] or row["precision"] != "fp8":
        return made._replace(memory_share=0.9)
    if row["backend_version"] in ("0.16.0", "0.17.0"):
        blackwell = row["system"].startswith(("b", "gb"))
        return made._replace(memory_share=0.95, cache="bf16", experts="triton_groups" if blackwell else "")
    if row["system"].startswith("h200"):
        return made._replace(memory_share=0.95, step_tokens=16384 if clients < 64 else 32768)
    return made._replace(memory_share=0.9, step_tokens=2 * int(row["isl"]))


_BLOCK = 128  # numbers of a row that share a scale


def as_served(row: dict[str, str], layout: Layout, inner: int | None) -> Layout:
    """The layout in which vLLM ran experts of so many `inner` numbers: whole ones where they could not be cut.

    It refuses to cut blocks (fp8.py: output_size "is not divisible by weight quantization block_n"), as MiniMax's
    would be eight ways: InferenceX's pull request 869 adds --enable-expert-parallel with them. Until pull request
    947 its script for B200 gave that at any number of ways (-ge 1).
    """
    if row["backend"] != "vllm" or row["precision"] != "fp8" or inner is None or layout.experts > 1:
        return layout
    always = "MiniMax" in row["model_path"] and (row["system"], row["backend_version"]) == ("b200_sxm", "0.17.0")
    if always or inner % (_BLOCK * layout.expert_tensor_ranks):
        return dataclasses.replace(layout, experts=layout.stage_ranks)
    return layout


def _aiconfigurator(row: dict[str, str], clients: float) -> Protocol:
    """Equal lengths; ten rounds by genai-perf, from 2026 on fifty by aiperf.

    A step of TensorRT-LLM and vLLM holds one prompt, 1500 tokens more and one of each sequence that may run: as
    many as there are clients, later at least 512.

    aiperf has 100 prompts where it is not told otherwise (--num-dataset-entries, ai-dynamo/aiperf,
    docs/cli_options.md; bench_run.sh.j2 does not), genai-perf was told to have one for each request. vLLM caches
    prefixes by default, TensorRT-LLM is told not to (enable_block_reuse); SGLang would too, but no row of it is as
    fast as that.
    """
    version = row["backend_version"]
    late = row["backend"] == "vllm" or version in ("0.5.6.post2",) or version.startswith(("1.2", "1.3"))
    made = Protocol(rounds=50 if late else 10, prompts=100 if row["backend"] == "vllm" else 0)
    if row["backend"] == "sglang":
        return made
    running = max(clients, 512.0) if late else clients
    return made._replace(step_tokens=round(running) + int(row["isl"]) + 1500)


def _trtllm(made: Protocol, row: dict[str, str], layout: Layout, clients: float) -> Protocol:
    """TensorRT-LLM sends 10 (gpt-oss: 20) tokens together.

    A step holds 20000 tokens of gpt-oss, 16384 of Llama 70B in fp8, in NVFP4 as many as its longest context
    (lengths and 200). DeepSeek's had one prompt, 64 tokens more and one of each client; from 1.2.0rc6 on 8192 at
    least. 1.2.0rc6.post3 is the image of its rows with multi-token prediction, before it 1.1.0rc2.post2 in 2026
    (the same settings of 2025 took twice as long a token): three drafts, one where attention is data-parallel, and
    tokens of one prompt of the stated length and of all drafts, there of clients / 4 (fp8: / 8) sequences
    (dsr1_*_trt_mtp.sh: MAX_NUM_TOKENS). Data-parallel attention balances prompts over the ranks
    (attention_dp_config: enable_balance, timeout_iters 60). Llama's prompts of 1024 tokens with answers of 1024
    wait for fuller steps below eight devices, DeepSeek's in fp8 from 64 clients on.
    """
    prompt, answer = int(row["isl"]), int(row["osl"])
    square = prompt == answer == 1024
    made = made._replace(stream_interval=10.0)
    if "gpt-oss" in row["model_path"]:
        return made._replace(step_tokens=20000, stream_interval=20.0, gathers=layout.data > 1)
    if "deepseek" not in row["model_path"].lower():
        made = made._replace(step_tokens=16384 if row["precision"] == "fp8" else prompt + answer + 200)
        return made._replace(wait_steps=20, wait_share=0.9) if square and layout.ranks < 8 else made
    made = made._replace(gathers=layout.data > 1, memory_share=_trtllm_memory(row, layout))
    drafting = row["backend_version"] == "1.1.0rc2.post2" and "measured=2026" in row["silicon_data_source"]
    if drafting or row["backend_version"] == "1.2.0rc6.post3":
        drafts, ranks = (1, 8 if row["precision"] == "fp8" else 4) if layout.data > 1 else (3, 1)
        tokens = (drafts + 1) * int(max(clients / ranks, 1.0)) + prompt + 64
        return made._replace(
            speculation=Speculation(drafts, ACCEPTED[drafts]),
            step_tokens=-(-tokens // 64) * 64,
            graphs_prompts=row["backend_version"].startswith("1.2") and _piecewise(row, layout, clients),
        )
    made = made._replace(step_tokens=round(clients) + prompt + 64)
    if row["backend_version"].startswith("1.2"):
        made = made._replace(step_tokens=max(made.step_tokens or 0, 8192))
        if square and row["precision"] == "fp4" and layout.tensor == layout.experts == 8:
            made = made._replace(graphs_prompts=True)
        if square and row["precision"] == "fp8" and 64 <= clients < 256 and row["system"].startswith("b200"):
            made = made._replace(wait_steps=40, wait_share=0.8)
    return made


def _piecewise(row: dict[str, str], layout: Layout, clients: float) -> bool:
    """Whether steps with prompts are replayed in pieces beside drafts (dsr1_fp4_, dsr1_fp8_b200_trt_mtp.sh)."""
    lengths, data = (row["isl"], row["osl"]), layout.data > 1
    if row["precision"] == "fp8":
        most = {("1024", "1024"): 4, ("1024", "8192"): 8, ("8192", "1024"): 16}
        return not data and clients > most.get(lengths, 0)
    if lengths == ("1024", "1024"):
        return clients in (32, 64) or (clients == 128 and not data)
    return lengths == ("1024", "8192") and clients == 64


def _trtllm_memory(row: dict[str, str], layout: Layout) -> float:
    """Of what weights leave, for DeepSeek's cache (dsr1_*_trt*.sh)."""
    if row["precision"] != "fp8":
        return 0.8
    if row["system"].startswith("h") or (layout.ranks == 4 and row["isl"] == "8192"):
        return 0.75
    return 0.7 if layout.data > 1 else 0.8


# Quantiles (0, 10, … 100 %) of the tokens of LLMServingSim's streams of ShareGPT, answers made long: of the first
# 68 of 300 requests of casys-kaist/LLMServingSim 5daddb21 (MIT),
# bench/examples/RTX4090/Llama-3.1-8B/vllm/requests.jsonl.
SHAREGPT_PROMPTS = (268, 319, 363, 455, 605, 835, 1034, 1236, 1355, 1479, 3452)
SHAREGPT_ANSWERS = (519, 531, 574, 681, 717, 739, 760, 767, 769, 772, 784)


def sharegpt(requests: int, rate_per_s: float) -> Requests:
    """A stream of as many requests at random times, with lengths drawn from these quantiles."""
    random = np.random.default_rng(1)
    made = at_random(rate_per_s, requests, 900, 700, seed=1)
    deciles = np.linspace(0.0, 1.0, 11)
    prompt, answer = (
        np.interp(random.random(requests), deciles, each).round().astype(np.int64)
        for each in (SHAREGPT_PROMPTS, SHAREGPT_ANSWERS)
    )
    return made._replace(name="ShareGPT", prompt=prompt, answer=answer, cached=np.zeros_like(prompt))
