"""What is shown of a profile: the verdict, where the time went, and each operation in one line."""

from __future__ import annotations

import msgspec

from rooflab import units
from rooflab.types.finding import Finding
from rooflab.types.kernel_names import short_name
from rooflab.types.profile import Profile, ProfileRow
from rooflab.types.timeline import DeviceTime
from rooflab.types.trace import ON_HOST
from rooflab.views.common import advice as helping
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table, lasting, quantity, without
from rooflab.views.profile import kernels, matching, memory, times

_SHOWN = 40  # rows; the files hold all
# What a prediction calls launch is not the host's launching: the time in which a small kernel starts and drains.
KERNEL_START = "start and end of kernels"
_WORTH = 0.005  # of the time: less is not worth a line

CAUSES = {
    "launches": "the host had not launched the next kernel",
    "synchronisation": "the host had waited for the device, and began again",
    "copy": "the host had waited for a copy, or still prepared one",
    "data loader": "the host waited for data",
    "between kernels": "the device's own pause between queued kernels",
    "between operations": "the runtime, between operations that the host runs itself",
    "unknown": "the launch is not recorded",
}


def sheet_of(profile: Profile, advice: int | None = None) -> Sheet:
    """What is shown of `profile`, with `advice` changes that would help of each sort; None for all, 0 for none."""
    return Sheet(
        profile.name,
        "a profile",
        sentences=tuple(_sentences(profile)),
        tables=tuple(table for table in _tables(profile, advice) if table.rows),
        warnings=(
            *profile.warnings,
            *(said(one) for one in profile.findings if one.kind == "doubt"),
            *(f"{one.count} events left out: {one.why}" for one in profile.dropped),
        ),
        notes=(*profile.notes, *_conventions(profile)),
    )


def _tables(profile: Profile, advice: int | None) -> tuple[Table, ...]:
    counted = kernels.tables_of(profile)
    helps = (
        helping.short(profile.advice, advice)
        if profile.advice and (profile.advice.each or profile.advice.trades)
        else None
    )
    first = (
        _limits(profile),
        *filter(None, (helps,)),
        _idle(profile),
        _causes(profile),
        times.steps(profile.timeline),
    )
    if counted:
        return (*first, *counted)
    return (
        *first,
        _operations(profile),
        *matching.tables(profile),
        matching.kinds(profile),
        _kernels(profile),
        *memory.tables(profile.memory),
    )


def _limits(profile: Profile) -> Table:
    """The time by what limited it, where there is more than one thing."""
    total = sum(one.seconds for one in profile.limits)
    rows = tuple(
        (
            one.bound or "not known",
            KERNEL_START if one.binds == "launch" else one.binds or UNKNOWN,
            units.duration(one.seconds),
            units.percent(one.seconds / total, 1),
        )
        for one in profile.limits
        if one.seconds >= _WORTH * total
    )
    note = "Waiting of the devices, and measured time of operations by what binds them."
    return Table(
        "What limited it", ("limit", "by", "time", "share"), rows if len(rows) > 1 else (), words=2, note=note
    )


def said(finding: Finding) -> str:
    """A finding in a sentence, with what to do about it."""
    return f"{finding.rule}: {_with_hint(finding)}"


def _with_hint(finding: Finding) -> str:
    return finding.says + (f" → {finding.hint}" if finding.hint else "")


def _causes(profile: Profile) -> Table:
    causes = [one for one in profile.findings if one.kind == "cause"]
    rows = tuple((one.rule, f"{units.duration(one.time_s)}: {_with_hint(one)}") for one in causes)
    return Table("What was found", ("rule", "time of it: what was found → what may help"), rows, words=2)


def beyond_predictions(profile: Profile) -> str | None:
    """That operations took longer than predicted, where that is most of what no limit is known of; else None."""
    unknown = sum(one.seconds for one in profile.limits if one.bound is None)
    beyond = sum(row.time_s - row.explained_s for row in profile.rows)
    if not unknown or beyond < unknown / 2:
        return None
    share = units.percent(beyond / sum(one.seconds for one in profile.limits))
    return f"{share} of the time is beyond what was predicted of its operations"


def run(profile: Profile) -> list[str]:
    """What the devices did: busy, overlap, queues, steps, memory."""
    devices = profile.timeline.devices
    return [
        *(_device(one, len(devices) > 1) for one in devices),
        *times.sentences(profile.timeline),
        *memory.sentences(profile.memory),
    ]


def _sentences(profile: Profile) -> list[str]:
    held = "" if profile.machine is None else f", held against {profile.machine.name}"
    lines = [f"Written by: {profile.source}{held}."]
    if profile.bound is not None:
        most = max(one.seconds for one in profile.limits)
        total = sum(one.seconds for one in profile.limits)
        by = "waiting, the file does not say for what" if profile.binds == "unknown" else profile.binds
        lines.append(f"Limited by: {profile.bound}, {by} ({units.percent(most / total)} of the time).")
    elif (beyond := beyond_predictions(profile)) is not None:
        lines.append(f"Limited by: not known, {beyond}.")
    lines += run(profile)
    if profile.coverage is not None:
        lines.append(
            f"Coverage: FLOP and bytes are known of {units.percent(profile.coverage, 1)} of the measured time."
        )
    lines += matching.sentences(profile)
    compared = [row for row in profile.rows if row.prediction is not None]
    if compared:
        measured = sum(row.time_s for row in compared)
        predicted = sum(row.expected_s for row in compared if row.expected_s is not None)
        of_all = (
            "" if len(compared) == len(profile.rows) else f" of the {len(compared)} operations with a prediction"
        )
        taken = f"measured {units.duration(measured)}{of_all}, predicted {units.duration(predicted)}"
        lines.append(f"Operations alone: {taken}.")
    return lines


def _device(one: DeviceTime, several: bool) -> str:
    on_host = one.device == ON_HOST
    name = "The host" if on_host else f"Device {one.device}" if several else "The device"
    share = "" if one.busy_share is None else f" ({units.percent(one.busy_share, 1)})"
    busy = f"{units.duration(one.busy_s)} of {units.duration(one.span_s)}{share}"
    line = f"{name} was busy {busy}, {one.kernels:,} {'operations' if on_host else 'kernels'}"
    parts = [
        f"{label} {units.duration(seconds)}"
        for label, seconds in (
            ("copies alone", one.exposed_copy_s),
            ("collectives alone", one.exposed_collective_s),
        )
        if seconds > 0
    ]
    return f"{line}; {', '.join(parts)}." if parts else f"{line}."


def _idle(profile: Profile) -> Table:
    rows = []
    for device in profile.timeline.devices:
        for idle in device.idle:
            rows.append(
                (
                    idle.cause,
                    CAUSES[idle.cause],
                    units.duration(idle.seconds),
                    units.percent(idle.seconds / device.span_s, 1),
                    f"{idle.gaps:,}",
                    units.duration(idle.longest_s),
                )
            )
    columns = ("idle for", "meaning", "time", "of the run", "gaps", "longest")
    return Table("Idle time by cause", columns, tuple(rows), words=2)


def _merged(rows: tuple[ProfileRow, ...]) -> list[ProfileRow]:
    """Rows that differ by their module alone as one, most measured time first."""
    same: dict[tuple[str, ...], list[ProfileRow]] = {}
    for row in rows:
        same.setdefault(
            (row.name, row.shapes, row.dtype, row.label, row.why or "", row.unmatched or ""), []
        ).append(row)
    merged = [several[0] if len(several) == 1 else _sum(several) for several in same.values()]
    return sorted(merged, key=lambda row: -row.time_s)


def _sum(rows: list[ProfileRow]) -> ProfileRow:
    observation = msgspec.structs.replace(rows[0].observation, time_s=sum(row.time_s for row in rows))
    predictions = [row.prediction for row in rows if row.prediction is not None]
    prediction = None
    if len(predictions) == len(rows):
        prediction = msgspec.structs.replace(
            predictions[0],
            time_s=sum(one.time_s for one in predictions),
            floor_s=sum(one.floor_s for one in predictions),
        )
    pause_s = sum(row.pause_s for row in rows)
    executions = sum(row.executions for row in rows)
    return msgspec.structs.replace(
        rows[0],
        executions=executions,
        observation=observation,
        prediction=prediction,
        pause_s=pause_s,
        module="",
    )


def _operations(profile: Profile) -> Table:
    merged = _merged(profile.rows)
    shown = merged[:_SHOWN]
    total = profile.time_s
    rest = merged[_SHOWN:]
    note = ""
    if rest:
        seconds = sum(row.time_s for row in rest)
        note = f"{len(rest)} more operations, {units.duration(seconds)}: the files have all."
    columns = (
        "operation",
        "shapes",
        "times",
        "measured",
        "of time",
        "predicted",
        "floor",
        "of floor",
        "FLOP/s",
        "B/s",
        "bound",
    )
    table = Table(
        "Operations by measured time", columns, tuple(_line(row, total) for row in shown), words=2, note=note
    )
    # A trace does not say whether executions shared their operands: without the program a floor must suppose that
    # they did and lay in a cache, and says little.
    return without(table, () if profile.matching is not None else ("floor", "of floor"))


def _line(row: ProfileRow, total: float) -> tuple[str, ...]:
    predicted = row.prediction
    return (
        short_name(row.name, 44),
        _short(row.shapes or row.why or "", 48),
        f"{row.executions:,}",
        units.duration(row.time_s),
        units.percent(row.time_s / total, 1) if total else UNKNOWN,
        lasting(row.expected_s),
        lasting(None if predicted is None else predicted.floor_s),
        UNKNOWN if row.of_floor is None else units.percent(row.of_floor),
        _of_roof(quantity(row.flop_per_s, "FLOP/s"), row, "engine"),
        _of_roof(quantity(row.bytes_per_s, "B/s"), row, "level"),
        UNKNOWN if predicted is None else f"{predicted.bound.removesuffix('-bound')}: {predicted.binds}",
    )


def _of_roof(rate: str, row: ProfileRow, kind: str) -> str:
    """`rate` with its share of the roof: of the engine that was used most, or of main memory."""
    roofs = [] if row.placement is None else [roof for roof in row.placement.roofs if roof.kind == kind]
    most = max(roofs, key=lambda roof: roof.share, default=None)
    if most is None or rate == UNKNOWN:
        return rate
    # Not its own share: rows of several modules are one here, and the placement is that of the first.
    share = most.amount * row.executions / row.time_s / most.roof_per_s
    return f"{rate} ({units.percent(share)})"


def _kernels(profile: Profile) -> Table:
    by_name: dict[str, list[float]] = {}
    for row in profile.rows:
        for kernel in row.observation.kernels:
            sums = by_name.setdefault(kernel.name, [0.0, 0.0])
            sums[0] += kernel.runs
            sums[1] += kernel.time_s
    most = sorted(by_name.items(), key=lambda item: -item[1][1])[:15]
    rows = tuple(
        (short_name(name, 70), f"{int(runs):,}", units.duration(seconds)) for name, (runs, seconds) in most
    )
    return Table("Kernels by measured time", ("kernel", "times", "measured"), rows)


def _short(text: str, length: int = 70) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _whose(profile: Profile) -> str:
    on_host = profile.timeline.devices and all(one.device == ON_HOST for one in profile.timeline.devices)
    return "from call to return" if on_host else "the device's time, from a kernel's start to its end"


def _conventions(profile: Profile) -> list[str]:
    if any(row.counted is not None for row in profile.rows):
        return []  # said beneath the tables
    lines = [f"measured: {_whose(profile)}; busy is the union of those, not the sum"]
    if profile.machine is not None:
        lines.append("predicted: the kernels' own time, without the pauses between those of a replayed graph")
        lines.append(
            "FLOP/s and B/s: of the work that the shapes ask for, in brackets their share of the roof; bytes that "
            "lie in a cache may pass that of main memory"
        )
        if profile.matching is not None:
            lines.append("of floor: the floor's share of the measured time")
    return lines
