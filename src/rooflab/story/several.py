"""What did limit the run, where several files tell of it? Each is read as it is alone; a bad one is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rooflab.errors import FileError, RooflabError
from rooflab.types.profile import Profile
from rooflab.types.profiles import Profiles

if TYPE_CHECKING:
    from rooflab.story.matched import Program
    from rooflab.types.machine import Machine


def read_several(files: Sequence[Path], machine: Machine | None, model: Program | None = None) -> Profiles:
    """The profiles and machines in `files`.

    Raises:
        FileError: none of them could be read.
    """
    import msgspec

    from rooflab.observe.ranks import ranks_of
    from rooflab.observe.ranks.seen import Seen, seen_of
    from rooflab.story.files import content_of
    from rooflab.story.observed import profiled
    from rooflab.types.counted import Counters
    from rooflab.types.machine import Machine
    from rooflab.types.trace import Trace

    profiles: list[Profile] = []
    machines: list[Machine] = []
    failed: list[str] = []
    seen: list[Seen] = []
    for file, name in zip(files, names_of(files), strict=True):
        try:
            found = content_of(file)
            if isinstance(found, Trace | Counters):
                profile = profiled(found, name, machine, model)
                if isinstance(found, Trace):
                    seen.append(seen_of(found, name, profile.timeline))
                # A trace is large: it is let go before the next is read.
                found = profile
        except RooflabError as error:
            failed.append(str(error))
            continue
        if isinstance(found, Profile):
            profiles.append(msgspec.structs.replace(found, name=name))
        elif isinstance(found, Machine):
            machines.append(found)
        elif isinstance(found, Profiles):
            profiles += found.profiles
            machines += found.machines
            failed += found.failed
        else:
            kind = type(found).__name__
            failed.append(f"{file}: a {kind}, expected profiles and machines where several files are given")
    if not profiles and not machines:
        raise FileError("; ".join(failed))
    first = profiles[0].name if profiles else machines[0].name
    more = len(profiles) + len(machines) - 1
    return Profiles(
        name=f"{first} and {more} more" if more else first,
        profiles=tuple(profiles),
        machines=tuple(machines),
        ranks=ranks_of(seen),
        failed=tuple(failed),
    )


def names_of(files: Sequence[Path]) -> list[str]:
    """A name for each of `files`: its own, with folders before it as far as two would be called the same."""
    length = 1
    while True:
        names = ["/".join(file.parts[-length:]) for file in files]
        if len(set(names)) == len(set(files)) or length >= max(len(file.parts) for file in files):
            return names
        length += 1
