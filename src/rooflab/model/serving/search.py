"""Settings that a plan tries: of each machine layouts, formats of weights, copies apart, numbers of clients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rooflab.errors import RooflabError
from rooflab.machines.nodes import device_in
from rooflab.model.engines.engine import engine as engine_called
from rooflab.model.parallel import layout as layouts
from rooflab.model.parallel.layout import Layout
from rooflab.model.serving import flows
from rooflab.model.serving.apart import Apart, by_decoding, most_prompts
from rooflab.model.serving.choose import Wanted, formats_of, rules_of
from rooflab.model.serving.extras import NONE, Extras
from rooflab.model.serving.server import Server, server
from rooflab.model.serving.steady import Steady
from rooflab.model.serving.table import Table
from rooflab.types.machine import Machine
from rooflab.types.serving_plan import Goal
from rooflab.work.llm.architecture import Architecture, Experts

_EVERY, _STEP = 64, 2.0**0.125  # every number of clients up to there, then each that much larger than the last
_MOST_DEVICES = 8  # of a device whose node nobody names
_STAGES = (1, 2, 4)
_NARROWER_BY = 0.9  # of the bits of a weight: scales of blocks make no format a wider one
_NARROWER = {"fp8": "fp8", "fp4": "nvfp4"}  # what a device multiplies, and the format of weights that it serves


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is looked for.

    Attributes:
        machines: devices or nodes, each with the name that it was asked by.
        goal: times and rate.
        prompt, answer, cached: tokens of a request.
        weights: formats of weights; None for the published one and what the device multiplies that is narrower.
        devices: most of one copy; None for a node's.
        prices: of an hour of a device, by the name of the device.
        links: as nccl-tests measured them.
        extras: what is served beside.
    """

    machines: Sequence[Machine]
    goal: Goal
    prompt: int
    answer: int
    cached: int = 0
    engine: str = "vllm"
    cache: str = "bf16"
    weights: Sequence[str] | None = None
    devices: int | None = None
    prices: Mapping[str, float] | None = None
    currency: str = ""
    links: Machine | None = None
    extras: Extras = NONE


class Tried(NamedTuple):
    """One setting at several numbers of clients, arrays over them; tables of its steps, whole and by level.

    Attributes:
        server: one copy, or those that decode where `first` computes their prompts.
        clients, at: of all batches that are under way at once; `decoding` and `prompt_tokens` of a batch.
        busy: where they are apart, shares of the time that prompts and decoding keep their copies busy.
    """

    server: Server
    node: str | None
    clients: np.ndarray
    at: Steady
    tables: dict[str, Table]
    first: Server | None = None
    first_tables: dict[str, Table] | None = None
    busy: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def devices(self) -> int:
        """Of the setting."""
        return self.server.devices + (0 if self.first is None else self.first.devices)


def tried_on(
    architecture: Architecture, machine: Machine, search: Search, refused: dict[str, str]
) -> Iterator[Tried]:
    """Every server of one machine at every number of clients; layouts that cannot be go to `refused`."""
    device, count = device_in(machine)
    rules = rules_of(search.engine, device, Wanted())
    most = search.devices or count or _MOST_DEVICES
    for weights in _formats(architecture, device, search):
        alike: list[Tried] = []
        formats = formats_of(architecture, weights, search.cache)
        enough: set[int] = set()  # tensor-parallel ways that hold the model: more stages would only be slower
        for layout in _layouts(architecture, most):
            if layout.pipeline > 1 and layout.tensor in enough:
                continue
            try:
                layouts.check(architecture, layout)
                made = server(
                    *(architecture, device, engine_called(search.engine), formats, rules, layout, layout.ranks),
                    links=search.links,
                    extras=search.extras,
                    prompt=search.prompt - search.cached,
                    cached=search.cached,
                )
                made.check(search.prompt, search.answer)
            except RooflabError as error:
                refused[f"{device.name}, {weights or architecture.stored}, {layout.name}"] = str(error)
                continue
            if layout.data == 1:
                enough.add(layout.tensor)
            tables = made.tables(search.prompt, search.answer, search.cached)
            held = made.most_running(search.prompt, search.answer)
            further = _STEP ** np.arange(0.0, math.floor(math.log(max(held, 1.0), _STEP)) + 1.0)
            clients = np.unique(np.concatenate((np.arange(1.0, min(held, _EVERY) + 1.0), np.floor(further))))
            at = made.loaded(clients, search.prompt, search.answer, search.cached, tables["seconds"])
            stages = made.layout.pipeline
            at = at._replace(requests_per_s=at.requests_per_s * stages, running=at.running * stages)
            one = Tried(made, None if count is None else machine.name, clients * stages, at, tables)
            alike.append(one)
            yield one
        if search.answer > 1:
            yield from _apart(alike, search, most)


def _apart(alike: Sequence[Tried], search: Search, most: int) -> Iterator[Tried]:
    """Prefill and decode apart, on layouts that were tried together: of each pair as many copies as keep step.

    A copy that decodes at the most clients that keep the goal takes so many prompts a second, a copy for prompts
    gives so many: the numbers of both, within `most` devices, whose flows are closest.
    """
    lengths = (search.prompt, search.answer, search.cached)
    pools = [each for each in alike if each.server.layout.pipeline == 1]
    for decode in pools:
        for first in pools:
            ranks = (first.server.layout.ranks, decode.server.layout.ranks)
            if sum(ranks) > most:
                continue
            tables = (first.tables["seconds"], decode.tables["seconds"])
            both = flows.pools(first.server, tables[0], decode.server, tables[1], *lengths)
            copies = _in_step(both, decode.clients, search.goal, ranks, most)
            both = both._replace(prefills=float(copies[0]), decodes=float(copies[1]))
            clients, found = by_decoding(both, decode.clients)
            if not len(clients):
                continue
            outside_s = decode.server.outside_s(search.prompt - search.cached)
            yield Tried(
                replace(decode.server, copies=copies[1]),
                decode.node,
                clients,
                found.at._replace(
                    ttft_s=found.at.ttft_s + outside_s, tpot_s=found.at.tpot_s / decode.server.accepted
                ),
                decode.tables,
                replace(first.server, copies=copies[0]),
                first.tables,
                (found.prefill_busy, found.decode_busy),
            )


_BUSY = 0.8  # of the time that copies for prompts compute: beyond, those that come wait long


def _in_step(both: Apart, decoding: np.ndarray, goal: Goal, ranks: tuple[int, int], most: int) -> tuple[int, int]:
    """Copies for prompts and copies that decode whose flows are closest for their devices: see `_apart`."""
    step_s = both.decode.at(0.0, 0.0, decoding, both.prompt + both.answer / 2.0)
    keeps = step_s <= (math.inf if goal.tpot_s is None else goal.tpot_s)
    n = int(np.flatnonzero(keeps)[-1]) if keeps.any() else 0
    taken = float(decoding[n] / ((both.answer - 1.0) * step_s[n]))
    given = _BUSY * most_prompts(both)

    def flow(prefills: int, decodes: int) -> float:
        return min(prefills * given, decodes * taken) / (prefills * ranks[0] + decodes * ranks[1])

    pairs = [
        (prefills, decodes)
        for decodes in range(1, (most - ranks[0]) // ranks[1] + 1)
        for prefills in range(1, (most - decodes * ranks[1]) // ranks[0] + 1)
    ]
    return max(pairs, key=lambda pair: (flow(*pair), -sum(pair)))


def _formats(architecture: Architecture, device: Machine, search: Search) -> list[str | None]:
    if search.weights is not None:
        return list(search.weights)
    published = formats_of(architecture, None, search.cache)
    narrower = [
        name
        for dtype, name in _NARROWER.items()
        if device.peak(dtype) is not None
        and formats_of(architecture, name, search.cache).linear.bits < _NARROWER_BY * published.experts.bits
    ]
    return [None, *narrower]


def _layouts(architecture: Architecture, most: int) -> Iterator[Layout]:
    """Tensor-parallel ways and stages; with experts, those whole too, attention with sequences of its own."""
    experts = any(isinstance(block.feed, Experts) for block in architecture.blocks)
    ways = [2**n for n in range(int(math.log2(most)) + 1)]
    for tensor in ways:
        for stages in _STAGES:
            if tensor * stages <= most:
                yield Layout(tensor=tensor, pipeline=stages)
        if not experts:
            continue
        for data in ways:
            ranks = tensor * data
            if 1 < ranks <= most:
                yield Layout(tensor=tensor, data=data, experts=ranks)
