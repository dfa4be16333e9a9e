"""How each engine's scheduler works by default: read from its data file."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Any, NamedTuple

import msgspec

from rooflab.errors import RooflabError
from rooflab.types.source import Source


class Scheduler(NamedTuple):
    """What an engine's scheduler does on a device; see `events.Rules` for each."""

    token_budget: int
    most_sequences: int
    block_tokens: int
    chunked: bool
    reserve: bool
    source: Source
    wait_steps: int = 0
    wait_tokens: int = 0


def scheduler(
    engine: str,
    memory_bytes: float | None,
    device: str = "",
    *,
    token_budget: int | None = None,
    most_sequences: int | None = None,
) -> Scheduler:
    """The scheduler of the engine whose data file is `engine`, on a device with so much memory.

    Args:
        engine: "vllm", "sglang", …
        memory_bytes: of the device; None takes what the smallest have.
        device: its name: some engines take the defaults of the smallest for some that are not.
        token_budget, most_sequences: of a step, where the user says so.

    Raises:
        RooflabError: a number below 1, or an engine without a scheduler's entry.
    """
    for name, value in (("step tokens", token_budget), ("sequences", most_sequences)):
        if value is not None and value < 1:
            raise RooflabError(f"{name}: got {value}, expected a whole number above 0")
    table = _table()
    if engine not in table:
        raise RooflabError(f"{engine}: no entry in schedulers.toml")
    row = table[engine]
    if any(word in device for word in row.get("as_smallest", ())):
        memory_bytes = None
    return Scheduler(
        token_budget=token_budget or _of(row["tokens"], memory_bytes),
        most_sequences=most_sequences or _of(row["sequences"], memory_bytes),
        block_tokens=row["block_tokens"],
        chunked=row["chunked"],
        reserve=row["reserve"],
        source=msgspec.convert(table["sources"][row["source"]], Source),
    )


def _of(by_gigabytes: dict[str, int], memory_bytes: float | None) -> int:
    held = 0.0 if memory_bytes is None else memory_bytes / 1e9
    return max((int(least), value) for least, value in by_gigabytes.items() if int(least) <= held)[1]


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads(
        (resources.files("rooflab.model.serving") / "schedulers.toml").read_text(encoding="utf-8")
    )
