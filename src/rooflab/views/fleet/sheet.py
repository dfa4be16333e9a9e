"""What is shown of a fleet: the verdict, the evidence, nodes beside each other, how quantities scatter."""

from __future__ import annotations

from rooflab.comparing.fleet import KEEN
from rooflab.types.fleet import Fleet, FleetQuantity, Slow
from rooflab.units import percent, si
from rooflab.views.common.lines import Lines
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table, without_empty

SHOWN = 5  # quantities beside each other in the terminal; files have all
_EVIDENCE = 4  # lines for a node


def sheet_of(fleet: Fleet) -> Sheet:
    """What is shown of `fleet`."""
    return Sheet(
        fleet.name,
        "a fleet",
        sentences=fleet.verdict,
        tables=(_slow(fleet), *(_nodes(fleet, kind) for kind in kinds(fleet)), _quantities(fleet)),
        warnings=tuple(f"{node.name}: {node.failed}" for node in fleet.nodes if node.failed is not None),
        notes=(f"measured {fleet.date} by {fleet.where}{', quickly' if fleet.quick else ''}", *fleet.notes),
    )


def kinds(fleet: Fleet) -> list[str]:
    """The kinds of nodes, in order."""
    return list(dict.fromkeys(each.kind for each in fleet.quantities))


def _slow(fleet: Fleet) -> Table:
    units = {each.name: each.unit for each in fleet.quantities}
    rows = [
        (
            each.node,
            each.quantity,
            si(each.value, units[each.quantity]),
            si(each.median, units[each.quantity]),
            percent(each.speed),
            UNKNOWN if each.deviations is None else f"{each.deviations:.1f}",
            f"{each.cutoff:.1f}",
            _again(each),
            UNKNOWN if each.of_theory is None else percent(each.of_theory),
            UNKNOWN if each.usual_of_theory is None else percent(each.usual_of_theory),
        )
        for node in dict.fromkeys(each.node for each in fleet.slow)
        for each in [one for one in fleet.slow if one.node == node][:_EVIDENCE]
    ]
    more = len(fleet.slow) - len(rows)
    columns = ("node", "slow in", "it", "median", "speed", "deviations", "limit", "again", "of theory", "others")
    note = "Speed: against the median. Deviations: robust standard deviations below it. Of theory: its own."
    note += f" {more} more lines: the files have all." if more else ""
    return without_empty("What stands apart", columns, rows, words=2, note=note)


def _again(each: Slow) -> str:
    if each.again is None:
        return UNKNOWN
    return percent(each.again) + ("" if each.confirmed else ", cleared")


def chosen(fleet: Fleet, kind: str) -> list[FleetQuantity]:
    """The quantities of `kind` that are shown side by side: the usual ones, else what a node is slowest in."""
    held = {each.name: each for each in fleet.quantities if each.kind == kind}
    usual = [name for name in KEEN if name in held]
    slow = {each.node: each.quantity for each in reversed(fleet.slow) if each.kind == kind}
    told = {(each.node, each.quantity) for each in fleet.slow}
    worst = [name for node, name in slow.items() if not any((node, each) in told for each in usual)]
    names = dict.fromkeys((*worst, *usual, *held))
    return [held[name] for name in list(names)[:SHOWN]]


def _nodes(fleet: Fleet, kind: str) -> Table:
    several, shown = len(kinds(fleet)) > 1, chosen(fleet, kind)
    slow = {(each.node, each.quantity) for each in fleet.slow if each.confirmed is not False}
    rows = []
    for node in fleet.nodes:
        if node.kind != kind:
            continue
        cells = []
        for each in shown:
            value = each.values.get(node.name)
            mark = " ◂" if (node.name, each.name) in slow else ""
            cells.append(UNKNOWN if value is None else f"{si(value, each.unit)}{mark}")
        rows.append((node.name, *cells))
    more = sum(each.kind == kind for each in fleet.quantities) - len(shown)
    notes = ["◂ stands apart."] if any(name in {one.name for one in shown} for _, name in slow) else []
    notes += [f"{more} more quantities: the files have all."] if more else []
    title = f"Nodes: {kind}" if several else "Nodes"
    return Table(title, ("node", *(each.name for each in shown)), tuple(rows), note=" ".join(notes))


def _quantities(fleet: Fleet) -> Table:
    several = len(kinds(fleet)) > 1
    rows = []
    for each in fleet.quantities:
        last = min(each.values, key=each.speed)
        shares = [share for node in each.values if (share := each.of_theory(node)) is not None]
        rows.append(
            (
                each.name,
                each.kind if several else UNKNOWN,
                str(len(each.values)),
                si(each.median, each.unit),
                UNKNOWN if each.spread is None else percent(each.spread, 1),
                last if len(each.values) > 1 else UNKNOWN,
                percent(each.speed(last)) if len(each.values) > 1 else UNKNOWN,
                _range(shares),
            )
        )
    columns = ("quantity", "of", "nodes", "median", "scatter", "slowest", "its speed", "of theory")
    note = "Scatter: robust standard deviation over the median. Speed: against the median, for latencies too."
    note = note if any(len(each.values) > 1 for each in fleet.quantities) else ""
    return without_empty("Quantities", columns, rows, words=2, note=note)


def _range(shares: list[float]) -> str:
    texts = list(dict.fromkeys(percent(share) for share in (min(shares), max(shares)))) if shares else [UNKNOWN]
    return " to ".join(texts)


def lines(fleet: Fleet) -> Lines:
    """A line for each node and quantity, in base units; unknown is empty."""
    slow = {(each.node, each.quantity): each for each in fleet.slow}
    rows = []
    for each in fleet.quantities:
        for node, value in each.values.items():
            found = slow.get((node, each.name))
            rows.append(
                (
                    node,
                    each.kind,
                    each.name,
                    each.unit,
                    each.better,
                    value,
                    each.median,
                    each.speed(node),
                    each.spread,
                    each.cutoff,
                    each.theory.get(node),
                    found is not None and found.confirmed is not False,
                    None if found is None else found.again,
                )
            )
    return Lines(
        (
            "node",
            "kind",
            "quantity",
            "unit",
            "better",
            "value",
            "median",
            "speed",
            "spread",
            "cutoff",
            "theory",
            "slow",
            "again",
        ),
        rows,
    )
