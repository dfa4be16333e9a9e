"""How far a predicted time of a loop may be off: each mechanism's own error, added as independent ones are.

Errors are those of a factor, as natural logarithms: of what is exactly known, as a chain of additions, little; of
what a simulated predictor or an approximate cache decides, much. Each counts by the mechanism's share of the time.
The constants (cpu.toml, "loop.error_…") follow from how far the first predictions of loops turned out that nobody
had looked at before (`benchmarks/loop_bars.py`), not from loops that the model was mended with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

from rooflab.model.device.constants import load_family
from rooflab.types.loop import LoopTime, Predicted

Core = Literal["measured", "by_table", "usual"]
_LONGEST = "results of a pass"
_WHOLE = "whole numbers"
_PLAIN = {"additions", "products", "fp multiply-add"}
_CHAIN_OF = "a chain of "
_CORE = ("chain", "chain_other", "units", "whole", "passes", "calls", "missed", "learnt", "beside")
WAITING = "misses that no prefetcher foresees"
LEARNT = "branches taken to be known by heart"
KEPT = "what a shared cache keeps"
WORDS = {
    "chain": "chains of additions and products",
    "chain_other": "chains of other operations",
    "units": "how busy the core's units are",
    "whole": "work on whole numbers",
    "passes": "passes that wait in the scheduler",
    "calls": "functions that are called",
    "missed": "branches foretold wrongly",
    "learnt": LEARNT,
    "beside": "entries of a chain that go on side by side",
    "bytes": "bytes between levels",
    "waiting": WAITING,
    "both": "core and data beside each other",
    "team": "starting threads",
    "shared": "what threads share",
    "least": "what no mechanism stands for",
}


class Taken(NamedTuple):
    """What a predicted time is made of, in seconds.

    Attributes:
        time_s: all of it.
        loops: what the core takes for each loop.
        core_s: of the core.
        memory_s: of the data's way.
        waiting_s: the part of that which is not the time of bytes alone.
        both_s: what the shorter of both adds to the longer.
        team_s: starting and joining threads.
        shared_s: what threads take longer as they share levels and cores, have uneven shares, wait for each other.
    """

    time_s: float
    loops: tuple[LoopTime, ...]
    core_s: float
    memory_s: float
    waiting_s: float = 0.0
    both_s: float = 0.0
    team_s: float = 0.0
    shared_s: float = 0.0


def parts(taken: Taken) -> dict[str, float]:
    """Share of the time by mechanism, the keys of `WORDS`.

    Of core and data the shorter counts less, by how much shorter it is: it bears on the time only if it takes
    longer than thought.
    """
    core, memory = taken.core_s, taken.memory_s
    found = dict.fromkeys(WORDS, 0.0)
    for each in taken.loops:
        _add(found, each)
    weight = 1.0 if core >= memory else core / memory
    found = {kind: weight * seconds for kind, seconds in found.items()}
    weight = 1.0 if memory >= core else memory / core
    found["bytes"] = weight * (memory - taken.waiting_s)
    found["waiting"] = weight * taken.waiting_s
    found["both"] = taken.both_s
    found["team"] = taken.team_s
    found["shared"] = taken.shared_s
    found["least"] = taken.time_s
    return {kind: seconds / taken.time_s if taken.time_s else 0.0 for kind, seconds in found.items()}


def _add(found: dict[str, float], each: LoopTime) -> None:
    """The seconds of one loop of the core, to those of its mechanisms."""
    called_s = sum(each.calls_s.values())
    if each.chain_s > each.ports_s + called_s:
        plain = set(each.chain.removeprefix(_CHAIN_OF).split(", ")) <= _PLAIN
        found["chain" if plain else "chain_other"] += each.chain_s
        found["beside"] += max(0.0, each.apart_s - each.chain_s) if each.apart_s else 0.0
    else:
        kind = {_LONGEST: "passes", _WHOLE: "whole"}.get(each.busiest, "units")
        found[kind] += each.ports_s
    # of what a chain goes on beside too, the room that it takes in the core is known as ill as its time
    found["calls"] += called_s
    found["missed"] += each.missed_s
    found["learnt"] += each.learnt_s


def errors(
    shares: Mapping[str, float], core: Core = "measured", *, rates_measured: bool = True
) -> dict[str, float]:
    """Logarithms of the factors by which a time of these `parts` may be off, by mechanism, in four of five cases.

    Args:
        shares: of the time.
        core: whether its operations were timed on it, or are those of its microarchitecture, or of a usual one.
        rates_measured: whether what its caches and memory give was measured, or is theirs by theory.
    """
    constant = load_family("cpu")
    of_core = 1.0 if core == "measured" else constant(f"loop.error_core_{core}")
    wider: dict[str, float] = dict.fromkeys(_CORE, of_core)
    wider |= dict.fromkeys(("bytes", "waiting"), 1.0 if rates_measured else constant("loop.error_rates_by_table"))
    return {
        WORDS[kind]: constant(f"loop.error_{kind}") * share * wider.get(kind, 1.0)
        for kind, share in shares.items()
        if share
    }


def around(predicted: Predicted, found: Mapping[str, float]) -> Predicted:
    """`predicted` with bars of these errors.

    A miss that nobody foresaw may wait not at all, where the hardware fetches what it was not thought to fetch:
    down the time may be off further than up. What is taken to be known by heart only adds time where it is not.
    """
    other = {WAITING: load_family("cpu")("loop.error_hidden"), LEARNT: 0.0}
    below = {name: error * other.get(name, 1.0) for name, error in found.items()}
    time_s = predicted.time_s
    return msgspec.structs.replace(
        predicted,
        low_s=time_s * math.exp(-_joined(below.values())),
        high_s=time_s * math.exp(_joined(found.values())),
        errors=dict(sorted(found.items(), key=lambda each: -each[1])),
    )


def widened(predicted: Predicted, less_s: float | None, more_s: float | None) -> Predicted:
    """`predicted`, its bars as far out as where a shared cache keeps more (`less_s`) and less (`more_s`)."""
    assert predicted.low_s is not None
    assert predicted.high_s is not None
    time_s = predicted.time_s
    below = math.log(time_s / less_s) if less_s and less_s < time_s else 0.0
    above = math.log(more_s / time_s) if more_s and time_s and more_s > time_s else 0.0
    if not below and not above:
        return predicted
    return msgspec.structs.replace(
        predicted,
        low_s=time_s * math.exp(-math.hypot(math.log(time_s / predicted.low_s), below)),
        high_s=time_s * math.exp(math.hypot(math.log(predicted.high_s / time_s), above)),
        errors={**predicted.errors, KEPT: max(below, above)},
    )


def _joined(independent: Iterable[float]) -> float:
    return math.hypot(*independent)
