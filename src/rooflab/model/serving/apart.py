"""Prompts on some copies and decoding on others: the steady state of a closed loop over both.

A client's request goes round (P engines compute prompts, D decode; a = tokens of an answer):

    clients = X (between + R + T + J + (a − 1) s_d(b))         (Little's law; X requests a second)
    decoding of an engine: b = X/D (a − 1) s_d(b)
    prompts: a step of k of them takes s_p(k), k = what came meanwhile, as far as a step holds it;
    U = X/P s_p(k)/k, ρ the same at the most prompts m that a step holds, θ = (n − 1)/n of an engine's n clients
    R = s_p(k) (1 + θ U/2 + θ² ρ²/2 / (1 − θ ρ) / m)

R is what one finds who comes to a line: half of the step under way, and, where those before fill more than a step,
theirs (for m = 1 that of an M/D/1 queue, s (1 + ρ/2 / (1 − ρ)), seen by one of n clients: Reiser and Lavenberg's
arrival theorem, J. ACM 27(2), 1980, in Schweitzer's form). T is the KV cache on its way, J half of the step that
others have under way where it comes, s_d/2 (n − 1)/n b up to s_d/2, or three times that where steps are planned
ahead. Where all engines for prompts are busy, clients wait for them; where decoding copies hold no more, they wait
between the two. The client is answered by the copy that decodes, so that the time to its first token is all that:
R + T + J and what it waits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rooflab.model.serving.steady import Steady
from rooflab.model.serving.table import Table

Array = np.ndarray
_HALVINGS = 50
_POINTS = 24  # numbers of prompts that a step is asked for; straight between them


class Apart(NamedTuple):
    """Engines of both kinds, and what a request is to them.

    Attributes:
        prefill, decode: seconds of their steps.
        prefills, decodes: how many engines (stages have a batch each).
        prompt, answer, cached: tokens of a request, as of `steady.Load`; more than one of the answer.
        token_budget: of a step that computes prompts.
        most_running: requests that a decoding engine holds at once.
        transfer_s: from the end of a prompt to its KV cache being there.
        between_s: from an answer to the next request of its client.
        ahead: whether a step that decodes is planned as the one before it begins (`events.Rules`).
    """

    prefill: Table
    decode: Table
    prefills: float
    decodes: float
    prompt: float
    answer: float
    cached: float = 0.0
    token_budget: float = 8192.0
    most_running: float = np.inf
    transfer_s: float = 0.0
    between_s: float = 0.0
    ahead: bool = False


class Both(NamedTuple):
    """The steady state over all engines, arrays over numbers of clients.

    Attributes:
        at: as of `steady`: flows and numbers of all engines, but `decoding` and `prompt_tokens` of one.
        prefill_busy, decode_busy: share of the time that engines of either kind compute.
    """

    at: Steady
    prefill_busy: Array
    decode_busy: Array


def steady_apart(x: Apart, clients: Array) -> Both:
    """What comes of `clients` in all, at least one; the TTFT without what lies outside of the scheduler."""
    clients = np.atleast_1d(np.asarray(clients, float))
    prompts = _Prompts(x)
    # Decoding engines, from hardly anything to full: more clients find more there, until prompts or places end.
    low, high = np.full(clients.shape, np.log(1e-9)), np.log(np.minimum(clients, max(x.most_running, 1.0)))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fewer = _clients(x, prompts, np.exp(middle), clients) < clients
        low, high = np.where(fewer, middle, low), np.where(fewer, high, middle)
    return _both(x, prompts, np.exp(low), clients)


def by_decoding(x: Apart, decoding: Array) -> tuple[Array, Both]:
    """How many clients have so many sequences decoding on each engine, and what comes of them.

    Numbers that prompts cannot keep up with are left out.
    """
    clients, prompts = x.decodes * decoding, _Prompts(x)
    for _ in range(3):
        clients = _clients(x, prompts, decoding, clients)
        keep = np.isfinite(clients)
        if not keep.all():
            return by_decoding(x, decoding[keep])
    return clients, _both(x, prompts, decoding, clients)


def most_prompts(x: Apart) -> float:
    """Prompts a second of one engine that does nothing else and never waits."""
    prompts = _Prompts(x)
    return float(prompts.most / prompts.step_s(np.full(1, prompts.most))[0])


def _both(x: Apart, prompts: _Prompts, decoding: Array, clients: Array) -> Both:
    step_s, flow = _decode_s(x, decoding), _flow(x, decoding)
    first_s, busy = prompts.times(flow, clients)
    rest_s = x.transfer_s + _joins_s(x, decoding, step_s, clients)
    there_s = x.between_s + first_s + rest_s + (x.answer - 1.0) * step_s
    left_s = np.maximum(clients / flow - there_s, 0.0)
    full = decoding > 0.999 * x.most_running  # all places taken: who is left over waits for one
    waits_s, line_s = np.where(full, left_s, 0.0), np.where(full, 0.0, left_s)
    at = Steady(
        ttft_s=first_s + line_s + rest_s + waits_s,
        queue_s=first_s + line_s + waits_s - prompts.step_s(prompts.held(flow)),
        tpot_s=step_s,
        requests_per_s=flow,
        running=flow * (first_s + (x.answer - 1.0) * step_s),
        decoding=decoding,
        prompt_tokens=prompts.held(flow) * (x.prompt - x.cached),
        mixed=0.0 * flow,
    )
    return Both(at, busy, np.minimum(decoding, 1.0))


def _decode_s(x: Apart, decoding: Array) -> Array:
    """Seconds of a step of so many sequences; of fewer than one, of one."""
    return x.decode.at(0.0, 0.0, np.maximum(decoding, 1.0), x.prompt + x.answer / 2.0)


def _flow(x: Apart, decoding: Array) -> Array:
    return x.decodes * decoding / ((x.answer - 1.0) * _decode_s(x, decoding))


def _clients(x: Apart, prompts: _Prompts, decoding: Array, about: Array) -> Array:
    """Clients that have so many sequences decoding on each engine, where there are `about` so many."""
    flow, step_s = _flow(x, decoding), _decode_s(x, decoding)
    first_s, _ = prompts.times(flow, about)
    joins_s = _joins_s(x, decoding, step_s, about)
    return flow * (x.between_s + first_s + x.transfer_s + joins_s + (x.answer - 1.0) * step_s)


def _joins_s(x: Apart, decoding: Array, step_s: Array, clients: Array) -> Array:
    """Until the step ends that is under way where a request comes to, if others have one, and what is planned."""
    others = decoding * (1.0 - 1.0 / np.maximum(clients, 1.0))
    return np.minimum(others, 1.0) * step_s * (0.5 + x.ahead)


class _Prompts:
    """The engines that compute prompts."""

    def __init__(self, x: Apart) -> None:
        """Find how many prompts a step holds, and how long it takes with some of them."""
        self.x = x
        new = x.prompt - x.cached
        self.chunks = max(np.ceil(new / x.token_budget), 1.0)
        self.size = new / self.chunks
        self.most = max(np.floor(x.token_budget / new), 1.0)
        attended = x.cached + (new + 1.0) / 2.0
        self.some = np.unique(np.round(np.geomspace(1.0, self.most, _POINTS)))
        self.seconds = self.chunks * x.prefill.at(self.some * self.size, attended, 0.0, 0.0)

    def step_s(self, held: Array) -> Array:
        """Seconds until so many prompts are done: a step of all of them, or the steps of one."""
        return np.interp(held, self.some, self.seconds)

    def held(self, flow: Array) -> Array:
        """Prompts of a step: one, or what came during the one before."""
        each, held = flow / self.x.prefills, np.ones_like(flow)
        for _ in range(8):
            held = np.clip(each * self.step_s(held), 1.0, self.most)
        return held

    def times(self, flow: Array, clients: Array) -> tuple[Array, Array]:
        """Seconds from a request to its first token at that flow (infinite beyond the most); share busy."""
        held = self.held(flow)
        seconds = self.step_s(held)
        each = flow / self.x.prefills
        busy, full = each * seconds / held, each * self.step_s(np.full_like(held, self.most)) / self.most
        each_has = np.maximum(clients / self.x.prefills, 1.0)
        others = (each_has - 1.0) / each_has
        share = others * full
        line = share**2 / 2.0 / np.maximum(1.0 - share, 1e-12) / self.most
        waits = np.where(full < 1.0, others * busy / 2.0 + line, np.inf)
        return seconds * (1.0 + waits), np.minimum(busy, 1.0)
