"""How sure a time to the first token is: each part of it by what is known of its mechanism."""

from __future__ import annotations

import math
from typing import NamedTuple

from rooflab.model.serving.step import BAR_SIGMAS, Step

# Standard deviations of ln(seconds) of each part but a prompt's own steps, which have their kernels'. Fitted on
# silicon_sample.csv (ai-dynamo/aiconfigurator 095f58a5), models alike, so that 78 % of all lie within; what each
# card and model says of the others: benchmarks/serving.py --table silicon.
SERVER_SPREAD = 0.43  # server, tokenizer, queues both ways: constants of other hosts' processors
WAIT_SPREAD = 0.32  # for the step under way and for others' prompts: how arrivals meet
PLACES_SPREAD = 0.78  # where clients wait for one another: a queue near its limit, whatever limits it
LATENT_SPREAD = (
    0.2  # of models of latent attention, whose prompts take longer than their kernels for unknown reasons
)
_FULL = 0.9  # of the requests that run at once, or of the tokens that are sent, at most: waiting is for places


class FirstToken(NamedTuple):
    """What makes a time to the first token.

    Attributes:
        ttft_s: in the mean.
        own_s: of it, the steps that compute the prompt, were it alone.
        outside_s: of it, outside of the scheduler.
        full: whether clients wait for places, copies or messages, not only for steps.
        latent: whether the model's attention is latent.
    """

    ttft_s: float
    own_s: float
    outside_s: float
    full: bool = False
    latent: bool = False


def waits_for_places(clients: float, most_running: float) -> bool:
    """Whether so many clients of one engine wait for one another, where it runs so many requests at most."""
    return clients > _FULL * most_running


def waits_for_messages(tokens_per_s: float, message_s: float) -> bool:
    """Whether so many tokens a second come close to all that one process sends, each in `message_s`."""
    return tokens_per_s * message_s > _FULL


def shares(of: FirstToken) -> tuple[float, float, float]:
    """Shares of the prompt's own steps, of what is outside, and of waiting; 1 together."""
    outside = min(of.outside_s / of.ttft_s, 1.0)
    own = min(of.own_s / of.ttft_s, 1.0 - outside)
    return own, outside, 1.0 - outside - own


def first_token_factor(like: Step, of: FirstToken) -> float:
    """How far up and down the bar of a time to the first token goes, whose prompt is computed by steps `like`.

    Parts err independently: ln² factor = (own · ln steps)² + (1.28 · share · σ)² of each other part.
    """
    own, outside, wait = shares(of)
    steps = own * math.log(float(like.high[0] / like.seconds[0])) / BAR_SIGMAS
    waits = wait * (PLACES_SPREAD if of.full else WAIT_SPREAD)
    latent = LATENT_SPREAD * of.latent
    return math.exp(BAR_SIGMAS * math.hypot(steps, outside * SERVER_SPREAD, waits, latent))
