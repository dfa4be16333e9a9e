"""Serving predicted against what was published: `python benchmarks/serving.py [--groups]`.

For each table: cases, left out and why, median and 90th percentile of |ln(predicted / measured)| as a factor,
bias, share inside the bars. Groups (model, card, engine) are "fit" or "aside" by their names; constants of engines
that are fitted at all are fitted on the former, so the lines "aside" are the judge.
"""

from __future__ import annotations

import argparse
import collections
import functools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import local_rows
import numpy as np
import premai_rows
import serving_protocols
import serving_rows
from measured import SHARED, LeftOut
from serving_host import engine_file, folded, left_out_spreads, refitted
from serving_rows import ServingCase

from rooflab.model.serving import events
from rooflab.model.serving import replay as replays
from rooflab.model.serving.asked import Asked
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.first_token import (
    FirstToken,
    first_token_factor,
    waits_for_messages,
    waits_for_places,
)
from rooflab.model.serving.flows import pool_of
from rooflab.model.serving.replay import Pool, Served, serve_apart
from rooflab.model.serving.requests import closed_loop
from rooflab.model.serving.schedulers import scheduler
from rooflab.model.serving.server import Server
from rooflab.model.serving.step import StepModel
from rooflab.model.serving.table import Table


class Judged(NamedTuple):
    """One figure of one case: ln(predicted / measured), and the bar about it."""

    case: ServingCase
    what: str
    error: float
    inside: bool
    bar: float


def judged(cases: Iterable[ServingCase]) -> list[Judged]:
    """All figures of all cases."""
    found: list[Judged] = []
    loops: dict[tuple, list[ServingCase]] = collections.defaultdict(list)
    for case in cases:
        if case.static:
            found += _static(case)
        elif case.offline:
            found.append(_offline(case))
        elif case.figure:
            found.append(_of_a_stream(case))
        elif case.prefill is not None:
            found += _apart(case, case.prefill)
        elif case.others:
            found += _several(case)
        else:
            alike = (case.rounds, case.prompts, case.wait_steps, case.wait_share)
            loops[(id(case.step), case.prompt, case.answer, case.step_tokens, *alike)].append(case)
    for alike in loops.values():
        found += _loop(alike)
    return found


def _several(case: ServingCase) -> list[Judged]:
    """A row that does not say which of several servers it is of: the middle of what they would do."""
    found = []
    for alike in zip(*(_loop([each._replace(others=())]) for each in (case, *case.others)), strict=True):
        errors = [each.error for each in alike]
        middle, apart = (min(errors) + max(errors)) / 2.0, (max(errors) - min(errors)) / 2.0
        bar = math.exp(apart) * alike[0].bar
        found.append(Judged(case, alike[0].what, middle, abs(middle) <= math.log(bar), bar))
    return found


def _one(case: ServingCase, what: str, predicted: float, measured: float, bar: float) -> Judged:
    error = float(np.log(predicted / measured))
    return Judged(case, what, error, abs(error) <= np.log(bar), bar)


def _loop(alike: list[ServingCase]) -> list[Judged]:
    """Closed loops that differ in their clients alone, each simulated as measured."""
    first = alike[0]
    step, prompt = first.step, round(first.prompt)
    accepted = step.speculation.accepted if step.speculation else 1.0
    answer = max(round(first.answer / accepted), 1)
    memory_bytes = step.machine.level("memory").capacity_bytes
    rules = scheduler(engine_file(step), memory_bytes, token_budget=first.step_tokens)
    server = Server(step=step, scheduler=rules)
    if not rules.chunked:  # it ran, so its server was told of so many tokens
        longest = math.ceil(server.at_once(prompt, answer) * (1.0 + first.spread))
        rules = rules._replace(token_budget=max(rules.token_budget, longest))
        server = Server(step=step, scheduler=rules)
    table = server.table(prompt, answer)
    context = first.prompt + first.answer / 2
    clients = np.array([case.clients for case in alike])
    decode = step.time(Batch(decode_sequences=clients, decode_context=context))
    prefill = step.time(Batch(prefill_sequences=1.0, prefill_tokens=min(prompt, rules.token_budget)))
    found, known = [], {}
    for number, case in enumerate(alike):
        if case.clients not in known:
            known[case.clients] = _simulated(server, table, case, prompt, answer)
        ttft_s, tpot_s = known[case.clients]
        step_s = float(decode.seconds[number])
        ttft_s += (case.poll_steps - 1) / 2 * step_s
        if case.compiles_s and case.clients * prompt > rules.token_budget:  # a prompt is cut as all come at once
            first_s = case.compiles_s / case.clients / case.rounds  # but for the first client all wait for it
            ttft_s, tpot_s = ttft_s + first_s * (case.clients - 1.0), tpot_s + first_s / answer
        bar = float((decode.high / decode.seconds)[number])
        found.append(_one(case, "TPOT", tpot_s / accepted, case.tpot_s or np.nan, bar))
        if case.ttft_s is None:
            continue
        rate = case.clients * answer / (ttft_s + tpot_s * answer)
        full = waits_for_places(case.clients, server.most_running(prompt, round(case.answer)))
        first = FirstToken(
            ttft_s=ttft_s,
            own_s=float(prefill.seconds[0]) * math.ceil(prompt / rules.token_budget),
            outside_s=server.outside_s(prompt),
            full=full or waits_for_messages(rate, server.message_s),
            latent=step.latent,
        )
        bar = first_token_factor(prefill, first)
        found.append(_one(case, "TTFT", ttft_s, case.ttft_s, bar))
    return found


# TensorRT-LLM's attention_dp_config of the measured servers: enable_balance, with timeout_iters. A prompt goes to
# the rank with the fewest requests, where one has ended: n ranks have one each after n (1 + 1/2 + … + 1/n).
_GATHERS_STEPS = 60


def _simulated(server: Server, table: Table, case: ServingCase, prompt: int, answer: int) -> tuple[float, float]:
    """Mean TTFT and TPOT of all requests, event by event, the first of all clients at once."""
    clients = round(case.clients)
    requests = closed_loop(clients, round(case.rounds * clients), prompt, answer, spread=case.spread, seed=1)
    outside_s = server.outside_s(prompt)
    wait_steps, wait_tokens = case.wait_steps, round(case.wait_share * server.token_budget)
    if case.gathers:
        wait_steps, ranks = _GATHERS_STEPS, server.layout.data
        prompts = min(ranks * sum(1.0 / (1 + rank) for rank in range(ranks)), clients) - 0.5
        wait_tokens = round(clients + prompts * prompt * (1.0 - case.spread))
    rules, least = server.scheduler, math.ceil((prompt + answer) * (1.0 + case.spread)) + 1
    tokens = max(server.simulated_tokens(prompt, round(case.answer)), least)
    # Of prompts that come again all but the last block is there, from the first of them on: a warm-up of two
    # rounds has had as many as it is long.
    again = np.arange(len(requests.prompt)) >= max(case.prompts - 2 * clients, 0)
    whole = (requests.prompt - 1) // rules.block_tokens * rules.block_tokens
    found = events.run(
        *(requests.arrival_s, requests.prompt, requests.answer, table),
        events.Rules(
            token_budget=server.token_budget,
            most_sequences=server.most_sequences,
            blocks=-(-tokens // rules.block_tokens),
            block_tokens=rules.block_tokens,
            chunked=rules.chunked,
            mixed=server.mixed,
            reserve=rules.reserve,
            clients=clients,
            between_s=outside_s,
            entry_s=float(server.step.entry_s(prompt)),
            ahead=server.ahead,
            message_s=server.message_s,
            wait_steps=wait_steps,
            wait_tokens=wait_tokens,
        ),
        start=np.where(again, whole, 0) if case.prompts else 0,
    )
    several = requests.answer > 1
    tpot_s = (found.end_s - found.first_s)[several] / (requests.answer[several] - 1)
    arrival_s = found.arrival_s.copy()
    arrival_s[:clients] = 0.0  # sent at once
    waited_s = found.first_s - arrival_s
    return float(waited_s.mean()) + outside_s, float(tpot_s.mean())


def _offline(case: ServingCase) -> Judged:
    """All requests at once, through the scheduler until the last is answered."""
    count, prompt, answer = round(case.clients), round(case.prompt), round(case.answer)
    requests = closed_loop(count, count, prompt, answer)._replace(clients=0)
    rules = scheduler(engine_file(case.step), case.step.machine.level("memory").capacity_bytes)
    if not rules.chunked:  # it ran, so its server was told of so many tokens
        rules = rules._replace(token_budget=max(rules.token_budget, prompt + answer))
    server = Server(step=case.step, scheduler=rules)
    pool = pool_of(server, Asked(prompt=case.prompt, answer=case.answer, requests=requests), requests, 0.0)
    served = replays.serve_together(requests, pool)
    rate = count * answer / float(served.end_s.max()) / case.step.layout.ranks
    decode = case.step.time(Batch(decode_sequences=case.clients, decode_context=prompt + answer / 2))
    assert case.throughput is not None
    return _one(case, "time", case.throughput, rate, float(decode.high[0] / decode.seconds[0]))


@functools.cache
def _streamed(step: StepModel, most_sequences: int) -> Served:
    """300 requests of ShareGPT, 10 a second."""
    requests = serving_protocols.sharegpt(300, 10.0)
    rules = scheduler(engine_file(step), step.machine.level("memory").capacity_bytes)
    server = Server(step=step, scheduler=rules._replace(most_sequences=most_sequences))
    asked = Asked(prompt=float(requests.prompt.mean()), answer=float(requests.answer.mean()), requests=requests)
    return replays.serve_together(requests, pool_of(server, asked, requests, 0.0))


_PERCENTILES = {"Median": 50.0, "P90": 90.0, "P95": 95.0, "P99": 99.0}


def _of_a_stream(case: ServingCase) -> Judged:
    """One figure of a stream."""
    served = _streamed(case.step, case.most_sequences)
    what, _, which = case.figure.partition(" ")
    outside_s = float(case.step.request_s(float(served.requests.prompt.mean())))
    values = {
        "TTFT": served.first_s - served.arrival_s + outside_s,
        "TPOT": (served.end_s - served.first_s) / (served.requests.answer - 1),
        "Latency": served.end_s - served.arrival_s + outside_s,
    }[what]
    predicted = float(values.mean() if which == "Mean" else np.percentile(values, _PERCENTILES[which]))
    decode = case.step.time(Batch(decode_sequences=32.0, decode_context=1200.0))
    bar = float(decode.high[0] / decode.seconds[0])
    if what == "TTFT":
        prefill = case.step.time(Batch(prefill_sequences=1.0, prefill_tokens=900.0))
        bar = first_token_factor(prefill, FirstToken(predicted, float(prefill.seconds[0]), outside_s))
    return _one(case, what, predicted, case.ttft_s or np.nan, bar)


def _apart(case: ServingCase, prompts: StepModel) -> list[Judged]:
    """Prompts on devices of their own: where several copies may have run it, the middle of what they would do."""
    all_of = [_served_apart(each) for each in (case, *case.others)]
    found = []
    for number, (what, measured) in enumerate((("TPOT", case.tpot_s), ("TTFT", case.ttft_s))):
        if measured is None:
            continue
        low, high = (pick(each[number] for each in all_of) for pick in (min, max))
        bar = math.sqrt(high / low) * all_of[0][2 + number]
        found.append(_one(case, what, math.sqrt(low * high), measured, bar))
    return found


_KNOWN: dict[tuple, tuple[float, float, float, float]] = {}


def _served_apart(case: ServingCase) -> tuple[float, float, float, float]:
    """TPOT, TTFT and the bars of both: the closed loop over both pools, event by event.

    A client's first token is sent by the copy that decodes, once it has the KV cache and made one more; Dynamo's
    front end takes prompts apart on many threads, so that none waits for others' (ai-dynamo/dynamo, lib/llm).
    """
    prompts = case.prefill
    assert prompts is not None
    key = tuple(case._replace(table="", group="", part_of="", tpot_s=None, ttft_s=None, others=()))
    if key in _KNOWN:
        return _KNOWN[key]
    accepted = case.step.speculation.accepted if case.step.speculation else 1.0
    prompt, answer = round(case.prompt), max(round(case.answer / accepted), 2)
    longest = math.ceil((prompt + answer) * (1.0 + case.spread)) + 1
    rules = scheduler(engine_file(case.step), case.step.machine.level("memory").capacity_bytes)
    of_prompts = rules._replace(token_budget=case.prefill_tokens or rules.token_budget)
    if not rules.chunked:
        whole = math.ceil(prompt * (1.0 + case.spread)) if rules.reserve else longest
        of_prompts = of_prompts._replace(token_budget=max(of_prompts.token_budget, whole))
    first, second = Server(step=prompts, scheduler=of_prompts), Server(step=case.step, scheduler=rules)
    decode = case.step.time(Batch(decode_sequences=max(case.clients, 1.0), decode_context=prompt + answer / 2))
    prefill = prompts.time(Batch(prefill_sequences=1.0, prefill_tokens=prompt))
    clients = max(round(case.clients * case.decodes), 1)
    # Not stated: so many copies as keep up with what decodes.
    busy = clients / (float(decode.seconds[0]) * answer) * float(prefill.seconds[0]) / prompts.layout.data
    outside_s = first.outside_s(prompt)
    loop = closed_loop(clients, round(case.rounds * clients), prompt, answer, spread=case.spread, seed=1)
    pools = [
        Pool(
            _table(server, prompt, 1 if server is first else answer),
            events.Rules(
                token_budget=server.token_budget,
                most_sequences=min(server.most_sequences, most or server.most_sequences),
                blocks=-(-max(server.simulated_tokens(prompt, tokens), longest) // blocks),
                block_tokens=blocks,
                chunked=server.scheduler.chunked or server is second,
                mixed=server.mixed,
                reserve=rules.reserve,
                between_s=outside_s,
                ahead=server.ahead,
            ),
            copies,
        )
        for server, tokens, most, copies, blocks in (
            (first, 1, None, case.prefills or math.ceil(busy / 0.8), rules.block_tokens),
            (second, case.answer, (case.places or 0) * case.step.layout.data, case.decodes, rules.block_tokens),
        )
    ]
    served = serve_apart(loop, pools[0], pools[1], second.transfer_s)
    assert served.taken_s is not None
    ttft_s = float((served.taken_s - served.arrival_s).mean()) + outside_s
    tokens = np.maximum(served.requests.answer - 1, 1)
    tpot_s = float(((served.end_s - served.taken_s) / tokens).mean()) / accepted
    own_s = float(prefill.seconds[0]) * math.ceil(prompt / of_prompts.token_budget)
    waits = FirstToken(ttft_s, own_s, outside_s, full=True, latent=prompts.latent)
    bars = float((decode.high / decode.seconds)[0]), first_token_factor(prefill, waits)
    _KNOWN[key] = tpot_s, ttft_s, *bars
    return _KNOWN[key]


@functools.cache
def _table(server: Server, prompt: int, answer: int) -> Table:
    return server.table(prompt, answer)


def _static(case: ServingCase) -> list[Judged]:
    """One batch: all prompts at once, then token by token."""
    prefill = case.step.time(Batch(prefill_sequences=case.clients, prefill_tokens=case.prompt))
    bar = float(prefill.high[0] / prefill.seconds[0])
    if case.tpot_s is not None:
        decode = case.step.time(Batch(decode_sequences=1.0, decode_context=case.prompt + case.answer / 2))
        wide = float(decode.high[0] / decode.seconds[0])
        return [_one(case, "TPOT", float(decode.seconds[0]) + case.outside_s, case.tpot_s, wide)]
    if case.ttft_s is not None:
        return [_one(case, "TTFT", float(prefill.seconds[0]), case.ttft_s, bar)]
    context = case.prompt + np.linspace(1.0, max(case.answer - 1.0, 1.0), 9)
    decode = case.step.time(Batch(decode_sequences=case.clients, decode_context=context))
    total_s = float(prefill.seconds[0] + (case.answer - 1.0) * decode.seconds.mean())
    rate = case.clients * case.answer / total_s / case.step.layout.ranks
    assert case.throughput is not None
    return [_one(case, "time", case.throughput, rate, float((decode.high / decode.seconds).mean()))]


def summary(name: str, figures: list[Judged]) -> str:
    """One line of a table's figures."""
    errors = np.array([each.error for each in figures])
    size = np.abs(errors)
    inside = np.mean([each.inside for each in figures])
    wide = np.median([each.bar**2 for each in figures])
    return (
        f"{name:44} {len(errors):5}  median {np.exp(np.median(size)) - 1:6.1%}  "
        f"p90 {np.exp(np.quantile(size, 0.9)) - 1:7.1%}  bias {np.exp(np.median(errors)):5.2f}  "
        f"inside {inside:4.0%}  high/low {wide:4.2f}"
    )


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "scale")
    parser.add_argument("--groups", action="store_true", help="a line for each model, card and engine too")
    parser.add_argument(
        "--without", metavar="SYSTEM", help="silicon: fit without this card (h100_sxm, …), judge it"
    )
    parser.add_argument(
        "--folds", action="store_true", help="silicon: constants of each third of models fitted on the others"
    )
    parser.add_argument(
        "--table", action="append", metavar="TABLE", help="silicon, apart, static, bench, premai, …"
    )
    asked = parser.parse_args()
    tables = {
        "silicon": lambda: serving_rows.silicon(asked.data / "serve_aiconfigurator_silicon.csv"),
        "apart": lambda: serving_rows.apart(asked.data / "serve_aiconfigurator_silicon.csv"),
        "static": lambda: serving_rows.static(asked.data / "serve_trtllm_static_v05_v09.csv"),
        "dstack": lambda: serving_rows.dstack(asked.data / "serve_dstack_h100_mi300x.csv"),
        "premai": lambda: premai_rows.premai(asked.data / "serve_premai_engines_a100.csv"),
        "servingsim": lambda: serving_rows.servingsim(asked.data / "serve_llmservingsim_vllm.csv"),
        "cuda": lambda: local_rows.local(asked.data / "local_llamacpp_cuda_vulkan_gptoss.csv"),
        "apple": lambda: local_rows.local(asked.data / "local_llamacpp_apple_4167.csv"),
        "cores": lambda: local_rows.cores(asked.data / "local_ikllama_cpu.csv"),
        "ollama": lambda: local_rows.ollama(asked.data / "local_geerling_ai.csv"),
        "bench": lambda: serving_rows.bench(asked.data / "serve_llm_inference_bench_all.csv"),
    }
    for name in asked.table or ():
        if name not in tables:
            parser.error(f"--table {name}: expected one of {', '.join(tables)}")
    for name in asked.table or (["silicon"] if asked.without or asked.folds else tables):
        rows = list(tables[name]())
        cases = [row for row in rows if isinstance(row, ServingCase)]
        left = collections.Counter(row.why for row in rows if isinstance(row, LeftOut))
        if asked.without:
            cases = refitted(cases, asked.without, asked.data.parent / "engines", judged)
        if asked.folds:
            cases = folded(cases, judged)
        figures = judged(cases)
        print(f"\n{name}: {len(cases)} cases, {sum(left.values())} left out")
        for why, count in left.most_common():
            print(f"  {count:4} {why}")
        for what in dict.fromkeys(each.what for each in figures):
            ours = [each for each in figures if each.what == what]
            print(summary(f"{what}, all", ours))
            if name == "silicon" and what == "TTFT" and not asked.without:
                print(left_out_spreads(ours))
            for part in sorted({each.case.part for each in ours}, reverse=True):
                some = [each for each in ours if each.case.part == part]
                if some:
                    print(summary(f"{what}, {part}", some))
            if asked.groups:
                for group in sorted({each.case.group for each in ours}):
                    print(summary(f"  {group}", [each for each in ours if each.case.group == group]))


if __name__ == "__main__":
    main()
