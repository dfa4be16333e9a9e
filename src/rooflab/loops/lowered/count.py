"""Counting a lowered function: its twin linked with the simulator, run from empty caches and once more."""

from __future__ import annotations

import ast
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from rooflab.cachesim.level import hierarchy, plain_kinds, seen_units
from rooflab.cachesim.level.access import View
from rooflab.cachesim.native import layout
from rooflab.cachesim.run import final_write_back
from rooflab.errors import RooflabError
from rooflab.loops.lowered import built, counted_access, failures, from_source, instrument, memory
from rooflab.loops.read.access_patterns import Patterns
from rooflab.loops.read.arguments import arrays_in
from rooflab.loops.read.source import Source, SourceLines
from rooflab.loops.read.twin_text import Ref, Text
from rooflab.loops.read.understood import Understood
from rooflab.loops.read.value_types import root
from rooflab.loops.twin import count as counting
from rooflab.loops.twin import hooks, run
from rooflab.machines.cache_levels import Chosen
from rooflab.types.simulation import Cache

_MOST_STRIDED = 0.5  # of the new lines of a reference, where it steps over lines


class LoweredTwin(NamedTuple):
    """A twin in machine code.

    Attributes:
        call: with the arguments: what the function returns.
        memory, plan, text: what it works in, what it counts, what its counters mean.
        passes, notes, events: its counters, the notes of its references, the words of `hooks`.
        built: the simulator; None where accesses are only written down.
        held: what must live as long as `call`.
        prepare: to be called before each run: it sets back what no argument holds.
    """

    call: Callable[..., Any]
    memory: memory.Memory
    plan: instrument.Plan
    text: Text
    passes: np.ndarray
    notes: np.ndarray
    events: np.ndarray
    built: Any
    held: Any
    prepare: Callable[[], None] = lambda: None


def make(
    fn: Callable[..., Any], source: Source, arguments: Mapping[str, Any], caches: Chosen, units: int | None
) -> LoweredTwin:
    """The twin of `fn` for `arguments` by name, beside empty `caches`.

    Raises:
        NumbaError: what numba cannot compile.
    """
    return _made(lambda first: built.build(fn, source, arguments, first), arguments, caches, units)


def make_of_source(
    fn: Callable[..., Any],
    source: Source,
    arguments: Mapping[str, Any],
    caches: Chosen,
    units: int | None,
) -> LoweredTwin:
    """As `make`, of a function whose source says all there is to know; compiled once for all processes."""
    return _made(lambda first: built.of_source(fn, source, arguments, first, keep=True), arguments, caches, units)


def _made(
    build: Callable[[built.Geometry], built.Built],
    arguments: Mapping[str, Any],
    caches: Chosen,
    units: int | None,
) -> LoweredTwin:
    hierarchy.check(caches.caches)
    first = _geometry(caches.caches, units is not None, memory.extent(arguments))
    made = build(first)
    placed = memory.lay_out(arguments, made.lengths)
    plan = made.plan
    refs = [f"{ref.line}: {ref.text}{' =' if ref.write else ''}" for ref in plan.refs]
    simulator = hierarchy.build(
        caches.caches, references=refs or ["none"], units=units, address_end=placed.end - placed.low
    )
    if built.geometry(simulator.address) != first:
        # its own constants made the memory too large for short entries
        made = build(built.geometry(simulator.address))
    return opened(made, built.view_of(simulator.address), placed, simulator)


def opened(
    made: built.Built, view: View, placed: memory.Memory, simulator: hierarchy.Hierarchy | None
) -> LoweredTwin:
    """A twin that was `made`, ready to run on a first level and in memory; `simulator` owns that level."""
    twin, plan = built.open_built(made, view, placed), made.plan
    text = Text("", plan.refs, plan.loops, plan.flop, plan.owners, frozenset())
    held = twin, made.environment
    return LoweredTwin(twin.call, placed, plan, text, twin.passes, twin.notes, twin.events, simulator, held)


_GEOMETRIES: dict[Any, built.Geometry] = {}


def _geometry(levels: tuple[Cache, ...], classified: bool, extent: int) -> built.Geometry:
    """Of the first of `levels`, which depends on whether addresses are few enough for short entries."""
    key = levels, classified, plain_kinds.fits_narrow(levels[0], extent)
    if key not in _GEOMETRIES:
        some = hierarchy.build(levels, units=1 if classified else None, address_end=extent)
        _GEOMETRIES[key] = built.geometry(some.address)
    return _GEOMETRIES[key]


def view_of(simulator: hierarchy.Hierarchy) -> tuple[int, ...]:
    """What `open_state` would find, as plain numbers."""
    return tuple(int(each) for each in built.view_of(simulator.address))


def count(
    fn: Callable[..., Any],
    source: Source,
    arguments: Mapping[str, Any],
    caches: Chosen,
    time_limit_s: float | None,
    *,
    units: int | None = None,
) -> tuple[counting.Counted, instrument.Plan, dict[int, int]]:
    """The twin of `fn` run for at most `time_limit_s`; counts, plan, accesses not counted by line.

    Raises:
        NumbaError: what numba cannot compile.
        KeyboardInterrupt: Ctrl-C; the twin has stopped then.
    """
    return run_twin(make(fn, source, arguments, caches, units), source, arguments, caches, time_limit_s)


def of_loop(
    loop: Understood,
    caches: Chosen,
    time_limit_s: float | None,
    warm: bool = True,
    classify: bool = False,
    most_units: int = seen_units.MOST_UNITS,
) -> counting.Counted:
    """The twin of `loop`, run on `caches` for at most `time_limit_s` (both runs together).

    Args:
        loop: read and understood.
        caches: to simulate.
        time_limit_s: seconds; None for no limit.
        warm: run it a second time, on what the first run left in the caches.
        classify: tell compulsory, capacity and conflict misses apart.
        most_units: lines (or sectors) that are kept apart in memory to do so.

    Raises:
        NumbaError: what numba cannot compile.
        RooflabError: too many lines to tell misses apart.
        KeyboardInterrupt: Ctrl-C; the twin has stopped then.
    """
    source, arguments = loop.source, loop.arguments
    units = _units(loop, caches.caches[0].unit_bytes, most_units) if classify else None
    values = dict(zip(source.parameters, arguments.values, strict=True))
    twin = make_of_source(from_source.function(source), source, values, caches, units)
    counted, _, _ = run_twin(twin, source, values, caches, time_limit_s, warm=warm)
    text = counted.twin.text
    kept = counted.twin._replace(text=text._replace(refs=_as_written(loop, text)))
    return counted._replace(twin=kept)


def _as_written(loop: Understood, text: Text) -> tuple[Ref, ...]:
    """The references with the patterns that the source says: how far a row lies from the next is not asked."""
    patterns = Patterns(loop.source, loop.value_types)
    nodes = {
        (each.lineno, ast.unparse(each)): each
        for each in ast.walk(loop.source.tree)
        if isinstance(each, ast.Subscript)
    }
    found = []
    for ref in text.refs:
        node, owner = nodes.get((ref.line, ref.text)), text.owners[ref.block]
        base = None if node is None else root(node)
        if node is not None and isinstance(base, ast.Name) and base.id in loop.arguments.layouts:
            variable = "" if owner is None else text.loops[owner].variable
            pattern = patterns.of(node, variable, loop.arguments.layouts[base.id].unit)
            # rows so short that the next is the next line, or in the same one, are foreseen as any stream is
            foreseen = pattern == "stride" and ref.pattern == "stream"
            ref = ref if foreseen else ref._replace(pattern=pattern)
        found.append(ref)
    return tuple(found)


def _units(loop: Understood, unit_bytes: int, most_units: int) -> int:
    """A bound on the lines (or sectors) that a loop can touch: all of its arrays.

    Raises:
        RooflabError: more than are kept apart in memory.
    """
    units = sum(-(-each.nbytes // unit_bytes) + 1 for each in loop.arguments.placed)
    if units > most_units:
        raise RooflabError(
            f"classify: the arrays have {units:,} units of {unit_bytes} bytes, expected at most"
            f" {most_units:,}: take smaller arguments, or leave classify out"
        )
    return units


def run_twin(
    twin: LoweredTwin,
    source: SourceLines,
    arguments: Mapping[str, Any],
    caches: Chosen,
    time_limit_s: float | None,
    *,
    warm: bool = True,
) -> tuple[counting.Counted, instrument.Plan, dict[int, int]]:
    """As `count`, of a twin that is made; `warm`: run it a second time too."""
    outcome = run_once(twin, source, time_limit_s)
    first_passes = twin.passes.copy()
    counted_access.settle(twin.notes)
    seen, far = _with_hits(twin), twin.notes[:, counted_access.FAR].copy()
    steps = np.abs(twin.notes[: len(twin.plan.refs), counted_access.STEP])  # without any there is a row too
    multiples = twin.notes[: len(twin.plan.refs), counted_access.MULTIPLES : counted_access.RECENT].tolist()
    alone = twin.notes[:, counted_access.ALONE].tolist()
    left_out = twin.notes[:, counted_access.OUTSIDE].copy()
    came_to = twin.notes[:, counted_access.PREVIOUS].tolist()
    described: dict[str, Any] = {
        "arrays": [ref.array for ref in twin.plan.refs] or [""],
        "accesses": sum(int(first_passes[ref.block]) for ref in twin.plan.refs),
        "accessed_bytes": sum(int(first_passes[ref.block]) * ref.itemsize for ref in twin.plan.refs),
        "assumptions": caches.assumptions,
        "seconds": outcome.seconds,
        "complete": not outcome.stopped,
    }
    first = twin.built.result(source.name, **described)
    left = final_write_back.dirty_bytes(twin.built)
    again = None
    if (
        warm
        and not outcome.stopped
        and outcome.error is None
        and (time_limit_s is None or 2 * outcome.seconds < time_limit_s)
    ):
        left_s = None if time_limit_s is None else time_limit_s - outcome.seconds
        again = _second(twin, source, arguments, first, described, left_s)
    patterns = [
        # the first one came from nowhere
        "stride" if ref.pattern == "stream" and far - 1 > _MOST_STRIDED * max(1, new) else ref.pattern
        for ref, far, new in zip(twin.plan.refs, far, seen, strict=False)
    ]
    refs = tuple(
        # what is near goes through all sets in turn, as the least power does
        ref._replace(
            pattern=each,
            step_bytes=int(step),
            multiples=(max(0, int(near)) + least, *more),
            far=max(0, int(away) - 1),
            alone=max(0, apart - 1),
        )
        for ref, each, step, near, away, apart, (least, *more) in zip(
            twin.plan.refs, patterns, steps, seen - far, far, alone, multiples, strict=False
        )
    )
    kept = run.Twin(None, twin.text._replace(refs=refs))
    counted = counting.Counted(
        kept,
        counting.written_back(first, left),
        again,
        outcome._replace(passes=first_passes),
        int(twin.memory.allocator[counted_access.BUMP]) - twin.memory.low,
        counting.side_by_side(kept.text, again or first, came_to, counted_access.NEAR_BYTES),
    )
    outside: dict[int, int] = {}
    for ref, number in zip(twin.plan.refs, left_out, strict=False):
        if number:
            outside[ref.line] = outside.get(ref.line, 0) + int(number)
    return counted, twin.plan, outside


def _second(
    twin: LoweredTwin,
    source: SourceLines,
    arguments: Mapping[str, Any],
    first: Any,
    described: dict[str, Any],
    time_limit_s: float | None,
) -> Any:
    """The counts of a run after the first, on arrays as they were before it."""
    for name, value in arguments.items():
        for (_, held), (_, now) in zip(
            arrays_in(name, value),
            arrays_in(name, dict(zip(arguments, twin.memory.values, strict=True))[name]),
            strict=True,
        ):
            if now.flags.writeable:
                now[...] = held
    outcome = run_once(twin, source, time_limit_s)
    if outcome.stopped or outcome.error is not None:
        return None
    _with_hits(twin)
    return counting.difference(twin.built.result(source.name, **described), first)


def _with_hits(twin: LoweredTwin) -> np.ndarray:
    """Write the hits of the first level, which nobody counted; how many accesses of each reference it has seen."""
    rows = twin.built.counts(0)[: len(twin.plan.refs)]
    seen = rows[:, layout.HITS] + rows[:, layout.MISSES]
    blocks = [ref.block for ref in twin.plan.refs]
    rows[:, layout.HITS] = twin.passes[blocks] + rows[:, layout.EXTRA] - rows[:, layout.MISSES]
    return seen


def run_once(twin: LoweredTwin, source: SourceLines, time_limit_s: float | None) -> run.Outcome:
    """One run of a twin, in a thread that is told to stop after `time_limit_s`, or by Ctrl-C."""
    held: list[Any] = [None, None]

    def work() -> None:
        try:
            held[0] = _detached(twin.call(*twin.memory.values))
        except Exception as error:  # noqa: BLE001
            # handed to the thread that waits, which explains it
            held[1] = error

    twin.events[hooks.STOP] = 0
    if twin.plan.raises:
        twin.events[hooks.REF] = -1
    twin.prepare()
    begun = time.perf_counter()
    thread = threading.Thread(target=work, name="rooflab-twin", daemon=True)
    thread.start()
    try:
        thread.join(None if time_limit_s is None else min(time_limit_s, threading.TIMEOUT_MAX))
        stopped = thread.is_alive()
    finally:
        twin.events[hooks.STOP] = 1
        thread.join()
    seconds = time.perf_counter() - begun
    failed = held[1]
    where, error = "", None
    if stopped and failed is not None:
        where = failures.where(_ended(twin), int(twin.events[hooks.AT]))
    elif failed is not None:
        error = failures.said(failed, source, _ended(twin))
    outputs = tuple(_detached(each) for each in twin.memory.values)
    return run.Outcome(twin.passes, held[0], outputs, stopped and failed is not None, where, error, seconds)


def _ended(twin: LoweredTwin) -> failures.Ended:
    return failures.Ended(twin.plan, twin.passes, twin.events, twin.memory.end - twin.memory.low)


def _detached(value: Any) -> Any:
    """`value` with arrays of its own: those of a run lie in memory that goes with it."""
    if isinstance(value, np.ndarray):
        return value.copy(order="K")
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(_detached(each) for each in value)
    return value
