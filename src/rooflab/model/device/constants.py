"""The few constants of a machine family: what real kernels lose, each with its meaning and source.

One data file per family. A family may be `like` another one: what it does not state is taken from there
in physical units (clocks, bytes, shares of a peak), so that it scales with the card, and its error bars
are `wider`.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable
from importlib import resources
from typing import Any

import msgspec

from rooflab.errors import RooflabError, UnknownNameError, squash
from rooflab.types.constants import Constant, Constants
from rooflab.types.machine import Machine, Source
from rooflab.units import parse_any


def constants_of(machine: Machine) -> Constants:
    """The constants of the family that `machine` belongs to, by its names, else by vendor and year, else kind."""
    names = [squash(name) for name in (machine.name, *machine.aliases)]
    families = [load_family(name) for name in family_names()]
    best, length = None, 0
    for family in families:
        if machine.kind == "cpu" and family.kind != "cpu":  # the cores of a chip whose GPU is of that family
            continue
        for member in map(squash, family.members):
            # The longest member wins: "rtx5070ti" before "rtx".
            if len(member) > length and any(member in name for name in names):
                best, length = family, len(member)
    if best is not None:
        return best
    for family in families:
        if family.kind == machine.kind and family.vendor == machine.vendor and _in_years(family, machine.year):
            return msgspec.structs.replace(family, wider=family.wider * _UNLISTED)
    for family in families:
        if family.kind == machine.kind and family.vendor is None:
            return family
    return load_family("any")


def _in_years(family: Constants, year: int | None) -> bool:
    return year is not None and family.years is not None and family.years[0] <= year <= family.years[1]


_UNLISTED = 1.3  # a card that no family names: its family is a guess by vendor and year


def family_names() -> tuple[str, ...]:
    """The families that have a data file."""
    folder = resources.files("rooflab.model") / "data"
    return tuple(sorted(each.name[:-5] for each in folder.iterdir() if each.name.endswith(".toml")))


@functools.cache
def load_family(family: str) -> Constants:
    """The constants of `family`, with what it takes from the family that it is `like`.

    Raises:
        UnknownNameError: no such family.
        RooflabError: a constant without a source or a meaning.
    """
    if family not in family_names():
        raise UnknownNameError("machine family", family, family_names())
    path = resources.files("rooflab.model") / "data" / f"{family}.toml"
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    return constants_from_dict(raw, f"{family}.toml")


_HEAD = ("family", "members", "kind", "vendor", "years", "like", "wider")


def constants_from_dict(raw: dict[str, Any], where: str) -> Constants:
    """The constants in the tables of a family's data file; `where` names it in errors."""
    head = {name: raw.pop(name, None) for name in _HEAD}
    sources = {name: msgspec.convert(each, Source) for name, each in raw.pop("sources", {}).items()}
    values = dict(load_family(head["like"]).values) if head["like"] else {}
    for topic, name, entry in _flat(raw):
        if not isinstance(entry, dict) or not {"value", "meaning", "source"} <= entry.keys():
            raise RooflabError(f"{where}: {topic}.{name} needs a value, a meaning and a source, got {entry!r}")
        if entry["source"] not in sources:
            raise UnknownNameError(f"source of {where}, {topic}.{name}", entry["source"], sorted(sources))
        values[f"{topic}.{name}"] = Constant(
            value=_number(entry["value"]),
            meaning=entry["meaning"],
            source=sources[entry["source"]],
            fitted=entry.get("fitted", False),
        )
    return Constants(
        family=head["family"] or where,
        members=tuple(head["members"] or ()),
        kind=head["kind"] or "gpu",
        vendor=head["vendor"],
        years=tuple(head["years"]) if head["years"] else None,
        wider=head["wider"] or 1.0,
        values=values,
    )


def _flat(raw: dict[str, Any]) -> Iterable[tuple[str, str, Any]]:
    for topic, table in raw.items():
        for name, entry in table.items():
            yield topic, name, entry


def _number(value: Any) -> float | list[float]:
    if isinstance(value, list):
        return [_one(each) for each in value]
    return _one(value)


def _one(value: Any) -> float:
    return float(parse_any(value)[0]) if isinstance(value, str) else float(value)
