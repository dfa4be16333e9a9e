"""How sure a time to the first token is: each of its parts by its own mechanism."""

from __future__ import annotations

import math

import pytest

import rooflab
from rooflab.model.serving import first_token
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.first_token import (
    FirstToken,
    first_token_factor,
    shares,
    waits_for_messages,
    waits_for_places,
)
from rooflab.model.serving.step import StepModel
from rooflab.work.llm import models


@pytest.fixture(scope="module")
def prompt():
    return StepModel(models.named("llama-3.1-8b"), rooflab.machine("h100-sxm")).time(Batch(1.0, 512.0))


def test_a_lone_prompt_without_a_server_is_as_sure_as_its_steps(prompt):
    own_s = float(prompt.seconds[0])
    assert first_token_factor(prompt, FirstToken(own_s, own_s, 0.0)) == pytest.approx(
        float(prompt.high[0] / prompt.seconds[0])
    )


def test_what_is_all_outside_has_the_bar_of_servers(prompt):
    factor = first_token_factor(prompt, FirstToken(1.0, 0.0, 1.0))
    assert factor == pytest.approx(math.exp(1.28 * first_token.SERVER_SPREAD))


def test_parts_err_independently(prompt):
    """Halves of server and waiting: the root of the sum of squares, less than either alone."""
    factor = first_token_factor(prompt, FirstToken(2.0, 0.0, 1.0))
    halves = math.hypot(first_token.SERVER_SPREAD / 2, first_token.WAIT_SPREAD / 2)
    assert math.log(factor) == pytest.approx(1.28 * halves)


def test_who_waits_for_places_is_less_sure_than_who_waits_for_steps(prompt):
    of = FirstToken(1.0, 0.1, 0.1)
    full, latent = of._replace(full=True), of._replace(latent=True)
    for wider in (full, latent):
        assert first_token_factor(prompt, wider) > first_token_factor(prompt, of)
    assert waits_for_places(95.0, 100.0)
    assert not waits_for_places(85.0, 100.0)
    assert waits_for_messages(9500.0, 1e-4)
    assert not waits_for_messages(8500.0, 1e-4)
    assert not waits_for_messages(1e9, 0.0)


def test_shares_are_one_together():
    for of in (FirstToken(1.0, 0.2, 0.3), FirstToken(1.0, 0.9, 0.3), FirstToken(1.0, 0.2, 2.0)):
        assert sum(shares(of)) == pytest.approx(1.0)
        assert min(shares(of)) >= 0.0
