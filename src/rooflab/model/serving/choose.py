"""Which devices and which layout: what the user says, and for the rest the fewest that hold model and requests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from typing import NamedTuple

import numpy as np

from rooflab.errors import RooflabError
from rooflab.machines import catalog
from rooflab.machines.nodes import device_in
from rooflab.model.engines.engine import Engine
from rooflab.model.engines.engine import engine as engine_called
from rooflab.model.engines.engine import names as engines
from rooflab.model.parallel.layout import Layout, check
from rooflab.model.serving.asked import Asked
from rooflab.model.serving.extras import NONE, Extras
from rooflab.model.serving.schedulers import Scheduler, scheduler
from rooflab.model.serving.server import Server, server, tensor_ways
from rooflab.types.machine import Machine, is_main_memory
from rooflab.units import si
from rooflab.work.llm import models
from rooflab.work.llm.architecture import Architecture
from rooflab.work.llm.precision import Precision, precision, stored

_MOST_DEVICES = 8  # of a device whose node nobody names: what common boards join


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a user says of a setting; None for what is to be chosen.

    `disagg` are copies that compute prompts and copies that decode; the former have `prefill_tensor` ways each.
    `links` are as nccl-tests measured them, `extras` what is served beside; `wait_steps` and
    `wait_share` of a step's tokens, as of `events.Rules`.
    """

    engine: str = "vllm"
    devices: int | None = None
    tensor: int | None = None
    pipeline: int = 1
    experts: int = 1
    data: int = 1
    context: int = 1
    sequence: bool = False
    weights: str | None = None
    cache: str = "bf16"
    disagg: tuple[int, int] | None = None
    prefill_tensor: int | None = None
    links: Machine | None = None
    step_tokens: int | None = None
    sequences: int | None = None
    wait_steps: int = 0
    wait_share: float = 0.5
    extras: Extras = NONE


class Chosen(NamedTuple):
    """The server, the one that computes prompts for it (None where each does), the node that they are in.

    `more` says why there are more devices than the one that was named; "" where there are not.
    """

    server: Server
    first: Server | None
    node: str | None
    more: str = ""


def server_for(model: str | PathLike[str], machine: Machine | str, wanted: Wanted, asked: Asked) -> Chosen:
    """The server that `wanted` says for what is `asked`, and the name of the node that its devices are in.

    Raises:
        UnknownNameError: an unknown model, machine, engine or format.
        RooflabError: more devices than the node has; a model that fits in no layout, by how much.
    """
    architecture = models.model(str(model))
    whole = catalog.find(machine) if isinstance(machine, str) else machine
    device, count = device_in(whole)
    for name in ("devices", "tensor", "prefill_tensor", "pipeline", "experts", "data", "context"):
        value = getattr(wanted, name)
        if value is not None and value < 1:
            raise RooflabError(f"{_OPTIONS[name]}: got {value}, expected a whole number above 0")
    if wanted.prefill_tensor is not None and wanted.disagg is None:
        raise RooflabError("prefill_tp: only where prefill and decode are apart; say --disagg P:D too")
    kind = _Kind(
        architecture,
        device,
        engine_called(wanted.engine),
        formats_of(architecture, wanted.weights, wanted.cache),
        rules_of(wanted.engine, device, wanted),
    )
    if wanted.disagg is None:
        made = _fewest(kind, wanted, wanted.tensor, asked, None, wanted.devices or count)
        more = _why_more(made, asked) if count is None and wanted.devices is None and wanted.tensor is None else ""
        return Chosen(made, None, _node(whole, count, made.devices), more)
    prefills, decodes = wanted.disagg
    made = _fewest(kind, wanted, wanted.tensor, asked, decodes, None)
    alone = replace(asked, answer=1.0, concurrency=None)
    first = _fewest(kind, wanted, wanted.prefill_tensor or wanted.tensor, alone, prefills, None)
    devices = made.devices + first.devices
    if wanted.devices not in (None, devices):
        raise RooflabError(
            f"gpus: got {wanted.devices}, and {prefills} x {first.layout.ranks} for prompts with {decodes} x "
            f"{made.layout.ranks} to decode are {devices}; leave --gpus out, or say other copies or --tp"
        )
    return Chosen(made, first, _node(whole, count, devices))


def _why_more(made: Server, asked: Asked) -> str:
    """Why several devices were taken where one was named and nothing said of how many."""
    ways = made.layout.tensor * made.layout.pipeline
    many = max((asked.concurrency or 1) / made.engines, 1.0)
    used = made.step.memory(many * made.kept_tokens(asked.prompt, asked.answer), many)
    if ways == 1 or used.has is None:
        return ""
    weights, cache = (float(np.max(part)) * ways for part in (used.weights, used.cache))
    return (
        f"{made.step.machine.name}: {ways} of them, the fewest with room for {si(weights, 'B')} of weights and "
        f"{si(cache, 'B')} of cache, {si(used.has, 'B')} each; --gpus says otherwise."
    )


class _Kind(NamedTuple):
    """What all copies have in common."""

    model: Architecture
    device: Machine
    engine: Engine
    formats: Precision
    rules: Scheduler


def _fewest(
    kind: _Kind, wanted: Wanted, tensor: int | None, asked: Asked, copies: int | None, devices: int | None
) -> Server:
    """So many `copies`, or what `devices` hold, of `tensor` ways, or of the fewest that hold what is asked."""

    def made_of(layout: Layout) -> Server:
        many = copies * layout.ranks if copies else devices or layout.ranks
        lengths = {"prompt": asked.prompt - asked.cached, "cached": asked.cached}
        return server(*kind, layout, many, wanted.links, wanted.extras, **lengths)

    if tensor is not None:
        layout = _layout(wanted, tensor)
        check(kind.model, layout)
        return made_of(layout)
    most = devices or _MOST_DEVICES
    by_layer = kind.engine.splits_layers
    several = (
        [2**n for n in range(most.bit_length()) if 2**n <= most] if by_layer else tensor_ways(kind.model, most)
    )
    beside = wanted.data * wanted.context  # with tensor-parallel ways, the ranks that experts are divided among
    several = [each for each in several if by_layer or each * beside % wanted.experts == 0]
    if not several:
        raise RooflabError(
            f"{kind.model.name}: ep={wanted.experts} on {most} devices: experts are divided among --tp x --dp x "
            f"--cp ranks, here up to {most // beside} x {wanted.data} x {wanted.context}: no multiple of "
            f"{wanted.experts}; say other --ep, --dp or --gpus"
        )
    ways = [each for each in several if copies or most % _layout(wanted, each, by_layer).ranks == 0]
    if not ways and (others := beside * wanted.pipeline) > most:
        raise RooflabError(
            f"{kind.model.name}: dp={wanted.data} x cp={wanted.context} x pp={wanted.pipeline}: {others} devices "
            f"at least, got {most}; say --gpus {others}"
        )
    if not ways:
        raise RooflabError(
            f"{kind.model.name}: {most} devices: no number of tensor-parallel ways that divides its heads and "
            "the devices; say --tp"
        )
    made: Server | None = None
    for each in ways:
        # The fewest ways that hold the model and the requests that it would have at once; the most if none does.
        made = made_of(_layout(wanted, each, by_layer))
        held = made.cache_requests(made.kept_tokens(asked.prompt, asked.answer))
        if held is None or held >= max((asked.concurrency or 1) / made.engines, 1.0):
            break
    assert made is not None  # there are ways
    return made


_OPTIONS = {
    "devices": "gpus",
    "tensor": "tp",
    "prefill_tensor": "prefill_tp",
    "pipeline": "pp",
    "experts": "ep",
    "data": "dp",
    "context": "cp",
}


def _node(whole: Machine, count: int | None, devices: int) -> str | None:
    """The node that devices are in, or how many of it."""
    if count is None:
        return None
    return whole.name if devices <= count else f"{-(-devices // count)} x {whole.name}"


def _layout(wanted: Wanted, ways: int, by_layer: bool = False) -> Layout:
    """In so many tensor-parallel ways, or, of an engine that splits a model by layer, stages."""
    return Layout(
        tensor=1 if by_layer else ways,
        pipeline=wanted.pipeline * ways if by_layer else wanted.pipeline,
        experts=wanted.experts,
        data=wanted.data,
        context=wanted.context,
        sequence=wanted.sequence,
    )


def formats_of(architecture: Architecture, weights: str | None, cache: str) -> Precision:
    """The number formats of a model: as published where `weights` does not say otherwise."""
    return stored(architecture, cache) if weights is None else precision(weights, cache=cache)


def rules_of(engine: str, device: Machine, wanted: Wanted) -> Scheduler:
    """The scheduler of an engine on a device."""
    memory = next((level for level in device.levels if is_main_memory(level)), None)
    held = None if memory is None else memory.reported_capacity_bytes or memory.capacity_bytes
    file = next(each for each in engines() if engine_called(each).name == engine_called(engine).name)
    rules = scheduler(file, held, device.name, token_budget=wanted.step_tokens, most_sequences=wanted.sequences)
    return rules._replace(wait_steps=wanted.wait_steps, wait_tokens=round(wanted.wait_share * rules.token_budget))
