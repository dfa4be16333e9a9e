"""What limits a program and how far it is from the limit, in a sentence or two: `explore.js` says the same."""

from __future__ import annotations

from rooflab.types.prediction import Prediction
from rooflab.types.report import Report
from rooflab.units import duration, si
from rooflab.views.common.table import UNKNOWN

# By what binds, where a word more is needed than its name.
_LIMITS = {
    "host": "The host limits it: it dispatches operations slower than the device runs them",
    "launch": "Starting kernels limits it",
    "instructions": "Issuing instructions limits it",
}
_BOUNDS = {
    "memory-bound": "Memory traffic limits it: {}",
    "compute-bound": "Arithmetic limits it: {}",
    "overhead-bound": "Overhead limits it: {}",
}


# What a floor is (`model/program/floor.py`).
FLOOR = (
    "arithmetic at full peak or the bytes that no cache keeps at full bandwidth, whichever is longer; "
    "nothing reaches it"
)


def headline(report: Report) -> str:
    """What limits `report`; without a machine, what it asks for."""
    if report.prediction is not None:
        return limit(report.prediction)
    if report.rows and not report.coverage.counted:
        return "Nothing is known of it: no operation was counted"
    if report.machine is not None and report.missing:
        return f"What limits it is not known: {report.missing}"
    if report.machine is not None and report.unpredicted:
        return f"What limits it is not known: {_operations(len(report.unpredicted))} without a prediction"
    if report.machine is not None and report.coverage.complete:
        return "Nothing limits it: no operation of it computes or moves anything"
    least = "" if report.coverage.complete else "more than "
    asks = f"It asks for {least}{si(report.flop, 'FLOP')} and {least}{si(report.nbytes, 'B')}"
    if report.machine is not None:
        return f"{asks}: what limits it on {report.machine.name} is not known"
    return f"{asks}: what limits it depends on the machine, and none is given"


def limit(prediction: Prediction) -> str:
    """What limits the program whose prediction it is."""
    if prediction.bound != "balanced" and prediction.binds in _LIMITS:
        return _LIMITS[prediction.binds]
    if prediction.bound == "balanced":
        return f"Balanced: {prediction.binds} and {_beside(prediction)} limit it alike"
    return _BOUNDS[prediction.bound].format(prediction.binds)


def _beside(prediction: Prediction) -> str:
    """The largest term of another sort than that of what binds."""
    terms = {name: ("memory", seconds) for name, seconds in prediction.memory_s.items()}
    terms |= {"arithmetic": ("compute", prediction.compute_s), "overhead": ("overhead", prediction.overhead_s)}
    binds = prediction.binds
    sort = "overhead" if binds in ("host", "launch") else "memory" if binds in prediction.memory_s else "compute"
    others = {name: seconds for name, (kind, seconds) in terms.items() if kind != sort}
    return max(others, key=others.__getitem__)


def distance(report: Report) -> str:
    """How long it takes, and how many times the floor that is; empty without a machine."""
    prediction = report.prediction or report.predicted_part
    if prediction is None or report.machine is None:
        return ""
    if report.prediction is None:
        return f"More than {duration(prediction.time_s)} on {report.machine.name}: the rest alone takes that."
    bar = f"{duration(prediction.low_s)} to {duration(prediction.high_s)}"
    takes = f"{duration(prediction.time_s)} ({bar}) on {report.machine.name}"
    if not prediction.floor_s:
        return f"{takes}."
    return (
        f"{takes}: {times(prediction.time_s / prediction.floor_s)} its floor, {duration(prediction.floor_s)}: "
        f"{FLOOR}.{_reachable(report)}"
    )


def reach_s(report: Report) -> float | None:
    """The least time predicted with changes after which the same work gives the same results; None without any."""
    if report.advice is None or not report.advice.each:
        return None
    found = [report.advice.together_s, *(one.after_s for one in report.advice.each)]
    return min((one for one in found if one is not None), default=None)


def _reachable(report: Report) -> str:
    reach = reach_s(report)
    return "" if reach is None else f" With the changes below {duration(reach)} is predicted."


def times(ratio: float) -> str:
    """A ratio as people say it: "1.7 ×", "23 ×"; a dash for none."""
    if not ratio < float("inf"):
        return UNKNOWN
    return f"{ratio:.2f} ×" if ratio < 9.995 else f"{ratio:,.0f} ×"


def _operations(number: int) -> str:
    return f"{number:,} operation{'' if number == 1 else 's'}"
