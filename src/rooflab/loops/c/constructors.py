"""Variables that a program of C++ computes before its main function begins: the values that they then have."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

from llvmlite import binding

from rooflab.loops.c.lower import Variable, for_here, without_exceptions
from rooflab.loops.compiled.target import target_machine
from rooflab.loops.lowered.ir_text import functions
from rooflab.loops.lowered.pointers import called

_LIST = re.compile(r"^@llvm\.global_ctors = .*$", re.MULTILINE)
_NAME = re.compile(r"@(?:[\w.$-]+|\"[^\"]*\")")
_AT_EXIT = re.compile(r"^declare (?P<kind>\S+ )?i32 @__cxa_atexit\(.*$", re.MULTILINE)
_HANDLE = re.compile(r"^@__dso_handle = external (?:hidden )?(?:dso_local )?global i8.*$", re.MULTILINE)


def set_before(ir: str, variables: Sequence[Variable]) -> list[Variable]:
    """Those of `variables` that the constructors of the module `ir` name: they give them their values."""
    listed = _LIST.search(ir)
    if listed is None:
        return []
    defined = {each.name: each for each in functions(ir)}
    todo = [each[1:].strip('"') for each in _NAME.findall(listed[0])[1:]]
    seen, named = set[str](), set[str]()
    while todo:
        function = defined.get(todo.pop())
        if function is None or function.name in seen:
            continue
        seen.add(function.name)
        for each in function.instructions():
            named |= set(_NAME.findall(each.text))
            if each.opcode in ("call", "invoke"):
                todo.append(called(each.text))
    return [each for each in variables if each.name in named]


def harmless(ir: str) -> str:
    """`ir` whose destructors are not called when this process ends: its memory is gone by then."""
    ir = _AT_EXIT.sub("define internal i32 @__cxa_atexit(ptr %f, ptr %a, ptr %d) {\n  ret i32 0\n}", ir)
    return _HANDLE.sub("@__dso_handle = internal global i8 0", ir)


def compiled(ir: str) -> Any:
    """The module `ir` ready to be compiled, its variables within reach, what it calls not yet looked for."""
    module = binding.parse_assembly(harmless(without_exceptions(for_here(ir))))
    for variable in module.global_variables:
        if not variable.is_declaration and not variable.name.startswith("llvm."):
            variable.linkage = "external"
    return module


def values(module: Any, chosen: dict[str, int]) -> dict[str, bytes]:
    """The first values of variables once the constructors have run: of each name in the IR, so many bytes."""
    engine = binding.create_mcjit_compiler(module, target_machine())
    engine.finalize_object()
    engine.run_static_constructors()
    return {
        name: ctypes.string_at(engine.get_global_value_address(name.lstrip("@").strip('"')), nbytes)
        for name, nbytes in chosen.items()
    }
