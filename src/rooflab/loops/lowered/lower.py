"""A Python function as numba lowers it, before LLVM optimises: one access for each that the source makes.

numba optimises each library as it is finished, and so would merge, hoist and vectorise what is to be counted.
While a function is lowered here it leaves that out. Only what keeps local variables out of memory runs then, and
the inlining of what the function calls.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import numba
from llvmlite import binding
from numba.core import codegen, compiler, cpu
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from rooflab.loops.compiled.target import target_machine
from rooflab.loops.lowered import short_errors
from rooflab.loops.lowered.afresh import VALUED, all_afresh
from rooflab.loops.lowered.folding import fold
from rooflab.loops.read.decorated import options

_LARGEST_INLINED = 4000  # instructions; what is longer makes text of errors
APART = "int_power_impl"  # numba's loop for whole powers: what it costs follows from the exponent
_ERRORS = (APART, "5numba7cpython7unicode", "ol_str", "raise_with_shape", "excinfo")
_INLINED = ("_ZN", "NRT_MemInfo_data")
_NUMBERS = itertools.count()
_AGAIN = ("dead_code_elimination", "sroa", "simplify_cfg", "sroa")
_FIRST = ("sroa", "always_inliner", "global_dead_code_eliminate", "simplify_cfg", "sroa", "simplify_cfg", "sroa")


# A load whose value nobody asks for is an access all the same: while LLVM clears up, each is asked for.
_TYPES = ("double", "float", "half", "i64", "i32", "i16", "i8", "i1")
_LOADED = re.compile(
    rf"^\s+(?P<name>%(?:[\w.$-]+|\"[^\"]*\")) = load (?P<type>{'|'.join(_TYPES)}), .*$", re.MULTILINE
)
_KEEPERS = "\n" + "".join(f"declare void @rl_keep_{each}({each})\n" for each in _TYPES)
_KEPT = re.compile(r"^\s*(?:tail )?call void @rl_keep_\w+\(\w+ (?P<name>[^,)]+)\)")
_KEPT_CALL = re.compile(r"^(?:\s*(?:tail )?call void @rl_keep_|declare void @rl_keep_).*\n", re.MULTILINE)


class Lowered(NamedTuple):
    """A function in LLVM IR.

    Attributes:
        ir: the text of its module.
        main, wrapper: the names of the function, and of what Python calls.
        environment: the name of the global that holds numba's environment, and its value.
        result: whether it returns anything.
    """

    ir: str
    main: str
    wrapper: str
    environment: tuple[str, Any]


def lower(fn: Callable[..., Any], types: tuple[Any, ...]) -> Lowered:
    """`fn` for arguments of `types`, checked against the bounds of arrays.

    Raises:
        NumbaError: what numba cannot compile.
    """
    kept = {name: value for name, value in options(fn).items() if name in VALUED}
    chosen: dict[str, Any] = {
        "error_model": "numpy",
        **kept,
        "nogil": True,
        "debug": True,
        "boundscheck": True,
        "_dbg_optnone": False,
    }
    with _without_code(optimised=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = compiled(all_afresh(fn), types, chosen)
        ir = str(done.library._final_module)
    main, wrapper = done.fndesc.llvm_func_name, done.fndesc.llvm_cpython_wrapper_name
    environment = done.fndesc.env_name, done.environment
    return Lowered(_simplified(ir, main, wrapper), main, wrapper, environment)


def compiled(function: Any, types: tuple[Any, ...], chosen: dict[str, Any], only_lines: bool = False) -> Any:
    """What numba's compiler makes of a Python function, with options `chosen`.

    `only_lines`: of what debugging asks for, the lines alone; functions are still inlined.
    """
    dispatcher: Any = numba.njit(**chosen)(function)
    description = dispatcher.targetdescr
    flags = compiler.Flags()
    description.options.parse_as_flags(flags, dispatcher.targetoptions)
    flags = dispatcher._compiler._customize_flags(flags)
    flags.no_cfunc_wrapper = True
    flags.dbg_directives_only = only_lines
    contexts = description.typing_context, description.target_context
    with short_errors.used():
        done = compiler.compile_extra(*contexts, dispatcher.py_func, types, None, flags, {})
    done.library._ensure_finalized()
    return done


def compiled_to_ir(function: Any, types: tuple[Any, ...], chosen: dict[str, Any], only_lines: bool = False) -> Any:
    """As `compiled`, optimised but not turned into machine code: nothing of it can be called."""
    with _without_code(optimised=True):
        return compiled(function, types, chosen, only_lines)


@contextmanager
def _without_code(optimised: bool) -> Iterator[None]:
    """While it lasts, numba's libraries are not turned into machine code, and but for `optimised` left as lowered.

    What of the user's is compiled meanwhile all the same (a method of a class) is forgotten at its end: nobody
    could call it.
    """
    library: Any = codegen.JITCodeLibrary
    names = ("_optimize_functions", "_optimize_final_module", "_finalize_final_module")
    met: dict[Dispatcher, list[Any]] = {}
    add: Any = Dispatcher.add_overload

    def add_and_note(dispatcher: Any, found: Any) -> None:
        if not dispatcher.py_func.__module__.startswith("numba."):
            met.setdefault(dispatcher, list(dispatcher.overloads.values()))
        add(dispatcher, found)

    with global_compiler_lock:
        kept = {name: getattr(library, name) for name in names}
        Dispatcher.add_overload = add_and_note  # type: ignore[method-assign]
        executable = cpu.CPUContext.get_executable
        if not optimised:
            library._optimize_functions = _with_layout
            library._optimize_final_module = lambda self: None
        library._finalize_final_module = _finished
        # Nobody calls these: a function of Python's own that takes no arguments but text stands in for each. Numba
        # tells compiled functions apart by it, so each is bound to a text of its own.
        cpu.CPUContext.get_executable = lambda *_: f"function {next(_NUMBERS)}".join  # type: ignore[method-assign]
        try:
            yield
        finally:
            for name, value in kept.items():
                setattr(library, name, value)
            cpu.CPUContext.get_executable = executable  # type: ignore[method-assign]
            Dispatcher.add_overload = add  # type: ignore[method-assign]
            for dispatcher, before in met.items():
                cast(Any, dispatcher)._reset_overloads()
                for each in before:
                    dispatcher.add_overload(each)


def _with_layout(library: Any, module: Any) -> None:
    module.data_layout = library._codegen._data_layout


def _finished(library: Any) -> None:
    library._finalize_dynamic_globals()
    library._finalized = True


def _simplified(ir: str, main: str, wrapper: str) -> str:
    """`ir` with local variables in registers and what is called in place."""
    module = binding.parse_assembly(
        _LOADED.sub(r"\g<0>\n  call void @rl_keep_\g<type>(\g<type> \g<name>)", ir) + _KEEPERS
    )
    for function in module.functions:
        if function.is_declaration or function.name == wrapper:
            continue
        function.linkage = "internal"
        long = sum(len(list(block.instructions)) for block in function.blocks) > _LARGEST_INLINED
        makes_text = any(each in function.name for each in _ERRORS)
        fixed = any(b"noinline" in each for each in function.attributes)
        if function.name.startswith(_INLINED) and function.name != main and not (long or makes_text or fixed):
            function.add_function_attribute("alwaysinline")
    _run(module, _FIRST)
    text, folded = fold(_asked_for(str(module)))
    again = True
    while folded or again:
        again = bool(folded)
        module = binding.parse_assembly(text)
        _run(module, _AGAIN)
        text, folded = fold(_asked_for(str(module)))
    return _KEPT_CALL.sub("", text)


def _asked_for(ir: str) -> str:
    """`ir` where only what was loaded from memory is kept: a load of a local variable is a value now."""
    lines = ir.split("\n")
    loaded: set[str] = set()
    kept = []
    for line in lines:
        if line.startswith("define "):
            loaded = set()
        elif match := _LOADED.match(line):
            loaded.add(match["name"])
        elif (match := _KEPT.match(line)) and match["name"] not in loaded:
            continue
        kept.append(line)
    return "\n".join(kept)


def _run(module: Any, passes: tuple[str, ...]) -> None:
    manager = binding.create_new_module_pass_manager()
    for name in passes:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, binding.create_pass_builder(target_machine(), binding.create_pipeline_tuning_options()))
