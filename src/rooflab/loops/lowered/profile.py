"""A profile of the code that runs: its optimised IR once more, with blocks, branches and loads of stores counted."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import binding

from rooflab.loops.lowered import control_flow, counted_access, lower, predictor
from rooflab.loops.lowered.ir_text import Function, functions

_CONDITIONAL = re.compile(r"^\s*br i1 (?P<test>%\S+|true|false), label (?P<yes>%\S+), label (?P<no>%\S+?)(?:,|$)")
_POINTER = re.compile(r"(?:load|store) .*?ptr (?P<pointer>%(?:[\w.$-]+|\"[^\"]*\")|@\S+?),")
_SCALAR = re.compile(r"(?:= load|^\s*store) (?:double|float|i64|i32)\b")


class Profile(NamedTuple):
    """What one run of optimised code did.

    Attributes:
        function: the code, as LLVM left it.
        ir: of its module.
        passes: how often each block ran, by label.
        branches: of each block that ends in one: how often the branch was simulated, taken, mispredicted.
        forwarded: of each load, by result: the text of the store whose value it found, the share of its runs in
            which it did, and how many passes before that was stored, in the mean.
        loops: of the function.
    """

    function: Function
    ir: str
    passes: Mapping[str, int]
    branches: Mapping[str, tuple[int, int, int]]
    forwarded: Mapping[str, tuple[str, float, float]]
    loops: tuple[control_flow.NaturalLoop, ...]


def optimised(fn: Any, types: tuple[Any, ...]) -> tuple[str, str, str, tuple[str, Any]]:
    """The optimised IR of `fn` with lines of the source, its name there, its wrapper's, its environment."""
    given = lower.options(fn)
    chosen: dict[str, Any] = {"nogil": True, "error_model": "numpy", **given} if not given else dict(given)
    chosen |= {"debug": True, "_dbg_optnone": False, "_dbg_extend_lifetimes": False, "nogil": True, "cache": False}
    chosen.pop("nopython", None)
    # one core's code
    chosen["parallel"] = False
    dispatcher: Any = numba.njit(**chosen)(lower.with_helpers(fn))
    dispatcher.compile(types)
    done = next(iter(dispatcher.overloads.values()))
    names = done.fndesc
    return (
        done.library.get_llvm_str(),
        names.llvm_func_name,
        names.llvm_cpython_wrapper_name,
        (
            names.env_name,
            done.environment,
        ),
    )


def take(fn: Any, values: tuple[Any, ...]) -> Profile | None:
    """The profile of one run of `fn` on `values`, which it may change; None where its code is not one function."""
    ir, main, wrapper, environment = optimised(fn, tuple(numba.typeof(each) for each in values))
    function = next((each for each in functions(ir) if each.name == main), None)
    if function is None:
        return None
    graph = {label: block.following for label, block in function.blocks.items()}
    found = control_flow.loops(graph, next(iter(graph)))
    return _run(function, ir, wrapper, environment, found, values)


def _run(
    function: Function,
    ir: str,
    wrapper: str,
    environment: tuple[str, Any],
    found: tuple[control_flow.NaturalLoop, ...],
    values: tuple[Any, ...],
) -> Profile:
    labels = list(function.blocks)
    inside = control_flow.innermost_of(found)
    passes = np.zeros(len(labels), np.int64)
    branches = np.zeros((len(labels), predictor.BRANCH_WORDS), np.int64)
    state = np.zeros(predictor.STATE_WORDS, np.int64)
    table = np.zeros(predictor.STORE_WORDS, np.int64)
    accesses = [
        each
        for label in labels
        if label in inside
        for each in function.blocks[label].instructions
        if _SCALAR.search(each.text)
    ]
    numbers = {id(each): number for number, each in enumerate(accesses)}
    notes = np.zeros((max(1, len(accesses)), predictor.LOAD_WORDS), np.int64)
    parts = [counted_access.compiled(*each) for each in (predictor.BRANCH, predictor.STORED, predictor.LOADED)]
    lines = [function.header]
    for number, (label, block) in enumerate(function.blocks.items()):
        if number or label != "%0":
            lines.append(f"{label[1:]}:")
        phis = sum(each.opcode == "phi" for each in block.instructions)
        for position, each in enumerate(block.instructions):
            if position == phis:
                where = f"ptr inttoptr (i64 {passes.ctypes.data + 8 * number} to ptr), align 8"
                lines += [
                    f"  %rl.p{number} = load i64, {where}",
                    f"  %rl.n{number} = add i64 %rl.p{number}, 1",
                    f"  store i64 %rl.n{number}, {where}",
                ]
            if each.opcode == "br" and (match := _CONDITIONAL.match(each.text)) and match["test"][0] == "%":
                lines += [
                    f"  %rl.t{number} = zext i1 {match['test']} to i64",
                    f"  call void @rl_branch(i64 {number}, i64 %rl.t{number})",
                ]
            if (access := numbers.get(id(each))) is not None and (match := _POINTER.search(each.text)):
                clock = passes.ctypes.data + 8 * labels.index(found[inside[label]].head)
                what = "loaded" if each.opcode == "load" else "stored"
                lines += [
                    f"  %rl.a{access} = ptrtoint ptr {match['pointer']} to i64",
                    f"  call void @rl_{what}(i64 {access}, i64 %rl.a{access}, i64 {clock})",
                ]
            lines.append(each.text)
    start = ir.index(function.header)
    end = ir.index("\n}", start) + 2
    text = ir[:start] + "\n".join([*lines, "}"]) + ir[end:]
    text += _helpers([name for _, name in parts], state, branches, table, notes)
    module = binding.parse_assembly(text)
    for bitcode, name in parts:
        linked = binding.parse_bitcode(bitcode)
        linked.get_function(name).linkage = "linkonce_odr"
        module.link_in(linked)
    engine = binding.create_mcjit_compiler(module, lower.target_machine())
    engine.finalize_object()
    if where := engine.get_global_value_address(environment[0]):
        ctypes.c_void_p.from_address(where).value = id(environment[1])
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    call: Callable[..., Any] = prototype(engine.get_function_address(wrapper))
    call(None, values, None)
    forwarded = {}
    for each, (hits, distance, by, looked) in zip(accesses, notes.tolist(), strict=False):
        if each.opcode == "load" and hits:
            forwarded[each.result] = (accesses[by].text, hits / looked, distance / hits)
    del engine
    return Profile(
        function,
        ir,
        dict(zip(labels, passes.tolist(), strict=True)),
        {label: (row[0], row[1], row[2]) for label, row in zip(labels, branches.tolist(), strict=True) if row[0]},
        forwarded,
        found,
    )


def _helpers(names: list[str], state: Any, branches: Any, table: Any, notes: Any) -> str:
    branch, stored, loaded = names
    return f"""
@rl_result = internal global i64 0
@rl_raised = internal global ptr null
declare i32 @{branch}(ptr, ptr, i64, i64, i64, i64)
declare i32 @{stored}(ptr, ptr, i64, i64, i64, i64)
declare i32 @{loaded}(ptr, ptr, i64, i64, i64, i64, i64)
define internal void @rl_branch(i64 %n, i64 %taken) {{
  %s = call i32 @{branch}(ptr @rl_result, ptr @rl_raised, i64 {state.ctypes.data}, i64 {branches.ctypes.data},
    i64 %n, i64 %taken)
  ret void
}}
define internal void @rl_stored(i64 %n, i64 %a, i64 %clock) {{
  %where = inttoptr i64 %clock to ptr
  %now = load i64, ptr %where
  %s = call i32 @{stored}(ptr @rl_result, ptr @rl_raised, i64 {table.ctypes.data}, i64 %n, i64 %a, i64 %now)
  ret void
}}
define internal void @rl_loaded(i64 %n, i64 %a, i64 %clock) {{
  %where = inttoptr i64 %clock to ptr
  %now = load i64, ptr %where
  %s = call i32 @{loaded}(ptr @rl_result, ptr @rl_raised, i64 {table.ctypes.data}, i64 {notes.ctypes.data},
    i64 %n, i64 %a, i64 %now)
  ret void
}}
"""
