"""Serving predicted against what was published: `python benchmarks/serving.py [--groups]`.

For each table: cases, left out and why, median and 90th percentile of |ln(predicted / measured)| as a factor,
bias, share inside the bars. Groups (model, card, engine) are "fit" or "aside" by their names; constants of engines
that are fitted at all are fitted on the former, so the lines "aside" are the judge.
"""

from __future__ import annotations

import argparse
import collections
import copy
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import engine_layers
import local_rows
import numpy as np
import serving_protocols
import serving_rows
from measured import SHARED, LeftOut
from serving_rows import ServingCase

import rooflab
from rooflab.model.serving import events
from rooflab.model.serving import replay as replays
from rooflab.model.serving.answer import Asked, pool_of
from rooflab.model.serving.apart import Apart, steady_apart
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.replay import Served
from rooflab.model.serving.requests import closed_loop
from rooflab.model.serving.schedulers import scheduler
from rooflab.model.serving.server import Server
from rooflab.model.serving.step import StepModel, first_token_factor
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
        else:
            alike = (case.rounds, case.wait_steps, case.wait_share)
            loops[(id(case.step), case.prompt, case.answer, case.step_tokens, *alike)].append(case)
    for alike in loops.values():
        found += _loop(alike)
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
    rules = scheduler(_file(step), memory_bytes, token_budget=first.step_tokens)
    longest = math.ceil((prompt + answer) * (1.0 + first.spread))
    if not rules.chunked:  # it ran, so its server was told of so many tokens
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
        if case.gathers:  # the first of them waits for the last, in the mean half of that or of the time-out
            ttft_s += min(step.layout.data / (case.clients / answer), 60.0) / 2 * step_s
        bar = float((decode.high / decode.seconds)[number])
        found.append(_one(case, "TPOT", tpot_s / accepted, case.tpot_s or np.nan, bar))
        bar = first_token_factor(prefill)
        found.append(_one(case, "TTFT", ttft_s, case.ttft_s or np.nan, bar))
    return found


def _simulated(server: Server, table: Table, case: ServingCase, prompt: int, answer: int) -> tuple[float, float]:
    """Mean TTFT and TPOT of all requests, event by event, the first of all clients at once."""
    clients = round(case.clients)
    requests = closed_loop(clients, round(case.rounds * clients), prompt, answer, spread=case.spread, seed=1)
    outside_s = server.outside_s(prompt)
    rules, least = server.scheduler, math.ceil((prompt + answer) * (1.0 + case.spread)) + 1
    tokens = max(server.cache_tokens(server.kept_tokens(prompt, answer)), least)
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
            wait_steps=case.wait_steps,
            wait_tokens=round(case.wait_share * server.token_budget),
        ),
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
    rules = scheduler(_file(case.step), case.step.machine.level("memory").capacity_bytes)
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
    rules = scheduler(_file(step), step.machine.level("memory").capacity_bytes)
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
        bar = first_token_factor(case.step.time(Batch(prefill_sequences=1.0, prefill_tokens=900.0)))
    return _one(case, what, predicted, case.ttft_s or np.nan, bar)


def _apart(case: ServingCase, prompts: StepModel) -> list[Judged]:
    """Prompts on devices of their own: the closed loop over both, and its first wave."""
    prompt, answer = round(case.prompt), max(round(case.answer), 2)
    memory_bytes = case.step.machine.level("memory").capacity_bytes
    rules = scheduler(_file(case.step), memory_bytes)
    if not rules.chunked:
        rules = rules._replace(token_budget=max(rules.token_budget, prompt + answer))
    first, second = Server(step=prompts, scheduler=rules), Server(step=case.step, scheduler=rules)
    decode = case.step.time(Batch(decode_sequences=max(case.clients, 1.0), decode_context=prompt + answer / 2))
    prefill = prompts.time(Batch(prefill_sequences=1.0, prefill_tokens=prompt))
    alone_s, outside_s = float(prefill.seconds[0]), first.outside_s(prompt)
    clients = max(case.clients * case.decodes, 1.0)
    # Not stated: so many copies as keep up with what decodes.
    busy = clients / (float(decode.seconds[0]) * answer) * alone_s / prompts.layout.data
    prefills = case.prefills or math.ceil(busy / 0.8)
    of = Apart(
        prefill=_table(first, prompt, 1),
        decode=_table(second, prompt, answer),
        prefills=prefills,
        decodes=case.decodes,
        prompt=prompt,
        answer=answer,
        token_budget=first.token_budget,
        most_running=max(second.most_running(prompt, answer), 1.0),
        transfer_s=float(second.transfer_s(np.array(float(prompt)))),
        between_s=outside_s,
    )
    at = steady_apart(of, np.array([clients])).at
    wave_s = max((clients / prefills - 1) / 2 * alone_s / prompts.layout.data, 0.0)
    ttft_s = float(at.ttft_s[0]) + outside_s + wave_s / case.rounds
    found = [
        _one(case, "TPOT", float(at.tpot_s[0]), case.tpot_s or np.nan, float((decode.high / decode.seconds)[0]))
    ]
    if case.ttft_s is not None:
        found.append(_one(case, "TTFT", ttft_s, case.ttft_s, first_token_factor(prefill)))
    return found


@functools.cache
def _table(server: Server, prompt: int, answer: int) -> Table:
    return server.table(prompt, answer)


def _file(step: object) -> str:
    from rooflab.model.engines.engine import load, names

    return next(name for name in names() if load(name).name == step.engine.name)  # type: ignore[attr-defined]


def _static(case: ServingCase) -> list[Judged]:
    """One batch: all prompts at once, then token by token."""
    prefill = case.step.time(Batch(prefill_sequences=case.clients, prefill_tokens=case.prompt))
    bar = float(prefill.high[0] / prefill.seconds[0])
    if case.tpot_s is not None:
        decode = case.step.time(Batch(decode_sequences=1.0, decode_context=case.prompt + case.answer / 2))
        wide = float(decode.high[0] / decode.seconds[0])
        return [_one(case, "TPOT", float(decode.seconds[0]), case.tpot_s, wide)]
    if case.ttft_s is not None:
        return [_one(case, "TTFT", float(prefill.seconds[0]), case.ttft_s, bar)]
    context = case.prompt + np.linspace(1.0, max(case.answer - 1.0, 1.0), 9)
    decode = case.step.time(Batch(decode_sequences=case.clients, decode_context=context))
    total_s = float(prefill.seconds[0] + (case.answer - 1.0) * decode.seconds.mean())
    rate = case.clients * case.answer / total_s / case.step.layout.ranks
    assert case.throughput is not None
    return [_one(case, "time", case.throughput, rate, float((decode.high / decode.seconds).mean()))]


def refitted(cases: list[ServingCase], without: str, engines: Path) -> list[ServingCase]:
    """The cases of one card ("none": of all), with all that is fitted for engines fitted on the other cards alone.

    Shares of experts by the engines' tables (`engine_layers.fitted_shares`), then what a request costs the host,
    on the rows of "fit".
    """
    card = None if without == "none" else rooflab.machine(serving_rows.CARDS[without]).name
    left_out = [case for case in cases if card in (None, case.step.machine.name)]
    others = [case for case in cases if case.step.machine.name != card and case.part == "fit"]
    shares = engine_layers.fitted_shares(engines, without)
    found: list[ServingCase] = []
    for name in sorted({_file(case.step) for case in left_out}):
        mine = [case for case in others if _file(case.step) == name]
        changes: dict[str, float] = dict(shares.get(name, {}))
        if mine:
            changes |= _host(mine)
        print(f"{name} without {without}: { {key: round(value, 7) for key, value in changes.items()} }")
        found += changed([case for case in left_out if _file(case.step) == name], changes)
    return found


_LAUNCH_S = (20e-6, 30e-6, 40e-6, 50e-6)


def _host(mine: list[ServingCase]) -> dict[str, float]:
    """What a request costs an engine's host: the least median error of the TTFT on a grid.

    `request_s`, `prompt_token_s`, `latent_s`, and `launch_s` where the engine's is fitted.
    """
    engine = mine[0].step.engine
    launches = _LAUNCH_S if engine.constants["launch_s"].fitted else (engine.launch_s,)
    best, changes = math.inf, {}
    for launch_s in launches:
        cases = changed(mine, {"launch_s": launch_s})
        figures = [each for each in judged(cases) if each.what == "TTFT"]
        seconds = np.array([each.case.ttft_s or np.nan for each in figures])
        prompts = np.array([each.case.prompt for each in figures])
        ours = seconds * np.exp([each.error for each in figures])
        # What the host takes is added to the rest, so that no row is simulated again.
        rest = ours - np.array([each.case.step.request_s(each.case.prompt) for each in figures])
        latent = np.array([each.case.step.request_s(0.0) > engine.request_s for each in figures])
        waits = np.arange(0.0, 0.151, 0.01) if latent.any() else np.zeros(1)
        for request_s, token_s, latent_s in itertools.product(
            np.arange(0.0, 0.151, 0.005), np.arange(0.0, 1.6e-5, 1e-6), waits
        ):
            predicted = np.maximum(rest + request_s + token_s * prompts + latent_s * latent, 1e-6)
            error = float(np.median(np.abs(np.log(predicted / seconds))))
            if error < best:
                best = error
                changes = {"request_s": float(request_s), "prompt_token_s": float(token_s), "launch_s": launch_s}
                changes |= {"latent_s": float(latent_s)} if latent.any() else {}
    return changes


def changed(cases: list[ServingCase], changes: dict[str, float]) -> list[ServingCase]:
    """The same with other constants of their engines."""
    known: dict[int, StepModel] = {}
    for case in cases:
        if id(case.step) not in known:
            known[id(case.step)] = copy.copy(case.step)
            known[id(case.step)].engine = dataclasses.replace(case.step.engine, **changes)
    return [case._replace(step=known[id(case.step)]) for case in cases]


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
    parser.add_argument("--table", action="append", help="silicon, apart, static, bench, dstack, premai, …")
    asked = parser.parse_args()
    tables = {
        "silicon": lambda: serving_rows.silicon(asked.data / "serve_aiconfigurator_silicon.csv"),
        "apart": lambda: serving_rows.apart(asked.data / "serve_aiconfigurator_silicon.csv"),
        "static": lambda: serving_rows.static(asked.data / "serve_trtllm_static_v05_v09.csv"),
        "dstack": lambda: serving_rows.dstack(asked.data / "serve_dstack_h100_mi300x.csv"),
        "premai": lambda: serving_rows.premai(asked.data / "serve_premai_engines_a100.csv"),
        "servingsim": lambda: serving_rows.servingsim(asked.data / "serve_llmservingsim_vllm.csv"),
        "cuda": lambda: local_rows.local(asked.data / "local_llamacpp_cuda_vulkan_gptoss.csv"),
        "apple": lambda: local_rows.local(asked.data / "local_llamacpp_apple_4167.csv"),
        "cores": lambda: local_rows.cores(asked.data / "local_ikllama_cpu.csv"),
        "bench": lambda: serving_rows.bench(asked.data / "serve_llm_inference_bench_all.csv"),
    }
    for name in asked.table or (["silicon"] if asked.without else tables):
        rows = list(tables[name]())
        cases = [row for row in rows if isinstance(row, ServingCase)]
        left = collections.Counter(row.why for row in rows if isinstance(row, LeftOut))
        if asked.without:
            cases = refitted(cases, asked.without, asked.data.parent / "engines")
        figures = judged(cases)
        print(f"\n{name}: {len(cases)} cases, {sum(left.values())} left out")
        for why, count in left.most_common():
            print(f"  {count:4} {why}")
        for what in dict.fromkeys(each.what for each in figures):
            ours = [each for each in figures if each.what == what]
            print(summary(f"{what}, all", ours))
            for part in sorted({each.case.part for each in ours}, reverse=True):
                some = [each for each in ours if each.case.part == part]
                if some:
                    print(summary(f"{what}, {part}", some))
            if asked.groups:
                for group in sorted({each.case.group for each in ours}):
                    print(summary(f"  {group}", [each for each in ours if each.case.group == group]))


if __name__ == "__main__":
    main()
