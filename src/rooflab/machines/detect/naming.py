"""The microarchitecture's name, by the identity fields that its row of microarchitectures.toml matches."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rooflab.machines.detect.cpu import Identity
from rooflab.machines.detect.host import CoreKind

TABLE = Path(__file__).parents[1] / "data" / "microarchitectures.toml"


@cache
def read_table(path: Path = TABLE) -> tuple[Mapping[str, Any], ...]:
    """The rows of the table as plain dictionaries; `rooflab.machines.microarchitecture` checks them."""
    with path.open("rb") as file:
        return tuple(tomllib.load(file)["microarchitecture"])


def microarchitecture_name(
    identity: Identity, kind: CoreKind | None = None, rows: Iterable[Mapping[str, Any]] | None = None
) -> str | None:
    """The name of the first row that fits `identity` (and `kind`, where the row is of one); None if none does."""
    for row in read_table() if rows is None else rows:
        if any(_fits(match, identity, kind) for match in row["match"]):
            return row["name"]
    return None


def _fits(match: Mapping[str, Any], identity: Identity, kind: CoreKind | None) -> bool:
    """Whether every field that `match` names agrees; an unknown field of the identity never does.

    A list holds the values, or [first, last] pairs, that fit. "kind" is left open for a CPU of no kind
    only where it says "P": a guest that sees one kind of core of a hybrid part most likely sees that.
    """
    for key, wanted in match.items():
        if key == "kind":
            if (kind or "P") != wanted:
                return False
        elif key == "brand":
            if identity.name is None or not re.search(wanted, identity.name):
                return False
        elif key == "vendor":
            if identity.vendor != wanted:
                return False
        elif not _among(getattr(identity, key), wanted):
            return False
    return True


def _among(value: int | None, wanted: int | list[Any]) -> bool:
    if value is None:
        return False
    for one in wanted if isinstance(wanted, list) else [wanted]:
        low, high = one if isinstance(one, list) else (one, one)
        if low <= value <= high:
            return True
    return False
