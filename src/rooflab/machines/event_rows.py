"""The rows of data/events.toml: which events of which CPUs count FLOP and bytes of memory, and who says so."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import msgspec

TABLE = Path(__file__).with_name("data") / "events.toml"


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events that belong together, as the table has them (its head says what the keys mean)."""

    source: str
    microarchitectures: tuple[str, ...] = ()
    devices: str = "cpu"
    kernel_events: tuple[str, ...] = ()
    events: tuple[dict[str, str | int], ...] = ()
    each: int = 64
    leaves_out: str = ""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table."""

    flop: tuple[Row, ...]
    memory: tuple[Row, ...]
    bound: tuple[Row, ...]


@cache
def table(path: Path = TABLE) -> Table:
    """The rows, checked.

    Raises:
        msgspec.ValidationError: an unknown key, or a value of the wrong type.
    """
    return msgspec.convert(tomllib.loads(path.read_text("utf-8")), Table)
