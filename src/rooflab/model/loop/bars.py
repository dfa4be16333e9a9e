"""How far a predicted time of a loop may be off: each mechanism's own error, added as independent ones are.

Errors are shares of a mechanism's time (cpu.toml, "loop.error_…"): of what is exactly known, as a chain of
additions, little; of what a simulated predictor or an approximate cache decides, much. What may or may not go on
beside something else counts whole. What no mechanism stands for only adds time: loops that nobody had looked at
took longer than predicted far more often than less, so that above there is more room than below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from rooflab.model.device.constants import load_family
from rooflab.types.loop import LoopTime, Predicted

_LONGEST = "results of a pass"


def half_width_s(
    loops: Iterable[LoopTime], time_s: float, core_s: float, memory_s: float, waiting_s: float, beside_s: float
) -> float:
    """Seconds below a predicted time, and above it for what is modelled, of four of five measured ones.

    Args:
        loops: what the core takes for each loop.
        time_s: the prediction.
        core_s: of the core.
        memory_s: of the data's way.
        waiting_s: the part of that which is not the time of bytes alone.
        beside_s: what the shorter of both adds to the longer.
    """
    constant = load_family("cpu")
    by_kind = {"chain": 0.0, "ports": 0.0, "calls": 0.0, "missed": 0.0, "passes": 0.0, "beside": 0.0}
    for each in loops:
        called_s = sum(each.calls_s.values())
        if each.chain_s > each.ports_s + called_s:
            by_kind["chain"] += each.chain_s
            # of what it calls beside, the room that it takes in the core is known as ill as its time
            by_kind["calls"] += called_s
            by_kind["beside"] += min(each.apart_s - each.chain_s, each.chain_s) if each.apart_s else 0.0
        else:
            by_kind["passes" if each.busiest == _LONGEST else "ports"] += each.ports_s
            by_kind["calls"] += called_s
        by_kind["missed"] += each.missed_s
    weight = 1.0 if core_s >= memory_s else core_s / memory_s if memory_s else 0.0
    errors = [weight * constant(f"loop.error_{kind}") * seconds for kind, seconds in by_kind.items()]
    if memory_s:
        weight = min(1.0, memory_s / core_s) if core_s else 1.0
        errors.append(weight * constant("loop.error_bytes") * (memory_s - waiting_s))
        errors.append(weight * constant("loop.error_waiting") * waiting_s)
    errors.append(beside_s)
    return max(constant("loop.error_least") * time_s, math.hypot(*errors))


def above_s(half_s: float, time_s: float) -> float:
    """Seconds above a predicted time: `half_s` of what is modelled, and as independent what is not."""
    return math.hypot(half_s, load_family("cpu")("loop.error_unseen") * time_s)


def widened(predicted: Predicted, less_s: float | None, more_s: float | None) -> Predicted:
    """`predicted`, its bars as far out as where a shared cache keeps more (`less_s`) and less (`more_s`)."""
    assert predicted.low_s is not None
    assert predicted.high_s is not None
    time_s = predicted.time_s
    below = max(0.0, time_s - (time_s if less_s is None else less_s))
    above = max(0.0, (time_s if more_s is None else more_s) - time_s)
    return msgspec.structs.replace(
        predicted,
        low_s=max(0.1 * time_s, time_s - math.hypot(time_s - predicted.low_s, below)),
        high_s=time_s + math.hypot(predicted.high_s - time_s, above),
    )
