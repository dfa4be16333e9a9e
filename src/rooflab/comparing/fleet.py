"""Nodes of a fleet held against each other: which stands apart in what, by how much, and what may be behind it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

import msgspec

from rooflab.comparing import robust
from rooflab.machines.fleet.quantities import Value, quantities
from rooflab.types.fleet import Fleet, FleetNode, FleetQuantity, Slow
from rooflab.types.machine import Machine
from rooflab.units import percent, si

MATTERS = 0.05  # slower by less than that is not told, however little the others scatter
_MOST = 0.6  # of its quantities, from where it is said that all of a node is slow
# What is told first of a node that is slow in several quantities.
KEEN = ("DRAM read, all cores", "clock under load", "fp64 peak, all cores", "fp32 peak, all cores", "DRAM latency")
_OTHERS = 0.1  # of its cores that other work may take and go unsaid


def judged(
    nodes: Sequence[FleetNode], where: str, date: str, *, quick: bool = False, notes: Sequence[str] = ()
) -> Fleet:
    """The fleet of `nodes`: those of one kind held against each other, quantity by quantity.

    A node stands apart where it is slower than the median by `MATTERS` and by more robust standard deviations than
    1 % of healthy fleets of its size have in a quantity (`robust.cutoff`), of the logarithms. Where it was
    measured again, that must say the same.
    """
    measured = {node.name: quantities(node.machine) for node in nodes if node.machine is not None}
    kinds: dict[str, list[FleetNode]] = {}
    for node in nodes:
        if node.kind is not None and node.machine is not None:
            kinds.setdefault(node.kind, []).append(node)
    held = [
        quantity
        for kind, several in kinds.items()
        for quantity in _quantities(kind, {node.name: measured[node.name] for node in several})
    ]
    again = {node.name: quantities(node.again) for node in nodes if node.again is not None}
    slow = sorted(
        (each for quantity in held for each in _slow(quantity, again)),
        key=lambda each: (each.confirmed is False, each.speed),
    )
    fleet = Fleet(
        name="",
        where=where,
        nodes=tuple(nodes),
        quantities=tuple(held),
        slow=tuple(slow),
        quick=quick,
        date=date,
        notes=(*notes, *_notes(kinds)),
    )
    return msgspec.structs.replace(fleet, name=_name(fleet, kinds), verdict=tuple(_verdict(fleet, kinds)))


def _quantities(kind: str, measured: dict[str, dict[str, Value]]) -> list[FleetQuantity]:
    """The quantities that nodes of one kind have, in reading order."""
    names = dict.fromkeys(name for one in measured.values() for name in one)
    found = []
    for name in names:
        values = {node: one[name] for node, one in measured.items() if name in one and one[name].value > 0}
        if not values:
            continue
        first = next(iter(values.values()))
        numbers = [each.value for each in values.values()]
        enough = len(values) >= robust.LEAST
        found.append(
            FleetQuantity(
                name=name,
                unit=first.unit,
                better=first.better,
                kind=kind,
                values={node: each.value for node, each in values.items()},
                theory={node: each.theory for node, each in values.items() if each.theory is not None},
                median=statistics.median(numbers),
                spread=robust.scale([math.log(number) for number in numbers]) if enough else None,
                cutoff=robust.cutoff(len(values)) if enough else None,
            )
        )
    return found


def _slow(quantity: FleetQuantity, again: dict[str, dict[str, Value]]) -> list[Slow]:
    """The nodes that stand apart in `quantity`."""
    if quantity.cutoff is None or quantity.spread is None:
        return []
    found = []
    for node, value in quantity.values.items():
        speed = quantity.speed(node)
        if not _apart(speed, quantity):
            continue
        second = again.get(node, {}).get(quantity.name)
        repeated = None
        if second is not None and second.value > 0:
            ratio = second.value / quantity.median
            repeated = ratio if quantity.better == "more" else 1 / ratio
        others = [
            share for each in quantity.theory if each != node and (share := quantity.of_theory(each)) is not None
        ]
        found.append(
            Slow(
                node=node,
                quantity=quantity.name,
                kind=quantity.kind,
                value=value,
                median=quantity.median,
                speed=speed,
                deviations=_deviations(speed, quantity),
                cutoff=quantity.cutoff,
                again=repeated,
                confirmed=None if repeated is None else _apart(repeated, quantity),
                of_theory=quantity.of_theory(node),
                usual_of_theory=statistics.median(others) if others else None,
            )
        )
    return found


def _deviations(speed: float, quantity: FleetQuantity) -> float | None:
    """How many robust standard deviations of the logarithm below the median; None where all others are equal."""
    return -math.log(speed) / quantity.spread if quantity.spread else None


def _apart(speed: float, quantity: FleetQuantity) -> bool:
    deviations = _deviations(speed, quantity)
    assert quantity.cutoff is not None
    return speed < 1 - MATTERS and (deviations is None or deviations > quantity.cutoff)


def _name(fleet: Fleet, kinds: dict[str, list[FleetNode]]) -> str:
    count = f"{len(fleet.nodes)} node{'s' if len(fleet.nodes) != 1 else ''}"
    failed = f", {len(fleet.failed)} not measured" if fleet.failed else ""
    if fleet.suspects:
        return f"{count}: {len(fleet.suspects)} slow{failed}"
    enough = any(len(nodes) >= robust.LEAST for nodes in kinds.values())
    return f"{count}: {'none stands apart' if enough else 'too few to tell a slow one'}{failed}"


def _verdict(fleet: Fleet, kinds: dict[str, list[FleetNode]]) -> list[str]:
    """What follows: each slow node with its evidence, what was cleared, and what cannot be told."""
    lines = [_node_sentence(fleet, name) for name in fleet.suspects]
    for each in fleet.slow:
        if each.confirmed is False and each.node not in fleet.suspects:
            lines.append(
                f"{each.node} looked slow in {each.quantity} ({percent(each.speed)} of the median) and was not "
                "when "
                f"measured again ({percent(each.again)}): not held against it."
            )
    for kind, nodes in kinds.items():
        held = [each for each in fleet.quantities if each.kind == kind]
        if len(nodes) < robust.LEAST:
            lines.append(_too_few(nodes, held))
        elif not any(each.kind == kind and each.confirmed is not False for each in fleet.slow):
            widest = max((each for each in held if each.spread is not None), key=lambda each: each.spread or 0.0)
            lines.append(
                f"None of the {len(nodes)} nodes of {kind} stands apart in any of {len(held)} quantities; they "
                f"scatter most in {widest.name} (±{percent(widest.spread, 1)})."
            )
    lines += [f"{node.name} was not measured: {node.failed}." for node in fleet.failed]
    return lines


def _node_sentence(fleet: Fleet, name: str) -> str:
    """A slow node: its slowest quantity with the evidence, how many more, and what may be behind it."""
    found = [each for each in fleet.slow if each.node == name and each.confirmed is not False]
    worst = min(found, key=lambda each: (each.quantity not in KEEN, each.speed))
    evidence = [f"{percent(worst.speed)} of the median's speed"]
    if worst.deviations is not None:
        evidence.append(f"{worst.deviations:.1f} robust standard deviations below it, limit {worst.cutoff:.1f}")
    if worst.again is not None:
        evidence.append(f"measured again {percent(worst.again)}")
    if worst.of_theory is not None and worst.usual_of_theory is not None:
        evidence.append(
            f"{percent(worst.of_theory)} of its own theory, the others {percent(worst.usual_of_theory)}"
        )
    more = f", and slow in {len(found) - 1} more" if len(found) > 1 else ""
    sentence = f"{name} is slow in {worst.quantity}: {'; '.join(evidence)}{more}."
    return " ".join(filter(None, (sentence, _cause(fleet, name, {each.quantity for each in found}))))


def _cause(fleet: Fleet, name: str, slow: set[str]) -> str:
    """What the pattern of what is slow, and what is not, points to; "" where it points nowhere."""
    machine = fleet[name].machine
    has = {each.name for each in fleet.quantities if name in each.values}
    others = _others(fleet, name, machine)
    if others:
        return others
    if "clock under load" in slow:
        return "Its clock is low: a power limit, temperature, the governor, or a share of a busy host."
    if len(has) > 1 and len(slow) >= _MOST * len(has):
        return "All of it is: throttled, or not alone on its host."
    for rule, says in _PATTERNS:
        if all(rule(each) for each in slow):
            return says
    return ""


_PATTERNS: tuple[tuple[Callable[[str], bool], str], ...] = (
    (
        lambda name: name.startswith("node ") or "core to core" in name,
        "Only links between its nodes or cores are: look at the link, and at where its memory lies.",
    ),
    (
        lambda name: name.startswith(("DRAM", "HBM", "memory")),
        "Only its memory is: a channel that is missing or slower, its NUMA settings, or other work on it.",
    ),
    (
        lambda name: name.startswith(("disk", "page cache", "files in memory")),
        "Only its storage is: a worn or a busy drive.",
    ),
    (
        lambda name: "all cores" in name or "threads" in name,
        "Only with all cores at once: a power limit, a cache that others share, or a core that is not its own.",
    ),
    (lambda name: " product, " in name or name.endswith(" call"), "Only libraries are: another build or setting."),
)


def _others(fleet: Fleet, name: str, machine: Machine | None) -> str:
    """Whether other work ran on the node while it was measured, and not on the others."""

    def share(one: Machine | None) -> float | None:
        value = None if one is None else one.environment.get("others_share")
        return float(value) if isinstance(value, (int, float)) else None

    mine = share(machine)
    rest = [each for node in fleet.nodes if node.name != name and (each := share(node.machine)) is not None]
    if mine is None or not rest or mine < _OTHERS or mine < 2 * statistics.median(rest):
        return ""
    return (
        f"Other work took {percent(mine)} of its cores meanwhile (the others' median: "
        f"{percent(statistics.median(rest))}): "
        "measure it again when it is idle."
    )


def _too_few(nodes: Sequence[FleetNode], held: Sequence[FleetQuantity]) -> str:
    """What can be said of fewer than five: how far they lie from each other."""
    kind = nodes[0].kind
    if len(nodes) == 1:
        return f"{nodes[0].name} is the only node of {kind}: there is nothing to hold it against but its theory."
    shared = [each for each in held if len(each.values) > 1]
    if not shared:
        return f"{len(nodes)} nodes of {kind} share no quantity."
    ratios = {each.name: max(each.values.values()) / min(each.values.values()) for each in shared}
    name = max(ratios, key=lambda each: ratios[each])
    most = next(each for each in shared if each.name == name)
    last = min(most.values, key=most.speed)
    text = si(most.values[last], most.unit)
    return (
        f"{len(nodes)} nodes of {kind}: among fewer than {robust.LEAST}, which of them is off cannot be told from "
        f"their scatter. They differ most in {name}: {ratios[name]:.2f} × between the fastest and {last} ({text})."
    )


def _notes(kinds: dict[str, list[FleetNode]]) -> list[str]:
    lines = [
        f"a node stands apart where it is slower than the median by {percent(MATTERS)} and by more robust "
        "standard "
        "deviations (Qn, of logarithms) than all but 1 % of healthy fleets of that size show in a quantity"
    ]
    if len(kinds) > 1:
        lines.append(f"{len(kinds)} kinds of nodes, each held against its own: {'; '.join(kinds)}")
    return lines
