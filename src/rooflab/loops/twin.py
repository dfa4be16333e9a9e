"""The instrumented twin at work: written, compiled, run beside a simulator, stopped when its time is up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import typeof

from rooflab.cachesim.compiled import source_digest
from rooflab.loops import files, hooks, twin_source
from rooflab.loops.arguments import Arguments
from rooflab.loops.kinds import Kinds
from rooflab.loops.source import Source
from rooflab.loops.twin_text import Text

_HEADER = """\
from rooflab.cachesim.core import access as _rl_access, access_within as _rl_within, open_state as _rl_open
from rooflab.cachesim.layout import LOAD as _rl_LOAD, STORE as _rl_STORE
from rooflab.loops.hooks import enter as _rl_enter, outside as _rl_outside, step as _rl_step


@njit(cache=True, nogil=True, error_model="numpy")
"""


class Outcome(NamedTuple):
    """What a run of a twin left.

    Attributes:
        passes: how often each block ran.
        result: what the loop returned.
        outputs: its arguments after the run.
        stopped: whether its time was up before it ended.
        where: loop variables at that moment, outermost first ("i = 7").
        error: an access out of bounds, in words.
        seconds: that it ran, compilation left out.
    """

    passes: np.ndarray
    result: Any
    outputs: tuple[Any, ...]
    stopped: bool
    where: str
    error: str | None
    seconds: float


class Twin(NamedTuple):
    """A compiled twin: `text` says what its counters mean."""

    function: Any
    text: Text


def make(source: Source, kinds: Kinds, arguments: Arguments) -> Twin:
    """The twin of `source` for these arguments, compiled on its first run or found compiled on disk."""
    text = twin_source.write(source, kinds, arguments.layouts)
    whole = "".join((files.preamble(source), _HEADER, text.text))
    return Twin(files.module(f"twin_{source.name}", whole, source_digest()).twin, text)


def run(twin: Twin, source: Source, arguments: Arguments, state: int, limit_s: float | None) -> Outcome:
    """Run the twin on copies of the arguments for at most `limit_s`, its accesses going to the simulator.

    Args:
        twin: to run.
        source: of the loop.
        arguments: of the loop.
        state: address of the built hierarchy; its counters go on from where they are.
        limit_s: seconds after which the run is stopped and its counts are partial; None for no limit.

    Raises:
        KeyboardInterrupt: Ctrl-C; the twin has stopped then.
    """
    passes = np.zeros(twin.text.blocks, np.int64)
    events = np.zeros(hooks.VARIABLES + max(1, len(twin.text.loops)), np.int64)
    outputs = arguments.copied(_written(twin.text, arguments))
    bases = tuple(each.address for each in arguments.placed)
    given = (*outputs, bases, state, passes.ctypes.data, events.ctypes.data)
    # Compiled here, before the clock runs.
    twin.function.compile(tuple(typeof(value) for value in given))
    begun = time.perf_counter()
    result, failed = _bounded(lambda: twin.function(*given), events, limit_s)
    seconds = time.perf_counter() - begun
    if failed is not None and not isinstance(failed, (IndexError, InterruptedError)):
        raise failed
    where = _where(twin.text, events, passes)
    error = _outside(twin.text, source, events, where) if isinstance(failed, IndexError) else None
    return Outcome(passes, result, outputs, isinstance(failed, InterruptedError), where, error, seconds)


def _written(text: Text, arguments: Arguments) -> Collection[str] | None:
    """The array arguments that a twin may write to; None where that is not plain from their names."""
    names = {ref.array for ref in text.refs if ref.write}
    return names if names <= arguments.arrays().keys() and not text.swapped else None


def _bounded(
    call: Callable[[], Any], events: np.ndarray, limit_s: float | None
) -> tuple[Any, BaseException | None]:
    """What `call` returned or raised, in a thread that is told to stop after `limit_s`, or by Ctrl-C."""
    held: list[Any] = [None, None]

    def work() -> None:
        try:
            held[0] = call()
        except Exception as error:  # noqa: BLE001
            # handed to the thread that waits, which raises or explains it
            held[1] = error

    thread = threading.Thread(target=work, name="rooflab-twin", daemon=True)
    thread.start()
    try:
        thread.join(limit_s)
    finally:
        events[hooks.STOP] = 1
        thread.join()
    return held[0], held[1]


def _where(text: Text, events: np.ndarray, passes: np.ndarray) -> str:
    named = {
        loop.variable: int(events[hooks.VARIABLES + loop.number])
        for loop in text.loops
        if loop.variable and passes[loop.block]
    }
    return ", ".join(f"{name} = {value}" for name, value in named.items())


def _outside(text: Text, source: Source, events: np.ndarray, where: str) -> str:
    ref = text.refs[int(events[hooks.REF])]
    axis, index, length = (int(events[word]) for word in (hooks.AXIS, hooks.INDEX, hooks.LENGTH))
    at = f" at {where}" if where else ""
    return (
        f"{source.path}:{ref.line}: {source.name}: {ref.text} is out of bounds{at}: index {index} of axis {axis}"
        f" of {ref.array}, which has {length} elements there (0 to {length - 1})"
    )


def by_line(text: Text, passes: np.ndarray) -> Mapping[int, dict[tuple[str, str], int]]:
    """FLOP of each line by (engine, number format)."""
    made: dict[int, dict[tuple[str, str], int]] = {}
    for (block, line), counted in text.flop.items():
        for each in counted:
            held = made.setdefault(line, {})
            key = (each.engine, each.dtype)
            held[key] = held.get(key, 0) + each.times * int(passes[block])
    return made
