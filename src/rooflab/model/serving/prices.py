"""What an hour of each device costs: from a mapping, or a file of the user's."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from rooflab.errors import FileError, RooflabError, UnknownNameError, squash
from rooflab.machines import catalog
from rooflab.machines.nodes import device_in
from rooflab.types.machine import Machine


def of_devices(
    given: Mapping[str, float] | str | PathLike[str] | None, machines: Sequence[Machine]
) -> tuple[dict[str, float] | None, str]:
    """The price of an hour of each device by its name, and the currency in words; None where none is given.

    A name may be that of a device, or of one of the `machines`: a node's price is shared out over its devices.

    Raises:
        FileError: a file that cannot be read, or holds no prices.
        RooflabError: no number above 0, or a machine without a price.
        UnknownNameError: a name that is none of the machines'.
    """
    if given is None:
        return None, ""
    table, currency = (given, "") if isinstance(given, Mapping) else _read(Path(given))
    devices = {machine.name: device_in(machine) for machine in machines}
    found: dict[str, float] = {}
    for name, price in table.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not price > 0:
            raise RooflabError(f"price of {name}: got {price!r}, expected a number above 0 for an hour")
        device, share = _meant(name, machines, devices)
        found[device] = price / share
    missing = [device.name for device, _ in devices.values() if device.name not in found]
    if missing:
        raise RooflabError(f"no price of {', '.join(missing)}: expected one of every machine, or none at all")
    return found, currency


def _meant(
    name: str, machines: Sequence[Machine], devices: Mapping[str, tuple[Machine, int | None]]
) -> tuple[str, int]:
    """The device that `name` means, and over how many the price goes."""
    try:
        full = catalog.find(name).name
    except RooflabError:
        full = name
    for machine in machines:
        device, count = devices[machine.name]
        if squash(full) in (squash(machine.name), *map(squash, machine.aliases)):
            return device.name, count or 1
        if squash(full) == squash(device.name):
            return device.name, 1
    known = [each for machine in machines for each in (machine.name, devices[machine.name][0].name)]
    raise UnknownNameError("machine with a price", name, known)


def _read(path: Path) -> tuple[dict[str, Any], str]:
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: not valid TOML: {error}") from None
    prices = raw.get("prices")
    if not isinstance(prices, dict) or not prices:
        raise FileError(f'{path}: no table of prices, expected [prices] with lines such as "h100-sxm" = 2.5')
    return prices, str(raw.get("currency", ""))
