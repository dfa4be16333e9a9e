"""The answer to "what did this command do to the machine?": its time, its use of the system, what was counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec

from rooflab.types.result import Result, convert
from rooflab.types.usage import Meanwhile, Usage
from rooflab.units import duration

if TYPE_CHECKING:
    from rooflab.types.profile import Profile
    from rooflab.types.profiles import Profiles

SCHEMA = 1

Way = Literal["waiting", "one core", "some cores", "all cores"]


class Count(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One event as `perf stat` counted it.

    Attributes:
        event: as perf names it.
        value: None where it was not counted.
        unit: of the value where perf scaled it; "" for a plain count.
        running: share of the time in which it was counted; the value is extrapolated below 1.
        run: which execution of the command counted it, from 1 on.
    """

    event: str
    value: float | None
    unit: str = ""
    running: float = 1.0
    run: int = 1


class Run(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command that was run and watched.

    Attributes:
        command: the words of it.
        usage: of each execution, in order.
        exit_code: of the last one; 128 + n where signal n killed it.
        signal: that killed it ("SIGKILL"); None where none did.
        granted_cores: that it might use.
        way: how it used them; None where the command was too short to say.
        verdict: what these numbers allow to say, in sentences.
        meanwhile: what else happened on the machine.
        counts: events of the CPU, where they could be opened.
        profile: what the counters, or a framework's profiler, say of it, held against the machine; None without.
        profiles: the same of several ranks.
        lacks: what could not be found out, and how to get it, in sentences.
        notes: conventions and doubts.
    """

    NEWEST = SCHEMA
    WHAT = "a run of a command"
    DERIVED = ("time_s", "cores")
    LATE: ClassVar = {"Profile": "rooflab.types.profile", "Profiles": "rooflab.types.profiles"}

    command: tuple[str, ...]
    usage: Annotated[tuple[Usage, ...], msgspec.Meta(min_length=1)]
    exit_code: int
    signal: str | None = None
    granted_cores: int | None = None
    way: Way | None = None
    verdict: tuple[str, ...] = ()
    meanwhile: Meanwhile = Meanwhile()
    counts: tuple[Count, ...] = ()
    profile: Profile | None = None
    profiles: Profiles | None = None
    lacks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA

    @property
    def name(self) -> str:
        """The command as it would be typed."""
        import shlex

        return shlex.join(self.command)

    @property
    def middle(self) -> Usage:
        """The execution whose time is the median one, the lower of two."""
        return sorted(self.usage, key=lambda one: one.wall_s)[(len(self.usage) - 1) // 2]

    @property
    def time_s(self) -> float:
        """Seconds from start to exit, of the median execution."""
        return self.middle.wall_s

    @property
    def cores(self) -> float:
        """Cores that were busy with it, on average."""
        return self.middle.cores

    def _summary(self) -> str:
        return f"{self.name[:60]}: {duration(self.time_s)}, {self.cores:.2f} cores, exit code {self.exit_code}"

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers; the median time and cores, which follow, are said too."""
        return {**super().to_dict(), "time_s": self.time_s, "cores": self.cores}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Run:
        """The run that `to_dict` was called on (see `Result.from_dict`)."""
        return convert(cls, raw)
