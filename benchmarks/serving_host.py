"""What a request costs an engine's host, fitted on some published times and tried on others.

`judge` gives the figures of cases as `serving.judged` does: (case, what, ln(predicted / measured), …).
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import engine_layers
import numpy as np
import serving_rows
from serving_rows import ServingCase

import rooflab
from rooflab.model.engines.engine import load, names
from rooflab.model.serving.step import StepModel

Judge = Callable[[Iterable[ServingCase]], Any]


def refitted(cases: list[ServingCase], without: str, engines: Path, judge: Judge) -> list[ServingCase]:
    """The cases of one card ("none": of all), with all that is fitted for engines fitted on the other cards alone.

    Shares of experts by the engines' tables (`engine_layers.fitted_shares`), then what a request costs the host,
    on the rows of "fit".
    """
    card = None if without == "none" else rooflab.machine(serving_rows.CARDS[without]).name
    left_out = [case for case in cases if card in (None, case.step.machine.name)]
    others = [case for case in cases if case.step.machine.name != card and case.part == "fit"]
    shares = engine_layers.fitted_shares(engines, without)
    found: list[ServingCase] = []
    for name in sorted({engine_file(case.step) for case in left_out}):
        mine = [case for case in others if engine_file(case.step) == name]
        changes: dict[str, float] = dict(shares.get(name, {}))
        if mine:
            mine = changed(mine, changes)
            changes |= _host(_rests(mine, judge), mine)
        print(f"{name} without {without}: { {key: round(value, 7) for key, value in changes.items()} }")
        found += changed([case for case in left_out if engine_file(case.step) == name], changes)
    return found


def folded(cases: list[ServingCase], judge: Judge) -> list[ServingCase]:
    """All cases, each with what a request costs its engine's host fitted on other models: three thirds in turn."""
    found: list[ServingCase] = []
    for name in sorted({engine_file(case.step) for case in cases}):
        mine = [case for case in cases if engine_file(case.step) == name]
        rests = _rests(mine, judge)
        models = sorted({case.step.model.name for case in mine})
        for third in range(3):
            judges = [case for case in mine if models.index(case.step.model.name) % 3 == third]
            fits = [case for case in mine if models.index(case.step.model.name) % 3 != third]
            changes = _host(rests, fits)
            told = {key: round(value, 7) for key, value in changes.items()}
            print(f"{name} without {', '.join(models[third::3])}: {told}")
            found += changed(judges, changes)
    return found


class _Rest(NamedTuple):
    """A case's time to the first token, as measured and without what its host takes outside of the steps."""

    measured_s: float
    rest_s: float
    prompt: float
    latent: bool


_LAUNCH_S = (20e-6, 30e-6, 40e-6, 50e-6)


def _rests(mine: list[ServingCase], judge: Judge) -> dict[float, dict[tuple, _Rest]]:
    """By seconds of a launch, where the engine's are fitted, and by case: what `_host` is fitted on."""
    engine = mine[0].step.engine
    launches = _LAUNCH_S if engine.constants["launch_s"].fitted else (engine.launch_s,)
    found: dict[float, dict[tuple, _Rest]] = {}
    for launch_s in launches:
        cases = changed(mine, {"launch_s": launch_s})
        of = found[launch_s] = {}
        for each in judge(cases):
            if each.what != "TTFT" or each.case.prefill is not None:
                continue
            step, measured_s = each.case.step, each.case.ttft_s or np.nan
            # What the host takes is added to the rest, so that no row is simulated again.
            rest_s = measured_s * math.exp(each.error) - float(step.request_s(each.case.prompt))
            latent = float(step.request_s(0.0)) > step.engine.request_s
            of[_same(each.case)] = _Rest(measured_s, rest_s, each.case.prompt, latent)
    return found


def _same(case: ServingCase) -> tuple:
    """What a case is known by among those with other constants."""
    return (case.group, case.step.layout, case.step.precision.name, *case[3:9], case.step_tokens)


def _host(rests: dict[float, dict[tuple, _Rest]], fits: list[ServingCase]) -> dict[str, float]:
    """What a request costs an engine's host: the least mean error of the TTFT of `fits` on a grid.

    `request_s`, `prompt_token_s`, `latent_s`, and `launch_s` where the engine's is fitted.
    """
    best, changes = math.inf, {}
    for launch_s, of in rests.items():
        mine = [of[_same(case)] for case in fits if _same(case) in of]
        measured_s, rest_s, prompts, latent = (np.array(column, float) for column in zip(*mine, strict=True))
        waits = np.arange(0.0, 0.151, 0.01) if latent.any() else np.zeros(1)
        for request_s, token_s, latent_s in itertools.product(
            np.arange(0.0, 0.151, 0.005), np.arange(0.0, 1.6e-5, 1e-6), waits
        ):
            predicted = np.maximum(rest_s + request_s + token_s * prompts + latent_s * latent, 1e-6)
            error = float(np.mean(np.minimum(np.abs(np.log(predicted / measured_s)), 1.0)))
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


def engine_file(step: StepModel) -> str:
    """Of the engine that it runs on, the name of the data file."""
    return next(name for name in names() if load(name).name == step.engine.name)


def left_out_spreads(figures: list[Any]) -> str:
    """By how much bars would be wider or narrower by other models (cards) alone, and what those would hold.

    For each model (card) left out, the factor on ln(bar) with which 78 % of the others lie inside, models alike.
    """
    errors = np.abs([each.error for each in figures])
    bars = np.log([each.bar for each in figures])
    models = np.array([each.case.step.model.name for each in figures])
    told = []
    for what, of in (("model", models), ("card", np.array([each.case.step.machine.name for each in figures]))):
        inside, factors = np.zeros(len(figures), bool), []
        for name in sorted(set(of)):
            others = np.flatnonzero(of != name)
            order = others[np.argsort((errors / bars)[others])]
            weights = np.cumsum([1.0 / np.sum(models[others] == models[n]) for n in order])
            last = order[np.searchsorted(weights, 0.78 * weights[-1])]
            inside |= (of == name) & (errors <= bars * errors[last] / bars[last])
            factors.append(f"{name} {errors[last] / bars[last]:.2f}")
        told.append(
            f"bars without a {what}, x {', '.join(factors)}: {np.mean(inside):.0%} of those left out inside"
        )
    return "\n".join(told)
