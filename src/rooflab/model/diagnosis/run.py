"""Where a run's time goes beside its operations, and which operations took longer than predicted."""

from __future__ import annotations

from collections.abc import Iterator

from rooflab.types.finding import Finding
from rooflab.types.kernel_names import short_name
from rooflab.types.profile import Profile
from rooflab.types.trace import ON_HOST
from rooflab.units import duration, percent

_WORTH = 0.1  # of the run: less idle time of one cause is not worth a sentence
_HINTS = {
    "launches": "launch less often: CUDA graphs, torch.compile, larger batches, fused operations",
    "synchronisation": "wait less often: no .item(), .cpu() or print of a tensor in the loop",
    "copy": "copy from pinned memory without blocking, on a stream of its own",
    "data loader": "more workers, pinned memory, prefetching",
    "collective": "balance the work of the ranks, or overlap their exchange with it",
    "between operations": "fewer, larger operations; a runtime that optimises the graph",
    "between kernels": "fuse small kernels, or record them as a graph",
}


def idle(profile: Profile) -> Iterator[Finding]:
    """Devices that waited for a large part of the run, by cause."""
    for device in profile.timeline.devices:
        for one in device.idle:
            if device.span_s > 0 and one.seconds >= _WORTH * device.span_s:
                yield Finding(
                    rule="idle",
                    kind="cause",
                    says=(
                        f"{_device(device.device)} stood idle for {duration(one.seconds)} of "
                        f"{duration(device.span_s)} ({percent(one.seconds / device.span_s)}): {one.cause}, "
                        f"{one.gaps:,} gaps, the longest {duration(one.longest_s)} before {short_name(one.before)}"
                    ),
                    hint=_HINTS.get(one.cause, ""),
                    evidence={
                        "idle_s": one.seconds,
                        "span_s": device.span_s,
                        "gaps": one.gaps,
                        "cause": one.cause,
                    },
                    time_s=one.seconds,
                )


def _device(number: int) -> str:
    return "the host" if number == ON_HOST else f"device {number}"


def slower(profile: Profile) -> Iterator[Finding]:
    """Operations that took longer than the upper end of their prediction, all together."""
    late = [row for row in profile.rows if row.prediction is not None and row.time_s > row.prediction.high_s]
    over_s = sum(row.time_s - row.prediction.time_s for row in late if row.prediction is not None)
    if not late or over_s < _WORTH / 2 * profile.time_s:
        return
    worst = max(late, key=lambda row: row.beyond_s or 0.0)
    assert worst.prediction is not None
    yield Finding(
        rule="slower than predicted",
        kind="cause",
        says=(
            f"{len(late)} operations took {duration(over_s)} longer than predicted; most of it "
            f"{short_name(worst.name)}: {duration(worst.time_s)}, predicted {duration(worst.prediction.time_s)} "
            f"(at most {duration(worst.prediction.high_s)})"
        ),
        hint="look at those kernels with the hardware's counters, at clocks, and at what ran beside them",
        evidence={"over_s": over_s, "time_s": worst.time_s, "predicted_s": worst.prediction.time_s},
        rows=tuple(dict.fromkeys(row.name for row in late)),
        time_s=over_s,
    )
