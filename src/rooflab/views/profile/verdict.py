"""What limited a run and how far it was from the limit, in a sentence or two, and its totals."""

from __future__ import annotations

from rooflab.types.profile import Profile
from rooflab.units import duration, percent, si
from rooflab.views.common.table import UNKNOWN
from rooflab.views.profile.sheet import CAUSES, KERNEL_START, beyond_predictions, said

_BOUNDS = {
    "memory-bound": "Memory traffic limited it: {}",
    "compute-bound": "Arithmetic limited it: {}",
    "balanced": "Balanced: {} and the term next to it limited it alike",
}


def headline(profile: Profile) -> str:
    """What limited `profile`, with its share of the time."""
    total = sum(one.seconds for one in profile.limits)
    most = max(profile.limits, key=lambda one: one.seconds, default=None)
    if most is None or not total:
        return "What limited it is not known: the file holds no time of an operation"
    share = f"{percent(most.seconds / total)} of the time"
    if profile.bound is None or profile.binds is None:
        if (beyond := beyond_predictions(profile)) is not None:
            return f"What limited it is not known: {beyond}"
        why = "no machine is known" if profile.machine is None else "too little of it could be counted"
        return f"What limited it is not known for {share}: {why}"
    if profile.bound == "overhead-bound":
        if profile.binds == "launch":
            return f"Overhead limited it: the {KERNEL_START}, {share}"
        cause = CAUSES.get(profile.binds, profile.binds)
        cause = "the file does not say for what" if profile.binds == "unknown" else cause
        return f"Waiting limited it: {cause}, {share}"
    return f"{_BOUNDS[profile.bound].format(profile.binds)}, {share}"


def distance(profile: Profile) -> str:
    """How long it took, and how that compares with prediction and floor."""
    on = "" if profile.machine is None else f" on {profile.machine.name}"
    words = [f"Operations took {duration(profile.time_s)}{on}"]
    both = [(row.time_s, row.expected_s) for row in profile.rows if row.expected_s is not None]
    measured, expected = sum(one for one, _ in both), sum(other or 0.0 for _, other in both)
    if both and expected:
        of = "" if len(both) == len(profile.rows) else f" for the {duration(measured)} of them that have one"
        words.append(f"{measured / expected:.2f} × the prediction{of}")
    floors = [row.prediction.floor_s for row in profile.rows if row.prediction is not None]
    if profile.matching is not None and floors and sum(floors) and len(floors) == len(profile.rows):
        words.append(f"{profile.time_s / sum(floors):.2f} × the floor that no run there can beat")
    return f"{'; '.join(words)}."


def how(profile: Profile, several: bool = False) -> str:
    """Who wrote it, and what it is held against; of several files also which of them is spoken of."""
    if several:
        return f"Of {profile.name}: {how(profile)[:1].lower()}{how(profile)[1:]}"
    held = "" if profile.machine is None else f", held against {profile.machine.name}"
    return f"Written by {profile.source}{held}."


def warnings(profile: Profile) -> list[str]:
    """What a reader must know first: warnings, numbers to doubt, events that were left out."""
    return [
        *profile.warnings,
        *(said(one) for one in profile.findings if one.kind == "doubt"),
        *(f"{one.count:,} events left out: {one.why}" for one in profile.dropped),
    ]


def facts(profile: Profile) -> list[tuple[str, str, str]]:
    """The totals: name, value, convention."""
    found = [("measured", duration(profile.time_s), "operations, all together")]
    devices = profile.timeline.devices
    span_s, busy_s = (sum(getattr(one, name) for one in devices) for name in ("span_s", "busy_s"))
    if span_s:
        several = f", {len(devices)} devices together" if len(devices) > 1 else ""
        found.append(("busy", percent(busy_s / span_s, 1), f"{duration(busy_s)} of {duration(span_s)}{several}"))
    if profile.coverage is not None:
        found.append(("coverage", percent(profile.coverage, 1), "of the measured time: FLOP and bytes known"))
    expected = [row.expected_s for row in profile.rows if row.expected_s is not None]
    if expected:
        of = "kernels' own time" if len(expected) == len(profile.rows) else f"{len(expected):,} operations only"
        found.append(("predicted", duration(sum(expected)), of))
    flop, nbytes = (
        [row.flop for row in profile.rows if row.flop is not None],
        [row.nbytes for row in profile.rows if row.nbytes is not None],
    )
    whole = len(flop) == len(profile.rows)
    if flop:
        found.append(("arithmetic", f"{'' if whole else '> '}{si(sum(flop), 'FLOP')}", "a multiply-add is two"))
        attained = si(sum(flop) / profile.time_s, "FLOP/s") if whole and profile.time_s else UNKNOWN
        found.append(("attained", attained, "FLOP over measured time"))
    if nbytes:
        least = "" if len(nbytes) == len(profile.rows) else "> "
        counted = any(row.cost is None and row.nbytes is not None for row in profile.rows)
        kind = "counted at main memory" if counted else "compulsory, both ways"
        found.append(("bytes", f"{least}{si(sum(nbytes), 'B')}", kind))
    return found
