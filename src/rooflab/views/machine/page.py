"""One HTML page that shows a machine: its roofline, the curves behind it, tables, checks, sources."""

from __future__ import annotations

from rooflab.remedies import machines
from rooflab.types.machine import Machine
from rooflab.views.common import advice as helping
from rooflab.views.common import page
from rooflab.views.machine import curves, roofline, tables, topology

_DRAWINGS = (
    page.Drawing("Roofline", roofline.roofline, (460, 330)),
    page.Drawing("Bandwidth over working set", curves.bandwidth, (340, 280)),
    page.Drawing("Latency over working set", curves.latency, (340, 280)),
    page.Drawing("Thread scaling", curves.scaling, (220, 200)),
)


def html(machine: Machine) -> str:
    """The page of `machine`: charts, tables, failed checks first, environment and sources.

    A system or a storage device may have no roofline: its page has the tables.
    """
    return page.render(
        machine.name,
        "roofs",
        heading=f"What {machine.name} can do",
        facts=tables.facts(machine),
        charts=page.charts(machine, _DRAWINGS),
        pictures=topology.pictures(machine),
        ridge=tables.ridge_sentence(machine),
        tables=tables.every(machine),
        checks=machine.checks,
        environment=tables.environment(machine),
        sources=machine.sources,
        advice=helping.cards(helping.said(machines.advise(machine))),
    )
