"""The steady state against the event simulation; a step's table against the model that it was asked of."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rooflab.model.serving import events
from rooflab.model.serving.events import Rules
from rooflab.model.serving.steady import Load, _shares, steady
from rooflab.model.serving.table import Table, batch_of, grid_of

TOKENS, ATTENDED = np.array([0.0, 1, 8192]), np.array([0.0, 1e5])
SEQUENCES, CONTEXT = np.array([0.0, 1, 1024]), np.array([0.0, 1e5])


@pytest.fixture(scope="module")
def table():
    """5 ms a step, 20 us a new token and 1 ns for each it attends to, 10 us a sequence and 3 ns likewise."""
    t, a, s, c = np.meshgrid(TOKENS, ATTENDED, SEQUENCES, CONTEXT, indexing="ij")
    return Table(TOKENS, ATTENDED, SEQUENCES, CONTEXT, 5e-3 + 2e-5 * t + 1e-9 * t * a + 1e-5 * s + 3e-9 * s * c)


CASES = [(1, 1000, 200), (16, 1000, 500), (128, 1000, 500), (64, 8000, 400), (32, 12_000, 300), (100, 2000, 64)]


@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize(("clients", "prompt", "answer"), CASES)
def test_the_steady_state_is_that_of_the_events(table, clients, prompt, answer, mixed):
    random = np.random.default_rng(0)
    count = 15 * clients + 150
    prompts = random.integers(int(0.8 * prompt), prompt + 1, count)
    answers = random.integers(int(0.8 * answer), answer + 1, count)
    got = events.run(None, prompts, answers, table, Rules(clients=clients, mixed=mixed))
    middle = slice(3 * clients, count - clients)
    ttft_s = (got.first_s - got.arrival_s)[middle].mean()
    tpot_s = ((got.end_s - got.first_s) / (answers - 1))[middle].mean()
    ends = np.sort(got.end_s)[3 * clients : -clients]
    at = steady(table, Load(clients, prompts.mean(), answers.mean(), mixed=mixed))
    assert at.tpot_s[0] == pytest.approx(tpot_s, rel=0.06)
    assert at.ttft_s[0] == pytest.approx(ttft_s, rel=0.3 if prompt > 8192 or not mixed else 0.2)
    assert at.requests_per_s[0] == pytest.approx((len(ends) - 1) / (ends[-1] - ends[0]), rel=0.06)


@pytest.mark.parametrize("between_s", [0.0, 0.04])
@pytest.mark.parametrize(("clients", "prompt", "answer"), [(1, 1000, 200), (16, 1000, 500), (64, 1000, 500)])
def test_steps_that_are_planned_ahead_are_those_of_the_events(table, clients, prompt, answer, between_s):
    count = 15 * clients + 150
    random = np.random.default_rng(0)
    prompts = random.integers(int(0.8 * prompt), prompt + 1, count)
    answers = random.integers(int(0.8 * answer), answer + 1, count)
    middle = slice(3 * clients, count - clients)
    ttft_s, steady_s = [], []
    for ahead in (False, True):
        got = events.run(None, prompts, answers, table, Rules(clients=clients, between_s=between_s, ahead=ahead))
        ttft_s.append((got.first_s - got.arrival_s)[middle].mean())
        load = Load(clients, prompts.mean(), answers.mean(), between_s=between_s, ahead=ahead)
        steady_s.append(float(steady(table, load).ttft_s[0]))
    assert steady_s[1] == pytest.approx(ttft_s[1], rel=0.2)
    assert ttft_s[1] >= ttft_s[0]
    if clients == 1:
        assert ttft_s[1] == ttft_s[0]  # nothing runs that could have been planned


BUSY = [(64, 1000, 500), (256, 1000, 500), (64, 8000, 400), (64, 4000, 1000), (256, 4000, 1000)]


@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize(("clients", "prompt", "answer"), BUSY)
def test_clients_that_come_back_at_any_time_make_long_steps_longer(table, clients, prompt, answer, mixed):
    random, count = np.random.default_rng(0), 20 * clients
    prompts = random.integers(int(0.8 * prompt), prompt + 1, count)
    answers = random.integers(int(0.8 * answer), answer + 1, count)
    rules = Rules(clients=clients, mixed=mixed, between_s=0.05, ahead=True)
    got = events.run(None, prompts, answers, table, rules)
    waited_s = (got.first_s - got.arrival_s)[5 * clients : -clients].mean()
    of = (clients, prompts.mean(), answers.mean())
    at = steady(table, Load(*of, mixed=mixed, between_s=0.05, ahead=True))
    assert at.ttft_s[0] == pytest.approx(waited_s, rel=0.3)


@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize(("clients", "answer"), [(128, 500), (256, 500), (256, 120)])
def test_tokens_made_faster_than_they_are_sent_keep_clients_waiting(table, clients, answer, mixed):
    """No more tokens a second than are sent; requests wait, and steps are of those that do not."""
    random, count = np.random.default_rng(0), 25 * clients
    prompts = random.integers(80, 101, count)
    answers = random.integers(int(0.8 * answer), answer + 1, count)
    rules = Rules(clients=clients, mixed=mixed, between_s=0.02, message_s=2e-4)
    got = events.run(None, prompts, answers, table, rules)
    middle = slice(10 * clients, count - clients)
    ends = np.sort(got.end_s)[10 * clients : -clients]
    load = Load(clients, prompts.mean(), answers.mean(), mixed=mixed, between_s=0.02, message_s=2e-4)
    at = steady(table, load)
    assert at.requests_per_s[0] * answers.mean() == pytest.approx(1 / 2e-4, rel=0.02)
    assert at.requests_per_s[0] == pytest.approx((len(ends) - 1) / (ends[-1] - ends[0]), rel=0.06)
    whole_s = at.ttft_s[0] + (answers.mean() - 1) * at.tpot_s[0]
    assert whole_s == pytest.approx((got.end_s - got.arrival_s)[middle].mean(), rel=0.1)
    # Clients that keep step wait between tokens instead: here those that come at any time are meant.
    assert at.tpot_s[0] < ((got.end_s - got.first_s) / (answers - 1))[middle].mean()


def test_sending_that_is_fast_enough_changes_little(table):
    of = (np.array([1.0, 16.0]), 1000, 500)
    plain, sent = steady(table, Load(*of)), steady(table, Load(*of, message_s=1e-4))
    assert all((a == b).all() for a, b in zip(sent, plain, strict=True))


def test_shares_of_chunks_have_the_mean_and_variance_that_are_asked_for():
    mean, dispersion = np.array([0.1, 0.1, 3.0, 3.0]), np.array([1.0, 2.5, 1.0, 2.5])
    share, held = _shares(mean, np.full(4, np.inf), dispersion)
    assert share.sum(axis=-1) == pytest.approx(1.0)
    assert (share * held).sum(axis=-1) == pytest.approx(mean)
    assert (share * held**2).sum(axis=-1) - mean**2 == pytest.approx(mean * dispersion, rel=1e-4)
    poisson = [math.exp(-3.0) * 3.0**k / math.factorial(k) for k in range(20)]
    assert share[2, :20] == pytest.approx(poisson, rel=1e-6)


@pytest.mark.parametrize("between_s", [0.0, 0.035])
@pytest.mark.parametrize(("clients", "prompt"), [(1, 100), (1, 12_000), (64, 100), (32, 1000), (200, 1000)])
def test_answers_of_one_token_are_those_of_the_events(table, clients, prompt, between_s):
    count = 20 * clients + 100
    one, prompts = np.ones(count, int), np.full(count, prompt)
    got = events.run(None, prompts, one, table, Rules(clients=clients, between_s=between_s))
    middle = slice(5 * clients, count - clients)
    ends = np.sort(got.end_s)[5 * clients : -clients]
    at = steady(table, Load(clients, prompt, 1, between_s=between_s))
    assert at.requests_per_s[0] == pytest.approx((len(ends) - 1) / (ends[-1] - ends[0]), rel=0.2)
    assert at.ttft_s[0] == pytest.approx((got.first_s - got.arrival_s)[middle].mean(), rel=0.25)


@pytest.mark.parametrize("between_s", [0.0, 0.02])
@pytest.mark.parametrize("answer", [1, 4, 200])
@pytest.mark.parametrize("mixed", [True, False])
def test_clients_are_their_flow_times_their_time(table, mixed, answer, between_s):
    """Little's law over the whole loop: clients = requests a second x (away + first token + all others)."""
    clients = np.array([1.0, 3, 30, 300, 3000])
    at = steady(table, Load(clients, 1000, answer, between_s=between_s, most_running=256, mixed=mixed))
    whole_s = between_s + at.ttft_s + (answer - 1) * at.tpot_s
    assert at.requests_per_s * whole_s == pytest.approx(clients, rel=0.03)


def test_clients_that_do_not_fit_wait_by_littles_law(table):
    at = steady(table, Load(np.array([50.0, 200.0]), 1000, 500, most_running=50))
    assert at.queue_s[0] == 0
    assert at.requests_per_s[1] == pytest.approx(at.requests_per_s[0])
    assert at.queue_s[1] == pytest.approx(150 / at.requests_per_s[0])
    got = events.run(None, np.full(1500, 1000), np.full(1500, 500), table, Rules(clients=200, most_sequences=50))
    waited = (got.admitted_s - got.arrival_s)[400:1200].mean()
    assert at.queue_s[1] == pytest.approx(waited, rel=0.1)


@pytest.mark.parametrize("mixed", [True, False])
def test_a_lonely_client_has_the_times_of_its_own_steps(table, mixed):
    at = steady(table, Load(1, 1000, 200, mixed=mixed))
    decode_s = float(table.at(0, 0, 1, 1100))
    assert at.ttft_s[0] == pytest.approx(float(table.at(1000, 500.5, 0, 0)), rel=0.02)
    assert at.tpot_s[0] == pytest.approx(decode_s, rel=0.005)


def test_more_clients_are_more_answers_and_later_tokens(table):
    at = steady(table, Load(2.0 ** np.arange(0, 10), 1000, 300))
    assert (np.diff(at.requests_per_s) > 0).all()
    assert (np.diff(at.tpot_s) > 0).all()
    assert (np.diff(at.ttft_s) > 0).all()


def test_a_table_is_straight_between_its_points_and_exact_at_them():
    def step_s(batch):
        context = batch.prefill_context + (batch.prefill_tokens + 1) / 2
        attended = batch.prefill_sequences * batch.prefill_tokens * context
        return (
            1e-3 + 1e-6 * batch.new_tokens + 1e-9 * attended + 2e-9 * batch.decode_sequences * batch.decode_context
        )

    grid = grid_of(4096, 256, 8192)
    table = grid.table(step_s(grid.batch))
    random = np.random.default_rng(0)
    tokens, sequences = random.integers(1, 4096, 200), random.integers(1, 256, 200)
    attended, context = random.uniform(1, 8192, 200), random.uniform(1, 8192, 200)
    asked = batch_of(tokens, attended, sequences, context)
    assert table.at(tokens, attended, sequences, context) == pytest.approx(step_s(asked), rel=1e-9)
    one = events.seconds(table, 100, 100 * 300, 7, 7 * 500)
    assert one == pytest.approx(float(table.at(100, 300, 7, 500)), rel=1e-12)
    none = (np.array([0.0, 64.0]), 300.0, np.array([5.0, 0.0]), 500.0)
    assert table.at(*none) == pytest.approx(step_s(batch_of(*none)), rel=1e-9)
