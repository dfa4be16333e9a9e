"""Prefill and decode apart: the steady state against a plain simulation of clients going round."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from rooflab.model.serving.apart import Apart, steady_apart
from rooflab.model.serving.table import Table

AXES = (np.array([0.0, 1, 8192]), np.array([0.0, 1e5]), np.array([0.0, 1, 512]), np.array([0.0, 1e5]))


def seconds(tokens, sequences, context):
    """5 ms a step, 20 us a new token, 30 us a sequence and 3 ns for each token it attends to."""
    return 5e-3 + 2e-5 * tokens + 3e-5 * sequences + 3e-9 * sequences * context


def table():
    tokens, _, sequences, context = np.meshgrid(*AXES, indexing="ij")
    return Table(*AXES, seconds(tokens, sequences, context))


def plain(x: Apart, clients: int, count: int):
    """Means of the time to the first token and between tokens, and answers a second: each client one by one."""
    random = np.random.default_rng(0)
    answers = random.integers(int(0.7 * x.answer), int(1.3 * x.answer) + 1, count)
    arrived, first, end = np.zeros(count), np.zeros(count), np.zeros(count)
    events = [(0.02 * k, k, "comes", k) for k in range(min(clients, count))]
    sent, engines = len(events), int(x.prefills)
    lines = [[] for _ in range(engines)]
    busy, batches, going = [False] * engines, [{} for _ in range(int(x.decodes))], [False] * int(x.decodes)

    def push(at, what, whom):
        heapq.heappush(events, (at, len(events) + whom * 1e-3 if isinstance(whom, int) else 0, what, whom))

    def prompts(at, n):
        held = lines[n][: max(int(x.token_budget // x.prompt), 1)]
        lines[n], busy[n] = lines[n][len(held) :], bool(held)
        if held:
            push(at + seconds(len(held) * x.prompt, 0, 0), "given", (n, *held))

    def step(at, n):
        going[n] = bool(batches[n])
        for one in batches[n]:
            first[one] = first[one] or at  # the copy that decodes answers the client
        if going[n]:
            push(at + seconds(0, len(batches[n]), x.prompt + x.answer / 2), "made", (n, *batches[n]))

    while events:
        at, _, what, whom = heapq.heappop(events)
        if what == "comes":
            arrived[whom] = at
            n = whom % engines
            lines[n].append(whom)
            if not busy[n]:
                prompts(at, n)
        elif what == "given":
            for one in whom[1:]:
                push(at + x.transfer_s, "there", one)
            prompts(at, whom[0])
        elif what == "there":
            n = whom % len(batches)
            batches[n][whom] = answers[whom] - 1
            if not going[n]:
                step(at, n)
        else:
            for one in whom[1:]:
                batches[whom[0]][one] -= 1
                if not batches[whom[0]][one]:
                    del batches[whom[0]][one]
                    end[one] = at
                    if sent < count:
                        push(at + x.between_s, "comes", sent)
                        sent += 1
            step(at, whom[0])
    middle = slice(3 * clients, count - clients)
    ends = np.sort(end)[3 * clients : -clients]
    tpot = (end - first) / (answers - 1)
    return (first - arrived)[middle].mean(), tpot[middle].mean(), (len(ends) - 1) / (ends[-1] - ends[0])


@pytest.mark.parametrize(
    ("clients", "prompt", "answer", "prefills", "decodes"),
    [
        (1, 1000, 100, 1, 1),
        (24, 1000, 100, 1, 1),
        (48, 2000, 200, 1, 2),
        (64, 4000, 100, 3, 1),
        (16, 4000, 300, 2, 2),
    ],
)
def test_the_steady_state_is_that_of_clients_going_round(clients, prompt, answer, prefills, decodes):
    x = Apart(table(), table(), prefills, decodes, prompt, answer, transfer_s=0.01, between_s=0.04)
    ttft_s, tpot_s, flow = plain(x, clients, 12 * clients + 200)
    at = steady_apart(x, np.array([float(clients)])).at
    assert at.requests_per_s[0] == pytest.approx(flow, rel=0.06)
    assert at.tpot_s[0] == pytest.approx(tpot_s, rel=0.1)
    assert at.ttft_s[0] == pytest.approx(ttft_s, rel=0.35)


def test_clients_are_their_flow_times_their_time():
    x = Apart(table(), table(), 2, 3, 1500, 120, most_running=20, transfer_s=0.02, between_s=0.03)
    clients = np.array([1.0, 5, 20, 60, 200])
    both = steady_apart(x, clients)
    at = both.at
    assert at.requests_per_s * (0.03 + at.ttft_s + 119 * at.tpot_s) == pytest.approx(clients, rel=1e-3)
    assert (np.diff(at.requests_per_s) > -1e-9).all()
    assert (at.decoding <= 20.0 + 1e-9).all()
    assert (both.prefill_busy <= 1.0).all()


def test_a_step_that_is_planned_ahead_is_waited_for_where_others_decode():
    x = Apart(table(), table(), 4, 1, 1000, 400, transfer_s=0.01)
    plain, ahead = (steady_apart(each, np.array([1.0, 64.0])).at for each in (x, x._replace(ahead=True)))
    assert ahead.ttft_s[0] == pytest.approx(plain.ttft_s[0])
    assert ahead.ttft_s[1] - plain.ttft_s[1] == pytest.approx(ahead.tpot_s[1], rel=0.05)


def test_a_lonely_client_has_the_times_of_its_own_steps():
    x = Apart(table(), table(), 1, 1, 1000, 100, transfer_s=0.01)
    at = steady_apart(x, np.array([1.0])).at
    assert at.ttft_s[0] == pytest.approx(float(x.prefill.at(1000, 500.5, 0, 0)) + 0.01, rel=1e-6)
    assert at.tpot_s[0] == pytest.approx(float(x.decode.at(0, 0, 1, 1050)), rel=1e-6)


def test_more_copies_for_prompts_help_until_decoding_binds():
    flow = [
        float(steady_apart(Apart(table(), table(), n, 1, 4000, 400), np.array([128.0])).at.requests_per_s[0])
        for n in (1, 2, 4, 8, 16)
    ]
    assert flow == sorted(flow)
    # One engine gives at most two prompts of 4,000 tokens in a step of 5 ms + 8,000 x 20 us.
    assert flow[0] <= 2 / (5e-3 + 8000 * 2e-5)
    assert flow[-1] < 1.02 * flow[-2]
