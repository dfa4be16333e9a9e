"""What is asked of a server: tokens of a request in the mean, and clients or a stream of requests."""

from __future__ import annotations

from dataclasses import dataclass

from rooflab.model.serving.requests import Requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of a server: tokens of a request in the mean, and clients or a stream of requests."""

    prompt: float
    answer: float
    cached: float = 0.0
    concurrency: int | None = None
    rate_per_s: float | None = None
    requests: Requests | None = None
