"""What an environment grants to rooflab and what it lacks, each with what that means and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from rooflab.errors import UnknownNameError
from rooflab.types.result import Result, convert

Status = Literal["ok", "limited", "missing", "unknown"]
STATUSES: tuple[Status, ...] = ("ok", "limited", "missing", "unknown")


class Grant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that an environment grants or lacks.

    Attributes:
        topic: what it belongs to: "counters", "processor", "memory", "system", "libraries", "GPUs", "tools".
        name: of the thing, the same on every machine.
        status: "ok"; "limited" where it is there in part; "missing"; "unknown" where nothing tells, which is
            never taken for "ok".
        found: what was found, in words.
        means: what that means for rooflab; empty where nothing follows.
        todo: what to do about it; empty where there is nothing to do.
        source: where it was read, or how it was tried.
        values: the numbers behind it by names that end in the unit; None is unknown.
        stops: whether rooflab itself cannot work so.
    """

    topic: str
    name: str
    status: Status
    found: str
    means: str = ""
    todo: str = ""
    source: str = ""
    values: Mapping[str, bool | int | float | str | None] = {}
    stops: bool = False


class Checkup(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an environment grants and lacks.

    It holds no names of users or hosts, and of paths none but the system's own: it can be shown to others.

    Attributes:
        rooflab, python: versions.
        system: operating system, with its kernel's release.
        processor: as the system names it; None where it does not.
        grants: a line for each thing that was looked at, by topic.
        quick: whether libraries and tools were only looked for, not tried.
        took_s: how long the checkup took.
        date: of the checkup (ISO, UTC).
    """

    WHAT = "a checkup"
    DERIVED = ("works",)

    rooflab: str
    python: str
    system: str
    processor: str | None = None
    grants: tuple[Grant, ...]
    quick: bool = False
    took_s: float
    date: str
    schema: int = 1

    @property
    def works(self) -> bool:
        """Whether rooflab itself works here."""
        return not any(each.stops for each in self.grants)

    @property
    def name(self) -> str:
        """What was found, in a few words."""
        return f"rooflab {self.rooflab} {'works' if self.works else 'cannot work'} here"

    def of(self, *statuses: Status) -> tuple[Grant, ...]:
        """The grants that have one of `statuses`, in order.

        Raises:
            UnknownNameError: no such status.
        """
        for each in statuses:
            if each not in STATUSES:
                raise UnknownNameError("status", str(each), STATUSES)
        return tuple(each for each in self.grants if each.status in statuses)

    def grant(self, name: str) -> Grant:
        """The grant called `name`.

        Raises:
            UnknownNameError: no such name, with near matches.
        """
        for each in self.grants:
            if each.name == name:
                return each
        raise UnknownNameError("grant", name, (each.name for each in self.grants))

    def _summary(self) -> str:
        return f"{self.name}: {', '.join(f'{len(self.of(each))} {each}' for each in STATUSES)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers; `works`, which follows from the grants, is said too."""
        return {**super().to_dict(), "works": self.works}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Checkup:
        """The checkup that `to_dict` was called on (see `Result.from_dict`)."""
        return convert(cls, raw)
