"""Running many measurements fairly: calibrated, interleaved round by round, the clock taken beside them."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from rooflab.machines.bench.kernels.jit import Kernel
from rooflab.machines.bench.run.arena import LINE_BYTES, Arena
from rooflab.machines.bench.run.pinned_threads import Job, PinnedThreads
from rooflab.timing import Series

# A round starts up to this far into its memory, a line at a time, so that no single placement decides.
JITTER_BYTES = 2048
_FEWEST_SAMPLES = 2
_MORE_ROUNDS = 6
# Samples of fewer passes than this are begun with one that is not timed.
_COOLS_BELOW = 8
# What a private resource should repeat to, and what memory shared with others can.
_SPREAD_BOUNDS = {"L1": 0.03, "L2": 0.03, "fma": 0.03}
_SPREAD_BOUND = 0.08
# Of 128 cycles each: 0.14 ms at 3.7 GHz. The quickest of a few readings stands: one that was interrupted
# reads low.
_CLOCK_ITERATIONS = 4_000
_CLOCK_READINGS = 3


@dataclass(frozen=True)
class Trial:
    """One thing to measure.

    Attributes:
        key: names it; keys of one `interleave` differ.
        jobs: one per CPU, with the iterations of one whole pass.
        per_pass: bytes or FLOP (or loads) that one pass of all jobs makes.
        run_s: how long one sample should take.
        tolerance: how well the best runs must agree to need no further rounds; None asks for none.
        jitter: whether its start may move (not for register-only kernels and pointer chases).
        windows: of how many equal stretches of memory, each as long as `window_bytes`, a sample streams through
            one, the next sample through the next: what takes long to stream through as a whole. 1 for the whole.
        lead: through how many windows it streams before those that are timed, so that the lines which it drives
            out of the caches are its own: those of stores must be written back, those of loads need not be. What
            took long to reach is then timed some times in a row.
        settling: passes before those that are timed. A last cache that replaces by what was used again lately
            comes to hold what it can of a stream that is larger than it only after some of them. What they reached
            is timed some times in a row too.
        in_a_row: how many times that is.
    """

    key: object
    jobs: tuple[Job, ...]
    per_pass: float
    run_s: float = 0.01
    jitter: bool = True
    tolerance: float | None = None
    windows: int = 1
    window_bytes: int = 0
    lead: int = 0
    settling: int = 1
    in_a_row: int = 3

    @property
    def burst(self) -> int:
        """How many samples are taken in a row."""
        return self.in_a_row if self.lead or self.settling > 1 else 1


@dataclass(frozen=True)
class Sample:
    """One timed run: what was attained per second, and the core clock measured around it."""

    per_s: float
    clock_hz: float | None = None


@dataclass
class Samples:
    """All samples of one trial, in the order they were taken."""

    trial: Trial
    taken: list[Sample] = field(default_factory=list)
    passes: int = 1

    @property
    def series(self) -> Series:
        """The attained rates."""
        return Series(tuple(sample.per_s for sample in self.taken))

    @property
    def settled(self) -> bool:
        """Whether the best run was no accident: the third best lies within half the trial's tolerance of it."""
        if self.trial.tolerance is None:
            return True
        ranked = sorted(self.series.values, reverse=True)
        return len(ranked) > 2 and ranked[2] >= ranked[0] * (1 - self.trial.tolerance / 2)

    @property
    def clock_hz(self) -> float | None:
        """The clock around the best sample."""
        return max(self.taken, key=lambda sample: sample.per_s).clock_hz


@dataclass
class Bench:
    """What every measurement needs at hand.

    Attributes:
        pinned: the pinned threads.
        kernels: compiled, by symbol.
        rng: decides the order of trials and the jitter.
        tick: called after each sample; raises to stop.
    """

    pinned: PinnedThreads
    kernels: dict[str, Kernel]
    rng: np.random.Generator
    tick: Callable[[], None] = lambda: None
    _streamed: int = 0  # bytes of windows so far: each goes on where the last ended, whatever trial it was of

    def clock_hz(self, cpu: int, arena: Arena) -> float:
        """The core clock of `cpu` now: one add or xor of a dependent chain per cycle."""
        kernel = self.kernels["clock"]
        job = Job(cpu, kernel, _CLOCK_ITERATIONS, a=arena.address, width=0x5DEECE66D)
        seconds = min(self.pinned.run([job]).seconds for _ in range(_CLOCK_READINGS))
        return kernel.emitted.operations * _CLOCK_ITERATIONS / seconds

    def interleave(
        self,
        trials: Iterable[Trial],
        rounds: int,
        clocked: Arena | None = None,
        budget_s: float = math.inf,
    ) -> dict[object, Samples]:
        """`rounds` samples of each trial, the trials shuffled anew in each round.

        Drift then shows as spread in all trials, not as a step between two. Past `budget_s` only trials of fewer
        than two samples get any: a slow or busy machine gets fewer. Within it, trials whose best run stands alone
        get further rounds.

        With `clocked`, the clock is measured right before and after each sample; the higher reading stands,
        since the chain can only be slowed.
        """
        samples = {trial.key: Samples(trial) for trial in trials}
        self.take(samples.values(), rounds, clocked, budget_s)
        return samples

    def take(
        self,
        collected: Collection[Samples],
        rounds: int,
        clocked: Arena | None = None,
        budget_s: float = math.inf,
    ) -> None:
        """As `interleave`, into `collected` sample by sample: what was taken before an interruption stays."""
        start = time.monotonic()
        for samples in collected:
            samples.passes = self._calibrated(samples.trial)
        for done in range((1 + _MORE_ROUNDS) * rounds):
            wanted = [
                samples
                for samples in collected
                if (done if samples.trial.settling == 1 else len(samples.taken)) < rounds or not samples.settled
            ]
            if time.monotonic() - start > budget_s:
                wanted = [samples for samples in wanted if len(samples.taken) < _FEWEST_SAMPLES]
            if not wanted:
                break
            for place in self.rng.permutation(len(wanted)):
                self._burst(wanted[place], clocked)

    def again(self, collected: Collection[Samples]) -> None:
        """One more sample of each, or as many as are taken in a row, in an order of its own."""
        listed = list(collected)
        for place in self.rng.permutation(len(listed)):
            self._burst(listed[place], None)

    def _burst(self, samples: Samples, clocked: Arena | None) -> None:
        self._lead(samples.trial)
        for number in range(samples.trial.burst):
            samples.taken.append(self._sample(samples.trial, samples.passes, clocked, number > 0))

    def _sample(self, trial: Trial, passes: int, clocked: Arena | None, settled: bool = False) -> Sample:
        shift = int(self.rng.integers(JITTER_BYTES // LINE_BYTES)) * LINE_BYTES if trial.jitter else 0
        shift += self._next_window(trial)
        jobs = [_moved(job, shift, passes) for job in trial.jobs]
        if trial.jitter and trial.windows == 1 and passes < _COOLS_BELOW and not settled:
            # What the samples between left in the caches is of other sizes.
            self.pinned.run([_moved(job, shift, trial.settling) for job in trial.jobs])
        before = self.clock_hz(jobs[0].cpu, clocked) if clocked else None
        seconds = self.pinned.run(jobs).seconds
        after = self.clock_hz(jobs[0].cpu, clocked) if clocked else None
        self.tick()
        return Sample(trial.per_pass * passes / seconds, max(before, after) if before and after else None)

    def _lead(self, trial: Trial) -> None:
        """Stream through as many windows as fill the caches."""
        for _ in range(trial.lead):
            window = self._next_window(trial)
            self.pinned.run([_moved(job, window, 1) for job in trial.jobs])

    def _next_window(self, trial: Trial) -> int:
        """Where the next stretch of memory of `trial` begins, in bytes behind its start."""
        if trial.windows == 1:
            return 0
        number = self._streamed // trial.window_bytes % trial.windows
        self._streamed += trial.window_bytes
        return number * trial.window_bytes

    def _calibrated(self, trial: Trial) -> int:
        """Passes that take `run_s`; the passes made to find out also warm the caches. One through a window."""
        if trial.windows > 1:
            return 1
        passes = 1
        while True:
            seconds = self.pinned.run([_moved(job, 0, passes) for job in trial.jobs]).seconds
            self.tick()
            if seconds >= trial.run_s / 4:
                return max(1, round(passes * trial.run_s / seconds))
            passes = max(passes * 2, round(passes * min(64.0, trial.run_s / max(seconds, 1e-7)) / 2))


def spread_bound(label: str) -> float:
    """The spread up to which runs agree: 3 % for "L1", "L2" and "fma", 8 % for all else."""
    return _SPREAD_BOUNDS.get(label, _SPREAD_BOUND)


def _moved(job: Job, shift: int, passes: int) -> Job:
    return replace(
        job, a=job.a + shift, b=job.b + shift, c=job.c + shift, iterations=max(1, job.iterations * passes)
    )


def sizes(first: int, last: int, per_octave: int = 4) -> Iterator[int]:
    """Working sets from `first` to `last` bytes: powers of two and the even steps between them.

    With 4 per octave: 4, 5, 6, 7, 8, 10, 12, … KiB. Steps are multiples of 1 KiB.
    """
    for octave in itertools.count(int(np.log2(first))):
        for step in range(per_octave):
            size = (2**octave * (per_octave + step) // per_octave) // 1024 * 1024
            if size > last:
                return
            if size >= first:
                yield size
