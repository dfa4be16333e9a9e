"""Counting a function of C: its twin linked with the simulator, every access checked before it is made."""

from __future__ import annotations

import ctypes
import re
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding

from rooflab.cachesim.level import hierarchy
from rooflab.errors import RooflabError
from rooflab.loops.c import constructors, lower, memory, support_ir, twin_ir
from rooflab.loops.c.absent import Library
from rooflab.loops.c.arguments import Bound
from rooflab.loops.c.call import value_of
from rooflab.loops.c.debug_info import DebugInfo, LinesOf, Subprogram
from rooflab.loops.c.openmp import stubs
from rooflab.loops.c.plan import CPlanner
from rooflab.loops.c.pointers import Known
from rooflab.loops.c.source import CNames, CSource
from rooflab.loops.compiled.target import target_machine
from rooflab.loops.lowered import count as counting
from rooflab.loops.lowered import counted_access, instrument
from rooflab.loops.lowered.built import geometry
from rooflab.loops.read.twin_text import Text
from rooflab.loops.twin import hooks
from rooflab.machines.cache_levels import Chosen
from rooflab.units import iec

_DEBUG = re.compile(r",? !(?:dbg|llvm\.loop) !\d+|^\s*#dbg_\w+\(.*$|^!llvm\.dbg\.cu = .*$", re.MULTILINE)
_DECLARED = re.compile(r"#dbg_declare\(ptr (%\S+), (!\d+)")


_HERE = ("NRT_MemInfo_alloc",)  # numba brings it


class Twin(NamedTuple):
    """A twin of C: as any other, with its planner, its memory, and what it was made of."""

    twin: counting.LoweredTwin
    planner: CPlanner
    layout: memory.Layout
    lowered: lower.Lowered
    stack: np.ndarray


def make(
    ir: str,
    main: Subprogram,
    source: CSource,
    bound: Bound,
    caches: Chosen,
    units: int | None,
    library: Library | None,
) -> Twin:
    """The twin of `main` in the module `ir` for arguments, beside empty `caches`.

    Raises:
        RooflabError: what cannot be counted, by line; a function that it calls and that is nowhere.
    """
    lowered = lower.lower(stubs.answered(ir), main)
    if len(lowered.header) != len(main.parameters):
        raise RooflabError(
            f"{main.file}:{main.line}: {main.name}: its arguments are not handed over one by one"
            f" ({main.signature}): expected numbers and pointers: structures by a pointer"
        )
    places = LinesOf(DebugInfo(lowered.ir), main.file)
    variables = {each.name: each.said for each in lowered.variables}
    kinds = {each.name: each.kind for each in lowered.variables} | dict(lowered.arrays)
    types = [*kinds.values(), *_stack_types(lowered)]
    sizes = lower.sizes(lowered.types, list(dict.fromkeys(types)), lower.data_layout(lowered.ir))
    known = Known(local_names(lowered), variables)
    layout = memory.lay_out(
        bound.values,
        dict(zip(bound.values, lowered.header, strict=True)),
        {name: sizes[kind] for name, kind in kinds.items()},
    )
    names = CNames(source, variables, known.arrays)
    planner = CPlanner(
        places, instrument.Names(names.array, names.text, names.variable), known, lambda n: source.lines.get(n, "")
    )
    planner.absent = frozenset() if library is None else library.absent
    chosen = constructors.set_before(ir, lowered.variables)
    plan = planner.of(lowered.functions, lowered.main, constructed=bool(chosen))
    refs = [f"{ref.line}: {ref.text}{' =' if ref.write else ''}" for ref in plan.refs]
    low = layout.memory.low
    built = hierarchy.build(
        caches.caches, references=refs or ["none"], units=units, address_end=layout.memory.end - low
    )
    passes = np.zeros(max(1, len(plan.owners)), np.int64)
    notes = np.zeros((max(1, len(plan.refs)), counted_access.NOTE_WORDS), np.int64)
    events = np.zeros(hooks.VARIABLES + max(1, len(plan.loops)), np.int64)
    stack = np.array([low + layout.stack, low + layout.stack + memory.STACK_BYTES, low + layout.stack], np.int64)
    ways = geometry(built.address).queued_ways
    parts = [counted_access.compiled(*each) for each in counted_access.parts(ways)]
    wiring = support_ir.Wiring(
        counting.view_of(built),
        layout,
        passes.ctypes.data,
        notes.ctypes.data,
        events.ctypes.data,
        layout.memory.allocator.ctypes.data,
        stack.ctypes.data,
        sizes,
        *(name for _, name in parts),
    )
    engine, address = _compiled(twin_ir.write(lowered, planner, plan, wiring), parts, main, library)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(address)
    result = np.zeros(4, np.int64)
    first = first_values(lowered, layout, constructed(ir, chosen, layout, main, library))

    def prepare() -> None:
        events[:] = 0
        stack[:2] = low + layout.stack, low + layout.stack + memory.STACK_BYTES
        first()

    def call(*_values: Any) -> Any:
        if function(layout.slots.ctypes.data, result.ctypes.data) == 0:
            return value_of(lowered.result, result)
        if not events[support_ir.KIND]:
            raise InterruptedError
        raise RooflabError(_ended(events, planner, plan, layout, main, source, names))

    text = Text("", plan.refs, plan.loops, plan.flop, plan.owners, frozenset())
    held = engine, function, layout, stack, wiring
    twin = counting.LoweredTwin(call, layout.memory, plan, text, passes, notes, events, built, held, prepare)
    return Twin(twin, planner, layout, lowered, stack)


def _stack_types(lowered: lower.Lowered) -> list[str]:
    found = []
    for function in lowered.functions:
        for each in function.instructions():
            if each.opcode == "alloca" and (match := lower.ALLOCA.match(each.text)):
                found.append(match["type"])
    return found


def local_names(lowered: lower.Lowered) -> dict[str, str]:
    """Names in the source of the arrays and structures on the stack of the function, by alloca."""
    variables = DebugInfo(lowered.ir).variables()
    main = next(each for each in lowered.functions if each.name == lowered.main)
    start = lowered.ir.index(main.header)
    body = lowered.ir[start : lowered.ir.index("\n}", start)]
    names = {alloca: variables.get(node, ("", 0))[0] for alloca, node in _DECLARED.findall(body)}
    made = [each for each in main.instructions() if each.opcode == "alloca"]
    # those whose size is known only when they are made are arrays, too
    wide = [each.result for each in made if lowered.arrays.get(each.result, "[")[0] in "[{<%"]
    return {name: names.get(name, "") or "a local array" for name in wide}


def constructed(
    ir: str, chosen: list[lower.Variable], layout: memory.Layout, main: Subprogram, library: Library | None
) -> dict[str, bytes]:
    """What constructors leave in the variables `chosen` of the module."""
    if not chosen:
        return {}
    module = constructors.compiled(ir)
    check_symbols(module, main, library)
    return constructors.values(module, {each.name: layout.objects[each.name].nbytes for each in chosen})


def first_values(lowered: lower.Lowered, layout: memory.Layout, made: dict[str, bytes]) -> Any:
    """A function that gives the variables of the module the values that they begin with."""
    low = layout.memory.low
    placed = {each.name: low + layout.objects[each.name].low for each in lowered.variables}
    given = [each for each in lowered.variables if each.start not in ("zeroinitializer", "undef", "poison")]
    zero = [each for each in lowered.variables if each not in given]
    lines = [f'target datalayout = "{lower.data_layout(lowered.ir)}"', lowered.types]
    for n, each in enumerate(given):
        lines.append(f"@rl.first{n} = constant {each.kind} {twin_ir.located(each.start, placed)}")
    engine = None
    if given:
        engine = binding.create_mcjit_compiler(binding.parse_assembly("\n".join(lines)), target_machine())
        engine.finalize_object()
    runs = [0]

    def set_back() -> None:
        for n, each in enumerate(given):
            assert engine is not None
            at = engine.get_global_value_address(f"rl.first{n}")
            ctypes.memmove(placed[each.name], at, layout.objects[each.name].nbytes)
        for each in zero if runs[0] else ():
            ctypes.memset(placed[each.name], 0, layout.objects[each.name].nbytes)
        for name, held in made.items():
            ctypes.memmove(placed[name], held, len(held))
        runs[0] += 1

    return set_back


def without_debug(text: str) -> str:
    """The text of a module without lines and names of the source."""
    return _DEBUG.sub("", text)


def _compiled(
    text: str, parts: list[tuple[bytes, str]], main: Subprogram, library: Library | None
) -> tuple[Any, int]:
    # Of a module with lines LLVM ends this process where it is broken; without them it is asked.
    module = binding.parse_assembly(without_debug(text))
    module.verify()
    for bitcode, name in parts:
        linked = binding.parse_bitcode(bitcode)
        linked.get_function(name).linkage = "linkonce_odr"
        module.link_in(linked)
    for function in module.functions:
        if function.is_declaration or function.name == "rl_main":
            continue
        function.linkage = "internal"
        if function.name in (parts[0][1], parts[-1][1]):
            function.add_function_attribute("alwaysinline")
    machine = target_machine()
    tuning = binding.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = False
    builder = binding.create_pass_builder(machine, tuning)
    manager = builder.getModulePassManager()
    # what follows the end of a run goes, and what only that would have called
    manager.add_global_dead_code_eliminate_pass()
    manager.add_strip_dead_prototype_pass()
    manager.run(module, builder)
    check_symbols(module, main, library)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine, engine.get_function_address("rl_main")


def check_symbols(module: Any, main: Subprogram, library: Library | None, ran: bool = False) -> None:
    """See that all is there that a module calls or reads: LLVM would end this process.

    Args:
        module: to be compiled.
        main: the user's function.
        library: the user's own build, with what that is linked with.
        ran: whether it ran to its end before: what was not needed then is not now.

    Raises:
        RooflabError: which name is nowhere.
    """
    for each in (*module.functions, *module.global_variables):
        if each.linkage == binding.Linkage.available_externally:
            # a body to be put in place, which a library may have too: it has one here now
            each.linkage = "linkonce_odr"
        if not each.is_declaration or each.name.startswith("llvm."):
            continue
        nowhere = library is not None and each.name in library.absent
        if not nowhere and binding.address_of_symbol(each.name):
            continue
        if each.name in _HERE:
            continue
        try:
            found: Any = None if library is None else library.find(each.name)
        except AttributeError:
            # nor there
            found = _of_the_compiler(each.name)
        address = None if found is None else ctypes.cast(found, ctypes.c_void_p).value
        if address is None and ran:
            address = binding.address_of_symbol("abort")
        if address is None:
            raise RooflabError(
                f"{main.file}:{main.line}: {main.name} needs {each.name}, which is neither in its file nor in a"
                " library that is loaded: give the library by --cflags -lNAME, or count a file that has it"
            )
        binding.add_symbol(each.name, address)


def _of_the_compiler(name: str) -> Any:
    """A function that compilers call where the source has an operation, such as a division of complex numbers."""
    if not name.startswith("__"):
        return None
    try:
        return getattr(ctypes.CDLL("libgcc_s.so.1"), name)
    except (OSError, AttributeError):
        # none here
        return None


def _ended(
    events: np.ndarray,
    planner: CPlanner,
    plan: instrument.Plan,
    layout: memory.Layout,
    main: Subprogram,
    source: CSource,
    names: CNames,
) -> str:
    """Why the run ended before its end, in one line."""
    kind, number, where, nbytes = (
        int(events[each]) for each in (support_ir.KIND, support_ir.REF, support_ir.WHERE, support_ir.NBYTES)
    )
    if kind == support_ir.ENDED:
        what, line = list(planner.ends.values())[number]
        return f"{_at(source, line)}: {main.name} {what}: {source.lines.get(line, '').strip()}"
    if kind == support_ir.FULL:
        room = iec(memory.STACK_BYTES if number else layout.memory.end - layout.memory.low)
        where_made = "stack" if number else "heap"
        return f"{source.path}: {main.name}: what it makes on the {where_made} does not fit in {room}"
    if kind == support_ir.BY_ZERO:
        text = source.lines.get(number, "").strip()
        return f"{_at(source, number)}: {main.name} divides a whole number by 0, or the least one by -1: {text}"
    if kind == support_ir.NO_FUNCTION:
        text = source.lines.get(number, "").strip()
        return f"{_at(source, number)}: {main.name} calls through a pointer that leads to no function: {text}"
    if kind == support_ir.NO_BLOCK:
        return f"{source.path}: {main.name}: frees what malloc did not hand out, or what was freed already"
    ref = plan.refs[number]
    at = f"{_at(source, ref.line)}: {main.name}: {ref.text}"
    doing = "written" if ref.write else "read"
    within = twin_ir.span(planner.allowed[number], layout.objects)
    if within is not None:
        said = names.said(next(iter(planner.allowed[number])))
        size = within.itemsize if within.itemsize > 1 else max(1, min(nbytes, ref.itemsize))
        offset = where - within.low
        if abs(offset) < 1 << 40:
            count = within.nbytes // size
            if nbytes > size and nbytes > ref.itemsize:
                last = (offset + nbytes - 1) // size
                return (
                    f"{at} is out of bounds: elements {offset // size:,} to {last:,} of {said} are {doing}, which"
                    f" has {count:,} (0 to {count - 1:,})"
                )
            return (
                f"{at} is out of bounds: element {offset // size:,} of {said} is {doing}, which has {count:,}"
                f" (0 to {count - 1:,})"
            )
    if not 0 <= where < layout.memory.end - layout.memory.low:
        address = layout.memory.low + where
        null = "a null pointer" if 0 <= address % 2**64 < 4096 else f"address {address % 2**64:#x}"
        return f"{at} is out of bounds: {doing} through {null}, where there is no array"
    if planner.allowed[number] and any(each.kind == "heap" for each in planner.allowed[number]):
        said = names.array(ref.line, planner.allowed[number])
        return f"{at} is out of bounds: {doing} beyond the end of {said}, or after it was freed"
    if not layout.objects:
        return f"{at} is out of bounds: {doing} where no array is"
    near = min(layout.objects.values(), key=lambda each: abs(where - each.low))
    size = near.itemsize if near.itemsize > 1 else max(1, ref.itemsize)
    said = near.name.lstrip("@")
    return (
        f"{at} is out of bounds: {doing} where no array is; the nearest is element"
        f" {(where - near.low) // size:,} of {said}, which has {near.nbytes // size:,}"
    )


def _at(source: CSource, line: int) -> str:
    return f"{source.path}:{line}" if line else source.path
