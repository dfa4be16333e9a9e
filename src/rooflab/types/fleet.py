"""The answer to "which of these machines is slow?": every node measured and held against the others."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from rooflab.errors import UnknownNameError
from rooflab.types.machine import Machine
from rooflab.types.result import Result, convert

SCHEMA = 1

Better = Literal["more", "less"]


class FleetNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node of a fleet.

    Attributes:
        name: of the host; with the worker where several of one host were measured.
        host: what tells one host from another: the boot id of its kernel, else its name.
        worker: that measured it; None where nothing tells.
        kind: nodes of one kind, which are held against each other: the processor and how many cores were granted.
        machine: as it was measured; None where that failed.
        again: the same once more, where it looked slow.
        failed: why there is no measurement, or no second one, in a sentence.
        tries: how often it was begun: 2 where a worker was lost.
    """

    name: str
    host: str = ""
    worker: str | None = None
    kind: str | None = None
    machine: Machine | None = None
    again: Machine | None = None
    failed: str | None = None
    tries: int = 1


class FleetQuantity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One quantity over the nodes of one kind.

    Attributes:
        name: "DRAM read, all cores".
        unit: "B/s", "FLOP/s", "OP/s", "s", "Hz".
        better: "more" for speeds, "less" for times.
        kind: of its nodes.
        values: by the names of the nodes that have it.
        theory: what each node's own theory allows, where it is known.
        median: of the values.
        spread: their robust standard deviation over the median (Qn of the logarithms); None for fewer than five.
        cutoff: from how many of those below the median on a node stands apart; None for fewer than five.
    """

    name: str
    unit: str
    better: Better
    kind: str
    values: dict[str, float]
    theory: dict[str, float] = {}
    median: float
    spread: float | None = None
    cutoff: float | None = None

    def speed(self, node: str) -> float:
        """How fast `node` is in this, the median being 1; below 1 is slower, for times too."""
        value = self.values[node]
        return value / self.median if self.better == "more" else self.median / value

    def of_theory(self, node: str) -> float | None:
        """The share of its own theory that `node` attains; None where that is not known."""
        theory = self.theory.get(node)
        return None if theory is None else self.values[node] / theory


class Slow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node that stands apart in one quantity, with the evidence.

    Attributes:
        node, quantity: their names; `kind` of both.
        value, median: of the node, and of all of its kind.
        speed: the node's against the median: 0.6 is 60 % as fast.
        deviations: how many robust standard deviations below the median; None where these are 0.
        cutoff: from how many on a node stands apart.
        again: speed in a second measurement; None without one.
        confirmed: whether the second one says the same; None without one.
        of_theory, usual_of_theory: the share of theory that the node attains, and the median of the others.
    """

    node: str
    quantity: str
    kind: str
    value: float
    median: float
    speed: float
    deviations: float | None
    cutoff: float
    again: float | None = None
    confirmed: bool | None = None
    of_theory: float | None = None
    usual_of_theory: float | None = None


class Fleet(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every node of a fleet, measured and held against the others.

    Attributes:
        name: how many nodes, and what was found.
        where: the workers that measured.
        nodes: in the order of their names.
        quantities: of each kind of node, those that at least two nodes have, or one with its theory.
        slow: nodes that stand apart, most first; those that a second measurement did not confirm come last.
        verdict: what follows, in sentences.
        quick: whether the measurements were quick ones.
        date: when it began (ISO, UTC).
        notes: conventions, and what could not be told.
    """

    NEWEST = SCHEMA
    WHAT = "a fleet"

    name: str
    where: str
    nodes: tuple[FleetNode, ...]
    quantities: tuple[FleetQuantity, ...] = ()
    slow: tuple[Slow, ...] = ()
    verdict: tuple[str, ...] = ()
    quick: bool = False
    date: str
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA

    def __getitem__(self, name: str) -> FleetNode:
        """The node of that name.

        Raises:
            UnknownNameError: no such node, with near matches.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise UnknownNameError("node", name, [node.name for node in self.nodes])

    @property
    def failed(self) -> tuple[FleetNode, ...]:
        """Nodes of which there is no measurement."""
        return tuple(node for node in self.nodes if node.machine is None)

    @property
    def suspects(self) -> tuple[str, ...]:
        """Names of the nodes that stand apart, without those that a second measurement clears."""
        return tuple(dict.fromkeys(each.node for each in self.slow if each.confirmed is not False))

    def _summary(self) -> str:
        return self.name

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Fleet:
        """The fleet that `to_dict` was called on (see `Result.from_dict`)."""
        return convert(cls, raw)
