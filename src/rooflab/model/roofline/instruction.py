"""The instruction roofline of GPUs: warp instructions against memory transactions, and the walls that say why.

Ding and Williams: "An Instruction Roofline Model for GPUs", PMBS 2019. Floating-point operations play no part: a
kernel of integers, comparisons and addresses has a place on it too. All functions are pure and take counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

from rooflab.errors import RooflabError
from rooflab.model.roofline.roofline import BALANCED, attainable

WARP_THREADS = 32
TRANSACTION_BYTES = 32  # a sector: the unit in which L1, L2 and HBM move data
BANKS = 32  # of shared memory, 4 bytes wide each

Level = Literal["L1", "L2", "HBM"]
LEVELS: tuple[Level, ...] = ("L1", "L2", "HBM")


class Wall(NamedTuple):
    """A vertical line: no kernel of that access pattern lies right of `intensity` instructions a transaction."""

    name: str
    intensity: float


# Shared memory serves a warp in one go, or in as many as the busiest bank has words to give.
SHARED_WALLS = (Wall("no bank conflict", 1.0), Wall("32-way bank conflict", 1 / BANKS))


class Roofs(NamedTuple):
    """What a GPU can start and move.

    Attributes:
        warp_inst_per_s: SMs × schedulers × one instruction a clock.
        transactions_per_s: by level, bandwidth / 32 bytes.
    """

    warp_inst_per_s: float
    transactions_per_s: Mapping[str, float]

    def ridge(self, level: str) -> float:
        """Warp instructions per transaction at which `level` feeds all schedulers."""
        return self.warp_inst_per_s / self.transactions_per_s[level]


class Counts(NamedTuple):
    """What a profiler counted of one kernel; None for what it did not.

    Attributes:
        time_s: the kernel's duration.
        warp_inst: warp instructions executed.
        thread_inst: thread instructions executed and not predicated off; `warp_inst` × 32 with none idle.
        transactions: of 32 bytes, by level.
        global_inst, global_transactions: loads and stores to global memory, and what they cost in L1.
        word_bytes: of one thread's global load.
        shared_inst, shared_transactions: the same of shared memory, in wavefronts.
    """

    time_s: float
    warp_inst: float
    transactions: Mapping[str, float]
    thread_inst: float | None = None
    global_inst: float | None = None
    global_transactions: float | None = None
    word_bytes: int = 4
    shared_inst: float | None = None
    shared_transactions: float | None = None


class Placed(NamedTuple):
    """A kernel under the instruction roofs.

    Attributes:
        inst_per_s: warp instructions a second, attained.
        intensity: warp instructions per transaction, by level.
        attainable: warp instructions a second under the roof of each level.
        share: of the lowest of these that was attained.
        binds: the level behind it, or "instructions" where all levels would feed more.
        balanced: whether the level and the schedulers are within a tenth.
        predication: share of threads that were active; None where not counted.
        global_pattern, shared_pattern: what the walls say; None where not counted.
    """

    inst_per_s: float
    intensity: dict[str, float]
    attainable: dict[str, float]
    share: float
    binds: str
    balanced: bool
    predication: float | None
    global_pattern: str | None
    shared_pattern: str | None


def peak_inst_per_s(sms: int, clock_hz: float, schedulers: int = 4, per_clock: float = 1.0) -> float:
    """Warp instructions a second that all schedulers can start: SMs × schedulers × clock.

    Volta and later have 4 warp schedulers an SM, each one instruction a clock.

    >>> peak_inst_per_s(80, 1.53e9)  # V100, the paper's 489.6 GIPS
    489600000000.0
    """
    if sms < 1 or schedulers < 1 or not clock_hz > 0 or not per_clock > 0:
        raise RooflabError(
            f"instruction peak of {sms} SMs × {schedulers} schedulers at {clock_hz} Hz: expected all positive"
        )
    return sms * schedulers * clock_hz * per_clock


def roofs(warp_inst_per_s: float, bytes_per_s: Mapping[str, float]) -> Roofs:
    """The roofs from a peak and the bandwidth of each level in bytes/s."""
    for name, value in bytes_per_s.items():
        if not value > 0:
            raise RooflabError(f"bandwidth of {name} is {value} bytes/s, expected a positive number")
    return Roofs(warp_inst_per_s, {name: value / TRANSACTION_BYTES for name, value in bytes_per_s.items()})


def place(counts: Counts, on: Roofs) -> Placed:
    """`counts` under the roofs `on`: what binds, how near it is, what the walls say of its accesses.

    Raises:
        RooflabError: no instruction, no time, or no transactions of a level that has a roof.
    """
    if not counts.time_s > 0 or not counts.warp_inst > 0:
        raise RooflabError(f"{counts.warp_inst} warp instructions in {counts.time_s} s: expected both positive")
    both = {name: n for name, n in counts.transactions.items() if name in on.transactions_per_s and n > 0}
    if not both:
        raise RooflabError(
            f"no transactions of {', '.join(on.transactions_per_s) or 'any level'} were counted "
            f"(got {', '.join(counts.transactions) or 'none'}), expected at least one level's"
        )
    intensity = {name: counts.warp_inst / n for name, n in both.items()}
    fed = {name: intensity[name] * on.transactions_per_s[name] for name in both}
    limits = {
        name: attainable(each, on.warp_inst_per_s, on.transactions_per_s[name]) for name, each in intensity.items()
    }
    lowest = min(fed, key=fed.__getitem__)
    attained = counts.warp_inst / counts.time_s
    slow, fast = sorted((fed[lowest], on.warp_inst_per_s))
    return Placed(
        inst_per_s=attained,
        intensity=intensity,
        attainable=limits,
        share=attained / limits[lowest],
        binds=lowest if fed[lowest] < on.warp_inst_per_s else "instructions",
        balanced=slow >= BALANCED * fast,
        predication=predication(counts),
        global_pattern=global_pattern(counts),
        shared_pattern=shared_pattern(counts),
    )


def predication(counts: Counts) -> float | None:
    """Share of a warp's threads that were active, on average: thread instructions / (32 × warp instructions)."""
    if counts.thread_inst is None:
        return None
    share = counts.thread_inst / (WARP_THREADS * counts.warp_inst)
    if share > 1 + 1e-9:
        raise RooflabError(
            f"{counts.thread_inst:.0f} thread instructions are more than 32 × {counts.warp_inst:.0f} warp "
            "instructions: expected counts of one kernel and one run"
        )
    return share


def global_pattern(counts: Counts) -> str | None:
    """Which strides the global accesses look like: the wall that they stand at, or those on both sides."""
    if not counts.global_inst or not counts.global_transactions:
        return None
    return _between(counts.global_inst / counts.global_transactions, global_walls(counts.word_bytes))


def shared_pattern(counts: Counts) -> str | None:
    """How many words the busiest bank gives on average for one shared-memory access: 1 to 32."""
    if not counts.shared_inst or not counts.shared_transactions:
        return None
    ways = counts.shared_transactions / counts.shared_inst
    return SHARED_WALLS[0].name if ways < 1 / BALANCED else f"{ways:.3g}-way bank conflict"


def _between(intensity: float, walls: tuple[Wall, ...]) -> str:
    """The wall that `intensity` stands at (within a tenth), or the two that it lies between."""
    for wall in walls:
        if BALANCED <= intensity / wall.intensity <= 1 / BALANCED:
            return wall.name
    right = [wall for wall in walls if wall.intensity > intensity]
    left = [wall for wall in walls if wall.intensity < intensity]
    if not right:
        return f"beyond {walls[0].name}: more than one instruction a transaction"
    if not left:
        return f"beyond {walls[-1].name}: wider words"
    return f"between {right[-1].name} and {left[0].name}"


def global_walls(word_bytes: int = 4) -> tuple[Wall, ...]:
    """The walls of global loads of `word_bytes` a thread, by the stride in words between threads.

    Stride 0 (all threads one word) is 1 transaction, stride 1 is 32 words / 32 bytes, stride 8 and more is one
    sector a thread: 1, 1/4 and 1/32 instructions a transaction for words of 4 bytes.
    """
    return tuple(
        Wall(f"stride {stride}", 1 / global_transactions(stride * word_bytes, word_bytes)) for stride in (0, 1, 8)
    )


def conflict_ways(stride_words: int) -> int:
    """How many threads of a warp meet in one bank where they are `stride_words` 4-byte words apart.

    gcd(stride, 32) of them; stride 0 is a broadcast of one word.

    >>> conflict_ways(1), conflict_ways(2), conflict_ways(32), conflict_ways(33)
    (1, 2, 32, 1)
    """
    return 1 if stride_words == 0 else math.gcd(stride_words, BANKS)


def global_transactions(stride_bytes: int, word_bytes: int = 4) -> int:
    """Transactions of one warp's load of words `stride_bytes` apart, the first at the start of a sector.

    >>> global_transactions(0), global_transactions(4), global_transactions(32), global_transactions(128)
    (1, 4, 32, 32)
    """
    sectors = set()
    for thread in range(WARP_THREADS):
        first = thread * stride_bytes
        sectors.update(range(first // TRANSACTION_BYTES, (first + word_bytes - 1) // TRANSACTION_BYTES + 1))
    return len(sectors)
