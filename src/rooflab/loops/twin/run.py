"""The instrumented twin at work: written, compiled, run beside a simulator, stopped when its time is up."""

from __future__ import annotations

import ast
import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import typeof

from rooflab.cachesim.native.compile import source_digest
from rooflab.loops.read.arguments import Arguments
from rooflab.loops.read.source import Source
from rooflab.loops.read.twin_text import Text
from rooflab.loops.read.understood import Understood
from rooflab.loops.twin import generated_files, hooks, write

_HEADER = """\
from rooflab.cachesim.level.access import access as _rl_access, access_within as _rl_within, open_state as _rl_open
from rooflab.cachesim.native.layout import LOAD as _rl_LOAD, STORE as _rl_STORE
from rooflab.loops.twin.hooks import enter as _rl_enter, outside as _rl_outside, step as _rl_step


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
        error: in words, what ended it: an access out of bounds, or what Python raises too.
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


def make(loop: Understood) -> Twin:
    """The twin of `loop` for its arguments, compiled on its first run or found compiled on disk."""
    source = loop.source
    text = write.write(source, loop.value_types, loop.arguments.layouts)
    whole = "".join((generated_files.preamble(source), _HEADER, text.text))
    # Both are inlined into it.
    key = source_digest() + Path(hooks.__file__).read_text("utf-8")
    return Twin(generated_files.module(f"twin_{source.name}", whole, key).twin, text)


def run(twin: Twin, source: Source, arguments: Arguments, state: int, time_limit_s: float | None) -> Outcome:
    """Run the twin on copies of the arguments for at most `time_limit_s`, its accesses going to the simulator.

    Args:
        twin: to run.
        source: of the loop.
        arguments: of the loop.
        state: address of the built hierarchy; its counters go on from where they are.
        time_limit_s: seconds after which the run is stopped and its counts are partial; None for no limit.

    Raises:
        KeyboardInterrupt: Ctrl-C; the twin has stopped then.
    """
    passes = np.zeros(twin.text.blocks, np.int64)
    events = np.zeros(hooks.VARIABLES + max(1, len(twin.text.loops)), np.int64)
    outputs = arguments.copied(_written(twin.text, arguments))
    bases = tuple(each.address for each in arguments.placed)
    handed_over = (*outputs, bases, state, passes.ctypes.data, events.ctypes.data)
    # Compiled here, before the clock runs.
    twin.function.compile(tuple(typeof(value) for value in handed_over))
    begun = time.perf_counter()
    result, failed = _bounded(lambda: twin.function(*handed_over), events, time_limit_s)
    seconds = time.perf_counter() - begun
    stopped = isinstance(failed, InterruptedError)
    within = int(events[hooks.AT]) if stopped else None
    block = twin.text.loops[within].block if within is not None else -1
    error = None
    if isinstance(failed, IndexError):
        block = twin.text.refs[int(events[hooks.REF])].block
        within = twin.text.owners[block]
    where = _where(twin.text, events, passes, within, block)
    if isinstance(failed, IndexError):
        error = _outside(twin.text, source, events, where)
    elif failed is not None and not stopped:
        error = _raised(source, failed)
    return Outcome(passes, result, outputs, stopped, where, error, seconds)


def _written(text: Text, arguments: Arguments) -> Collection[str] | None:
    """The array arguments that a twin may write to; None where that is not plain from their names."""
    names = {ref.array for ref in text.refs if ref.write}
    return names if names <= arguments.arrays().keys() and not text.swapped else None


def _bounded(
    call: Callable[[], Any], events: np.ndarray, time_limit_s: float | None
) -> tuple[Any, BaseException | None]:
    """What `call` returned or raised, in a thread that is told to stop after `time_limit_s`, or by Ctrl-C."""
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
        thread.join(None if time_limit_s is None else min(time_limit_s, threading.TIMEOUT_MAX))
    finally:
        events[hooks.STOP] = 1
        thread.join()
    return held[0], held[1]


def _where(text: Text, events: np.ndarray, passes: np.ndarray, within: int | None, block: int) -> str:
    """The variables of loop `within` and those around it, outermost first; of an outermost while its trip."""
    places: list[str] = []
    while within is not None:
        loop = text.loops[within]
        if loop.variable:
            places.insert(0, f"{loop.variable} = {int(events[hooks.VARIABLES + loop.number])}")
        elif loop.parent is None:
            # Its test runs before its body, in a block of its own, for the trip to come.
            trip = int(passes[loop.block]) + (block < loop.block)
            places.insert(0, f"trip {trip:,} of while (line {loop.line})")
        within = loop.parent
    return ", ".join(places)


def _raised(source: Source, failed: BaseException) -> str:
    """What the running loop raised, as Python would: a step of zero, a whole number divided by zero, assert."""
    frames = traceback.extract_tb(failed.__traceback__)
    text = frames[-1].line if frames else None
    statements = [each for each in ast.walk(source.tree) if isinstance(each, ast.stmt)]
    statement = next((each for each in statements if ast.unparse(each).partition("\n")[0] == text), source.tree)
    reason = f": {failed}" if str(failed).strip() else ""
    return f"{source.at(statement)}: {source.name} stops with {type(failed).__name__}{reason}"


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
    counts: dict[int, dict[tuple[str, str], int]] = {}
    for (block, line), counted in text.flop.items():
        for each in counted:
            held = counts.setdefault(line, {})
            key = (each.engine, each.dtype)
            held[key] = held.get(key, 0) + each.times * int(passes[block])
    return counts
