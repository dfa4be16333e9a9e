"""A stream of requests over the copies of a model: each copy event by event, or prefill and decode apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rooflab.errors import RooflabError
from rooflab.model.serving.requests import Requests
from rooflab.types.serving import Moment, Quantiles, Replay

if TYPE_CHECKING:
    from rooflab.model.serving.events import Outcome, Rules
    from rooflab.model.serving.table import Table

_MOMENTS = 240
_PASSES = 100  # of a closed loop over two pools, beyond those that find its requests


class Pool(NamedTuple):
    """Copies that are alike: seconds of their steps, how their schedulers work, how many."""

    table: Table
    rules: Rules
    copies: int


class Served(NamedTuple):
    """What became of each request, arrays in the order of the requests that fit; and of each copy.

    `taken_s` is when the copy that decodes took a request over, where prompts are computed apart: it answers the
    client, and sends the first token no earlier. Of an answer of one token, when that was there.
    """

    requests: Requests
    refused: int
    arrival_s: np.ndarray
    admitted_s: np.ndarray
    first_s: np.ndarray
    end_s: np.ndarray
    outcomes: tuple[Outcome, ...]
    blocks: tuple[int, ...]
    taken_s: np.ndarray | None = None


def serve_together(requests: Requests, pool: Pool) -> Served:
    """Each request on the next copy, in turn; a closed loop has as many clients on each as it comes to.

    Raises:
        RooflabError: no request fits into the KV cache alone.
    """
    from rooflab.model.serving import events

    kept, refused = _that_fit(requests, pool)
    count = len(kept.prompt)
    times, outcomes = np.full((4, count), np.nan), []
    copies = min(pool.copies, kept.clients or count, count)
    turn = np.arange(count)
    owner = (turn % kept.clients if kept.clients else turn) % copies
    for copy in range(copies):
        mine = np.flatnonzero(owner == copy)
        clients = (kept.clients + copies - 1 - copy) // copies
        part = kept.only(mine)
        found = events.run(
            *(part.arrival_s, part.prompt, part.answer, pool.table, pool.rules._replace(clients=clients)),
            start=part.cached,
            again=part.cached,
        )
        times[:, mine] = (found.arrival_s, found.admitted_s, found.first_s, found.end_s)
        outcomes.append(found)
    ran = ~np.isnan(times[3])
    blocks = (pool.rules.blocks,) * len(outcomes)
    arrival_s, admitted_s, first_s, end_s = times[:, ran]
    return Served(kept.only(ran), refused, arrival_s, admitted_s, first_s, end_s, tuple(outcomes), blocks)


def serve_apart(
    requests: Requests, prefill: Pool, decode: Pool, transfer_s: Callable[[np.ndarray], np.ndarray]
) -> Served:
    """Prompts on one pool; `transfer_s` after its first token a request decodes on another, which answers.

    In a closed loop a client sends its next request `between_s` (of the decoding copies' rules) after an answer.

    Raises:
        RooflabError: no request fits into the KV cache of a decoding copy alone; a closed loop does not settle.
    """
    from rooflab.model.serving import events

    kept, refused = _that_fit(requests, decode)
    fits = events.fits(kept.prompt, np.ones_like(kept.answer), prefill.rules)
    refused += int((~fits).sum())
    kept = kept.only(fits)
    if not kept.clients:
        return _apart(kept, prefill, decode, transfer_s)._replace(refused=refused)
    return _apart_in_rounds(kept, prefill, decode, transfer_s)._replace(refused=refused)


def _apart_in_rounds(
    loop: Requests, prefill: Pool, decode: Pool, transfer_s: Callable[[np.ndarray], np.ndarray]
) -> Served:
    """A closed loop over both pools: the request after the first of all clients comes with the first answer.

    Whether it does is not known before the answers are, which it may hold up. Each pass over a longer part of the
    stream has the times that the one before found, until they move by less than a thousandth of the time that a
    request takes, in the mean.
    """
    count, clients = len(loop.prompt), min(loop.clients, len(loop.prompt))
    coming = loop._replace(clients=0)
    arrival_s, known = prefill.rules.entry_s * np.arange(clients), clients
    for _ in range(_PASSES + -(-count // clients)):
        part = coming.only(np.arange(known))._replace(arrival_s=arrival_s)
        served = _apart(part, prefill, decode, transfer_s)
        longer = min(known + clients, count)
        answers_s = np.sort(served.end_s)[: longer - clients] + decode.rules.between_s
        after_s = np.sort(np.concatenate((arrival_s[:clients], answers_s)))
        takes_s = float((served.end_s - served.arrival_s).mean())
        if known == count and np.abs(after_s - arrival_s).mean() <= 1e-3 * takes_s:
            return served._replace(requests=loop._replace(arrival_s=arrival_s))
        arrival_s, known = after_s, longer
    raise RooflabError(
        f"{loop.name}, prefill and decode apart: the times did not settle in {_PASSES} passes; give a rate instead"
    )


def _apart(kept: Requests, prefill: Pool, decode: Pool, transfer_s: Callable[[np.ndarray], np.ndarray]) -> Served:
    """Requests that come at given times."""
    from rooflab.model.serving import events

    one = kept._replace(answer=np.ones_like(kept.answer))
    # Copies that only compute prompts plan no step ahead (TensorRT-LLM's context servers run without overlap), and
    # a router in front of all copies sends on many threads.
    first = serve_together(one, prefill._replace(rules=prefill.rules._replace(ahead=False, message_s=0.0)))
    there_s = first.first_s + transfer_s(kept.prompt)
    end_s, taken_s, outcomes = first.first_s.copy(), first.first_s.copy(), list(first.outcomes)
    rules = decode.rules._replace(mixed=True, message_s=0.0)  # who has its cache joins those that decode
    order = np.argsort(there_s, kind="stable")
    order = order[kept.answer[order] > 1]
    for copy in range(decode.copies):
        mine = order[copy :: decode.copies]
        if not len(mine):
            continue
        found = events.run(
            *(there_s[mine], kept.prompt[mine], kept.answer[mine], decode.table, rules),
            start=kept.prompt[mine],
            made=1,
        )
        end_s[mine], taken_s[mine] = found.end_s, found.admitted_s
        outcomes.append(found)
    blocks = (prefill.rules.blocks,) * len(first.outcomes) + (decode.rules.blocks,) * decode.copies
    times = (first.arrival_s, first.admitted_s, first.first_s, end_s)
    return Served(kept, 0, *times, tuple(outcomes), blocks, taken_s)


def _that_fit(requests: Requests, pool: Pool) -> tuple[Requests, int]:
    from rooflab.model.serving import events

    fits = events.fits(requests.prompt, requests.answer, pool.rules)
    if not fits.any():
        tokens = int((requests.prompt + requests.answer).min())
        raise RooflabError(
            f"{requests.name}: the shortest request has {tokens:,} tokens, and the KV cache of a copy holds "
            f"{pool.rules.kv_tokens:,}: more devices for a copy, or shorter requests, would fit"
        )
    return requests.only(fits), int((~fits).sum())


def summary(served: Served, outside_s: float = 0.0, accepted: float = 1.0) -> Replay:
    """What is said of it: quantiles over requests, means over time, sums over copies.

    `outside_s` lie between client and scheduler, and come on top of the scheduler's times; each token after the
    first that `served` has stands for `accepted`.
    """
    asked, sums = served.requests, [each.sums for each in served.outcomes]
    start_s, last_s = float(served.arrival_s.min()), float(served.end_s.max())
    span_s = last_s - start_s
    several = asked.answer > 1
    first_s = served.first_s if served.taken_s is None else served.taken_s
    tpot_s = (served.end_s - first_s)[several] / (asked.answer[several] - 1) / accepted
    tokens = len(asked.answer) + accepted * float((asked.answer - 1).sum())
    figures = {
        "TTFT": first_s - served.arrival_s + outside_s,
        "TPOT": tpot_s,
        "end to end": served.end_s - served.arrival_s + outside_s,
        "waiting": served.admitted_s - served.arrival_s,
    }

    def total(name: str) -> float:
        return sum(each[name] for each in sums)

    # A copy's cache counts while its requests run.
    cache = [each["blocks_s"] / span_s / blocks for each, blocks in zip(sums, served.blocks, strict=False)]
    most = [each["most_blocks"] / blocks for each, blocks in zip(sums, served.blocks, strict=False)]
    return Replay(
        requests=len(asked.prompt),
        refused=served.refused,
        dropped=asked.dropped,
        span_s=span_s,
        requests_per_s=len(asked.prompt) / span_s,
        output_tokens_per_s=tokens / span_s,
        quantiles=tuple(_quantiles(name, values) for name, values in figures.items() if len(values)),
        utilisation=total("busy_s") / span_s / len(sums),
        mean_waiting=total("waiting_s") / span_s,
        most_waiting=max(each["most_waiting"] for each in sums),
        mean_running=total("running_s") / span_s,
        cache_share=sum(cache) / len(cache),
        most_cache_share=max(most),
        steps=int(total("steps")),
        mixed_steps=int(total("mixed_steps")),
        preemptions=int(total("preemptions")),
        computed_tokens=int(total("computed_tokens")),
        output_tokens=round(tokens),
        moments=_moments(served.outcomes[0].samples, served.blocks[0]),
    )


def _quantiles(name: str, values: np.ndarray) -> Quantiles:
    p50, p90, p99 = (float(each) for each in np.percentile(values, (50, 90, 99)))
    return Quantiles(name=name, mean=float(values.mean()), p50=p50, p90=p90, p99=p99, most=float(values.max()))


def _moments(samples: np.ndarray, blocks: int) -> tuple[Moment, ...]:
    step = max(len(samples) // _MOMENTS, 1)
    return tuple(
        Moment(
            time_s=float(time), waiting=float(waiting), running=float(running), cache_share=float(used) / blocks
        )
        for time, waiting, running, used in samples[::step]
    )
