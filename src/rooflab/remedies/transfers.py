"""What would help data on its way: pinned memory, overlap, requests, fewer bytes; the way computed again."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from rooflab.machines import ladder
from rooflab.model import transfer as model
from rooflab.remedies import PAGE, WORTH
from rooflab.types.advice import Advice, Advices, Effort, Price
from rooflab.types.transfer import Stage, Transfer
from rooflab.units import duration, percent, si

_NEAR = 0.01  # of the time that endless chunks or requests would take: nearer is not worth more of them
_MOST_DOUBLINGS = 10
_HALF = 2.0  # what compressed data is taken to shrink to, as an example: how far yours does is not known
# Ends of a way that a local drive can stand in for, as `transfer` calls them.
_FAR = ("network", "nas", "networkstorage", "nfs", "objectstore", "s3", "internet", "web", "hdd", "harddisk")


class Way(NamedTuple):
    """What is computed: bytes through stages.

    Attributes:
        nbytes, stages, chunk_bytes, overlap: as `model.transfer.through` takes them.
        pinned: the same stages from pinned memory, where they are from pageable memory now.
        unsaid: whether a link to the host is crossed, and nobody said from which memory.
    """

    nbytes: float
    stages: tuple[Stage, ...]
    chunk_bytes: float
    overlap: bool
    pinned: tuple[Stage, ...] | None = None
    unsaid: bool = False

    def computed(self) -> Transfer:
        """How long it takes."""
        return model.through(self.nbytes, self.stages, chunk_bytes=self.chunk_bytes, overlap=self.overlap)


class Change(NamedTuple):
    """One change: the way with it, and what it says. `after` it, the next ones are looked at."""

    way: Way
    text: str
    evidence: tuple[str, ...]
    effort: Effort = "setting"
    price: Price = "nothing"
    code: str = ""
    unsure: bool = False


def pinned(way: Way, now: Transfer) -> Change | None:
    """Copies from memory that the system cannot move, where they are made from ordinary memory."""
    if way.pinned is None:
        return None
    changed = [(a, b) for a, b in zip(way.stages, way.pinned, strict=True) if a != b]
    if not changed:
        return None
    old, new = changed[0]
    rates = f"{si(old.bytes_per_s or 0.0, 'B/s')} ({old.where}), pinned {si(new.bytes_per_s or 0.0, 'B/s')}"
    return Change(
        way._replace(stages=way.pinned, pinned=None),
        "Copy from pinned memory: the device then reads it by itself, without a host core that copies first",
        (f"{old.name} from pageable memory: {rates} ({new.where})",),
        effort="line",
        code='DataLoader(…, pin_memory=True); batch.to("cuda", non_blocking=True)',
    )


def overlap(way: Way, now: Transfer) -> Change | None:
    """Stages side by side, each on another chunk, where one waits for the other."""
    if way.overlap or len(way.stages) < 2:
        return None
    return Change(
        way._replace(overlap=True),
        "Let the stages work side by side, each on another chunk (two buffers between them)",
        (f"in turn they take {duration(now.time_s)}; the slowest of them alone, {now.binds}, less",),
        effort="rewrite",
        code="DataLoader(…, num_workers=4, prefetch_factor=2)   # or two buffers and a stream for the copies",
    )


def larger_chunks(way: Way, now: Transfer) -> Change | None:
    """More bytes in each request, where each waits for a latency."""
    limit = way.nbytes / 4
    tried = [way.chunk_bytes * 2**n for n in range(1, _MOST_DOUBLINGS) if way.chunk_bytes * 2**n <= limit]
    best = _least(tried, lambda size: way._replace(chunk_bytes=size))
    if best is None:
        return None
    waiting = [each for each in way.stages if each.latency_s]
    return Change(
        way._replace(chunk_bytes=best),
        f"Ask for {si(best, 'B')} at once instead of {si(way.chunk_bytes, 'B')}",
        tuple(f"a request to {one.name} waits {duration(one.latency_s)} before its first byte" for one in waiting),
    )


def more_requests(way: Way, now: Transfer) -> Change | None:
    """More requests under way at once, where the slowest stage waits for their latency."""
    binding = next(each for each in now.stages if each.stage.name == now.binds)
    stage = binding.stage
    if not stage.latency_s or not stage.bytes_per_s or (binding.bytes_per_s or 0.0) > 0.98 * stage.bytes_per_s:
        return None

    def with_threads(threads: float) -> Way:
        more = msgspec.structs.replace(stage, threads=int(threads))
        return way._replace(stages=tuple(more if each is stage else each for each in way.stages))

    best = _least([stage.threads * 2.0**n for n in range(1, _MOST_DOUBLINGS)], with_threads)
    if best is None:
        return None
    return Change(
        with_threads(best),
        f"Keep {int(best)} requests to {stage.name} under way instead of {stage.threads}",
        (
            f"{stage.name} attains {si(binding.bytes_per_s or 0.0, 'B/s')} of {si(stage.bytes_per_s, 'B/s')}: "
            f"{stage.threads} at once, each waiting {duration(stage.latency_s)}",
        ),
        code="DataLoader(…, num_workers=N)   # or asynchronous reads",
    )


def local_copy(way: Way, now: Transfer) -> Change | None:
    """A copy on a local drive, where the data comes from far away each time."""
    place = next((n for n, each in enumerate(way.stages) if each.name == now.binds), 0)
    first = way.stages[0]
    if first.name.lower().replace(" ", "") not in _FAR or place != 0 or first.expands != 1:
        return None
    disk = model.stages(["disk"])[0]
    rest = way.stages[1:]
    stages = rest if rest and rest[0].name == "disk" else (disk, *rest)
    return Change(
        way._replace(stages=stages, pinned=None),
        f"Copy it to a local drive once, where it is read more often than once: {first.name} binds each time",
        (f"the first pass takes as long as now; {ladder.outer().name.lower()}: {disk.where}",),
        effort="line",
    )


def compressed(way: Way, now: Transfer) -> Change | None:
    """Fewer bytes on the slowest stage, unpacked behind it."""
    place = next((n for n, each in enumerate(way.stages) if each.name == now.binds), 0)
    if any(each.expands != 1 for each in way.stages):
        return None
    packed = way._replace(nbytes=way.nbytes / _HALF, chunk_bytes=way.chunk_bytes / _HALF)
    unpack = Stage(name="unpack", bytes_per_s=None, expands=_HALF)
    stages = (*way.stages[: place + 1], unpack, *way.stages[place + 1 :])
    found = packed._replace(stages=stages, pinned=None)
    needed = found.computed().steady_bytes_per_s
    return Change(
        found,
        "Send it compressed, and unpack it behind the slowest stage",
        (
            f"at half the bytes, as an example, where unpacking takes in {si(needed, 'B/s')} or more: how far "
            "your data shrinks and how fast it is unpacked is not known (--expand unpack=2 --rate unpack=…)",
        ),
        effort="rewrite",
        unsure=True,
    )


def narrower(way: Way, now: Transfer) -> Change | None:
    """Half the bits of each number, where results allow it."""
    return Change(
        way._replace(nbytes=way.nbytes / 2, chunk_bytes=way.chunk_bytes, pinned=None),
        "Send numbers of half as many bits (bf16 for fp32, 8-bit pixels for 16)",
        (f"{si(way.nbytes, 'B')} become {si(way.nbytes / 2, 'B')}",),
        effort="line",
        price="numbers",
    )


def faster_stage(way: Way, now: Transfer) -> Change | None:
    """Twice the bandwidth of the slowest stage, and what binds then."""
    stage = next(each for each in way.stages if each.name == now.binds)
    if stage.bytes_per_s is None:
        return None
    faster = msgspec.structs.replace(stage, bytes_per_s=2 * stage.bytes_per_s, where="twice that")
    found = way._replace(stages=tuple(faster if each is stage else each for each in way.stages), pinned=None)
    then = found.computed().binds
    return Change(
        found,
        f"Double {stage.name}: {_HARDWARE.get(stage.name.lower(), 'two of them, or a faster one')}",
        (
            f"{stage.name} binds at {si(stage.bytes_per_s, 'B/s')} ({stage.where}); twice that, "
            + (f"{then} would bind" if then != stage.name else "it would bind still"),
        ),
        effort="hardware",
        price="hardware",
    )


_HARDWARE = {
    "pcie": "the next generation of PCIe has twice the rate, or a link of another kind (NVLink-C2C)",
    "network": "two ports, or the next speed of Ethernet",
    "disk": "two drives striped",
    "dram": "memory channels that are not populated yet",
}


def _least(sizes: list[float], changed: Callable[[float], Way]) -> float | None:
    """The smallest of `sizes` that takes hardly longer than the best of them; None where there are none."""
    times = [(changed(size).computed().time_s, size) for size in sizes]
    if not times:
        return None
    best_s = min(times)[0]
    return min(size for time_s, size in times if time_s <= (1 + _NEAR) * best_s)


class Rule(NamedTuple):
    """A rule: its name (`Advice.rule`), the regime that it is a remedy for, what asks, if for a price."""

    name: str
    regime: str
    ask: Callable[[Way, Transfer], Change | None]
    price: bool = False


# Made in this order, where several go together.
RULES: tuple[Rule, ...] = (
    Rule("pinned", "a link binds", pinned),
    Rule("overlap-stages", "stages in turn", overlap),
    Rule("more-requests", "latency", more_requests),
    Rule("larger-chunks", "latency", larger_chunks),
    Rule("local-copy", "a far stage binds", local_copy),
    Rule("compress", "any", compressed),
    Rule("narrower", "any", narrower, price=True),
    Rule("faster-stage", "any", faster_stage, price=True),
)
_TOGETHER = ("pinned", "overlap-stages", "more-requests", "larger-chunks")


def advise(now: Transfer, way: Way, sample_bytes: float | None = None, pace: float | None = None) -> Advices:
    """What would help `now`, which is `way` computed.

    Args:
        now: the transfer, with its feed where `sample_bytes` and `pace` are given.
        way: what it was computed from.
        sample_bytes, pace: of the device that it feeds: bytes of a sample, samples a second that it could compute.
    """
    if now.feed is not None and now.feed.binds == "device":
        return Advices(unasked=("all: the device never waits for it",))
    found = []
    for rule in RULES:
        change = rule.ask(way, now)
        advice = None if change is None else _advice(rule, change, now, sample_bytes, pace)
        if advice is not None:
            found.append(advice)
    found.sort(key=lambda one: -(one.gain_s or 0.0))
    free = tuple(one for one in found if one.price == "nothing")
    rules, together_s = _together(way, {one.rule for one in free})
    unasked = () if not way.unsaid else (_UNSAID,)
    return Advices(
        each=free,
        trades=tuple(one for one in found if one.price != "nothing"),
        together=rules,
        together_s=together_s,
        unasked=unasked,
    )


_UNSAID = "pinned: nobody said which memory the host copies from (--pageable, --pinned)"


def _advice(
    rule: Rule, change: Change, now: Transfer, sample_bytes: float | None, pace: float | None
) -> Advice | None:
    after = change.way.computed()
    if now.time_s - after.time_s < WORTH * now.time_s:
        return None
    told: tuple[str, ...] = (f"{after.binds} binds then",) if after.binds != now.binds else ()
    if now.feed is not None and sample_bytes is not None and pace is not None:
        # Of fewer bytes each sample has fewer too.
        share = change.way.nbytes / now.nbytes
        feed = model.feed(after, sample_bytes * share, pace)
        told += (f"the device would wait {percent(feed.idle)} of the time instead of {percent(now.feed.idle)}",)
    return Advice(
        rule=rule.name,
        change=change.text,
        evidence=(*change.evidence, *told),
        before_s=now.time_s,
        after_s=after.time_s,
        gain_low_s=0.0 if change.unsure else None,
        gain_high_s=now.time_s - after.time_s if change.unsure else None,
        bounds=change.unsure,
        effort=change.effort,
        price=change.price,
        code=change.code,
        page=PAGE + rule.name,
    )


def _together(way: Way, worth: set[str]) -> tuple[tuple[str, ...], float | None]:
    """The rules of those worth a word that still gain one after the other, and the time with all of them."""
    made = []
    time_s = way.computed().time_s
    for rule in RULES:
        if rule.name not in _TOGETHER or rule.name not in worth:
            continue
        change = rule.ask(way, way.computed())
        if change is None:
            continue
        after_s = change.way.computed().time_s
        if after_s < (1 - WORTH) * time_s:
            way, time_s = change.way, after_s
            made.append(rule.name)
    return (tuple(made), time_s) if len(made) > 1 else ((), None)
