"""The answer to "what did limit the run?" where several files were given: profiles and machines side by side."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab.errors import UnknownNameError
from rooflab.types.machine import Machine
from rooflab.types.profile import Profile
from rooflab.types.ranks import Ranks
from rooflab.types.result import Result, convert
from rooflab.units import duration

SCHEMA = 1


class Profiles(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What several files hold, in the order they were given.

    Attributes:
        name: of the first file, and how many more there are.
        profiles: of the traces and tables of counters.
        machines: that benchmarks attained, or that were saved.
        ranks: of one run, where the traces are of several ranks of one.
        failed: a sentence for each file that could not be read.
        notes: files of a folder that are no profiles, and what was done again.
    """

    NEWEST = SCHEMA
    WHAT = "several profiles"

    name: str
    profiles: tuple[Profile, ...]
    machines: tuple[Machine, ...] = ()
    ranks: Ranks | None = None
    failed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA

    def __getitem__(self, name: str) -> Profile:
        """The profile of that name.

        Raises:
            UnknownNameError: no such profile, with near matches.
        """
        names = [one.name for one in self.profiles]
        if name not in names:
            raise UnknownNameError("profile", name, names)
        return self.profiles[names.index(name)]

    def _summary(self) -> str:
        parts = [f"{one.name} {duration(one.time_s)}" for one in self.profiles[:3]]
        parts += [f"{len(self.profiles) - 3} more"] if len(self.profiles) > 3 else []
        parts += [f"{len(self.machines)} machines"] if self.machines else []
        parts += [f"{len(self.failed)} not read"] if self.failed else []
        return "; ".join(parts)

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Profiles:
        """The profiles that `to_dict` was called on (see `Result.from_dict`)."""
        return convert(cls, raw)
