"""What is shown of a transfer: its stages, how long it takes, what binds, how long a device waits."""

from __future__ import annotations

from rooflab import units
from rooflab.types.transfer import Passed, Transfer
from rooflab.views.common.advice import said
from rooflab.views.common.lines import Lines
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table, lasting


def sheet_of(transfer: Transfer) -> Sheet:
    """What is shown of `transfer`: the answer first, then its stages, then what is not known."""
    tables = (table(transfer), *([fits(transfer)] if transfer.homes else []))
    return Sheet(
        headline(transfer),
        "a transfer",
        sentences=tuple(sentences(transfer)),
        tables=tables,
        advice=said(transfer.advice),
    )


def headline(transfer: Transfer) -> str:
    """What was moved, how long it took, at which pace."""
    least, most = ("", "") if transfer.complete else ("> ", "< ")
    took = f"{least}{units.duration(transfer.time_s)}, {most}{units.si(transfer.bytes_per_s, 'B/s')}"
    way = f"{units.si(transfer.nbytes, 'B')} through {len(transfer.stages)} stages"
    of = "" if transfer.complete else ", the slowest of those known"
    return f"{way}: {took}, bound by {transfer.binds}{of}"


def sentences(transfer: Transfer) -> list[str]:
    """How the stages work together, what the device gets, what was left out."""
    if transfer.overlap:
        first = units.duration(transfer.fill_s)
        lines = [f"Overlapped: the first chunk arrives after {first}, the rest at the pace of the slowest."]
    else:
        lines = ["Serial: each stage moves everything before the next begins."]
    if transfer.feed is not None:
        feed = transfer.feed
        most = "" if transfer.complete else "at most "
        arriving, computed = most + _count(feed.supply_per_s), _count(feed.device_samples_per_s)
        pace = f"{arriving} samples/s arrive, the device computes {computed}"
        if feed.binds == "device":
            never = "it never waits" if transfer.complete else "what is known of the way does not keep it waiting"
            lines.append(
                f"{pace}: {never}; the way has {feed.supply_per_s / feed.device_samples_per_s:.3g} × that."
            )
        else:
            idle = f"{'' if transfer.complete else 'at least '}{units.percent(feed.idle)}"
            lines.append(f"{pace}: bound by {feed.binds}, it is idle {idle} of the time.")
    if transfer.unknown:
        names = ", ".join(transfer.unknown)
        lines.append(
            f'Left out, no rate known: {names} (give one: --rate {transfer.unknown[0]}="100 GB/s", or a --host).'
        )
    return lines


def table(transfer: Transfer) -> Table:
    """Each stage by itself: bandwidth, what is attained of it, latency, bytes, seconds."""
    rows = [_row(each) for each in transfer.stages]
    columns = ("stage", "rate from", "bandwidth", "attained", "latency", "bytes", "alone")
    note = "attained: with so many requests of a chunk at once."
    if any(each.time_s is not None and each.stage.latency_s is None for each in transfer.stages):
        note += f" A latency that nobody states ({UNKNOWN}) is taken as none."
    return Table("Stages", columns, tuple(rows), words=2, note=note)


def fits(transfer: Transfer) -> Table:
    """Where the data could lie, and how many such places they fill."""
    rows = []
    for home in transfer.homes:
        share = home.share
        if share is None:
            answer = UNKNOWN
        elif share <= 1:
            answer = f"yes, {units.percent(share)} of it" if share >= 0.01 else "yes, under 1 % of it"
        else:
            answer = f"no: {share:.3g} × as much"
        size = UNKNOWN if home.capacity_bytes is None else units.si(home.capacity_bytes, "B")
        rows.append((home.name, home.where, size, units.si(home.nbytes, "B"), answer))
    return Table("Does it fit?", ("place", "capacity from", "capacity", "bytes", "fits"), tuple(rows), words=2)


def _row(passed: Passed) -> tuple[str, ...]:
    stage = passed.stage
    if passed.time_s is None:
        return (stage.name, stage.where, UNKNOWN, UNKNOWN, UNKNOWN, units.si(passed.nbytes, "B"), UNKNOWN)
    return (
        stage.name,
        stage.where,
        units.si(stage.bytes_per_s, "B/s"),
        units.si(passed.bytes_per_s, "B/s"),
        lasting(stage.latency_s),
        units.si(passed.nbytes, "B"),
        units.duration(passed.time_s),
    )


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def lines(transfer: Transfer) -> Lines:
    """A line for each stage, in base units; unknown is empty."""
    columns = ("stage", "where", "threads", "entering_bytes", "states_bytes_per_s", "latency_s", "expands")
    rows = []
    for passed in transfer.stages:
        one = passed.stage
        said = (one.name, one.where, one.threads, passed.nbytes, one.bytes_per_s, one.latency_s, one.expands)
        rows.append((*said, passed.bytes_per_s, passed.first_s, passed.time_s))
    return Lines((*columns, "attained_bytes_per_s", "first_s", "time_s"), rows)
