"""What differs between results? Each is loaded where it is a file, then all are held against the first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.types.comparison import Comparison
    from rooflab.types.machine import Machine
    from rooflab.types.result import Result


def compare(
    *results: Result | str | PathLike[str],
    fail_if: str | Iterable[str] = (),
    per_sample: bool | None = None,
    names: Sequence[str] | None = None,
    machine: Machine | str | PathLike[str] | None = None,
) -> Comparison:
    """What differs between results: totals, operations matched, the change of time by cause.

    Args:
        results: two or more, the first being what the others are held against: reports, profiles, loops, machines,
            simulations, sweeps of tiles, transfers, or files of them; a report may stand beside a profile of the
            same program. `Variants` and `Profiles` stand for all that they hold, "FILE#NAME" for one of these. A
            name of the catalogue is a machine.
        fail_if: conditions, such as "time>+5%" or "op:aten.mm time>+10us" (docs/comparing.md): `gates` says which
            hold, `ok` whether none does.
        per_sample: whether times and counts are divided by how many samples each side takes, by the first size of
            its program's inputs; by default where these differ.
        names: what each is called, instead of its file's name or its own.
        machine: that profiles were recorded on, where their files do not say.

    Raises:
        FileError: a file that cannot be read.
        RooflabError: one result alone, kinds that do not go together, nothing in common, an unknown metric or
            operation in a condition.
    """
    from rooflab.comparing.compared import compared

    found: list[tuple[str, Result]] = []
    for one in results:
        found += _named(one, machine)
    if names is not None:
        if len(names) != len(found):
            raise RooflabError(f"compare: {len(names)} names and {len(found)} results, expected as many")
        found = [(name, result) for name, (_, result) in zip(names, found, strict=True)]
    conditions = [fail_if] if isinstance(fail_if, str) else list(fail_if)
    return compared(found, conditions, per_sample)


def _named(
    one: Result | str | PathLike[str], machine: Machine | str | PathLike[str] | None
) -> list[tuple[str, Result]]:
    """The results that `one` stands for, each with its name."""
    from rooflab.story.files import load
    from rooflab.types.profiles import Profiles
    from rooflab.types.variants import Variants

    member, name = "", ""
    if isinstance(one, str | PathLike):
        text = os.fspath(one)
        if not os.path.exists(text) and "#" in text:
            text, _, member = text.rpartition("#")
        name = Path(text).name
        one = _catalogued(text) or load(text, machine=machine)
    if isinstance(one, Variants):
        held = dict(zip(one.names, one.reports, strict=True))
        return [(member, one[member])] if member else list(held.items())
    if isinstance(one, Profiles):
        return [(member, one[member])] if member else [(each.name, each) for each in one.profiles]
    if member:
        raise RooflabError(
            f"{name}#{member}: a {type(one).__name__} has no members; expected the file's name alone"
        )
    return [(name or str(getattr(one, "name", type(one).__name__)), one)]


def _catalogued(text: str) -> Machine | None:
    """The machine of the catalogue that `text` names; None where it is a file or looks like one."""
    from rooflab.story.machines import machine

    return None if os.path.exists(text) or os.sep in text or Path(text).suffix else machine(text)
