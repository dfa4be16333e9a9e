"""Counting a lowered function: its twin linked with the simulator, run from empty caches and once more."""

from __future__ import annotations

import ast
import ctypes
import re
import textwrap
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding
from numba import typeof

from rooflab.cachesim.level import hierarchy
from rooflab.cachesim.level.access import View
from rooflab.cachesim.native import layout
from rooflab.cachesim.run import final_write_back
from rooflab.errors import RooflabError
from rooflab.loops.lowered import bounds, counted_access, instrument, lower, memory, source_loops, twin_ir
from rooflab.loops.lowered.ir_text import Places, functions
from rooflab.loops.lowered.source_names import SourceNames
from rooflab.loops.read.source import Source, SourceLines
from rooflab.loops.read.twin_text import Text
from rooflab.loops.twin import count as counting
from rooflab.loops.twin import hooks, run
from rooflab.machines.cache_levels import Chosen
from rooflab.units import iec

_CONSTANT = re.compile(
    r"^(@[\w.$]*\.const\.array[\w.$]*|@\"[^\"]*const\.array[^\"]*\") = .*?\[(\d+) x i8\] (.*)$", re.MULTILINE
)
_MOST_STRIDED = 0.5  # of the new lines of a reference, where it steps over lines


class LoweredTwin(NamedTuple):
    """A twin in machine code.

    Attributes:
        call: with the arguments: what the function returns.
        memory, plan, text: what it works in, what it counts, what its counters mean.
        passes, notes, events: its counters, the notes of its references, the words of `hooks`.
        built: the simulator.
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
    built: hierarchy.Hierarchy
    held: Any
    prepare: Callable[[], None] = lambda: None


def make(
    fn: Callable[..., Any], source: Source, arguments: Mapping[str, Any], caches: Chosen, units: int | None
) -> LoweredTwin:
    """The twin of `fn` for `arguments` by name, beside empty `caches`.

    Raises:
        NumbaError: what numba cannot compile.
    """
    lowered = lower.lower(fn, tuple(typeof(value) for value in arguments.values()))
    found = [each for each in functions(lowered.ir) if each.name != lowered.wrapper]
    contents = {name: _bytes_of(text) for name, _, text in _CONSTANT.findall(lowered.ir)}
    by_content: dict[bytes, str] = {}
    for name, held in contents.items():
        by_content.setdefault(held, name)
    placed = memory.lay_out(arguments, {name: len(held) for held, name in by_content.items()})
    constants = {name: placed.constants[by_content[held]] for name, held in contents.items()}
    arrays = dict(each for name, value in arguments.items() for each in memory.arrays_in(name, value))
    where = {each.name: (each.address, arrays[each.name]) for each in placed.placed}
    names = SourceNames(source, lower.python_function(fn).__globals__, contents, where)
    called = instrument.Names(
        names.array,
        lambda line, array, write: array,
        lambda line: "",
        names.texts,
        source_loops.statements(source.tree),
        names.whole,
    )
    plan = instrument.plan(tuple(found), lowered.main, Places(lowered.ir), called)
    refs = [f"{ref.line}: {ref.text}{' =' if ref.write else ''}" for ref in plan.refs]
    built = hierarchy.build(
        caches.caches, references=refs or ["none"], units=units, address_end=placed.end - placed.low
    )
    passes = np.zeros(max(1, len(plan.owners)), np.int64)
    notes = np.zeros((max(1, len(plan.refs)), counted_access.NOTE_WORDS), np.int64)
    events = np.zeros(hooks.VARIABLES + max(1, len(plan.loops)), np.int64)
    parts = [counted_access.compiled(*each) for each in (*counted_access.PARTS, counted_access.WITHIN)]
    wiring = twin_ir.Wiring(
        view_of(built),
        placed.low,
        placed.end,
        passes.ctypes.data,
        notes.ctypes.data,
        events.ctypes.data,
        placed.allocator.ctypes.data,
        constants,
        *(name for _, name in parts),
    )
    module = binding.parse_assembly(twin_ir.write(lowered.ir, found, plan, wiring))
    for bitcode, name in parts:
        linked = binding.parse_bitcode(bitcode)
        linked.get_function(name).linkage = "linkonce_odr"
        module.link_in(linked)
    engine, address = _compiled(module, lowered, {parts[0][1], parts[-1][1]})
    # The result as a plain address: a run that was stopped returns none, and says nothing.
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    function = prototype(address)
    text = Text("", plan.refs, plan.loops, plan.flop, plan.owners, frozenset())
    return LoweredTwin(
        lambda *values: _owned(function(None, values, None)),
        placed,
        plan,
        text,
        passes,
        notes,
        events,
        built,
        (engine, lowered.environment, function),
    )


def _owned(address: int | None) -> Any:
    """The object at `address`, whose reference is ours.

    Raises:
        InterruptedError: there is none: the run was stopped.
    """
    if not address:
        raise InterruptedError
    value = ctypes.cast(address, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(value))
    return value


def view_of(built: hierarchy.Hierarchy) -> tuple[int, ...]:
    """What `open_state` would find, as plain numbers."""
    words = (ctypes.c_int64 * layout.DESCRIPTOR_WORDS).from_address(built.address)
    view = View(
        words[layout.LAST_LINES],
        words[layout.UNIT_SHIFT],
        words[layout.SLOT_SHIFT],
        words[layout.SLOT_MASK],
        ~words[layout.IGNORED],
        words[layout.COUNTS],
        words[layout.UNIT_CALL],
        words[layout.SPLIT_CALL],
        built.address,
    )
    return tuple(int(each) for each in view)


def _compiled(module: Any, lowered: lower.Lowered, inlined: set[str]) -> tuple[Any, int]:
    """The engine that holds the module's machine code, and the address of what Python calls."""
    for function in module.functions:
        if function.is_declaration or function.name == lowered.wrapper:
            continue
        function.linkage = "internal"
        if function.name in inlined:
            function.add_function_attribute("alwaysinline")
    machine = lower.target_machine()
    tuning = binding.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = False
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    name, environment = lowered.environment
    where = engine.get_global_value_address(name)
    if where:
        ctypes.c_void_p.from_address(where).value = id(environment)
    return engine, engine.get_function_address(lowered.wrapper)


def _bytes_of(text: str) -> bytes:
    """The bytes of a constant as LLVM writes it: c"…" with escapes, or zeroinitializer."""
    match = re.match(r'c"(.*?)"(?:,|$| )', text)
    if match is None:
        return text.encode()
    plain = re.sub(r"\\([0-9A-Fa-f]{2})", lambda each: chr(int(each[1], 16)), match[1])
    return plain.encode("latin-1")


def read_source(fn: Callable[..., Any]) -> Source:
    """The source of `fn`, whatever stands in it.

    Raises:
        RooflabError: no function, or one whose source cannot be read.
    """
    import inspect

    function = inspect.unwrap(lower.python_function(fn))
    if not inspect.isfunction(function):
        raise RooflabError(f"got a {type(function).__name__}, expected a Python function over arrays")
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except (OSError, TypeError, SyntaxError) as error:
        raise RooflabError(
            f"{function.__name__}: its source cannot be read ({error}); write it in a file, with def"
        ) from None
    if not isinstance(tree, ast.FunctionDef):
        raise RooflabError(f"{function.__name__}: expected a function written with def, on lines of its own")
    ast.increment_lineno(tree, first - 1)
    numbered = {first + n: line.rstrip() for n, line in enumerate(lines)}
    return Source(tree.name, inspect.getsourcefile(function) or "<source>", tree, {}, {}, numbered)


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


def run_twin(
    twin: LoweredTwin,
    source: SourceLines,
    arguments: Mapping[str, Any],
    caches: Chosen,
    time_limit_s: float | None,
) -> tuple[counting.Counted, instrument.Plan, dict[int, int]]:
    """As `count`, of a twin that is made."""
    outcome = _run(twin, source, time_limit_s)
    first_passes = twin.passes.copy()
    seen, far = _with_hits(twin), twin.notes[:, counted_access.FAR].copy()
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
        not outcome.stopped
        and outcome.error is None
        and (time_limit_s is None or 2 * outcome.seconds < time_limit_s)
    ):
        again = _second(twin, source, arguments, first, described, time_limit_s)
    patterns = [
        # the first one came from nowhere
        "stride" if ref.pattern == "stream" and far - 1 > _MOST_STRIDED * max(1, new) else ref.pattern
        for ref, far, new in zip(twin.plan.refs, far, seen, strict=False)
    ]
    refs = tuple(ref._replace(pattern=each) for ref, each in zip(twin.plan.refs, patterns, strict=True))
    kept = run.Twin(None, twin.text._replace(refs=refs))
    counted = counting.Counted(
        kept, counting.written_back(first, left), again, outcome._replace(passes=first_passes)
    )
    outside: dict[int, int] = {}
    for ref, note in zip(twin.plan.refs, twin.notes, strict=False):
        if note[counted_access.OUTSIDE]:
            outside[ref.line] = outside.get(ref.line, 0) + int(note[counted_access.OUTSIDE])
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
            memory.arrays_in(name, value),
            memory.arrays_in(name, dict(zip(arguments, twin.memory.values, strict=True))[name]),
            strict=True,
        ):
            if now.flags.writeable:
                now[...] = held
    outcome = _run(twin, source, time_limit_s)
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


def _run(twin: LoweredTwin, source: SourceLines, time_limit_s: float | None) -> run.Outcome:
    held: list[Any] = [None, None]

    def work() -> None:
        try:
            held[0] = _detached(twin.call(*twin.memory.values))
        except Exception as error:  # noqa: BLE001
            # handed to the thread that waits, which explains it
            held[1] = error

    twin.events[hooks.STOP] = 0
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
        where = _where(twin, int(twin.events[hooks.AT]), None)
    elif failed is not None:
        error = _failure(failed, source, twin)
    outputs = tuple(_detached(each) for each in twin.memory.values)
    return run.Outcome(twin.passes, held[0], outputs, stopped and failed is not None, where, error, seconds)


def _where(twin: LoweredTwin, within: int | None, tests: int | None) -> str:
    """The variables of loop `within` and those around it, outermost first; of an outermost other loop its trip.

    `tests`: the while whose test for the trip to come is being made.
    """
    places: list[str] = []
    while within is not None:
        loop = twin.plan.loops[within]
        trip = int(twin.passes[loop.block]) + (within == tests)
        if within in twin.plan.variables:
            places.insert(0, f"{loop.variable} = {int(twin.events[hooks.VARIABLES + within])}")
        elif loop.parent is None:
            kind = f"for {loop.variable}" if loop.variable else "while"
            places.insert(0, f"trip {trip:,} of {kind} (line {loop.line})")
        within = loop.parent
    return ", ".join(places)


def _failure(failed: BaseException, source: SourceLines, twin: LoweredTwin) -> str:
    """What ended the run, in one line."""
    if isinstance(failed, RooflabError):
        return str(failed)
    if isinstance(failed, MemoryError):
        room = iec(twin.memory.end - twin.memory.low)
        return f"{source.path}:{source.line}: {source.name}: the arrays that it makes do not fit in {room}"
    raised = list(twin.plan.raises.values())[int(twin.events[hooks.REF])] if twin.plan.raises else None
    line = raised.line if raised is not None and raised.line in source.lines else source.line
    text = source.lines.get(line, "").strip()
    if isinstance(failed, IndexError):
        return f"{source.path}:{line}: {source.name}: {_outside(raised, text, twin)}"
    reason = f": {failed}" if str(failed).strip() else ""
    return f"{source.path}:{line}: {source.name} stops with {type(failed).__name__}{reason}: {text}"


def _outside(raised: bounds.Raised | None, text: str, twin: LoweredTwin) -> str:
    """An access out of bounds: which one, in which trips, which index, of how many."""
    if raised is None or not raised.asked:
        return f"out of bounds: {text}"
    place = _where(twin, raised.loops[0][0] if raised.loops else None, raised.tests)
    ref = None if raised.access is None else twin.plan.refs[raised.access]
    if ref is None or ref.line != raised.line:
        ref = None
    array = raised.array or ("" if ref is None else ref.array)
    index, length = int(twin.events[hooks.INDEX]), int(twin.events[hooks.LENGTH])
    axis = "" if raised.axis is None else f" of axis {raised.axis}"
    of = f" of {array}, which has {length} elements" if array else f", of {length} elements"
    at = f" at {place}" if place else ""
    return (
        f"{text if ref is None else ref.text} is out of bounds{at}: index {index}{axis}{of}"
        f"{' there' if axis else ''} (0 to {length - 1})"
    )


def _detached(value: Any) -> Any:
    """`value` with arrays of its own: those of a run lie in memory that goes with it."""
    if isinstance(value, np.ndarray):
        return value.copy(order="K")
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(_detached(each) for each in value)
    return value
