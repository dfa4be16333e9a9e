"""Where does the time of my program go? A Python program run and sampled: functions, loops and lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rooflab.errors import MissingExtraError, RooflabError

if TYPE_CHECKING:
    from rooflab.types.hotspots import Hotspots

HZ = 100


def hotspots(command: Sequence[str], *, hz: int = HZ, native: bool = False) -> Hotspots:
    """Run `command`, a Python program, and say which functions, loops and lines its time goes to.

    Its standard streams are those of this process, and signals are handed on to it.

    Args:
        command: its words: ["python", "train.py"].
        hz: samples a second of each thread, 1 to 1000.
        native: record native frames too, so that time in libraries is told from time in the interpreter; slower.

    Returns:
        The hotspots. `exit_code` is the command's own.

    Raises:
        MissingExtraError: py-spy is not installed: pip install 'rooflab[hotspots]'.
        RooflabError: no such command, or one that cannot be started; hz out of range.
    """
    from rooflab.observe.running import sampler, spots
    from rooflab.observe.running.command import check, execute
    from rooflab.types.hotspots import Hotspots

    if isinstance(command, str):
        raise RooflabError(f"command: got the text {command!r}, expected its words: {command.split()!r}")
    words = tuple(command)
    if not words:
        raise RooflabError("hotspots needs a command: rooflab hotspots -- python script.py")
    if not 1 <= hz <= 1000:
        raise RooflabError(f"hz: got {hz}, expected a whole number from 1 to 1000")
    program = sampler.where()
    if program is None:
        raise MissingExtraError("py-spy", "hotspots", "rooflab hotspots")
    check(words)
    with sampler.Session(program, hz, native) as session:
        ended = execute(words, attach=session.attach, traceable=True, detach=session.detach)
        stacks = session.stacks()
        notes = [] if stacks else [f"nothing was sampled: {session.why_none()}"]
        errors = session.errors()
    if errors:
        notes.append(f"{errors} samples could not be taken")
    found = spots.find(stacks, words, native=native)
    return Hotspots(
        command=words,
        usage=ended.usage,
        exit_code=ended.exit_code,
        signal=ended.signal,
        samples=spots.total(stacks),
        hz=hz,
        functions=found.functions,
        loops=found.loops,
        lines=found.lines,
        libraries=found.libraries,
        notes=tuple(notes),
    )
