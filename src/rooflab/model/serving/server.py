"""A model on devices as an engine serves it: step model, scheduler, copies, and what its KV cache holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rooflab.errors import RooflabError
from rooflab.model import collectives
from rooflab.model.engines.engine import Engine
from rooflab.model.parallel import layout as layouts
from rooflab.model.parallel.layout import Layout
from rooflab.model.parallel.memory import check_fits
from rooflab.model.serving.batch import Number
from rooflab.model.serving.extras import Extras, from_host_s
from rooflab.model.serving.schedulers import Scheduler
from rooflab.model.serving.steady import Load, Steady, steady
from rooflab.model.serving.step import StepModel
from rooflab.model.serving.table import Grid, Table, grid_of
from rooflab.types.machine import Machine
from rooflab.work.llm.architecture import Architecture
from rooflab.work.llm.precision import Precision

_FREE = 1 << 40  # tokens of a cache whose size nobody states


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Copies of a model that are alike.

    Attributes:
        step: one copy, ready to be asked for the time of any step.
        scheduler: of its engine.
        before_s: what a request waits for before the scheduler sees it, beside the engine's part: cached tokens on
            their way from the host.
        copies: of the model; a copy in stages works on as many batches at once (`engines`).
    """

    step: StepModel
    scheduler: Scheduler
    copies: int = 1
    before_s: float = 0.0

    @property
    def accepted(self) -> float:
        """Tokens that a step gives a sequence that decodes, in the mean."""
        return self.step.speculation.accepted if self.step.speculation else 1.0

    def steps_of(self, answer: Number) -> Number:
        """Tokens of an answer that steps like plain ones would give: the first, and the others several at once."""
        return 1.0 + (np.maximum(answer, 1.0) - 1.0) / self.accepted

    @property
    def layout(self) -> Layout:
        """Of one copy."""
        return self.step.layout

    @property
    def devices(self) -> int:
        """Of all copies."""
        return self.copies * self.layout.ranks

    @property
    def engines(self) -> int:
        """Batches that are under way at once: one for each stage of each copy."""
        return self.copies * self.layout.pipeline

    @property
    def token_budget(self) -> int:
        """Most tokens of a step: attention that takes sequences of its own on each rank has a budget on each."""
        return self.scheduler.token_budget * self.layout.data

    @property
    def most_sequences(self) -> int:
        """Most requests of one batch, by the scheduler alone."""
        return self.scheduler.most_sequences * self.layout.data

    def outside_s(self, prompt: float) -> float:
        """From a request's sending to the scheduler and from its first token to the client."""
        return float(self.step.request_s(prompt)) + self.before_s

    def transfer_s(self, tokens: np.ndarray) -> np.ndarray:
        """Seconds until the KV cache of so many tokens is on another copy: each rank sends its share."""
        network = self.step.network or self.step.joined()
        ways = self.layout.data  # attention with its own sequences: one rank of them has it all
        none, one = self.step.memory(0.0, ways), self.step.memory(np.asarray(tokens, float) * ways, ways)
        nbytes = np.asarray(one.cache + one.states - none.cache, float)
        return np.asarray(collectives.times("send", nbytes, 2, network).time_s)

    @property
    def mixed(self) -> bool:
        """Whether prompts and sequences that decode share steps."""
        return bool(self.step.engine.mixes_prompts)

    @property
    def ahead(self) -> bool:
        """Whether a step is planned as the one before it begins."""
        return bool(self.step.engine.plans_ahead)

    @property
    def message_s(self) -> float:
        """Between two tokens that are sent to clients, where several are sent together."""
        return self.step.engine.message_s / self.step.stream_interval

    def kept_tokens(self, prompt: float, answer: float) -> float:
        """Tokens that a running request keeps in the cache: all where they are reserved, else in the mean."""
        return prompt + answer * (1.0 if self.scheduler.reserve else 0.5)

    def simulated_tokens(self, prompt: float, answer: float) -> int:
        """What `cache_tokens` is to requests of as many steps as theirs: several tokens a step are kept as one."""
        kept = self.kept_tokens(prompt, answer)
        return int(self.cache_tokens(kept) * self.kept_tokens(prompt, float(self.steps_of(answer))) / kept)

    def cache_requests(self, kept_tokens: float) -> float | None:
        """Requests of so many tokens that the KV cache of one batch holds; None where nobody states the memory."""
        none, one = self.step.memory(0.0, 0.0), self.step.memory(kept_tokens, 1.0)
        if none.has is None:
            return None
        each = float(np.max(one.cache + one.states - none.cache - none.states))
        free = none.has - float(np.max(none.total))
        return max(free, 0.0) / each / self.layout.pipeline if each > 0 else float(self.most_sequences)

    def cache_tokens(self, kept_tokens: float) -> int:
        """Tokens that the KV cache of one batch holds, in requests of so many each."""
        requests = self.cache_requests(kept_tokens)
        return _FREE if requests is None else int(requests * kept_tokens)

    def most_running(self, prompt: float, answer: float) -> float:
        """Requests of one batch that run at once at most."""
        held = self.cache_requests(self.kept_tokens(prompt, answer))
        return float(self.most_sequences if held is None else min(held, self.most_sequences))

    def check(self, prompt: float, answer: float) -> None:
        """Whether one request fits.

        Raises:
            RooflabError: it does not, by how much.
        """
        tokens = prompt + answer
        check_fits(self.step.model, self.step.machine, self.layout, self.step.memory(tokens, 1.0),
                   self.step.precision, self.step.engine.one_by_one)  # fmt: skip
        at_once = self.at_once(prompt, answer)
        if not self.scheduler.chunked and at_once > self.token_budget:
            raise RooflabError(
                f"{self.step.engine.name} computes a prompt in one step of at most {self.token_budget:,} tokens: "
                f"a request of {at_once:,.0f} does not fit; give more step tokens"
            )

    def at_once(self, prompt: float, answer: float) -> float:
        """Tokens of a request that a step must hold where none is cut: with those made, if it may come again."""
        return prompt if self.scheduler.reserve else prompt + answer

    def table(self, prompt: float, answer: float, cached: float = 0.0) -> Table:
        """Seconds of the steps that requests of that length make."""
        grid = self._grid(prompt, answer, cached)
        return grid.table(self.step.time(grid.batch).seconds)

    def tables(self, prompt: float, answer: float, cached: float = 0.0) -> dict[str, Table]:
        """The same, coarser: of all ("seconds"), and of what each level binds ("memory", "compute", …)."""
        grid = self._grid(prompt, answer, cached, coarse=True)
        step = self.step.time(grid.batch)
        return {
            name: grid.table(seconds) for name, seconds in {"seconds": step.seconds, **step.by_level()}.items()
        }

    def _grid(self, prompt: float, answer: float, cached: float, coarse: bool = False) -> Grid:
        attended, context = cached + (prompt - cached + 1.0) / 2.0, prompt + answer / 2.0
        most = max(int(min(self.most_running(prompt, answer), self.most_sequences)) + 1, 2)
        return grid_of(self.token_budget, most, attended=attended, context=context, coarse=coarse)

    def wide_table(self, most_context: int, kept_tokens: float) -> Table:
        """Seconds of the steps of requests up to `most_context` tokens."""
        held = self.cache_requests(kept_tokens)
        most = self.most_sequences if held is None else min(int(4 * held) + 1, self.most_sequences)
        grid = grid_of(self.token_budget, max(most, 2), most_context)
        return grid.table(self.step.time(grid.batch).seconds)

    def loaded(self, clients: np.ndarray, prompt: float, answer: float, cached: float, table: Table) -> Steady:
        """What comes of each number of clients of one batch, in the steady state; the TTFT as clients see it."""
        outside_s = self.outside_s(prompt - cached)
        at = steady(
            table,
            Load(
                clients=clients,
                prompt=prompt,
                answer=self.steps_of(answer),
                cached=cached,
                token_budget=self.token_budget,
                most_running=max(self.most_running(prompt, answer), 1.0),
                between_s=outside_s,
                mixed=self.mixed,
                ahead=self.ahead,
                message_s=self.message_s,
            ),
        )
        return at._replace(ttft_s=at.ttft_s + outside_s, tpot_s=at.tpot_s / self.accepted)


def server(
    model: Architecture,
    machine: Machine,
    engine: Engine,
    precision: Precision,
    scheduler: Scheduler,
    layout: Layout,
    devices: int,
    links: Machine | None = None,
    extras: Extras | None = None,
    prompt: float = 1.0,
    cached: float = 0.0,
) -> Server:
    """A server with as many copies in `layout` as `devices` hold; `links` as nccl-tests measured them.

    `extras` are served beside, with prompts of `prompt` tokens after `cached` ones.

    Raises:
        RooflabError: devices that a copy's do not divide; a layout that the model cannot have.
    """
    if devices % layout.ranks:
        raise RooflabError(
            f"{devices} devices: expected a multiple of the {layout.ranks} that a copy takes as {layout.name}"
        )
    step = StepModel(
        *(model, machine),
        engine=engine,
        layout=layout,
        precision=precision,
        step_tokens=scheduler.token_budget,
        links=links,
        extras=extras,
        prompt=prompt,
    )
    before_s = 0.0
    if extras is not None and extras.on_host:
        none, one = step.memory(0.0, 0.0), step.memory(cached, 0.0)
        before_s = from_host_s(float(np.max(one.cache - none.cache)), machine)
    return Server(step=step, scheduler=scheduler, copies=devices // layout.ranks, before_s=before_s)


def tensor_ways(model: Architecture, most: int) -> list[int]:
    """Ways of tensor parallelism that `model` can have over up to `most` devices: powers of two."""
    found = []
    ways = 1
    while ways <= most:
        try:
            layouts.check(model, Layout(tensor=ways))
        except RooflabError:
            pass
        else:
            found.append(ways)
        ways *= 2
    return found
