"""What did limit the run, where several files tell of it? Each is read as it is alone; a bad one is said."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rooflab.errors import FileError, RooflabError
from rooflab.executors import On, Outcome, over
from rooflab.types.machine import Machine
from rooflab.types.profile import Profile
from rooflab.types.profiles import Profiles
from rooflab.types.report import Report
from rooflab.types.result import Result

if TYPE_CHECKING:
    from rooflab.observe.ranks.seen import Seen
    from rooflab.story.matched import Program

# From which size on further processes are worth their start, and how much a reader takes: benchmarks/fleet.py.
_WORTH_BYTES = 150e6
_BYTES_A_BYTE, _OWN_BYTES = 5, 150e6
_PACKED = 12  # a trace unpacked over packed


class _Asked(NamedTuple):
    """One file to be read, with all that it needs where it is read."""

    file: Path
    name: str
    machine: Machine | None
    model: Program | None
    limit_bytes: float | None
    in_folder: bool = False


class _Read(NamedTuple):
    """What a file holds, and what is kept of it for the ranks of the run; nothing of a stranger in a folder."""

    held: Result | None
    seen: Seen | None


def read_several(
    files: Sequence[Path],
    machine: Machine | None,
    model: Program | None = None,
    *,
    on: On = None,
    workers: int | None = None,
    progress: Callable[[str, float, float], None] | None = None,
    limit_bytes: float | None = None,
    found: Collection[Path] = (),
) -> Profiles:
    """The profiles and machines in `files`, in that order; large ones are read by several processes.

    Those of `found` stood in a folder, and need not be profiles: they are left out where they are none.

    Raises:
        FileError: none of them could be read.
        RooflabError: what `executors.over` raises of `on`; a model that cannot travel to other workers.
    """
    asked = [
        # Workers stand elsewhere.
        _Asked(file if on is None else file.absolute(), name, machine, model, limit_bytes, file in found)
        for file, name in zip(files, names_of(files), strict=True)
    ]
    if on is not None and model is not None and not isinstance(model, Report):
        raise RooflabError("model: a program does not travel to workers, expected its Report: rooflab.analyze")
    if on is None and workers is None:
        workers = _processes(files, model)
    if on is None and workers == 1:
        return _merged(files, [_here(at, one) for at, one in enumerate(asked)])
    with over(on, workers=workers) as many:
        outcomes = []
        for outcome in many.each(_read, asked):
            outcomes.append(outcome)
            if progress is not None:
                progress(f"reading {len(asked)} files, {many.name}", len(outcomes), len(asked))
        return _merged(files, outcomes, many.notes)


def _processes(files: Sequence[Path], model: Program | None) -> int:
    """How many processes are worth starting, and have the memory that they need."""
    sizes = sorted(_unpacked_bytes(file) for file in files)
    if len(files) == 1 or sum(sizes) < _WORTH_BYTES or not (model is None or isinstance(model, Report)):
        return 1
    threads, free_bytes = _granted()
    together = free_bytes // (_BYTES_A_BYTE * sizes[-1] + _OWN_BYTES)
    return max(1, min(threads, len(files), int(together)))


def _granted() -> tuple[int, float]:
    """Hardware threads, and bytes of memory that are free, within the limits of this process' control group."""
    import psutil

    from rooflab.machines.detect import detect, granted_threads

    host, free_bytes = detect(gpus=False), float(psutil.virtual_memory().available)
    limit = host.memory_granted_bytes
    return len(granted_threads(host)), free_bytes if limit is None else min(free_bytes, float(limit))


def _unpacked_bytes(file: Path) -> float:
    """About how much `file` holds; 0 where it cannot be asked, which reading it will say."""
    try:
        size = file.stat().st_size
    except OSError:
        return 0.0
    return size * (_PACKED if file.suffix in (".gz", ".xz", ".zst") else 1)


def _here(at: int, asked: _Asked) -> Outcome:
    """`asked` read in this process."""
    try:
        return Outcome(at, _read(asked))
    except RooflabError as error:
        return Outcome(at, failed=str(error))


def _read(asked: _Asked) -> _Read:
    """What one file holds.

    Raises:
        RooflabError: what cannot be read.
    """
    from rooflab.observe.ranks.seen import seen_of
    from rooflab.observe.reading.opened import allowing
    from rooflab.story.files import content_of, is_known
    from rooflab.story.observed import profiled
    from rooflab.types.counted import Counters
    from rooflab.types.trace import Trace

    with allowing(asked.limit_bytes):
        try:
            found = content_of(asked.file)
        except FileError:
            if asked.in_folder and not is_known(asked.file):
                return _Read(None, None)
            raise
        if not isinstance(found, Trace | Counters):
            return _Read(found, None)
        # A trace is large: only what is kept of it leaves.
        profile = profiled(found, asked.name, asked.machine, asked.model)
        return _Read(profile, seen_of(found, asked.name, profile.timeline) if isinstance(found, Trace) else None)


def _merged(files: Sequence[Path], outcomes: list[Outcome], notes: Sequence[str] = ()) -> Profiles:
    """What the `outcomes` of `files` hold together; the ranks of a job have those of their own files alone."""
    import msgspec

    from rooflab.observe.ranks import ranks_of

    names = names_of(files)
    if not outcomes:  # a rank of a job with more ranks than files
        return Profiles(name=f"none of {len(files)} files", profiles=())
    profiles: list[Profile] = []
    machines: list[Machine] = []
    failed: list[str] = []
    seen: list[Seen] = []
    strangers: list[str] = []
    for outcome in sorted(outcomes, key=lambda one: one.at):
        file, name = files[outcome.at], names[outcome.at]
        if outcome.failed is not None:
            failed.append(outcome.failed if str(file) in outcome.failed else f"{file}: {outcome.failed}")
            continue
        found = outcome.value.held
        if outcome.value.seen is not None:
            seen.append(outcome.value.seen)
        if found is None:
            strangers.append(str(file))
        elif isinstance(found, Profile):
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
        raise FileError("; ".join(failed) or f"{_few(strangers)}: no profiles, nor results that rooflab saved")
    first = profiles[0].name if profiles else machines[0].name
    more = len(profiles) + len(machines) - 1
    return Profiles(
        name=f"{first} and {more} more" if more else first,
        profiles=tuple(profiles),
        machines=tuple(machines),
        ranks=ranks_of(seen),
        failed=tuple(failed),
        notes=(*notes, *((f"no profiles, left out: {_few(strangers)}",) if strangers else ())),
    )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def in_folder(folder: Path) -> list[Path]:
    """The files below `folder`, rank 2 before rank 10, without those whose names begin with a dot.

    Raises:
        FileError: none, or a folder that cannot be read.
    """
    try:
        below = sorted((path for path in folder.rglob("*") if path.is_file()), key=_natural)
        next(folder.iterdir(), None)
    except OSError as error:
        raise FileError(f"{folder}: cannot be read: {error.strerror or error}") from None
    visible = [path for path in below if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    if not visible:
        raise FileError(f"{folder}: a folder without files, expected profiles in it")
    return visible


def _natural(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", str(path))]


def names_of(files: Sequence[Path]) -> list[str]:
    """A name for each of `files`: its own, with folders before it as far as two would be called the same."""
    length = 1
    while True:
        names = ["/".join(file.parts[-length:]) for file in files]
        if len(set(names)) == len(set(files)) or length >= max(len(file.parts) for file in files):
            return names
        length += 1
