"""How long one step of a serving engine takes, for one batch or thousands at once.

    step_model = StepModel(model, machine, layout=Layout(tensor=4), engine="vllm")
    step_model.time(Batch(decode_sequences=32, decode_context=1024)).seconds

The kernels of a rank (`program`) are timed by the mechanisms of `model.kernels`, all settings in one pass of each.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rooflab.model import collectives
from rooflab.model.collectives import Network
from rooflab.model.device.device import Device, device_of
from rooflab.model.engines.engine import Engine
from rooflab.model.engines.engine import engine as engine_called
from rooflab.model.measured_links import with_measured
from rooflab.model.parallel.layout import Layout, check
from rooflab.model.parallel.memory import STEP_TOKENS, Memory, memory_of
from rooflab.model.serving import ggml
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.beside import ADAPTER
from rooflab.model.serving.extras import Extras
from rooflab.model.serving.extras import check as check_extras
from rooflab.model.serving.kernels import Kernel
from rooflab.model.serving.program import draft_kernels, kernels_of, of_one_group, run_of
from rooflab.model.serving.timing import KernelSeconds, timed
from rooflab.types.machine import Machine
from rooflab.work.llm.architecture import Architecture
from rooflab.work.llm.mixers import Latent
from rooflab.work.llm.precision import Precision
from rooflab.work.llm.precision import precision as precision_called

# Four of five measured times shall lie within the bars: 1.28 standard deviations each way of ln(time).
BAR_SIGMAS = 1.28


class PartTime(NamedTuple):
    """One sort of kernel of a step: seconds of all its runs, arrays over settings.

    Attributes:
        layer, name: see `Kernel`.
        seconds: what it adds to the step; the others are what its parts alone need, which overlap.
    """

    layer: str
    name: str
    seconds: np.ndarray
    compute_s: np.ndarray
    memory_s: np.ndarray
    cache_s: np.ndarray
    link_s: np.ndarray
    overhead_s: np.ndarray
    flop: np.ndarray
    nbytes: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step's time; every array has shape (settings,).

    Attributes:
        seconds: from its start to the start of the next, `low` to `high` the bars (four of five lie within).
        kernel_s: of it the device's kernels, `host_s` what the host adds.
        floor_s: what no engine beats: weights, cache and products at theoretical rates, links too.
        parts: by kernel.
    """

    seconds: np.ndarray
    low: np.ndarray
    high: np.ndarray
    kernel_s: np.ndarray
    host_s: np.ndarray
    floor_s: np.ndarray
    parts: tuple[PartTime, ...]

    def by_layer(self) -> dict[str, np.ndarray]:
        """Seconds of each kind of layer, and of the host."""
        total: dict[str, np.ndarray] = {}
        for part in self.parts:
            total[part.layer] = total.get(part.layer, 0.0) + part.seconds
        return total | {"host": self.host_s}

    def by_level(self) -> dict[str, np.ndarray]:
        """Seconds by what binds each kernel: "compute", "memory", "cache", "links", "overhead"; and the host's."""
        names = ("compute", "memory", "cache", "links", "overhead")
        total = {name: np.zeros_like(self.seconds) for name in names}
        for part in self.parts:
            terms = np.stack([part.compute_s, part.memory_s, part.cache_s, part.link_s, part.overhead_s])
            binding = terms.argmax(axis=0)
            for number, name in enumerate(names):
                total[name] += np.where(binding == number, part.seconds, 0.0)
        return total | {"host": self.host_s}


class Speculation(NamedTuple):
    """Multi-token prediction: drafts that a step makes and the next verifies.

    Attributes:
        drafts: of each sequence and step.
        accepted: tokens that a step gives each sequence in the mean, from 1 to `drafts` + 1.
    """

    drafts: int
    accepted: float


class StepModel:
    """A model on a machine, as an engine runs it in a layout: ready to be asked for any batch."""

    def __init__(
        self,
        model: Architecture,
        machine: Machine,
        *,
        engine: Engine | str = "vllm",
        layout: Layout | None = None,
        precision: Precision | str = "bf16",
        what_if: dict[str, float] | None = None,
        step_tokens: float = STEP_TOKENS,
        speculation: Speculation | None = None,
        stream_interval: float = 1.0,
        links: Machine | None = None,
        extras: Extras | None = None,
        prompt: float = 1.0,
        threads: int | None = None,
    ) -> None:
        """Check that it can run so.

        `step_tokens` are those of the largest step, which activations are held for; `links` as nccl-tests measured
        them.

        `threads` are those of an engine on a CPU, all of its cores if None.

        `extras` are what is served beside, with prompts of so many tokens that are not cached.

        With `speculation` a step gives each sequence that decodes several tokens; `stream_interval` is how many of
        them are sent to a client together.

        Raises:
            RooflabError: heads that do not divide, more expert ways than experts, ranks without a link.
            UnknownNameError: an unknown engine or format.
        """
        self.model, self.machine, self.layout = model, machine, layout or Layout()
        self.engine = engine if isinstance(engine, Engine) else engine_called(engine)
        self.precision = precision if isinstance(precision, Precision) else precision_called(precision)
        self.step_tokens = step_tokens
        check(model, self.layout)
        self.extras, self.prompt = extras or Extras(), prompt
        check_extras(self.extras, model, self.layout, prompt)
        if self.extras.drafts:
            speculation = Speculation(self.extras.drafts, self.extras.accepted)
        self.device: Device = device_of(machine, power="sustained", knobs=what_if, threads=threads)
        self.speculation, self.stream_interval = speculation, stream_interval
        self.links = links
        self.network = self.joined() if self.layout.ranks > 1 else None

    def joined(self) -> Network:
        """What joins devices like this one.

        Raises:
            RooflabError: the machine states no link, or what was measured cannot be its.
        """
        net = collectives.network(self.machine)
        return net if self.links is None else with_measured(net, self.links)

    def memory(self, tokens: float | np.ndarray = 0.0, sequences: float | np.ndarray = 1.0) -> Memory:
        """Bytes of one rank by kind with `tokens` in the cache (of the whole copy), and what it has."""
        of = (self.model, self.layout, self.precision, self.device, self.engine)
        return memory_of(*of, tokens, sequences, self.step_tokens, self.adapter_bytes, self.prompt)

    @functools.cached_property
    def adapter_bytes(self) -> float:
        """Of all adapters that a rank holds: its share of each projection's two matrices."""
        if not self.extras.lora_rank:
            return 0.0
        one = dataclasses.replace(self.extras, loras=1)
        how = (self.model, self.layout, self.engine, self.precision, Batch(1.0, 1.0).arrays())
        kernels = kernels_of(run_of(*how, self.device.constants.family, one, self.prompt))
        ours = [each for each in kernels if ADAPTER in each.name]
        whole = sum(float(np.max(np.asarray(each.weight_bytes * each.count))) for each in ours)
        return whole * self.extras.loras / self.layout.pipeline

    def request_s(self, prompt: float | np.ndarray) -> float | np.ndarray:
        """Seconds of a request of `prompt` tokens outside the steps: server, tokenizer, queues, both ways."""
        e = self.engine
        return e.request_s + e.prompt_token_s * prompt + e.latent_s * self.latent

    @property
    def latent(self) -> bool:
        """Whether its attention is latent."""
        return any(isinstance(block.mixer, Latent) for block in self.model.blocks)

    def entry_s(self, prompt: float | np.ndarray) -> float | np.ndarray:
        """Of it, how long a request holds up those that came with it: one tokenizer takes them in turn."""
        return self.engine.serial_s + self.engine.prompt_token_s * prompt

    def kernels(self, batch: Batch) -> list[Kernel]:
        """What one rank runs for `batch`."""
        batch, drafts = batch.arrays(), self.speculation.drafts if self.speculation else 0
        if drafts:
            batch = batch._replace(decode_tokens=batch.decode_tokens + drafts)
        how = (self.model, self.layout, self.engine, self.precision, batch, self.device.constants.family)
        run = run_of(*how, self.extras, self.prompt)
        return kernels_of(run) + (draft_kernels(run, drafts) if drafts else [])

    def time(self, batch: Batch) -> Step:
        """The time of a step with `batch`, or of each of its settings.

        Raises:
            RooflabError: a number in `batch` that is below 0 or not finite.
        """
        batch = batch.arrays()
        kernels = self.kernels(batch)
        settings = len(np.atleast_1d(batch.new_tokens))
        times = timed(kernels, self.device, self.network, settings, self.model.layers)
        parts = tuple(_part(kernel, each) for kernel, each in zip(kernels, times, strict=True))
        launches = sum((each.calls if self.engine.eager else each.kernels for each in times), np.zeros(1))
        if self.extras.overlap:
            parts, launches = self._halved(batch, parts, launches, settings)
        kernel_s = sum((part.seconds for part in parts), np.zeros(1))
        between_s, launching_s = self._host_s(batch, launches, kernel_s)
        host_s = between_s + launching_s
        seconds = kernel_s + host_s
        floor_s = sum((each.floor_s for each in times), np.zeros(1))
        if self.extras.overlap:  # two at once: what computes or what is sent
            sent = sum((t.floor_s for t, p in zip(times, parts, strict=True) if p.layer == _SENT), np.zeros(1))
            floor_s = np.maximum(sent, floor_s - sent)
        seconds = np.maximum(seconds, floor_s)
        # Where the host launches more slowly than kernels run, the step is the host's, whose speed nobody states.
        hosts = np.minimum(2.0 * launching_s / np.maximum(kernel_s + launching_s, 1e-12), 1.0)
        spread = sum(part.seconds * each.spread for part, each in zip(parts, times, strict=True))
        spread = (1.0 - hosts) * spread / np.maximum(kernel_s, 1e-12) + hosts * _HOST_SPREAD
        spread = np.hypot(spread, _ENGINE_SPREAD)
        factor = np.exp(BAR_SIGMAS * spread)
        return Step(
            seconds=seconds,
            low=np.maximum(seconds / factor, floor_s),
            high=seconds * factor,
            kernel_s=kernel_s,
            host_s=host_s,
            floor_s=floor_s,
            parts=parts,
        )

    def _halved(
        self, batch: Batch, whole: tuple[PartTime, ...], launches: np.ndarray, settings: int
    ) -> tuple[tuple[PartTime, ...], np.ndarray]:
        """Parts and launches of two half batches side by side, where there are two sequences to divide."""
        half = self.kernels(batch._replace(
            prefill_sequences=batch.prefill_sequences / 2.0, decode_sequences=batch.decode_sequences / 2.0
        ))  # fmt: skip
        times = timed(half, self.device, self.network, settings, self.model.layers)
        parts = tuple(_part(kernel, each) for kernel, each in zip(half, times, strict=True))
        two = np.asarray(batch.sequences) >= 2.0
        made = side_by_side(parts, _sends(half))
        chosen = tuple(
            PartTime(one.layer, one.name, *(np.where(two, a, b) for a, b in zip(one[2:], other[2:], strict=True)))
            for one, other in zip(made, whole, strict=True)
        )
        twice = 2.0 * sum((each.kernels for each in times), np.zeros(1))
        return chosen, np.where(two, twice, launches)

    def _host_s(self, batch: Batch, launches: np.ndarray, kernel_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the host adds: between steps, and where it launches kernels more slowly than they run.

        A group of ranks that takes sequences of its own has a process of its own for them.
        """
        e, mine = self.engine, of_one_group(batch, self.layout)
        each_s = e.sequence_s + e.send_s / self.stream_interval
        between = e.step_s + each_s * mine.sequences + e.ranks_s * (self.layout.ranks > 1)
        between = between + ggml.host_s(self.model, e, mine)
        eager = (mine.new_tokens > e.graph_tokens) | (
            (np.asarray(batch.prefill_sequences) > 0) & (not e.graphs_prompts)
        )
        alone = np.where(eager, np.maximum(launches * e.launch_s - kernel_s, 0.0), 0.0)
        return between + 0.0 * kernel_s, alone


# Between versions of an engine the same setting measured again differs by 1.23 at the 90th percentile: 0.13 in ln,
# less what versions that are benchmarked share.
_ENGINE_SPREAD = 0.08
# Hosts launch kernels of eager programs at speeds that differ by 1.4 and more (sources of the engines' files).
_HOST_SPREAD = 0.26
_SENT = "communication"


def _sends(kernels: list[Kernel]) -> np.ndarray:
    """How often a step communicates."""
    ours = [np.asarray(each.count, float) for each in kernels if each.layer == _SENT]
    return np.maximum(sum(ours, np.zeros(1)), 1.0)


def side_by_side(parts: tuple[PartTime, ...], sends: np.ndarray) -> tuple[PartTime, ...]:
    """What two half batches add to a step, of which `parts` are one's: one computes while the other communicates.

    With c and m seconds of computing and communicating of a half, in n turns each, both together take
    2 max(c, m) + min(c, m) / n: the slower is never idle, and the first or last turn of the other is alone
    (DeepSeek-V3, arXiv:2412.19437, section 3.4; SGLang's two-batch overlap, vLLM's dual batch overlap).
    """
    sent = sum((each.seconds for each in parts if each.layer == _SENT), np.zeros(1))
    computed = sum((each.seconds for each in parts if each.layer != _SENT), np.zeros(1))
    edge = np.minimum(sent, computed) / sends
    # What is longer is seen whole; of the other, what stands alone.
    shown_sent = np.where(computed >= sent, edge, 2.0 * sent) / np.maximum(sent, 1e-300)
    shown_computed = np.where(computed >= sent, 2.0 * computed, edge) / np.maximum(computed, 1e-300)
    made = []
    for each in parts:
        seconds = each.seconds * (shown_sent if each.layer == _SENT else shown_computed)
        made.append(PartTime(each.layer, each.name, seconds, *(2.0 * one for one in each[3:])))
    return tuple(made)


def _part(kernel: Kernel, times: KernelSeconds) -> PartTime:
    return PartTime(
        kernel.layer,
        kernel.name,
        times.seconds,
        times.compute_s,
        times.memory_s,
        times.cache_s,
        times.link_s,
        times.overhead_s,
        times.flop,
        times.nbytes,
    )
