"""What did I save, what did a profiler write? Results read back from files, profiles read in."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rooflab.errors import FileError, RooflabError
from rooflab.types.result import RESULTS, Result

if TYPE_CHECKING:
    from rooflab.executors import On
    from rooflab.story.matched import Program
    from rooflab.types.counted import Counters
    from rooflab.types.machine import Machine
    from rooflab.types.trace import Trace


def load(
    path: str | PathLike[str],
    *more: str | PathLike[str],
    machine: Machine | str | PathLike[str] | None = None,
    model: Program | None = None,
    progress: Callable[[str, float, float], None] | None = None,
    limit_bytes: float | None = None,
    on: On = None,
    workers: int | None = None,
) -> Result:
    """What a file holds: a result that `save` or -o wrote, as JSON (a machine as TOML too), or a profile.

    Profiles are recognised by what they hold, not by their names: traces, tables of counters and outputs of
    benchmarks of every tool in docs/profiles.md, packed with gzip, xz or (with the extra) zstd too.

    Several files, or all in a folder, come back together; large ones are read by several processes, each of which
    holds one at a time. One that cannot be read is said in `failed` of the result, and does not lose the others.

    Args:
        path: of the file, or of a folder: all profiles below it.
        more: paths of further ones.
        machine: that a profile was recorded on: a `Machine`, or a name or file of one; by default what it says.
        model: the program that a trace was recorded of: its `Report`, or (function or module, inputs), or that and
            its keywords. Each of its operations is then a row, with its module and source line.
        progress: called with what is read, how far, and the total, in bytes of the file; 0 of 0 where unknown.
        limit_bytes: how much a packed file may unpack to; by default 16 GB of a trace, 2 GiB of a table, and 200
            times the file's size.
        on: where several files are read: the address of a Dask scheduler whose workers see the same files
            ("tcp://HOST:8786"), "ranks:FOLDER" on the ranks of a job (docs/fleets.md), a
            `concurrent.futures.Executor`; None for here.
        workers: how many processes here; 1 for this one alone.

    Returns:
        A `Machine`, `Report`, `Variants`, `LoopReport`, `TileSweep`, `Simulation`, `CoreSimulation`, `MissCurve`,
        `Transfer`, `Calibration` or `Sweep`, as the "type" in the file says; a `Profile` of a
        profiler's file; `Profiles` of several files.

    Raises:
        FileError: a file that cannot be read, that is neither a result nor a profile, or of a newer schema; of
            several files, if that is so of all.
        UnknownNameError: no machine of that name.
        RooflabError: what `analyze` raises of `model`.
    """
    from rooflab.observe.reading.opened import allowing, watched
    from rooflab.story.machines import as_machine
    from rooflab.story.several import in_folder, read_several

    files, found = [], set()
    for one in (Path(os.fspath(each)) for each in (path, *more)):
        below = in_folder(one) if one.is_dir() else []
        files += below or [one]
        found |= set(below)
    given = as_machine(machine)
    with watched(progress), allowing(limit_bytes):
        if not more and not found:
            return read_one(files[0], given, model)
        how: dict[str, Any] = {"on": on, "workers": workers, "progress": progress, "limit_bytes": limit_bytes}
        return read_several(files, given, model, found=found, **how)


def saved(path: str | PathLike[str]) -> Result:
    """The result in a file that rooflab saved: JSON, or a machine's TOML.

    Raises:
        FileError: a file that cannot be read, of a newer schema, or that another tool wrote: `load` reads those.
    """
    file = Path(os.fspath(path))
    found = _result_or_format(file)
    if isinstance(found, Result):
        return found
    raise FileError(
        f"{file}: written by {found.SOURCE}, expected a result that rooflab saved: rooflab load {file}"
    )


def read_one(file: Path, machine: Machine | None, model: Program | None = None) -> Result:
    """What `file` holds; a profile is held against `machine`, else against the one that it names, and `model`.

    Raises:
        FileError: a file that cannot be read, that is neither a result nor a profile, or of a newer schema.
    """
    found = content_of(file)
    if isinstance(found, Result):
        _unasked(found, file, machine, model)
        return found
    from rooflab.story.observed import profiled

    return profiled(found, file.name, machine, model)


def _unasked(found: Result, file: Path, machine: Machine | None, model: Program | None) -> None:
    """Refuses what only a profile is held against: a saved result keeps its own machine, whatever is asked."""
    if machine is None and model is None:
        return
    kind = type(found).__name__
    next_step = ": Report.on predicts a report on another" if kind == "Report" else ""
    what = "machine" if machine is not None else "model"
    raise FileError(f"{file}: a saved {kind}, which keeps its own; {what} is for a profile{next_step}")


def is_known(file: Path) -> bool:
    """Whether `file` looks like a profile or a saved result; one that cannot be opened does: it is to be said."""
    from rooflab.observe import importers
    from rooflab.observe.reading.opened import head_of

    if file.suffix.lower() == ".toml":
        return True
    try:
        head = head_of(file)
    except FileError:
        return True
    return bool(_OWN.match(head)) or importers.format_of(head) is not None


def content_of(file: Path) -> Result | Trace | Counters:
    """What `file` holds, as it was read; errors as in `read_one`."""
    found = _result_or_format(file)
    return found if isinstance(found, Result) else found.load(file)


def _result_or_format(file: Path) -> Result | ModuleType:
    """The result that rooflab saved in `file`, else the module of `observe.importers` that reads its format."""
    from rooflab.machines import catalog
    from rooflab.observe.reading.opened import head_of

    if file.suffix.lower() == ".toml":
        return catalog.read(file)
    # Whatever is no JSON object of rooflab's may be a profile; a JSON object that is no profile is said to be no
    # result.
    head = head_of(file)
    if _OWN.match(head):
        return _saved(file)
    from rooflab.observe import importers

    module = importers.format_of(head)
    if module is not None:
        return module
    if head.lstrip()[:1] == b"{":
        return _saved(file)
    raise importers.unknown(file, head)


# How a document begins that rooflab wrote: no need to ask whether it is another tool's.
_OWN = re.compile(rb'\s*\{\s*"type"\s*:\s*"(?:' + "|".join(RESULTS).encode() + rb')"')


def _visible(value: Any) -> Any:
    """`value` with control characters in its texts made visible: no result has any, and terminals obey them."""
    if isinstance(value, str):
        return value if value.isprintable() else _CONTROL.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_visible(key): _visible(each) for key, each in value.items()}
    return [_visible(each) for each in value] if isinstance(value, list) else value


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # of writing's direction, too
# What such characters look like in a file, and some that only look alike.
_UNSEEN = re.compile(
    rb"\\u00[0189]|\\u007|\\u20[26]|[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]"
)


def _saved(file: Path) -> Result:
    import msgspec

    from rooflab.machines import catalog
    from rooflab.observe.reading.opened import content
    from rooflab.types import result

    try:
        text = content(file)
        raw = msgspec.json.decode(text)
        raw = _visible(raw) if _UNSEEN.search(text) else raw
        # A machine is held to what its file says twice, by whichever door it comes.
        return catalog.read(file) if isinstance(raw, dict) and raw.get("type") == "Machine" else result.read(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{file}: not JSON ({error}), expected a file that rooflab saved") from None
    except RooflabError as error:
        raise FileError(f"{file}: {error}") from None
