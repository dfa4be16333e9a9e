"""Settings held against a demand: the best of each layout, ranked, the front, what keeps each from more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rooflab.errors import RooflabError
from rooflab.model.engines.engine import engine as engine_called
from rooflab.model.serving import answer
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.search import Search, Tried, tried_on
from rooflab.types.serving_plan import Goal, Option, ServingPlan
from rooflab.units import duration
from rooflab.work.llm.architecture import Architecture


def plan(architecture: Architecture, search: Search) -> ServingPlan:
    """The settings of `architecture` on each machine, ranked.

    Raises:
        RooflabError: it fits in no layout of any machine, by how much; a goal below the floor, which is named.
        UnknownNameError: an unknown engine or format.
    """
    engine_called(search.engine)
    _check_goal(search.goal)
    refused: dict[str, str] = {}
    tried = [each for machine in search.machines for each in tried_on(architecture, machine, search, refused)]
    if not tried:
        raise RooflabError(_fits_nowhere(architecture, search, refused))
    options = [_best(each, search) for each in tried]
    if not any(option.meets for option in options):
        _check_floors(tried, search)
    front = _front(tried, search)
    key = _price_key if search.prices else _speed_key
    kept = any(option.meets for option in options)
    # Where nothing keeps the goal, the nearest to it comes first.
    options.sort(
        key=lambda option: (
            *((not option.meets,) if kept else (_misses(option.ttft_s, option.tpot_s, search.goal),)),
            *key(option, search.goal),
        )
    )
    missed = [] if kept else [_nearest(options, search.goal)]
    sources = dict.fromkeys(source for each in tried for source in (each.server.scheduler.source,))
    return ServingPlan(
        model=architecture.name,
        prompt_tokens=search.prompt,
        answer_tokens=search.answer,
        goal=search.goal,
        options=tuple(options),
        front=tuple(front),
        settings=sum(len(each.clients) for each in tried),
        refused=refused,
        prices=dict(search.prices or {}),
        currency=search.currency,
        sources=tuple(sources),
        warnings=(*missed, *architecture.notes()),
        notes=tuple(_notes(search, architecture)),
    )


def _check_goal(goal: Goal) -> None:
    for name, value in (("ttft", goal.ttft_s), ("tpot", goal.tpot_s), ("rate", goal.rate_per_s)):
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise RooflabError(f"{name}: got {value:g}, expected a number above 0")


def _option(each: Tried, n: int, search: Search, front: bool = False) -> Option:
    """One setting of `each`; as many copies as the rate needs."""
    made, at, goal = each.server, each.at, search.goal
    requests_per_s = float(at.requests_per_s[n])
    copies = 1 if goal.rate_per_s is None else math.ceil(goal.rate_per_s / requests_per_s - 1e-9)
    first = None if each.first is None else replace(each.first, copies=each.first.copies * copies)
    where = answer.deployment(replace(made, copies=made.copies * copies), each.node, first)
    ttft_s, tpot_s = float(at.ttft_s[n]), float(at.tpot_s[n])
    tokens_per_s = requests_per_s * copies * search.answer
    price = None if search.prices is None else search.prices.get(where.machine)
    answered = tokens_per_s if goal.rate_per_s is None else goal.rate_per_s * search.answer
    # Of one copy, what it holds: those that decode, where prompts are computed elsewhere.
    running = float(at.decoding[n]) if first else float(at.running[n])
    used = made.step.memory(running * made.kept_tokens(search.prompt, search.answer), running)
    return Option(
        deployment=where,
        concurrency=float(each.clients[n]),
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        requests_per_s=requests_per_s * copies,
        output_tokens_per_s=tokens_per_s,
        meets=_misses(ttft_s, tpot_s, goal) <= 1.0,
        front=front,
        memory_share=None if used.has is None else float(np.max(used.total)) / used.has,
        loses=_loses(each, n, search),
        price_per_million_tokens=None if price is None else price * where.devices / 3600.0 / answered * 1e6,
    )


def _loses(each: Tried, n: int, search: Search) -> dict[str, float]:
    """Shares of the time of a mean step by what binds it, largest first."""
    if each.first is not None:
        return _loses_apart(each, n, search)
    attended = search.cached + (search.prompt - search.cached + 1.0) / 2.0
    where = (each.at.prompt_tokens[n], attended, each.at.decoding[n], search.prompt + search.answer / 2.0)
    seconds = {name: float(table.at(*where)) for name, table in each.tables.items()}
    whole = seconds.pop("seconds")
    return dict(sorted(((name, s / whole) for name, s in seconds.items() if s > 0), key=lambda one: -one[1]))


def _loses_apart(each: Tried, n: int, search: Search) -> dict[str, float]:
    """The same of the devices of both kinds together; "idle" where either waits for the other."""
    assert each.first is not None
    assert each.first_tables is not None
    assert each.busy is not None
    attended, context = (
        search.cached + (search.prompt - search.cached + 1.0) / 2.0,
        search.prompt + search.answer / 2.0,
    )
    tokens = min(search.prompt - search.cached, each.first.token_budget)
    found: dict[str, float] = {}
    for busy, of, tables, where in (
        (each.busy[0][n], each.first, each.first_tables, (tokens, attended, 0.0, 0.0)),
        (each.busy[1][n], each.server, each.tables, (0.0, 0.0, max(float(each.at.decoding[n]), 1.0), context)),
    ):
        part = of.devices / each.devices
        seconds = {name: float(table.at(*where)) for name, table in tables.items()}
        whole = seconds.pop("seconds")
        for name, s in {**seconds, "idle": whole * (1.0 / max(float(busy), 1e-9) - 1.0)}.items():
            found[name] = found.get(name, 0.0) + part * float(busy) * s / whole
    return dict(sorted(((name, s) for name, s in found.items() if s > 5e-4), key=lambda one: -one[1]))


def _misses(ttft_s: float, tpot_s: float, goal: Goal) -> float:
    """The larger of the times over their goals: 1 and below keeps them."""
    ttft = 0.0 if goal.ttft_s is None else ttft_s / goal.ttft_s
    return max(ttft, 0.0 if goal.tpot_s is None else tpot_s / goal.tpot_s)


def _best(each: Tried, search: Search) -> Option:
    """The number of clients with the most answers that keeps the goal, else the one that misses it least."""
    misses = np.array(
        [_misses(ttft, tpot, search.goal) for ttft, tpot in zip(each.at.ttft_s, each.at.tpot_s, strict=True)]
    )
    keeps = misses <= 1.0
    if keeps.any():
        n = int(np.argmax(np.where(keeps, each.at.requests_per_s, -1.0)))
    else:
        n = int(np.argmin(misses))
    return _option(each, n, search)


def _front(tried: Sequence[Tried], search: Search) -> list[Option]:
    """Settings of which none has both more tokens a second for each user and for each device (or its price)."""
    points = []
    for index, each in enumerate(tried):
        price = 1.0 if not search.prices else search.prices.get(each.server.step.machine.name, math.inf)
        flow = each.at.requests_per_s * search.answer / each.devices / price
        if search.goal.rate_per_s is not None:  # whole copies for what is asked, as each option is made
            copies = np.ceil(search.goal.rate_per_s / each.at.requests_per_s - 1e-9)
            flow = search.goal.rate_per_s * search.answer / (copies * each.devices) / price
        points += [(float(1.0 / each.at.tpot_s[n]), float(flow[n]), index, n) for n in range(len(each.clients))]
    points.sort(key=lambda point: (-point[0], -point[1]))
    kept, most = [], 0.0
    for _user, flow, index, n in points:
        if flow > most:
            most = flow
            kept.append((index, n))
    # Neighbours that differ by little say nothing new.
    return [_option(tried[index], n, search, front=True) for index, n in kept[:: max(1, len(kept) // 40)]]


def _price_key(option: Option, goal: Goal) -> tuple[float, ...]:
    price = option.price_per_million_tokens
    return (math.inf if price is None else price, _misses(option.ttft_s, option.tpot_s, goal))


def _speed_key(option: Option, goal: Goal) -> tuple[float, ...]:
    if goal.rate_per_s is not None:
        return (option.deployment.devices, -option.tokens_per_s_per_device)
    return (-option.tokens_per_s_per_device, _misses(option.ttft_s, option.tpot_s, goal))


def _nearest(options: Sequence[Option], goal: Goal) -> str:
    """Which goal fails by how much in the setting nearest to it, and what each could be by itself."""
    near, where = options[0], options[0].deployment
    times = (("TTFT", "ttft_s"), ("TPOT", "tpot_s"))
    failed = [
        f"its {name} of {duration(getattr(near, field))} is {getattr(near, field) / at_most:.3g} times the "
        f"{duration(at_most)} asked for"
        for name, field in times
        if (at_most := getattr(goal, field)) is not None and getattr(near, field) > at_most
    ]
    alone = [
        f"the least {name} of any setting shown is {duration(min(getattr(option, field) for option in options))}"
        for name, field in times
        if getattr(goal, field) is not None
    ]
    clients = "1 client" if round(near.concurrency) == 1 else f"{near.concurrency:,.0f} clients"
    return (
        f"No setting keeps the goal. Nearest: {where.devices} x {where.machine} as {where.layout}, "
        f"{where.weights}, {clients}: {' and '.join(failed)}; {', '.join(alone)}."
    )


def _check_floors(tried: Sequence[Tried], search: Search) -> None:
    """Whether each goal lies above what theory allows.

    Raises:
        RooflabError: it does not; the floor, of which layout, and what it is made of.
    """
    prompt = Batch(1.0, search.prompt - search.cached, search.cached)
    one = Batch(decode_sequences=1.0, decode_context=search.prompt)
    for name, goal_s, batch, what in (
        ("ttft", search.goal.ttft_s, prompt, f"products of {search.prompt - search.cached:,} tokens at the peak"),
        ("tpot", search.goal.tpot_s, one, "weights and cache read once at the memory's full rate"),
    ):
        if goal_s is None:
            continue
        floors = [
            float((each.first or each.server if name == "ttft" else each.server).step.time(batch).floor_s[0])
            for each in tried
        ]
        least = int(np.argmin(floors))
        if goal_s < floors[least]:
            where = answer.deployment(tried[least].server)
            raise RooflabError(
                f"{name}={duration(goal_s)} is below the floor of every layout: {duration(floors[least])} on "
                f"{where.devices} x {where.machine} as {where.layout}, {where.weights} ({what}, one request "
                "alone); ask for more, or for more devices, a narrower format or a smaller model"
            )


def _fits_nowhere(architecture: Architecture, search: Search, refused: Mapping[str, str]) -> str:
    """Why there is no setting: what all say alike, else the layout with the most devices, by how much."""
    if len(set(refused.values())) == 1 and len(refused) > 1:
        return next(iter(refused.values()))
    reasons = [reason for reason in refused.values() if "too much" in reason] or list(refused.values())
    names = ", ".join(machine.name for machine in search.machines)
    return f"{architecture.name} fits in none of {len(refused)} layouts on {names}; the last: {reasons[-1]}"


def _notes(search: Search, architecture: Architecture) -> list[str]:
    lines = [
        *search.extras.notes(architecture),
        "each layout at the most clients that keep the goal, in the mean of a closed loop's steady state; what a "
        "stream at random times does to it: rooflab serve --rate",
        "narrower weights may answer worse: what they do to a model's answers is not judged",
        "memory: weights, cache, activations and workspace, of what an engine may use",
    ]
    if search.goal.rate_per_s is not None:
        lines.append("copies: as many as the rate needs, without reserve")
    if search.answer > 1:
        lines.append("1 device → TP4: copies that compute prompts → copies that decode, as many as keep step")
    if search.prices:
        lines.append(
            "price: of all devices, over the tokens given out"
            + (f"; {search.currency}" if search.currency else "")
        )
    return lines
