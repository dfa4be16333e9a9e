"""Published serving times as cases: which model, layout, formats and load each row of a table was measured at.

Where a table's own columns mislead, what they are taken to mean is said beside the code that reads them.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from measured import LeftOut
from serving_pools import Known, Pools, drafting_below, known, of_kind, pools
from serving_protocols import ACCEPTED, Protocol, as_served, protocol

import rooflab
from rooflab.errors import RooflabError
from rooflab.model.engines.engine import engine as engine_called
from rooflab.model.parallel.layout import Layout
from rooflab.model.serving.step import Speculation, StepModel
from rooflab.work.llm import models
from rooflab.work.llm.architecture import Architecture, Experts
from rooflab.work.llm.precision import precision

machine = functools.cache(rooflab.machine)


class ServingCase(NamedTuple):
    """One measured setting.

    Attributes:
        table: that it is judged in.
        group: model, card, engine: what is wrong for one row of a group is wrong for all.
        step: the copy of the model.
        clients: at all times, or sequences of a static batch.
        tpot_s, ttft_s, throughput: as measured: seconds, or tokens a second and device; None where not.
        static: whether all sequences start and end together, `offline` whether all come at once.
        spread: lengths lie evenly within that share of their mean, both ways.
        step_tokens: most of a step, where the row's server was told so.
        gathers: whether a prompt waits until each data-parallel rank has one, 60 steps at most.
        poll_steps: how many steps lie between two looks for new requests while all decode.
        rounds: requests of each client.
        prompts: different ones, computed once; 0 for all.
        wait_steps, wait_share: for how many steps that decode prompts wait until a step is as full.
        prefill: the copy that computes prompts, where others decode; `prefills` how many of them, 0 where that is
            not stated: as many as keep up; `decodes` how many decode, among which `clients` are those of one.
        compiles_s: how long the first cut prompt holds up all that came with it.
        outside_s: what the measuring program adds to each token of a static batch.
        most_sequences, figure: of a stream of requests: as its server was told; which figure `ttft_s` is, such as
            "TTFT P90".
        prefill_tokens: most of a step of `prefill`; `places` of a decoding copy; None where not stated.
        others: the same with other copies, where a row does not say which of several it ran on.
        part_of: what sets it apart from the others of its table; judged in lines of its own.
    """

    table: str
    group: str
    step: StepModel
    clients: float
    prompt: float
    answer: float
    tpot_s: float | None = None
    ttft_s: float | None = None
    throughput: float | None = None
    static: bool = False
    offline: bool = False
    spread: float = 0.0
    step_tokens: int | None = None
    poll_steps: int = 1
    rounds: float = 10.0
    prompts: int = 0
    wait_steps: int = 0
    wait_share: float = 0.0
    gathers: bool = False
    prefill: StepModel | None = None
    prefills: int = 0
    decodes: int = 1
    prefill_tokens: int | None = None
    places: int | None = None
    others: tuple[ServingCase, ...] = ()
    part_of: str = ""
    most_sequences: int = 0
    figure: str = ""
    outside_s: float = 0.0
    compiles_s: float = 0.0

    @property
    def part(self) -> str:
        """Whether it is of "fit" or "aside": engines' constants are fitted on groups of the first alone."""
        if self.part_of:
            return self.part_of
        return "aside" if zlib.crc32(self.group.encode()) % 3 == 0 else "fit"


CARDS = {
    "b200_sxm": "b200", "gb200": "gb200", "h200_sxm": "h200", "h100_sxm": "h100-sxm", "b300_sxm": "b300",
    "A100": "a100-sxm-80gb", "H100": "h100-sxm", "L40S": "l40s", "H200": "h200",
    "Nvidia A100 GPU": "a100-sxm-40gb", "Nvidia H100 GPU": "h100-sxm", "Nvidia GH200 GPU": "gh200-144gb",
}  # fmt: skip


@functools.cache
def step_of(
    name: str,
    card: str,
    engine: str,
    layout: Layout,
    words: tuple[str, ...],
    speculation: Speculation | None = None,
    stream_interval: float = 1.0,
    memory_share: float | None = None,
    flash: bool = True,
    joined: bool = True,
    graphs: bool = True,
    sorting_s: float | None = None,
    mask_s: float | None = None,
    widens_once: bool = True,
    threads: int | None = None,
    graphs_prompts: bool = False,
    experts_kernel: str = "",
) -> StepModel:
    weights, attention, experts, cache = words
    form = precision(weights, attention=attention, experts=experts, cache=cache)
    if (weights, attention) == ("nvfp4", "bf16") and name.startswith("deepseek"):
        form = dataclasses.replace(form, result=form.linear, draft=form.attention)
    how = dataclasses.replace(engine_called(engine), flash_attention=flash)
    if graphs_prompts:
        how = dataclasses.replace(how, graphs_prompts=True, graph_tokens=math.inf)
    if experts_kernel:
        how = dataclasses.replace(how, experts=how.experts | {"blackwell": {"block": experts_kernel}})
    if not graphs:
        how = dataclasses.replace(how, graph_tokens=0.0)
    if sorting_s is not None:
        how = dataclasses.replace(how, sorting_s=sorting_s)
    if mask_s is not None:
        how = dataclasses.replace(how, mask_s=mask_s)
    if not widens_once:
        how = dataclasses.replace(how, widens_once=False)
    if not joined:
        how = dataclasses.replace(how, joins_operations=False)
    if memory_share is not None:
        how = dataclasses.replace(how, memory_share=memory_share)
    return StepModel(
        models.named(name), machine(card), engine=how, layout=layout, precision=form,
        speculation=speculation, stream_interval=stream_interval, threads=threads,
    )  # fmt: skip


def silicon(path: Path, mode: str = "agg") -> Iterator[ServingCase | LeftOut]:
    """`serve_aiconfigurator_silicon`: closed loops of `silicon_concurrency` clients."""
    rows = table(path)
    told = known(rows, {})
    for number, row in enumerate(rows):
        if row["mode"] != mode:
            continue
        where = f"{path.name}: {row['id'] or number}"
        try:
            model = models.named(row["model_path"])
            layout = None if _is_deployment(row) else as_served(row, _silicon_layout(row), _inner(model))
            found = re.search(r"concurrency=(\d+)", row["silicon_data_source"])
            # Rows of Dynamo's deployments have several copies: `batch_size` is of one.
            clients = float(row["batch_size"]) * (int(row["attention_dp_size"] or 1) or 1)
            if found and "dynamo_version" not in row["silicon_data_source"]:
                clients = float(found[1])
            if layout is None:
                yield _deployed(row, model, clients, told)
                continue
            how = protocol(row, layout, clients)
            cases = [_on_one(row, model, layout, clients, each) for each in (how, how.drafting) if each]
            yield cases[0]._replace(others=tuple(cases[1:]))
        except (RooflabError, ValueError, KeyError) as error:
            yield LeftOut(where, re.sub(r"\d+ (tensor|heads|of)", r"n \1", str(error))[:90])


def _on_one(
    row: dict[str, str], model: Architecture, layout: Layout, clients: float, how: Protocol
) -> ServingCase:
    """A row of one copy that was measured so."""
    formats = _silicon_formats(row, model)
    step = step_of(
        model.name, CARDS[row["system"]], row["backend"], layout, (*formats[:3], how.cache or formats[3]),
        how.speculation, how.stream_interval, how.memory_share, graphs_prompts=how.graphs_prompts,
        experts_kernel=how.experts,
    )  # fmt: skip
    return ServingCase(
        table=f"silicon, {row['mode']}",
        group=f"{model.name} {row['system']} {row['backend']}",
        step=step,
        clients=clients,
        prompt=float(row["isl"]) * how.share,
        answer=float(row["osl"]) * how.share,
        tpot_s=float(row["silicon_tpot_ms"]) / 1e3,
        # Of a row that states its batch alone nobody knows how many clients wait.
        ttft_s=float(row["silicon_ttft_ms"]) / 1e3 if "concurrency=" in row["silicon_data_source"] else None,
        spread=how.spread,
        gathers=how.gathers,
        step_tokens=how.step_tokens,
        poll_steps=how.poll_steps,
        rounds=how.rounds,
        prompts=how.prompts,
        wait_steps=how.wait_steps,
        wait_share=how.wait_share,
        compiles_s=how.compiles_s,
    )


def _is_deployment(row: dict[str, str]) -> bool:
    """Whether `tp_size` counts more devices than a node has, and nothing says how they are divided."""
    alone = row["attention_dp_size"] in ("", "0", "1") and row["moe_ep_size"] in ("", "0", "1")
    return int(row["tp_size"] or 1) > 8 and alone


def _deployed(row: dict[str, str], model: Architecture, clients: float, told: Known) -> ServingCase:
    """A row whose `tp_size` counts the devices of a deployment in which prompts have devices of their own.

    Where the list of runs has none with so many: InferenceX's of GB200 compute prompts on copies of four devices
    with attention data-parallel. TensorRT-LLM's have one of them and decode on copies of eight; SGLang's decode on
    48 of 72 as one copy.
    """
    listed = told.may_be(row, clients, pools(row, clients))
    if listed:
        cases = [_apart_on(row, each, clients)._replace(table="silicon, agg") for each in listed]
        return cases[0]._replace(others=tuple(cases[1:]))
    devices, sglang = int(row["tp_size"]), row["backend"] == "sglang"
    decoding = Layout(data=48, experts=48) if sglang else Layout(tensor=8)
    decodes = 1 if sglang else max((devices - 4) // 8, 1)
    return _apart_on(
        row,
        Pools(
            prefills=(devices - decodes * decoding.ranks) // 4 if sglang else 1,
            prefill=Layout(data=4, experts=4),
            decodes=decodes,
            decode=decoding,
            places=None,
            drafts=0,
            step_tokens=8448,
        ),
        clients,
    )._replace(table="silicon, agg")


def apart(path: Path) -> Iterator[ServingCase | LeftOut]:
    """Rows of `serve_aiconfigurator_silicon` with prompts on other devices than what decodes.

    Which copies, what a row states or else the list of runs does (`serving_pools`).
    """
    rows = table(path)
    below = drafting_below(row for row in rows if row["mode"] != "agg")
    told = known((row for row in rows if row["mode"] != "agg"), below)
    for number, row in enumerate(rows):
        if row["mode"] == "agg":
            continue
        where = f"{path.name}: {row['id'] or number}"
        try:
            found = re.search(r"concurrency=(\d+)", row["silicon_data_source"])
            clients = float(found[1]) if found else 0.0
            listed = pools(row, clients)
            if not listed:
                yield _apart_as_stated(row, clients)
                continue
            fits = told.may_be(row, clients, of_kind(listed, row, below))
            cases = [_apart_on(row, each, clients) for each in fits]
            part_of = "" if row["decode_num_workers"] else "workers by the list of runs"
            if len(listed) > 1:
                part_of = "told apart by their drafts" if len(cases) < len(listed) else "several workers fit"
            yield cases[0]._replace(others=tuple(cases[1:]), part_of=part_of)
        except (RooflabError, ValueError, KeyError) as error:
            yield LeftOut(where, re.sub(r"\d+ (tensor|heads|of)", r"n \1", str(error))[:90])


def _apart_on(row: dict[str, str], of: Pools, clients: float) -> ServingCase:
    """A row on the copies that the list of runs has: five rounds by srt-slurm's sa-bench, after a warm-up."""
    model = models.named(row["model_path"])
    formats, drafts = _silicon_formats(row, model), of.drafts
    speculation = Speculation(drafts, ACCEPTED[drafts]) if drafts else None
    prefill, decode = (
        step_of(
            *(model.name, CARDS[row["system"]], row["backend"], layout, formats, how, 20.0),
            # DeepSeek in fp8 leaves four devices little else: SGLang is told of 0.95 there (dsr1_fp8_*).
            memory_share=0.95
            if (row["backend"], row["precision"], layout.ranks) == ("sglang", "fp8", 4)
            else None,
        )
        for layout, how in ((of.prefill, None), (of.decode, speculation))
    )
    return ServingCase(
        table="silicon, apart",
        group=f"{model.name} {row['system']} {row['backend']}",
        step=decode,
        clients=clients / of.decodes,
        prompt=float(row["isl"]) * 0.9,
        answer=float(row["osl"]) * 0.9,
        spread=1.0 / 9.0,
        rounds=5.0,
        tpot_s=float(row["silicon_tpot_ms"]) / 1e3,
        ttft_s=float(row["silicon_ttft_ms"]) / 1e3,
        prefill=prefill,
        prefills=of.prefills,
        decodes=of.decodes,
        prefill_tokens=of.step_tokens,
        places=of.places,
    )


def _apart_as_stated(row: dict[str, str], clients: float) -> ServingCase:
    """A row that no list of runs has; of 0 clients, as many as its copies' batches."""
    model = models.named(row["model_path"])
    halves = []
    for half in ("prefill", "decode"):
        columns = {name: row[f"{half}_{name}"] for name in
                   ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")}  # fmt: skip
        formats = _silicon_formats(row, model)
        layout = _silicon_layout({**row, **columns})
        if _is_deployment({**row, **columns}):  # at such sizes attention is data-parallel
            layout = Layout(data=layout.ranks, experts=layout.ranks)
        halves.append(step_of(model.name, CARDS[row["system"]], row["backend"], layout, formats))
    decodes = int(row["decode_num_workers"] or 1)
    if not clients:
        clients = float(row["decode_batch_size"] or 1) * halves[1].layout.data * decodes
    share = 1.0 if "aic-auto-gap" in row["silicon_data_source"] else 0.9
    return ServingCase(
        table="silicon, apart",
        part_of="" if row["decode_num_workers"] else "workers not stated",
        group=f"{model.name} {row['system']} {row['backend']}",
        step=halves[1],
        clients=clients / decodes,
        prompt=float(row["isl"]) * share,
        answer=float(row["osl"]) * share,
        tpot_s=float(row["silicon_tpot_ms"]) / 1e3,
        ttft_s=float(row["silicon_ttft_ms"]) / 1e3,
        prefill=halves[0],
        decodes=decodes,
        prefills=int(row["prefill_num_workers"] or 0),
    )


def _inner(model: Architecture) -> int | None:
    """Numbers between the two products of an expert; None of a model without."""
    return next((block.feed.inner for block in model.blocks if isinstance(block.feed, Experts)), None)


def _silicon_layout(row: dict[str, str]) -> Layout:
    """What ran: where both columns of experts are n, the others are n x n and stand for n devices.

    The same measured row is there as "tp4_0_ep4_0" with 4 ways of data and as 16 ways with 4 x 4, on 8 devices.
    With as many ways of tensors as of data, and experts over their product, attention was data-parallel.
    """

    def ways(name: str) -> int:
        return int(row[name] or 1) or 1

    tensor, data = ways("tp_size"), ways("attention_dp_size")
    experts, shared = ways("moe_ep_size"), ways("moe_tp_size")
    if row["attention_dp_size"] and shared == experts > 1 and tensor * data == shared * experts:
        return Layout(tensor=1 if data > 1 else shared, data=shared if data > 1 else 1, experts=experts)
    if tensor == data > 1 and experts == tensor * data:
        return Layout(data=data, experts=data)
    return Layout(tensor=tensor, data=data, experts=experts)


def _silicon_formats(row: dict[str, str], model: Architecture) -> tuple[str, ...]:
    """Weights, attention's projections, experts, cache.

    gpt-oss is MXFP4 in its experts alone. Checkpoints in NVFP4 of models with experts keep attention in 16 bits,
    but for DeepSeek's last projection (`step_of`): nvidia/DeepSeek-R1-0528-NVFP4-v2, which InferenceX runs, has
    393.63 billion stored numbers, as its architecture has with that projection in NVFP4 and the layer of drafts in
    16 bits (396.77 without it; NVIDIA/Model-Optimizer, examples/deepseek, --enable_wo_quant).
    fp8 of DeepSeek, MiniMax, GLM and Qwen3.5 is theirs with blocks, whatever the column says.
    """
    narrow = {"fp8": "fp8", "fp4": "nvfp4"}.get(row["precision"], "bf16")
    linear = row["gemm_quant_mode"] or narrow
    experts = row["moe_quant_mode"] or linear
    cache = "fp8" if row["precision"] in ("fp8", "fp4") else "bf16"
    if row["precision"] == "bf16":
        return "bf16", "bf16", "bf16", "bf16"
    if model.name.startswith("gpt-oss"):
        return "bf16", "bf16", "mxfp4_mxfp8" if row["system"][0] in "bg" else "mxfp4", cache
    if linear == "nvfp4":
        return linear, linear if model.parameters == model.active_parameters else "bf16", experts, cache
    if experts == "fp8_block" or model.name.startswith(("minimax", "glm", "deepseek", "qwen3.5")):
        return "fp8_block", "fp8_block", "fp8_block", cache
    return linear, linear, experts, cache


def static(path: Path) -> Iterator[ServingCase | LeftOut]:
    """`serve_trtllm_static`: one batch from start to end, by TensorRT-LLM 0.5 to 0.9.

    "out tok/s" of the earlier table is of one device too: its 70B and 180B rows, and one of 7B on two devices,
    agree with the later table's per device, and not otherwise.
    """
    for row in table(path):
        word = {"FP8": "fp8", "FP16": "fp16"}[row["dtype"]]
        cache = "fp8" if word == "fp8" else "fp16"
        name = models.named(row["model"]).name
        try:
            step = step_of(name, CARDS[row["hardware"]], "tensorrt-llm-0", Layout(tensor=int(row["tp"])),
                         (word, word, word, cache))  # fmt: skip
        except RooflabError as error:
            yield LeftOut(path.name, str(error)[:90])
            continue
        case = ServingCase(
            table="TensorRT-LLM static",
            group=f"{name} {row['hardware']}",
            step=step,
            clients=float(row["batch"]),
            prompt=float(row["prompt_len"]),
            answer=float(row["output_len"] or 1),
            static=True,
        )
        value = float(row["value"])
        yield case._replace(ttft_s=value / 1e3) if row["metric"] == "TTFT" else case._replace(throughput=value)


_ENGINES = {"vLLM": "vllm-0", "TensorRT-LLM": "tensorrt-llm-0"}


def bench(path: Path) -> Iterator[ServingCase | LeftOut]:
    """`serve_llm_inference_bench_*`: one batch from start to end; NVIDIA's cards, vLLM and TensorRT-LLM alone."""
    seen: set[tuple[str, ...]] = set()
    for row in table(path):
        if row["hardware"] not in CARDS or row["framework"] not in _ENGINES or not row["output_len"]:
            continue
        key = tuple(
            row[name] for name in ("hardware", "gpus", "model", "batch", "prompt_len", "output_len", "framework")
        )
        if row["metric"] != "end_to_end_latency" or "Pipeline" in row["note"] or key in seen:
            continue  # throughput is (in + out) x batch / this time, by construction
        seen.add(key)
        try:
            name = models.named(row["model"]).name
            step = step_of(name, CARDS[row["hardware"]], _ENGINES[row["framework"]],
                         Layout(tensor=int(row["tp"] or row["gpus"] or 1)), ("fp16",) * 4)  # fmt: skip
        except (RooflabError, ValueError) as error:
            yield LeftOut(path.name, str(error)[:90])
            continue
        batch, answer = float(row["batch"]), float(row["output_len"])
        yield ServingCase(
            table="LLM-Inference-Bench",
            group=f"{name} {row['hardware']} {row['framework']}",
            step=step,
            clients=batch,
            prompt=float(row["prompt_len"]),
            answer=answer,
            throughput=batch * answer / float(row["value"]) / step.layout.ranks,
            static=True,
        )


def dstack(path: Path) -> Iterator[ServingCase | LeftOut]:
    """`serve_dstack`: batches of vLLM 0.6 on H100, and gpt-oss with prompts apart on a node of eight H200.

    dstackai/benchmarks, comparison/pd_ratio: four workers of two devices each (`gpus` counts workers; two of them
    are taken to have four each), 500 prompts, answers that may end by themselves: 815 tokens in the mean of 2048
    (raw_data/3p1d_conc128_in2048_out2048_*.json).
    """

    def _alike(row: dict[str, str]) -> tuple[str, ...]:
        return tuple(row[name] for name in ("framework", "note", "batch", "prompt_len", "output_len"))

    rows = table(path)
    first_s = {_alike(row): float(row["value"]) / 1e3 for row in rows if row["metric"] == "mean_ttft_ms"}
    for row in rows:
        if row["metric"] == "elapsed" and "H100" in row["hardware"]:
            step = step_of(models.named("meta-llama/Llama-3.1-405B").name, "h100-sxm", "vllm-0",
                         Layout(tensor=int(row["gpus"])), ("fp8", "bf16", "fp8", "bf16"))  # fmt: skip
            batch, answer = float(row["batch"]), float(row["output_len"])
            yield ServingCase(
                table="dstack", group="llama-3.1-405b H100", step=step, clients=batch, offline=True,
                prompt=float(row["prompt_len"]), answer=answer,
                throughput=batch * answer / float(row["value"]) / step.layout.ranks,
            )  # fmt: skip
        elif row["metric"] == "mean_tpot_ms" and row["framework"].startswith("SGLang PD"):
            found = re.search(r"prefill workers (\d+), decode workers (\d+)", row["note"])
            assert found is not None
            prefills, decodes = int(found[1]), int(found[2])
            ways = Layout(tensor=8 // (prefills + decodes))
            step = step_of("gpt-oss-120b", "h200", "sglang", ways, ("bf16", "bf16", "mxfp4", "bf16"))
            clients = float(row["batch"].partition("=")[2])
            yield ServingCase(
                table="dstack", group="gpt-oss-120b H200 apart", step=step, prefill=step, prefills=prefills,
                decodes=decodes, clients=clients / decodes, rounds=500.0 / clients,
                prompt=float(row["prompt_len"]), answer=min(float(row["output_len"]), 815.0),
                tpot_s=float(row["value"]) / 1e3, ttft_s=first_s[_alike(row)],
            )  # fmt: skip
        elif row["metric"] == "elapsed" and row["hardware"].startswith("4xMi300x"):
            step = step_of(models.named("meta-llama/Llama-3.1-405B").name, "mi300x", "vllm-0",
                           Layout(tensor=4), ("fp8", "bf16", "fp8", "bf16"))  # fmt: skip
            batch, prompt, answer = (float(row[name]) for name in ("batch", "prompt_len", "output_len"))
            yield ServingCase(
                table="dstack", group="llama-3.1-405b MI300X", step=step, clients=batch, offline=True,
                prompt=prompt, answer=answer, throughput=batch * answer / float(row["value"]) / 4.0,
            )  # fmt: skip
        elif row["metric"] == "elapsed":
            yield LeftOut(path.name, "MI300X: two copies of a setting that stands by itself, the same times")
        elif row["metric"] == "output_throughput" and "online" in row["framework"]:
            yield LeftOut(path.name, "online: lengths of ShareGPT, of which the mean alone is stated")


def servingsim(path: Path) -> Iterator[ServingCase | LeftOut]:
    """`serve_llmservingsim_vllm`: 300 requests of ShareGPT, 10 a second, by vLLM 0.19; a figure a row.

    The stream's file is not in the table: ours has its rate and the quantiles of its lengths, in another order.
    """
    for row in table(path):
        most = re.search(r"max_num_seqs (\d+)", row["batch"])
        card = {"RTX4090": "rtx-4090", "RTXPRO6000": "rtx-pro-6000-workstation"}.get(row["hardware"])
        if card is None or most is None:
            yield LeftOut(path.name, f"{row['hardware']}: not in the catalogue")
            continue
        try:
            name = models.named(row["model"]).name
            step = step_of(name, card, "vllm", Layout(tensor=int(row["tp"])), ("bf16",) * 4)
        except RooflabError as error:
            yield LeftOut(path.name, str(error)[:90])
            continue
        yield ServingCase(
            table="LLMServingSim", group=f"{name} {card}", step=step, clients=0.0, prompt=0.0, answer=0.0,
            most_sequences=int(most[1]), figure=row["metric"], ttft_s=float(row["value"]) / 1e3,
        )  # fmt: skip


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
