"""The compiled scheduler against the plain one, and what holds of every stream of requests."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rooflab.model.serving import events
from rooflab.model.serving.events import Rules, Table
from support.model.serving_oracle import Request, simulate

# A step of 1 ms, 0.1 ms a new token, 0.2 ms a sequence, 1 us and 2 us for each token attended to: straight pieces
# in all four, and a bend at 8 new tokens.
TOKENS, ATTENDED = np.array([0.0, 1, 8, 64]), np.array([0.0, 100])
SEQUENCES, CONTEXT = np.array([0.0, 1, 4]), np.array([0.0, 100])


def table():
    t, a, s, c = np.meshgrid(TOKENS, ATTENDED, SEQUENCES, CONTEXT, indexing="ij")
    return Table(
        TOKENS,
        ATTENDED,
        SEQUENCES,
        CONTEXT,
        1e-3 + 1e-4 * np.maximum(t, 8) + 1e-6 * t * a + 2e-4 * s + 2e-6 * s * c,
    )


TABLE = table()


def step_s(tokens, attended, sequences, context):
    return events.seconds(TABLE, tokens, attended, sequences, context)


@st.composite
def streams(draw):
    """Requests that each fit, and the rules of a scheduler that has little room."""
    block, budget = draw(st.integers(1, 4)), draw(st.integers(1, 24))
    count = draw(st.integers(1, 12))
    prompt = draw(st.lists(st.integers(1, 20), min_size=count, max_size=count))
    answer = draw(st.lists(st.integers(1, 12), min_size=count, max_size=count))
    most = max(p + a - 1 for p, a in zip(prompt, answer, strict=True))
    chunked = draw(st.booleans()) or most > budget
    rules = Rules(
        token_budget=budget,
        most_sequences=draw(st.integers(1, 6)),
        blocks=-(-most // block) + draw(st.integers(0, 8)),
        block_tokens=block,
        chunked=chunked,
        reserve=draw(st.booleans()),
        mixed=draw(st.booleans()),
        clients=draw(st.sampled_from([0, 0, 1, 3])),
        between_s=draw(st.sampled_from([0.0, 0.003])),
        wait_steps=draw(st.sampled_from([0, 0, 2, 5])),
        wait_tokens=draw(st.integers(1, 24)),
        ahead=draw(st.booleans()),
        message_s=draw(st.sampled_from([0.0, 0.0, 1e-4, 0.002])),
    )
    gaps = draw(st.lists(st.sampled_from([0.0, 0.0, 0.001, 0.004, 0.1]), min_size=count, max_size=count))
    elsewhere = draw(st.booleans())
    cached = [0 if elsewhere else draw(st.integers(0, p - 1)) for p in prompt]
    answer = [max(a, 2) if elsewhere else a for a in answer]
    start = prompt if elsewhere else cached
    rules = rules._replace(blocks=rules.blocks + elsewhere)
    return np.cumsum(gaps), prompt, answer, start, cached, int(elsewhere), rules


# A prompt that is under way is preempted beside sequences that decode: no step of decoding alone began.
PREEMPTED = Rules(
    token_budget=2, most_sequences=3, blocks=6, block_tokens=1, mixed=False, wait_steps=2, wait_tokens=10
)
TEN = [1, 1, 1, 1, 3, 3, 1, 1, 1, 1], [1, 1, 1, 4, 2, 1, 1, 1, 1, 1]


@settings(max_examples=300, deadline=None)
@given(streams())
@example((np.zeros(10), *TEN, [0] * 10, [0] * 10, 0, PREEMPTED))
def test_the_compiled_scheduler_is_the_plain_one(stream):
    arrival_s, prompt, answer, start, again, made, rules = stream
    rows = zip(range(len(prompt)), arrival_s, prompt, answer, start, again, [made] * len(prompt), strict=True)
    plain = simulate([Request(*row) for row in rows], rules, step_s)
    got = events.run(arrival_s, prompt, answer, TABLE, rules, start=start, again=again, made=made)
    for name in ("arrival_s", "admitted_s", "first_s", "end_s", "preemptions"):
        assert getattr(got, name).tolist() == [getattr(each, name) for each in plain], name
    # Every request ends, every token is made once, the clock is where the last request ends.
    assert got.sums["made_tokens"] == sum(answer) - made * len(answer)
    assert got.sums["clock_s"] == max(got.end_s)
    assert (got.sums["preemptions"] == 0) | (not rules.reserve)
    least = sum(p + a - 1 - s for p, a, s in zip(prompt, answer, start, strict=True))
    again_s = got.sums["computed_tokens"] - least
    assert again_s >= 0
    assert again_s == 0 or got.sums["preemptions"] > 0


def test_a_step_has_to_hold_what_was_made_too_only_where_a_request_may_come_again():
    prompt, answer = np.array([100, 100, 101]), np.array([1, 50, 1])
    whole = Rules(token_budget=100, chunked=False)
    assert events.fits(prompt, answer, whole).tolist() == [True, False, False]
    assert events.fits(prompt, answer, whole._replace(reserve=True)).tolist() == [True, True, False]
    assert events.fits(prompt, answer, whole._replace(chunked=True)).all()
