"""Streams over several copies, and with prefill and decode apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rooflab
from rooflab.errors import RooflabError
from rooflab.model.serving import events, requests
from rooflab.model.serving.events import Rules
from rooflab.model.serving.replay import Pool, serve_apart, serve_together, summary
from rooflab.model.serving.schedulers import scheduler
from rooflab.model.serving.server import Server
from rooflab.model.serving.step import Speculation, StepModel
from rooflab.model.serving.table import Table
from rooflab.work.llm import models
from support.model.serving_oracle import Request, simulate

AXES = (np.array([0.0, 1, 8192]), np.array([0.0, 1e5]), np.array([0.0, 1, 512]), np.array([0.0, 1e5]))


def table():
    """5 ms a step, 20 us a new token, 10 us a sequence and 3 ns for each token it attends to."""
    t, _, s, c = np.meshgrid(*AXES, indexing="ij")
    return Table(*AXES, 5e-3 + 2e-5 * t + 1e-5 * s + 3e-9 * s * c)


POOL = Pool(table(), Rules(blocks=4000), 2)


def test_at_a_vanishing_rate_every_request_has_the_times_of_a_lonely_one():
    coming = requests.at_random(1e-3, 40, 800, 60)
    found = summary(serve_together(coming, POOL))
    alone = events.run(np.zeros(1), [800], [60], POOL.table, POOL.rules)
    assert found["TTFT"].most == pytest.approx(alone.first_s[0]) == pytest.approx(found["TTFT"].mean)
    assert found["end to end"].mean == pytest.approx(alone.end_s[0])
    assert (found.mean_waiting, found.preemptions) == (0, 0)
    assert found["TPOT"].mean == pytest.approx((alone.end_s[0] - alone.first_s[0]) / 59)


def test_figures_of_a_stream_are_those_of_its_requests():
    coming = requests.at_random(30.0, 400, 500, 100, spread=0.5, seed=3)
    served = serve_together(coming, POOL)
    found = summary(served, outside_s=0.01)
    assert found.requests == 400
    assert found.output_tokens == int(coming.answer.sum())
    assert found.computed_tokens == int((coming.prompt + coming.answer - 1).sum())  # nothing computed twice
    assert found["TTFT"].p50 == pytest.approx(np.median(served.first_s - coming.arrival_s) + 0.01)
    # Little's law: requests in the engines in the mean are their rate times the time that each is there.
    inside = (served.end_s - served.admitted_s).sum() / found.span_s
    assert found.mean_running == pytest.approx(inside)
    assert found.requests_per_s == pytest.approx(400 / found.span_s)
    assert 0 < found.utilisation <= 1
    assert [each.time_s for each in found.moments] == sorted(each.time_s for each in found.moments)


def test_what_does_not_fit_alone_is_refused_and_counted():
    small = POOL._replace(rules=Rules(blocks=10))  # 160 tokens
    coming = requests.at_random(1.0, 10, 100, 20)
    long = coming._replace(prompt=np.where(np.arange(10) < 3, 1000, coming.prompt))
    assert summary(serve_together(long, small)).refused == 3
    with pytest.raises(RooflabError, match=r"shortest request has 1,020 tokens.*of a copy holds 160"):
        serve_together(coming._replace(prompt=np.full(10, 1000)), small)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 3), st.integers(1, 3), st.floats(0.5, 40.0))
def test_apart_every_token_is_made_once_and_each_time_follows_the_last(seed, prefills, decodes, rate):
    coming = requests.at_random(rate, 60, 300, 20, spread=0.9, seed=seed)
    prefill, decode = POOL._replace(copies=prefills), POOL._replace(copies=decodes)
    served = serve_apart(coming, prefill, decode, lambda tokens: 1e-6 * tokens)
    assert (served.arrival_s <= served.admitted_s).all()
    assert (served.admitted_s < served.first_s).all()
    later = coming.answer > 1
    assert (served.end_s >= served.first_s + 1e-6 * coming.prompt * later).all()
    made = sum(each.sums["made_tokens"] for each in served.outcomes)
    assert made == coming.answer.sum()
    assert (
        sum(each.sums["computed_tokens"] for each in served.outcomes) == (coming.prompt + coming.answer - 1).sum()
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 100), st.integers(1, 3), st.integers(1, 3), st.integers(20, 200))
def test_apart_is_the_plain_scheduler_on_either_side(seed, prefills, decodes, blocks):
    """Each copy by `simulate`: prompts for one token, then, once the cache has moved, the tokens after it."""
    coming = requests.at_random(60.0, 24, 300, 20, spread=0.9, seed=seed)
    rules = Rules(token_budget=400, most_sequences=5, blocks=40 + blocks)
    prefill, decode = Pool(table(), rules, prefills), Pool(table(), rules, decodes)
    served = serve_apart(coming, prefill, decode, lambda tokens: 1e-6 * tokens)

    def step_s(*batch):
        return events.seconds(prefill.table, *batch)

    rows = list(zip(range(24), coming.arrival_s, coming.prompt, coming.answer, strict=True))
    first_s, end_s = np.zeros(24), np.zeros(24)
    for copy in range(prefills):
        mine = [Request(n, at, int(p), 1, 0, 0, 0) for n, at, p, _ in rows if n % prefills == copy]
        for one in simulate(mine, rules, step_s):
            first_s[one.number] = end_s[one.number] = one.end_s
    there_s = first_s + 1e-6 * coming.prompt
    order = [int(n) for n in np.argsort(there_s, kind="stable") if coming.answer[n] > 1]
    for copy in range(decodes):
        mine = [
            Request(n, there_s[n], int(coming.prompt[n]), int(coming.answer[n]), int(coming.prompt[n]), 0, 1)
            for n in order[copy::decodes]
        ]
        for one in simulate(mine, rules, step_s):
            end_s[one.number] = one.end_s
    assert served.first_s.tolist() == first_s.tolist()
    assert served.end_s.tolist() == end_s.tolist()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 100), st.integers(1, 3), st.integers(1, 3), st.integers(1, 12), st.integers(1, 5))
def test_apart_each_client_sends_its_next_request_after_an_answer(seed, prefills, decodes, clients, rounds):
    loop = requests.closed_loop(clients, rounds * clients, 300, 20, spread=0.9, seed=seed)
    rules = Rules(token_budget=700, most_sequences=4, blocks=400, between_s=0.01)
    prefill, decode = Pool(table(), rules, prefills), Pool(table(), rules, decodes)
    served = serve_apart(loop, prefill, decode, lambda tokens: 1e-6 * tokens)
    assert (served.arrival_s[:clients] == 0).all()
    answers = np.sort(served.end_s)[: len(loop.prompt) - clients]
    takes = (served.end_s - served.arrival_s).mean()
    assert np.abs(served.arrival_s[clients:] - answers - 0.01).sum() <= 1e-3 * takes * len(loop.prompt)
    # Whatever the arrivals are, what comes of them is what comes of an open stream of the same.
    stream = loop._replace(arrival_s=served.arrival_s, clients=0)
    again = serve_apart(stream, prefill, decode, lambda tokens: 1e-6 * tokens)
    assert again.end_s == pytest.approx(served.end_s, rel=1e-9)


def test_apart_the_client_is_answered_after_the_transfer():
    served = serve_apart(
        requests.at_random(1e-3, 10, 800, 60), POOL, POOL._replace(copies=1), lambda tokens: 0.5 + 0.0 * tokens
    )
    assert served.taken_s == pytest.approx(served.first_s + 0.5)
    ttft_s = (served.taken_s - served.arrival_s).mean()
    assert summary(served).quantiles[0].mean == pytest.approx(ttft_s)


def test_a_closed_loop_has_as_many_clients_as_are_asked_over_its_copies():
    served = serve_together(requests.closed_loop(5, 200, 100, 30), POOL)
    assert summary(served).mean_running + summary(served).mean_waiting == pytest.approx(5, rel=0.05)
    alone = serve_together(requests.closed_loop(1, 20, 100, 30), POOL)
    assert len(alone.outcomes) == 1


def test_slower_steps_stretch_everything_alike():
    coming = requests.at_random(20.0, 200, 300, 40, spread=0.5, seed=5)
    slow = POOL._replace(table=POOL.table._replace(seconds=4 * POOL.table.seconds))
    one = serve_together(coming, POOL)
    four = serve_together(coming._replace(arrival_s=4 * coming.arrival_s), slow)
    assert four.end_s == pytest.approx(4 * one.end_s)


def test_what_comes_later_changes_nothing_before_it():
    coming = requests.at_random(60.0, 300, 300, 40, spread=0.5, seed=6)
    single = POOL._replace(copies=1)
    whole, part = serve_together(coming, single), serve_together(coming.only(np.arange(150)), single)
    before = part.end_s < coming.arrival_s[150]
    assert before.any()
    assert np.array_equal(whole.end_s[:150][before], part.end_s[before])


def test_the_cache_of_drafting_steps_holds_as_many_requests_as_of_plain_ones():
    """Two tokens a step: an answer of 4000 is some 2000 steps, and simulated with as many tokens."""
    plain, drafting = (
        Server(
            step=StepModel(models.named("llama-3.1-8b"), rooflab.machine("h100-sxm"), speculation=each),
            scheduler=scheduler("vllm", 80e9),
        )
        for each in (None, Speculation(2, 2.0))
    )
    steps = float(drafting.steps_of(4000.0))
    assert steps == 1 + 3999 / 2
    assert plain.simulated_tokens(1000, 4000) == plain.cache_tokens(3000.0)
    held = drafting.simulated_tokens(1000, 4000) / drafting.kept_tokens(1000, steps)
    assert held == pytest.approx(drafting.cache_requests(3000.0), rel=1e-3)
