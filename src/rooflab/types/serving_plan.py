"""The answer to "which setup should I rent?": settings of a serving engine held against each other and a goal."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab.types.result import Result, convert
from rooflab.types.serving import Deployment
from rooflab.types.source import Source
from rooflab.units import duration

SCHEMA = 1


class Goal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked of a setting, in the mean; None for no limit.

    Attributes:
        ttft_s, tpot_s: times that it may take at most.
        rate_per_s: requests that all copies together answer.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    rate_per_s: float | None = None


class Option(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One setting.

    Attributes:
        deployment: of one copy, or of as many as the rate needs.
        concurrency: requests that one copy has at once; of prefill and decode apart, all of one set of copies.
        ttft_s, tpot_s: in the mean.
        requests_per_s, output_tokens_per_s: of all copies.
        meets: whether it keeps the goal's times; `front` whether none is better for the user and for the owner at
            once.
        memory_share: of what an engine may use of a device.
        loses: share of the time by what binds it ("memory", "compute", "links", …), largest first; "idle" where
            prefill and decode are apart and one waits for the other.
        price_per_million_tokens: of tokens given out; None without prices.
    """

    deployment: Deployment
    concurrency: float
    ttft_s: float
    tpot_s: float
    requests_per_s: float
    output_tokens_per_s: float
    meets: bool
    front: bool
    memory_share: float | None = None
    loses: dict[str, float] = {}
    price_per_million_tokens: float | None = None

    @property
    def tokens_per_s_per_device(self) -> float:
        """Tokens given out, for each device."""
        return self.output_tokens_per_s / self.deployment.devices

    @property
    def tokens_per_s_per_user(self) -> float:
        """As one user sees them come: 1 / TPOT."""
        return 1.0 / self.tpot_s


class ServingPlan(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a model on machines, ranked.

    Attributes:
        model: its name.
        prompt_tokens, answer_tokens: of a request.
        goal: what is asked.
        options: of each layout the best concurrency that keeps the goal, or the nearest to it: cheapest first
            where there are prices, else with the most tokens a second for each device; where none keeps the goal,
            the nearest first.
        front: settings of which none is better both in tokens a second for each user and for each device (or by
            price).
        settings: how many were looked at.
        refused: layouts that cannot be, and why.
        prices: of an hour of a device, by machine.
        currency: of the prices, in words.
    """

    NEWEST = SCHEMA
    WHAT = "a plan of serving"

    model: str
    prompt_tokens: int
    answer_tokens: int
    goal: Goal
    options: tuple[Option, ...]
    front: tuple[Option, ...]
    settings: int
    refused: dict[str, str] = {}
    prices: dict[str, float] = {}
    currency: str = ""
    sources: tuple[Source, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA

    @property
    def name(self) -> str:
        """The model, and where it might run."""
        machines = dict.fromkeys(option.deployment.machine for option in self.options)
        return f"{self.model} on {', '.join(machines)}"

    @property
    def best(self) -> Option | None:
        """The first option that keeps the goal; None where none does."""
        return next((option for option in self.options if option.meets), None)

    def _summary(self) -> str:
        best = self.best
        if best is None:
            return f"{self.name}: none of {self.settings:,} settings keeps the goal"
        where = best.deployment
        return f"{self.name}: {where.devices} × {where.machine} {where.layout}, TPOT {duration(best.tpot_s)}"

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> ServingPlan:
        """The plan that `to_dict` was called on (see `Result.from_dict`)."""
        return convert(cls, raw)
