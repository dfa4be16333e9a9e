"""Functions that numba compiles with the lines of their source: the code that runs and its IR, of one compilation.

Of what debugging asks for they have the lines alone, which add no instruction. The IR that is looked at is that of
the code that is timed; numba's cache on disk holds both.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from numba.core.codegen import JITCodeLibrary
from numba.core.cpu import CPUContext
from numba.core.errors import NumbaDebugInfoWarning

_LINES = {"debug": True, "_dbg_optnone": False, "_dbg_extend_lifetimes": False}
_MARK = "_rooflab_lines"
_LINKED = re.compile(r"^define linkonce_odr ", re.MULTILINE)  # numba writes so what it keeps, to be linked again


class Optimised(NamedTuple):
    """The optimised IR of a compiled function.

    Attributes:
        ir: the text of its module.
        main, wrapper: the names of the function, and of what Python calls.
        environment: the name of the global that holds numba's environment, and its value.
    """

    ir: str
    main: str
    wrapper: str
    environment: tuple[str, Any]


def with_lines(dispatcher: Any) -> Any:
    """`dispatcher`, which `njit` made and nobody else uses, so that what it compiles has lines; it is changed."""
    if hasattr(dispatcher, _MARK):
        return dispatcher
    options = dispatcher.targetoptions
    options |= {**_LINES, "boundscheck": bool(options.get("boundscheck"))}
    compiler = dispatcher._compiler
    before, core = compiler._customize_flags, compiler._compile_core

    def flags(given: Any) -> Any:
        given = before(given)
        given.dbg_directives_only = True
        return given

    def compiled(*signature: Any) -> Any:
        with warnings.catch_warnings():
            # numba says so of the functions that it writes itself of loops over prange
            warnings.simplefilter("ignore", NumbaDebugInfoWarning)
            return core(*signature)

    compiler._customize_flags, compiler._compile_core = flags, compiled
    setattr(dispatcher, _MARK, True)
    return dispatcher


@contextmanager
def code_only_of(*names: str) -> Iterator[None]:
    """While it lasts, numba makes machine code of functions of these `names` alone.

    What they are made of (the bodies of loops over prange, numba's own functions) is linked into theirs as IR.
    """
    library: Any = JITCodeLibrary
    context: Any = CPUContext
    finalize, executable = library._finalize_final_module, context.get_executable
    numbers = itertools.count()

    def finalized(self: Any) -> None:
        if self.name in names:
            finalize(self)
        else:
            self._finalize_dynamic_globals()
            self._finalized = True

    def callable_of(self: Any, library: Any, *more: Any) -> Any:
        # nobody calls the others, but numba tells functions apart by what Python would call
        return executable(self, library, *more) if library.name in names else f"{next(numbers)}".join

    library._finalize_final_module, context.get_executable = finalized, callable_of
    try:
        yield
    finally:
        library._finalize_final_module, context.get_executable = finalize, executable


def optimised(function: Any, types: tuple[Any, ...]) -> Optimised | None:
    """The IR of what `function` was compiled to for `types`; None where it was not, or without lines."""
    done = function.overloads.get(types) if hasattr(function, _MARK) else None
    return None if done is None else of_result(done)


def of_result(done: Any) -> Optimised:
    """The IR of a result of numba's compiler, made now or found in its cache."""
    names = done.fndesc
    ir = _LINKED.sub("define ", str(done.library._get_module_for_linking()))
    return Optimised(ir, names.llvm_func_name, names.llvm_cpython_wrapper_name, (names.env_name, done.environment))
