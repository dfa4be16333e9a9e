"""Streams of requests: at random times, in bursts, or of a closed loop; what is in a file is read elsewhere."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rooflab.errors import RooflabError
from rooflab.units import percent


class Requests(NamedTuple):
    """Requests in the order in which they arrive; arrays of one length.

    Attributes:
        name: what they are, in words.
        arrival_s: when each comes, from 0 on; of a closed loop, 0.
        prompt, answer: tokens of each, from 1 on.
        cached: tokens at the start of each prompt whose KV is there already, fewer than the prompt.
        clients: of a closed loop; 0 where requests come at given times.
        dropped: of a file, lines that are no requests.
        faults: what is wrong with the first of those, in sentences.
    """

    name: str
    arrival_s: np.ndarray
    prompt: np.ndarray
    answer: np.ndarray
    cached: np.ndarray
    clients: int = 0
    dropped: int = 0
    faults: tuple[str, ...] = ()

    def only(self, keep: np.ndarray) -> Requests:
        """Those that `keep` says, by truth or number."""
        return self._replace(
            arrival_s=self.arrival_s[keep],
            prompt=self.prompt[keep],
            answer=self.answer[keep],
            cached=self.cached[keep],
        )


def at_random(
    rate_per_s: float,
    count: int,
    prompt: int,
    answer: int,
    *,
    spread: float = 0.0,
    cached: int = 0,
    burstiness: float = 1.0,
    seed: int = 0,
) -> Requests:
    """`count` requests at random times, `rate_per_s` of them a second in the mean.

    Args:
        rate_per_s: above 0.
        count: how many.
        prompt, answer: tokens of each, in the mean.
        spread: lengths lie evenly within that share of their mean, both ways; 0 for all alike.
        cached: tokens of each prompt that are there already.
        burstiness: shape of the gamma distribution of the gaps: 1 is Poisson's, below it they come in bursts (as
            vLLM's benchmark has it); the gaps' deviation is 1/√shape of their mean.
        seed: of the random numbers.

    Raises:
        RooflabError: a number that makes no sense, with what is expected.
    """
    _check(prompt, answer, cached, spread, count)
    for name, value in (("rate", rate_per_s), ("burstiness", burstiness)):
        if not (math.isfinite(value) and value > 0):
            raise RooflabError(f"{name}: got {value:g}, expected a number above 0")
    if seed < 0:
        raise RooflabError(f"seed: got {seed}, expected a whole number from 0 on")
    random = np.random.default_rng(seed)
    gaps = random.gamma(burstiness, 1.0 / (burstiness * rate_per_s), count)
    how = "Poisson" if burstiness == 1 else f"in bursts (gamma, shape {burstiness:g})"
    name = f"{rate_per_s:g} requests/s, {how}, {_lengths(prompt, answer, spread)}"
    return _made(name, np.cumsum(gaps) - gaps[0], prompt, answer, spread, cached, random, 0)


def closed_loop(
    clients: int, count: int, prompt: int, answer: int, *, spread: float = 0.0, cached: int = 0, seed: int = 0
) -> Requests:
    """`count` requests of so many `clients`, each of which waits for its answer; arguments as of `at_random`.

    Raises:
        RooflabError: a number that makes no sense, with what is expected.
    """
    _check(prompt, answer, cached, spread, count)
    if clients < 1:
        raise RooflabError(f"concurrency: got {clients}, expected a whole number above 0")
    name = f"{clients} clients, {_lengths(prompt, answer, spread)}"
    return _made(name, np.zeros(count), prompt, answer, spread, cached, np.random.default_rng(seed), clients)


def check_lengths(prompt: int, answer: int, cached: int = 0) -> None:
    """Whether a request can have so many tokens.

    Raises:
        RooflabError: one below 1, or no token of the prompt that is not cached.
    """
    for name, value in (("isl", prompt), ("osl", answer)):
        if value != int(value) or value < 1:
            raise RooflabError(f"{name}: got {value}, expected a whole number of tokens above 0")
    if not 0 <= cached < prompt:
        raise RooflabError(f"cached: got {cached} tokens of a prompt of {prompt}, expected 0 to {prompt - 1}")


def _check(prompt: int, answer: int, cached: int, spread: float, count: int) -> None:
    check_lengths(prompt, answer, cached)
    if not 0 <= spread < 1:
        raise RooflabError(f"spread: got {spread:g}, expected a share from 0 to below 1")
    if count < 1:
        raise RooflabError(f"requests: got {count}, expected a whole number above 0")


def _lengths(prompt: int, answer: int, spread: float) -> str:
    about = f" ± {percent(spread)}" if spread else ""
    return f"{prompt:,} tokens in and {answer:,} out{about}"


def _made(
    name: str,
    arrival_s: np.ndarray,
    prompt: int,
    answer: int,
    spread: float,
    cached: int,
    random: np.random.Generator,
    clients: int,
) -> Requests:
    def lengths(mean: int) -> np.ndarray:
        low, high = math.ceil(mean * (1 - spread)), math.floor(mean * (1 + spread))
        return random.integers(max(low, 1), max(high, 1) + 1, len(arrival_s))

    prompts = lengths(prompt)
    return Requests(name, arrival_s, prompts, lengths(answer), np.minimum(cached, prompts - 1), clients)
