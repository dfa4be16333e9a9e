"""Steady state of a closed loop: each of so many clients sends its next request when its last is answered.

Requests end at different steps once their lengths differ a little, so prompts come into steps at random. With λ
requests coming into a step, of m chunks each, c of which a step holds at most:

    λ m = E[min(K, c)], K of a Poisson distribution of mean μ   (μ − λ m chunks are left over from step to step)
    sequences that decode: b = λ (answer − 1)
    clients that run: n = λ (answer − 1 + m) + (μ − λ m) / m     (Little's law, in steps)
    TPOT = E[seconds of a step with min(K, c) chunks and b sequences], K of the other clients
    TTFT = what is left of the running step + steps waited, all of them full + the steps of its own chunks

Clients that are away for a while between two requests come back at any time, so that more of them come into a step
after a long one, and make the next long. With ρ the share of the time that prompts take, a step's chunks then vary
by more than Poisson's μ (a branching process with immigration: var K = μ + ρ² var K):

    var K = μ (1 + min(ρ² / (1 − ρ²), chunks of as many steps as fit into a client's absence))

K is of a negative binomial distribution of that variance, and what comes with a request beside it is on average
var K / μ − 1 more than others see.

Where prompts have steps of their own (`mixed` false), all that came in with a step come before the next one:

    λ = n / (answer − 1), b = n, TPOT = seconds of a step of b sequences + E[seconds of the prompts of K requests]

Answers of one token leave nothing that decodes: all that is there goes into a step of k chunks, c at most, so that
`clients = k / (m s(k)) (between + rest + m s(k))`, rest what is left of the running step.

Clients beyond those that fit wait outside, by Little's law too. Where steps would make tokens faster than they are
sent, as many run as make as many as are sent, and the others wait for messages: their own, and their answers'
(`events.Rules`). Held to the event simulation in tests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rooflab.model.serving.table import Table

Array = np.ndarray
_MOST = 48  # chunks of a step that are told apart; more of them come close to a whole
_LOG_FACTORIALS = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1.0, _MOST)))))
_HALVINGS = 24  # of the interval of ln μ: to 1e-6
_BUSIEST = 0.95  # share of the time that prompts take, for K's variance: the loop itself bounds more


class Load(NamedTuple):
    """What an engine is asked for; numbers, or arrays over settings of one shape.

    Attributes:
        clients: that have a request out at all times.
        prompt, answer: tokens of each request.
        cached: of the prompt, tokens whose KV is there already.
        token_budget: most tokens of a step.
        most_running: requests that run at once at most: places, and what the KV cache holds.
        between_s: from an answer to the next request of its client.
        mixed: whether prompts and sequences that decode share steps.
        ahead: whether a step is planned as the one before it begins (`events.Rules`).
        message_s: between two tokens that are sent (`events.Rules`).
    """

    clients: Any
    prompt: Any
    answer: Any
    cached: Any = 0.0
    token_budget: Any = 8192.0
    most_running: Any = np.inf
    between_s: Any = 0.0
    mixed: Any = True
    ahead: Any = False
    message_s: Any = 0.0


class Steady(NamedTuple):
    """What comes of it; arrays over settings.

    Attributes:
        ttft_s: from a request to its first token, in the mean; `queue_s` of it waiting outside for a place.
        tpot_s: between two tokens of a request, in the mean.
        requests_per_s: answered.
        running, decoding: requests in the engine, and of them those that decode, in the mean.
        prompt_tokens: of a step, in the mean.
        mixed: share of the steps that hold any.
    """

    ttft_s: Array
    queue_s: Array
    tpot_s: Array
    requests_per_s: Array
    running: Array
    decoding: Array
    prompt_tokens: Array
    mixed: Array


class _Steps(NamedTuple):
    """What the two kinds of schedulers differ in; arrays over settings."""

    came: Array  # requests that come into a step (that decodes)
    step_s: Array  # of all steps in the mean
    left_s: Array  # of the step under way when a client is back
    tpot_s: Array  # of those in which a request decodes: its own prompt is in none of them
    own_s: Array  # until the first token, once the running step is over
    alone_s: Array  # of a step without prompts
    decoding: Array
    mixed: Array


def steady(table: Table, load: Load) -> Steady:
    """The steady state of each setting; `table` has the seconds of a step."""
    given = [np.atleast_1d(np.asarray(each, float)) for each in load]
    x = Load(*np.broadcast_arrays(*given))
    running = np.minimum(x.clients, x.most_running)
    if (x.answer <= 1).all():
        return _prompts_only(table, x)
    of = _steps(table, x, running)
    if (of.came / of.step_s * x.answer * x.message_s > 1.0).any():
        running = _sent(table, x, running, of)
        of = _steps(table, x, running)
    between = np.where(running > 1, x.between_s, 0.0)
    rest_s = np.where(between > 0, of.left_s, 0.0)  # who is back at once is in the next one
    rest_s = rest_s + np.where(running > 1, x.ahead * of.step_s, 0.0)  # the next is planned without it
    answered_s = (x.answer - 1.0) * _reconciled(of, x, running, rest_s)
    outside_s = np.maximum((x.clients - running) * of.step_s / of.came - x.between_s, 0.0)
    idle = 1.0 + x.between_s / (rest_s + of.own_s + answered_s)  # of a client, what it is away
    return Steady(
        ttft_s=rest_s + of.own_s + outside_s,
        queue_s=outside_s,
        tpot_s=answered_s / (x.answer - 1.0),
        requests_per_s=of.came / of.step_s / np.where(x.clients > running, 1.0, idle),
        running=running,
        decoding=of.decoding,
        prompt_tokens=of.came * (x.prompt - x.cached),
        mixed=of.mixed,
    )


def _steps(table: Table, x: Load, running: Array) -> _Steps:
    """The steps of so many requests, by each setting's kind of scheduler."""
    together = x.mixed > 0
    of = _shared(table, x, running) if together.any() else _apart(table, x, running)
    if not together.all() and together.any():
        other = _apart(table, x, running)
        of = _Steps(*(np.where(together, one, two) for one, two in zip(of, other, strict=True)))
    return of


def _sent(table: Table, x: Load, running: Array, of: _Steps) -> Array:
    """How many of `running` make as many tokens as are sent, where all of them make more."""
    idle = 1.0 + x.between_s / (of.own_s + (x.answer - 1.0) * of.tpot_s)
    many = np.flatnonzero(of.came / of.step_s / idle * x.answer * x.message_s > 1.0)
    some = Load(*(each[many] for each in x))
    low, high = np.ones(len(many)), running[many].astype(float)
    for _ in range(_HALVINGS if len(many) else 0):
        middle = (low + high) / 2
        made = _steps(table, some, middle)
        more = made.came / made.step_s * some.answer * some.message_s > 1.0
        low, high = np.where(more, low, middle), np.where(more, middle, high)
    running = running.astype(float)
    running[many] = low
    return running


def _dispersion(x: Load, running: Array, came: Array, alone_s: Array, chunk_s: Array) -> Array:
    """Variance of K beside its mean, where clients come back at any time; see the module's text.

    `came` chunks or requests into a step that takes `alone_s` without any, each of which adds `chunk_s`.
    """
    others = (running - 1.0) / running
    busy = np.minimum(came * chunk_s / (alone_s + came * chunk_s) * others, _BUSIEST)
    return 1.0 + others * np.minimum(busy**2 / (1.0 - busy**2), came * x.between_s / alone_s)


def _reconciled(of: _Steps, x: Load, running: Array, rest_s: Array) -> Array:
    """Seconds of a token such that a request is there for as long as Little's law says, `running x step / came`.

    Prompts that come in at random hold up others' tokens. Where answers are short, those that came in together
    stay together, and their prompts fall into the time to the first token, which is theirs alone.
    """
    there_s = running * of.step_s / of.came - rest_s - of.own_s
    return np.clip(there_s / (x.answer - 1.0), np.minimum(of.alone_s, of.tpot_s), of.tpot_s)


def _prompts_only(table: Table, x: Load) -> Steady:
    """Requests whose first token is their only one, of all settings."""
    new, none = x.prompt - x.cached, np.zeros_like(x.prompt)
    chunks = np.maximum(np.ceil(new / x.token_budget), 1.0)
    size = new / chunks
    most = np.minimum(np.maximum(np.floor(x.token_budget / size), 1.0), np.maximum(x.most_running * chunks, 1.0))
    rest = np.where(x.between_s > 0, 0.5, 0.0)  # who is back at once is in the next step
    rest = rest + np.where(x.clients > 1, x.ahead, 0.0)

    def step_s(held: Array) -> Array:
        return _seconds(table, held[:, None], size, x, none)[:, 0]

    def clients(held: Array) -> Array:
        seconds = step_s(held)
        return held / (chunks * seconds) * (x.between_s + (rest + chunks) * seconds)

    low, high = np.ones_like(most), most.copy()
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fewer = clients(middle) < x.clients
        low, high = np.where(fewer, middle, low), np.where(fewer, high, middle)
    own_s = chunks * step_s(high)
    alone = x.clients / (x.between_s + chunks * step_s(np.ones_like(most)))  # none meets another
    flow = np.minimum(high / own_s, alone)
    ttft_s = np.maximum(x.clients / flow - x.between_s, chunks * step_s(np.ones_like(most)))
    queue_s = np.maximum(ttft_s - rest * step_s(high) - own_s, 0.0)
    return Steady(
        ttft_s=ttft_s,
        queue_s=queue_s,
        tpot_s=step_s(high),
        requests_per_s=flow,
        running=np.minimum(flow * (ttft_s - queue_s), x.most_running),
        decoding=none,
        prompt_tokens=high * size,
        mixed=np.ones_like(most),
    )


def _shared(table: Table, x: Load, running: Array) -> _Steps:
    """Steps that hold prompts and sequences that decode."""
    new = x.prompt - x.cached
    # Sequences that decode leave that much of the budget; a prompt of several steps is cut into equal chunks.
    room = np.maximum(x.token_budget - running * np.minimum(1.0, (x.answer - 1) / x.answer), 1.0)
    full = new * running > room * x.answer
    room = np.where(full, x.token_budget * new / (new + x.answer - 1.0), room)
    chunks = np.maximum(np.ceil(new / room), 1.0)
    size = new / chunks
    most = np.maximum(np.floor(room / size), 1.0)
    least = running * chunks / (x.answer - 1.0 + chunks)  # chunks that come, if all are taken at once
    each = _seconds(table, np.stack((0.0 * most, 1.0 + 0.0 * most), axis=-1), size, x, running)
    dispersion = _dispersion(x, running, least, each[:, 0], each[:, 1] - each[:, 0])
    mean = _mean_arrivals(running, x.answer, chunks, most, dispersion)
    share, held = _shares(mean, most, dispersion)
    came = (share * held).sum(axis=-1)
    decoding = came / chunks * (x.answer - 1.0)

    def seconds(held: Array, decoding: Array = decoding) -> Array:
        return _seconds(table, held, size, x, decoding)

    # A request's last chunk is in a step with what came into it of others; as it decodes, it is one that does.
    of_others, decode = mean * (running - 1.0) / running, decoding * (running - 1.0) / running
    others, beside = _shares(of_others + dispersion - 1.0, most, dispersion)
    last_s = (others * seconds(np.minimum(beside + 1.0, most[:, None]), decode)).sum(axis=-1)
    others, beside = _shares(of_others, most, dispersion)
    tpot_s = (others * seconds(beside, decode + 1.0)).sum(axis=-1)
    waited = (mean - came) / came  # steps, all of them full
    return _Steps(
        came=came / chunks,
        step_s=(share * seconds(held)).sum(axis=-1),
        left_s=_left_s(share, seconds(held), x.between_s),
        tpot_s=tpot_s,
        own_s=waited * seconds(most[:, None])[:, 0] + chunks * last_s,
        alone_s=seconds(np.zeros((len(came), 1)), decode + 1.0)[:, 0],
        decoding=decoding,
        mixed=1.0 - np.where(held < 0.5, share, 0.0).sum(axis=-1),
    )


def _apart(table: Table, x: Load, running: Array) -> _Steps:
    """Prompts first, in steps of their own."""
    new = x.prompt - x.cached
    decoded = np.maximum(x.answer - 1.0, 1.0)
    came = running / decoded
    size = np.minimum(new, x.token_budget)
    none = np.zeros_like(came)

    def prompts_s(requests: Array) -> Array:
        """Seconds of the prompts of so many requests, of shape (settings, n): full steps, and the rest."""
        steps, rest = np.divmod(requests * new[:, None], x.token_budget[:, None])
        ones = np.ones_like(requests)
        full_s = _seconds(table, ones, x.token_budget, x, none)
        rest_s = _seconds(table, np.maximum(rest, 1.0) / size[:, None], size, x, none)
        return steps * full_s + np.where(rest > 0, rest_s, 0.0)

    unlimited = np.full_like(came, np.inf)
    decode_s = _seconds(table, np.zeros((len(came), 1)), size, x, running)[:, 0]
    dispersion = _dispersion(x, running, came, decode_s, prompts_s(np.ones((len(came), 1)))[:, 0])
    share, held = _shares(came, unlimited, dispersion)
    of_others = came * (running - 1.0) / running
    others, beside = _shares(of_others + dispersion - 1.0, unlimited, dispersion)
    steps = np.ceil((beside + 1.0) * new[:, None] / x.token_budget[:, None])
    own_s = prompts_s(beside + 1.0) * (0.5 + 0.5 / steps)  # of several steps, half of the others end before
    held_s = prompts_s(held)
    met, met_beside = _shares(of_others, unlimited, dispersion)
    return _Steps(
        came=came,
        step_s=decode_s + (share * held_s).sum(axis=-1),
        left_s=_left_s(
            np.concatenate((none[:, None] + 1.0, share), axis=-1) / 2.0,
            np.concatenate((decode_s[:, None], held_s), axis=-1),
            x.between_s,
        ),
        tpot_s=decode_s + (met * prompts_s(met_beside)).sum(axis=-1),
        own_s=(others * own_s).sum(axis=-1),
        alone_s=decode_s,
        decoding=running,
        mixed=none,
    )


def _left_s(share: Array, step_s: Array, after_s: Array) -> Array:
    """What is left of the step under way some time after another one ended, which was when a client was answered.

    Of the next one, if it takes longer than that; of others, E[s²] / 2 E[s]: who comes at a random time finds a
    long step more often.
    """
    some = (share * step_s * step_s).sum(axis=-1) / np.maximum((share * step_s).sum(axis=-1), 1e-300) / 2.0
    left = step_s - after_s[:, None]
    return (share * np.where(left > 0, left, some[:, None])).sum(axis=-1)


def _mean_arrivals(running: Array, answer: Array, chunks: Array, most: Array, dispersion: Array) -> Array:
    """Mean μ of the distribution of chunks for which so many requests run; see above."""

    def fewer(mean: Array, of: Any) -> Array:
        share, held = _shares(mean, most[of], dispersion[of])
        came = (share * held).sum(axis=-1)
        ran = came / chunks[of] * (answer[of] - 1.0 + chunks[of]) + (mean - came) / chunks[of]
        return ran < running[of] * (1.0 - 1e-7)

    mean = running * chunks / (answer - 1.0 + chunks)  # enough where all that come are taken at once
    some = np.flatnonzero(fewer(mean, slice(None)))
    if not some.size:
        return mean
    low, high = np.log(mean[some]), np.log(np.maximum(running * chunks, 1.0) + 60.0 * most)[some]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        more = fewer(np.exp(middle), some)
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    mean[some] = np.exp(high)
    return mean


def _shares(mean: Array, most: Array, dispersion: Array) -> tuple[Array, Array]:
    """Shares of steps, and chunks that each of them holds: min(K, most), K of a distribution of that mean.

    Negative binomial, of variance `dispersion` x mean; Poisson's at 1. Shapes (settings, _MOST + 1). The last
    entry stands for all above: its number is their mean, `most` at most.
    """
    count, mean = np.arange(_MOST), np.maximum(mean, 1e-300)
    excess = np.maximum(dispersion - 1.0, 1e-12)
    none = -mean * np.log1p(excess) / excess  # ln of the share of K = 0
    if (dispersion > 1.0).any():
        ratio = (mean / dispersion)[:, None] + (excess / dispersion)[:, None] * count[:-1]
        logs = np.concatenate((np.zeros((len(mean), 1)), np.cumsum(np.log(ratio / count[1:]), axis=-1)), axis=-1)
    else:
        logs = count * np.log(mean)[:, None] - _LOG_FACTORIALS
    share = np.exp(none[:, None] + logs)
    share = np.where(count < most[:, None], share, 0.0)
    rest = np.maximum(1.0 - share.sum(axis=-1), 0.0)
    # Of K ≥ j: the mean of K beyond what the others hold, by E[K] = μ.
    beyond = np.maximum(mean - (share * count).sum(axis=-1), 0.0) / np.maximum(rest, 1e-300)
    last = np.minimum(np.maximum(beyond, np.minimum(_MOST, most)), most)
    held = np.concatenate((np.broadcast_to(count, share.shape), last[:, None]), axis=-1)
    return np.concatenate((share, rest[:, None]), axis=-1), held


def _seconds(table: Table, held: Array, size: Array, x: Load, decoding: Array) -> Array:
    """Seconds of steps with `held` chunks of `size` tokens, of shape (settings, n), and so many that decode."""
    attended, context = x.cached + (x.prompt - x.cached + 1.0) / 2.0, x.prompt + x.answer / 2.0
    return table.at(held * size[:, None], *(each[:, None] for each in (attended, decoding, context)))
