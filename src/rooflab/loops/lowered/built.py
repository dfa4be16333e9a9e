"""A lowered twin as machine code: compiled once, found on disk where its source says all, opened for each run."""

from __future__ import annotations

import ast
import ctypes
import functools
import hashlib
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import binding
from numba.core import registry

from rooflab.cachesim.level.access import View
from rooflab.cachesim.native import layout
from rooflab.cachesim.native.compile import source_digest
from rooflab.loops.compiled.target import target_machine
from rooflab.loops.lowered import counted_access, instrument, lower, memory, source_loops, twin_ir
from rooflab.loops.lowered.ir_text import Places, functions
from rooflab.loops.lowered.source_names import SourceNames
from rooflab.loops.read import decorated
from rooflab.loops.read.arguments import arrays_in, place
from rooflab.loops.read.source import Source
from rooflab.loops.twin import generated_files

_CONSTANT = re.compile(
    r"^(@[\w.$]*\.const\.array[\w.$]*|@\"[^\"]*const\.array[^\"]*\") = .*?\[(\d+) x i8\] (.*)$", re.MULTILINE
)


class Geometry(NamedTuple):
    """What of a simulator's first level is fixed in the code (see `View`).

    Attributes:
        queued_ways: `layout.QUEUED_WAYS`: it is inlined where that is not 0.
    """

    shift: int
    slot_shift: int
    slot_mask: int
    compared_bits: int
    queued_ways: int


class Built(NamedTuple):
    """A compiled twin, for any run on arguments of the same types and caches of the same first level.

    Attributes:
        code: an object file.
        wrapper: the name of what Python calls.
        environment: the name of the global that holds numba's environment, and its value.
        plan: what it counts.
        constants: the module's constant arrays in the order of their words, each as the first of equal content.
        lengths: of those, in bytes.
    """

    code: bytes
    wrapper: str
    environment: tuple[str, Any]
    plan: instrument.Plan
    constants: tuple[str, ...]
    lengths: Mapping[str, int]


class Opened(NamedTuple):
    """A twin that can be called.

    Attributes:
        call: with the arguments: what the function returns.
        here, passes, notes, events: its words (see `twin_ir`), as arrays.
        held: what must live as long as those.
    """

    call: Callable[..., Any]
    here: np.ndarray
    passes: np.ndarray
    notes: np.ndarray
    events: np.ndarray
    held: Any


def geometry(address: int) -> Geometry:
    """That of the first level whose descriptor lies at `address`."""
    view, ways = view_of(address), _words(address)[layout.QUEUED_WAYS]
    return Geometry(view.shift, view.slot_shift, view.slot_mask, view.compared_bits, ways)


def view_of(address: int) -> View:
    """What `open_state` would find, as plain numbers."""
    words = _words(address)
    return View(
        words[layout.LAST_LINES],
        words[layout.UNIT_SHIFT],
        words[layout.SLOT_SHIFT],
        words[layout.SLOT_MASK],
        ~words[layout.IGNORED],
        words[layout.COUNTS],
        words[layout.UNIT_CALL],
        words[layout.SPLIT_CALL],
        address,
    )


def _words(address: int) -> Any:
    return (ctypes.c_int64 * layout.DESCRIPTOR_WORDS).from_address(address)


def build(fn: Callable[..., Any], source: Source, arguments: Mapping[str, Any], first: Geometry) -> Built:
    """The twin of `fn` for `arguments` by name, beside a first level of that geometry.

    Raises:
        NumbaError: what numba cannot compile.
    """
    lowered = lower.lower(fn, tuple(numba.typeof(value) for value in arguments.values()))
    found = [each for each in functions(lowered.ir) if each.name != lowered.wrapper]
    contents = {name: _bytes_of(text) for name, _, text in _CONSTANT.findall(lowered.ir)}
    by_content: dict[bytes, str] = {}
    for name, held in contents.items():
        by_content.setdefault(held, name)
    names = SourceNames(source, decorated.python_function(fn).__globals__, contents, whole(arguments))
    called = instrument.Names(
        names.array,
        lambda line, array, write: array,
        lambda line: "",
        names.texts,
        source_loops.statements(source.tree),
        names.whole,
    )
    plan = instrument.plan(tuple(found), lowered.main, Places(lowered.ir), called)
    parts = [counted_access.compiled(*each) for each in counted_access.parts(first.queued_ways)]
    wiring = twin_ir.Wiring(*first[:-1], tuple(contents), *(name for _, name in parts))
    module = binding.parse_assembly(twin_ir.write(lowered.ir, found, plan, wiring))
    for bitcode, name in parts:
        linked = binding.parse_bitcode(bitcode)
        linked.get_function(name).linkage = "linkonce_odr"
        module.link_in(linked)
    code = _compiled(module, lowered, {parts[0][1], parts[-1][1]})
    return Built(
        code,
        lowered.wrapper,
        lowered.environment,
        plan,
        tuple(by_content[held] for held in contents.values()),
        {name: len(held) for held, name in by_content.items()},
    )


def whole(arguments: Mapping[str, Any]) -> dict[str, int]:
    """The bytes of an element of each array among `arguments` whose elements all lie on multiples of that."""
    arrays = dict(each for name, value in arguments.items() for each in arrays_in(name, value))
    found = {}
    for each in place(arrays):
        array = arrays[each.name]
        if all(one % array.itemsize == 0 for one in (each.address, *array.strides)):
            found[each.name] = array.itemsize
    return found


def of_source(
    fn: Callable[..., Any], source: Source, arguments: Mapping[str, Any], first: Geometry, *, keep: bool
) -> Built:
    """As `build`, of a function whose source says all there is to know; found if it was built before.

    `keep`: also for other processes, on disk.
    """
    types = [str(numba.typeof(value)) for value in arguments.values()]
    described = (
        ast.dump(source.tree, include_attributes=True),
        sorted((name, type(value).__name__, repr(value)) for name, value in source.constants.items()),
        sorted(source.modules.items()),
        types,
        sorted(whole(arguments).items()),
        tuple(first),
        _digest(),
    )
    key = hashlib.sha256(repr(described).encode()).hexdigest()[:20]
    if key in _BUILT:
        return _BUILT[key]
    path = generated_files.folder() / f"twin_{source.name}_{key}.pickle"
    if keep and path.exists():
        try:
            _BUILT[key] = pickle.loads(path.read_bytes())
            return _BUILT[key]
        except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, TypeError, ValueError):
            # cut off, or of another version of what it is made of: built anew
            path.unlink(missing_ok=True)
    made = build(fn, source, arguments, first)
    if len(_BUILT) >= _MOST_BUILT:
        _BUILT.clear()
    _BUILT[key] = made
    if keep:
        generated_files.write(path, pickle.dumps(made))
    return made


_BUILT: dict[str, Built] = {}
_MOST_BUILT = 64


@functools.cache
def _digest() -> str:
    """What machine code depends on beside the source: this package, numba, the processor."""
    digest = hashlib.sha256(source_digest().encode())
    for folder in (Path(__file__).parent, Path(__file__).parents[1] / "twin", Path(__file__).parents[1] / "read"):
        for path in sorted(folder.glob("*.py")):
            digest.update(path.read_bytes())
    features = binding.get_host_cpu_features().flatten()
    for each in (numba.__version__, binding.get_host_cpu_name(), features):
        digest.update(each.encode())
    return digest.hexdigest()


def _compiled(module: Any, lowered: lower.Lowered, inlined: set[str]) -> bytes:
    """The object file of a module whose wrapper Python calls."""
    for function in module.functions:
        if function.is_declaration or function.name == lowered.wrapper:
            continue
        function.linkage = "internal"
        if function.name in inlined:
            function.add_function_attribute("alwaysinline")
    machine = target_machine()
    tuning = binding.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = False
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def open_built(built: Built, view: View, placed: memory.Memory) -> Opened:
    """A twin that works on the first level of `view` and in memory `placed`."""
    # numba's own functions are found by name once its context is there
    assert registry.cpu_target.target_context is not None
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target_machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(built.code))
    engine.finalize_object()
    name, environment = built.environment
    where = engine.get_global_value_address(name)
    if where:
        ctypes.c_void_p.from_address(where).value = id(environment)
    plan = built.plan
    here = _global(engine, twin_ir.HERE, twin_ir.CONSTANTS + len(built.constants))
    here[: twin_ir.CONSTANTS] = (
        placed.low,
        placed.end - placed.low,
        view.last_lines,
        view.counts,
        view.unit_call,
        view.split_call,
        view.state,
        placed.allocator.ctypes.data,
    )
    here[twin_ir.CONSTANTS :] = [placed.constants[each] for each in built.constants]
    # The result as a plain address: a run that was stopped returns none, and says nothing.
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    function = prototype(engine.get_function_address(built.wrapper))
    notes = _global(engine, twin_ir.NOTES, counted_access.NOTE_WORDS * max(1, len(plan.refs)))
    return Opened(
        lambda *values: _owned(function(None, values, None)),
        here,
        _global(engine, twin_ir.PASSES, max(1, len(plan.owners))),
        notes.reshape(-1, counted_access.NOTE_WORDS),
        _global(engine, twin_ir.EVENTS, twin_ir.hooks.VARIABLES + max(1, len(plan.loops))),
        (engine, environment, function),
    )


def _global(engine: Any, name: str, words: int) -> np.ndarray:
    """The words of a global, as an array; they live as long as the engine."""
    address = engine.get_global_value_address(name)
    return np.ctypeslib.as_array((ctypes.c_int64 * words).from_address(address))


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


def _bytes_of(text: str) -> bytes:
    """The bytes of a constant as LLVM writes it: c"…" with escapes, or zeroinitializer."""
    match = re.match(r'c"(.*?)"(?:,|$| )', text)
    if match is None:
        return text.encode()
    plain = re.sub(r"\\([0-9A-Fa-f]{2})", lambda each: chr(int(each[1], 16)), match[1])
    return plain.encode("latin-1")
