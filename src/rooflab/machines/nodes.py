"""One device of a node, with the links that the node gives it; how many there are."""

from __future__ import annotations

import msgspec

from rooflab.errors import RooflabError
from rooflab.machines import catalog
from rooflab.types.machine import Machine

_DEVICES = ("GPU", "TPU", "accelerator")


def device_in(machine: Machine) -> tuple[Machine, int | None]:
    """One device of `machine`, and how many of them it has; `machine` itself and None where it is no system.

    The device is that of the catalogue which the system names, with the system's own links in place of its own: a
    card in a PC reaches its like through the host, the same card on a board through its switch.

    Raises:
        RooflabError: a system that does not say what its devices are.
    """
    if machine.kind != "system":
        return machine, None
    for part in machine.parts:
        if part.machine is not None and part.name in _DEVICES:
            device = catalog.named(part.machine)
            links = tuple(link for link in machine.links if link.each_way_bytes_per_s) or device.links
            return msgspec.structs.replace(device, links=links), part.count
    raise RooflabError(
        f"{machine.name}: a system that names no device of the catalogue, expected [[parts]] with name = "
        f'"GPU", count and machine = "h100-sxm" or another of `rooflab machine` (see docs/machine-file.md)'
    )
