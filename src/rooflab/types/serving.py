"""The answer to "what will this model do on that hardware?": one setting of a serving engine."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab.types.result import Result, convert
from rooflab.types.source import Source
from rooflab.units import duration, si

SCHEMA = 1


class Estimate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A predicted time with its bar, in seconds; four of five measured ones shall lie within."""

    time_s: float
    low_s: float
    high_s: float
    floor_s: float | None = None


class Deployment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where and how a model is served.

    Attributes:
        machine: name of the device, as the catalogue has it; `node` of the system it is in.
        engine, weights, cache: names of the engine, and of the number formats of weights and KV cache.
        devices: of all copies together.
        copies: of the model, each with requests of its own.
        tensor, pipeline, experts, data, context: ways in which one copy is laid out; `layout` in words.
        prefill_copies: of them, those that compute prompts alone and hand the KV cache on; 0 where every copy does
            both; `prefill_layout` is theirs, `layout` and its ways those of the copies that decode.
        lora_rank, loras: of adapters beside the projections, and how many are held; 0 for none.
        drafts, accepted: tokens that a step drafts for each sequence, and what it gives each in the mean.
        imbalance: rows of the busiest rank of experts over the mean; None for what chance makes of it.
        overlap: whether two half batches compute and communicate in turn.
    """

    machine: str
    engine: str
    weights: str
    cache: str
    devices: int
    copies: int
    layout: str
    tensor: int
    pipeline: int
    experts: int
    data: int
    node: str | None = None
    prefill_copies: int = 0
    prefill_layout: str = ""
    context: int = 1
    lora_rank: int = 0
    loras: int = 0
    drafts: int = 0
    accepted: float = 1.0
    imbalance: float | None = None
    overlap: bool = False


class Demand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked of it: a closed loop of so many clients, or a stream of requests.

    Attributes:
        prompt_tokens, answer_tokens: of a request, in the mean; `cached_tokens` of the prompt are there already,
            in the host's memory where `cached_on_host`.
        image_tokens: of a prompt, those of its `images` pictures.
        concurrency: clients that have a request out at all times, over all copies; None for a stream.
        rate_per_s: requests of a stream; None for a closed loop.
        name: in words.
    """

    prompt_tokens: float
    answer_tokens: float
    cached_tokens: float = 0.0
    concurrency: int | None = None
    rate_per_s: float | None = None
    name: str = ""
    image_tokens: int = 0
    images: int = 0
    cached_on_host: bool = False


class DeviceMemory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes of the fullest device.

    Attributes:
        weights, cache, states, activations, workspace: by kind, with the requests that run in the mean.
        usable: what an engine may use of it; `capacity` what it has. None where the machine does not say.
        kept_tokens: of a running request in the KV cache: in the mean, or all where the engine reserves them.
        most_running: such requests that a copy's KV cache holds; None where nobody states the memory.
    """

    weights: float
    cache: float
    states: float
    activations: float
    workspace: float
    usable: float | None = None
    capacity: float | None = None
    kept_tokens: float | None = None
    most_running: float | None = None

    @property
    def total(self) -> float:
        """All of it."""
        return self.weights + self.cache + self.states + self.activations + self.workspace


class StepPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one kind of layer adds to a step.

    Attributes:
        layer: "attention", "mlp", "experts", "communication", "host", …
        time_s: what it adds; the others are what its kernels' arithmetic, memory, caches, links and starts would
            take alone, which overlap.
        binds: which of those binds most of its time, kernel by kernel: not always the largest of these sums.
    """

    layer: str
    time_s: float
    compute_s: float = 0.0
    memory_s: float = 0.0
    cache_s: float = 0.0
    links_s: float = 0.0
    overhead_s: float = 0.0
    binds: str = ""


class StepTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of an engine and where its time goes.

    Attributes:
        name: "a prompt", "decode".
        prompt_tokens, sequences, context_tokens: new tokens of prompts, sequences that decode, what each of those
            attends to.
    """

    name: str
    time: Estimate
    prompt_tokens: float
    sequences: float
    context_tokens: float
    parts: tuple[StepPart, ...] = ()


class LoadPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What comes of one concurrency, over all copies."""

    concurrency: float
    ttft_s: float
    tpot_s: float
    queue_s: float
    requests_per_s: float
    tokens_per_s: float
    running: float


class Quantiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One figure over all requests, in seconds."""

    name: str
    mean: float
    p50: float
    p90: float
    p99: float
    most: float


class Moment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The state of a simulation at one time: requests that wait and run, share of the KV cache in use."""

    time_s: float
    waiting: float
    running: float
    cache_share: float


class Replay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stream of requests run through the scheduler, event by event.

    Attributes:
        requests: that were answered; `refused` do not fit into the KV cache alone, `dropped` were broken lines.
        span_s: from the first request to the last answer.
        requests_per_s, output_tokens_per_s: over that span.
        quantiles: of "TTFT", "TPOT", "end to end" and "waiting".
        utilisation: share of the span in which an engine computes, over all copies.
        mean_waiting, most_waiting: requests in the queue of all copies in the mean, of one at most.
        mean_running: requests that run in the mean, over all copies.
        cache_share, most_cache_share: of the KV cache in use, in the mean and at most.
        steps, mixed_steps: of all copies; those that hold tokens of a prompt.
        preemptions: of requests, whose tokens were computed again.
        computed_tokens, output_tokens: that passed through the model, that were given out.
        moments: of the first copy, over time.
    """

    requests: int
    refused: int
    dropped: int
    span_s: float
    requests_per_s: float
    output_tokens_per_s: float
    quantiles: tuple[Quantiles, ...]
    utilisation: float
    mean_waiting: float
    most_waiting: float
    mean_running: float
    cache_share: float
    most_cache_share: float
    steps: int
    mixed_steps: int
    preemptions: int
    computed_tokens: int
    output_tokens: int
    moments: tuple[Moment, ...] = ()

    def __getitem__(self, name: str) -> Quantiles:
        """The quantiles called `name`."""
        return next(each for each in self.quantiles if each.name == name)


class Serving(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model does on a machine, as an engine serves it in one setting.

    Attributes:
        model: its name; `parameters` of it, of which a token meets `active_parameters`.
        deployment: where and how.
        demand: what is asked.
        ttft, tpot: time to the first token, and for each token after it, in the mean; of answers of one token
            there is no TPOT.
        queue_s: of the TTFT, what a request waits for a place.
        requests_per_s, output_tokens_per_s: of all copies.
        running: requests that run in the mean, of all copies.
        memory: of the fullest device.
        steps: one that computes a prompt, one that only decodes, at this load.
        loads: the same setting at other concurrencies.
        replay: of a stream; None for a closed loop.
        price_per_hour: of all devices; None without prices.
        sources: of the numbers.
        warnings: what a reader must know first; `notes` conventions and assumptions.
    """

    NEWEST = SCHEMA
    WHAT = "an answer of serve"
    DERIVED = ("output_tokens_per_s_per_device", "output_tokens_per_s_per_user", "price_per_million_tokens")

    model: str
    parameters: float
    active_parameters: float
    deployment: Deployment
    demand: Demand
    ttft: Estimate
    tpot: Estimate | None
    queue_s: float
    requests_per_s: float
    output_tokens_per_s: float
    running: float
    memory: DeviceMemory
    steps: tuple[StepTime, ...] = ()
    loads: tuple[LoadPoint, ...] = ()
    replay: Replay | None = None
    price_per_hour: float | None = None
    sources: tuple[Source, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA

    @property
    def name(self) -> str:
        """The model and where it runs."""
        where = self.deployment
        devices = "" if where.devices == 1 else f"{where.devices} × "
        return f"{self.model} on {devices}{where.machine}"

    @property
    def output_tokens_per_s_per_device(self) -> float:
        """Tokens given out, for each device."""
        return self.output_tokens_per_s / self.deployment.devices

    @property
    def output_tokens_per_s_per_user(self) -> float | None:
        """As one user sees them come: 1 / TPOT; None where answers have one token."""
        return None if self.tpot is None else 1.0 / self.tpot.time_s

    @property
    def price_per_million_tokens(self) -> float | None:
        """Of tokens given out; None without prices."""
        if self.price_per_hour is None:
            return None
        return self.price_per_hour / 3600.0 / self.output_tokens_per_s * 1e6

    def _summary(self) -> str:
        rate = si(self.output_tokens_per_s, "token/s")
        later = "" if self.tpot is None else f", TPOT {duration(self.tpot.time_s)}"
        return f"{self.name}: TTFT {duration(self.ttft.time_s)}{later}, {rate}"

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers; what follows from others is said too."""
        return {**super().to_dict(), **{name: getattr(self, name) for name in self.DERIVED}}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Serving:
        """The answer that `to_dict` was called on (see `Result.from_dict`)."""
        return convert(cls, raw)
