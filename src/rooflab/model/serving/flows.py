"""What a setting takes of requests: flows at numbers of clients, copies apart, a stream run through its copies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rooflab.errors import RooflabError
from rooflab.model.serving import replay as replays
from rooflab.model.serving.apart import Apart, steady_apart
from rooflab.model.serving.asked import Asked
from rooflab.model.serving.requests import Requests
from rooflab.model.serving.server import Server
from rooflab.model.serving.steady import Steady
from rooflab.model.serving.table import Table
from rooflab.types.serving import Replay


def load_of(server: Server, first: Server | None, asked: Asked) -> Callable[[np.ndarray], Steady]:
    """What comes of numbers of clients in all: flows and requests of all copies, `decoding` of a batch."""
    lengths = (asked.prompt, asked.answer, asked.cached)
    table = server.table(*lengths)
    if first is not None:
        both = pools(first, first.table(asked.prompt, 1, asked.cached), server, table, *lengths)
        outside_s = server.outside_s(asked.prompt - asked.cached)

        def apart(clients: np.ndarray) -> Steady:
            at = steady_apart(both, clients).at
            return at._replace(ttft_s=at.ttft_s + outside_s, tpot_s=at.tpot_s / server.accepted)

        return apart

    def together(clients: np.ndarray) -> Steady:
        used = np.minimum(server.engines, clients)  # of fewer clients than batches, some have none
        at = server.loaded(clients / used, *lengths, table)
        return at._replace(requests_per_s=at.requests_per_s * used, running=at.running * used)

    return together


def pools(
    first: Server, prefill: Table, decode: Server, table: Table, prompt: float, answer: float, cached: float = 0.0
) -> Apart:
    """Copies that compute prompts and copies that decode, each with the table of its steps.

    Raises:
        RooflabError: answers of one token, which need no second copy.
    """
    if answer <= 1:
        raise RooflabError(
            "prefill and decode apart: an answer of one token is the prefill's; ask for more tokens"
        )
    return Apart(
        prefill=prefill,
        decode=table,
        prefills=float(first.engines),
        decodes=float(decode.engines),
        prompt=prompt,
        answer=float(decode.steps_of(answer)),
        cached=cached,
        token_budget=float(first.token_budget),
        most_running=max(decode.most_running(prompt, answer), 1.0),
        transfer_s=float(decode.transfer_s(np.array([prompt]))[0]),
        between_s=decode.outside_s(prompt - cached),
        ahead=decode.ahead,
    )


def replay(server: Server, first: Server | None, asked: Asked) -> Replay:
    """The stream of requests that is `asked`, run event by event through the copies of `server`, and `first`."""
    requests = asked.requests
    assert requests is not None
    outside_s = server.outside_s(asked.prompt - asked.cached)
    accepted = server.accepted
    if accepted > 1.0:  # so many steps like plain ones
        requests = requests._replace(answer=np.ceil(server.steps_of(requests.answer)).astype(np.int64))
    pool = pool_of(server, asked, requests, outside_s)
    if first is None:
        served = replays.serve_together(requests, pool)
    else:
        served = replays.serve_apart(requests, pool_of(first, asked, requests, 0.0), pool, server.transfer_s)
    return replays.summary(served, outside_s, accepted)


def pool_of(server: Server, asked: Asked, requests: Requests, outside_s: float) -> replays.Pool:
    """The copies of `server` as a stream is run through them; `outside_s` lie between a client's requests."""
    from rooflab.model.serving.events import Rules

    longest = int((requests.prompt + requests.answer).max())
    kept = server.kept_tokens(asked.prompt, asked.answer)
    scheduler = server.scheduler
    rules = Rules(
        token_budget=server.token_budget,
        most_sequences=server.most_sequences,
        blocks=server.simulated_tokens(asked.prompt, asked.answer) // scheduler.block_tokens,
        block_tokens=scheduler.block_tokens,
        chunked=scheduler.chunked,
        mixed=server.mixed,
        ahead=server.ahead,
        reserve=scheduler.reserve,
        between_s=outside_s if requests.clients else 0.0,
        message_s=server.message_s,
        wait_steps=scheduler.wait_steps,
        wait_tokens=scheduler.wait_tokens,
    )
    return replays.Pool(server.wide_table(longest, kept), rules, server.engines)
