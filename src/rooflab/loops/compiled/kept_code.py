"""Functions that numba compiled, kept as machine code, so that the next process runs them without numba.

Kept is the object file as numba made it, and beside it one function of our own that takes the arguments from
memory and calls numba's. It is used where all that the function needs is known and found; otherwise numba compiles
it, or finds it in its own cache.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from llvmlite import binding

from rooflab.errors import RooflabError
from rooflab.loops import kept
from rooflab.loops.compiled import numba_symbols, object_file
from rooflab.loops.compiled.target import target_machine
from rooflab.loops.twin import generated_files

_CALL = "rooflab_call"
_RELEASE = "NRT_decref"
_RESULT_BYTES = 4096
_FORMATS = {"double": "<d", "float": "<f"}
_WORD = 8


class Text(NamedTuple):
    """A generated module: what its file's name begins with, its text, and the function in it that is meant."""

    stem: str
    text: str
    function: str

    @property
    def said(self) -> tuple[str, ...]:
        """What tells it from others."""
        return tuple(self)

    def compiled(self) -> Any:
        """The function, as numba's `njit` makes it."""
        from rooflab.loops.compiled.with_lines import with_lines

        return with_lines(getattr(generated_files.module(self.stem, self.text), self.function))


class Compilable(Protocol):
    """What numba can compile, told from all else: a `Text`, or a function of the user's."""

    @property
    def said(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def function(self) -> str: ...  # noqa: D102
    def compiled(self) -> Any: ...  # noqa: D102


class Code:
    """A function in machine code that is called for what it does: it returns nothing."""

    def __init__(self, name: str, call: Any, layer: str, held: Any) -> None:
        self.name, self.layer = name, layer
        self._call, self._held = call, held

    def bound(self, values: tuple[Any, ...]) -> Callable[[], None]:
        """What calls it with these arguments, which are looked at now.

        Raises:
            RooflabError: when called: the function ended with an error.
        """
        flat = list(_flat(values))
        words = np.zeros(len(flat), np.int64)
        for n, (kind, value) in enumerate(flat):
            struct.pack_into(_FORMATS.get(kind, "<q"), words.data, n * _WORD, _signed(value, kind))
        result = np.zeros(_RESULT_BYTES // _WORD + 1, np.int64)
        given = words.ctypes.data, result.ctypes.data
        function, name = self._call, self.name

        def call(_held: Any = (words, result, values, self._held)) -> None:
            if function(*given):
                raise RooflabError(f"{name}: a run of it ended with an error")

        return call

    def __call__(self, *values: Any) -> None:
        """Run it once."""
        self.bound(values)()


def _signed(value: Any, kind: str) -> Any:
    """A whole number as a word of 64 bits with a sign."""
    return value if kind in _FORMATS else (int(value) + (1 << 63)) % (1 << 64) - (1 << 63)


def ready(text: Compilable, values: tuple[Any, ...]) -> Callable[..., Any]:
    """The function of `text` for arguments like `values`: kept code; else numba's, whose code is kept.

    Raises:
        NumbaError: what numba cannot compile.
    """
    key = _key(text, values)
    found = None if key is None else _found(key, text.function)
    if found is not None:
        return found
    function = text.compiled()
    if key is None:
        return function
    parts = _parts(function, values)
    if parts is None:
        return function
    kept.keep(key, parts)
    return _opened(parts, text.function) or function


def _key(text: Compilable, values: tuple[Any, ...]) -> str | None:
    if not kept.is_on():
        return None
    said = [_described(value) for value in values]
    return None if None in said else kept.key("code", *text.said, said, numba_symbols.settings())


def _described(value: Any) -> Any:
    """The type of an argument, told apart wherever numba tells it apart; None where that is not known."""
    if type(value) is tuple:
        parts = [_described(each) for each in value]
        return None if None in parts else tuple(parts)
    if type(value) is np.ndarray:
        flags = value.flags
        layout = flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned
        return (
            None
            if value.dtype.hasobject
            else ("array", value.dtype.descr, value.dtype.itemsize, value.ndim, layout)
        )
    if type(value) is int:
        return "int" if -(1 << 63) <= value < 1 << 63 else None
    if type(value) in (bool, float, complex):
        return type(value).__name__
    if isinstance(value, (np.integer, np.floating, np.complexfloating)):
        return f"np.{value.dtype}"
    return None


def _flat(value: Any) -> Iterator[tuple[str, Any]]:
    """An argument as numba's functions take it: LLVM's type of each part, and the part.

    Of an array: no owner that counts references, its elements, bytes of each, address, lengths, strides
    (numba/core/datamodel/models.py, ArrayModel).
    """
    if isinstance(value, tuple):
        for each in value:
            yield from _flat(each)
    elif isinstance(value, np.ndarray):
        yield from (
            ("ptr", 0),
            ("ptr", 0),
            ("i64", value.size),
            ("i64", value.itemsize),
            ("ptr", value.ctypes.data),
        )
        yield from (("i64", each) for each in (*value.shape, *value.strides))
    elif isinstance(value, (complex, np.complexfloating)):
        kind = "float" if np.result_type(value) == np.complex64 else "double"
        yield from ((kind, float(value.real)), (kind, float(value.imag)))
    elif isinstance(value, (float, np.floating)):
        yield "float" if np.result_type(value) == np.float32 else "double", float(value)
    elif isinstance(value, bool):
        yield "i8", int(value)
    else:
        yield f"i{8 * value.dtype.itemsize}" if isinstance(value, np.integer) else "i64", int(value)


def _parts(function: Any, values: tuple[Any, ...]) -> dict[str, bytes] | None:
    """What is kept of a dispatcher of numba's; None where its code cannot be run by itself."""
    from numba.core import types

    done = compile_for(function, values)
    if done is None:
        return None
    held = done.signature.return_type
    array = isinstance(held, types.Array)
    parts: tuple[Any, ...] = () if array else getattr(held, "types", (held,))
    if not all(each == types.none or isinstance(each, (types.Number, types.Boolean)) for each in parts):
        return None
    context = function.targetdescr.target_context
    packed = [_plain(str(each)) for each in context.get_arg_packer(done.signature.args).argument_types]
    if packed != [kind for kind, _ in _flat(values)] or len(parts) * 16 > _RESULT_BYTES:
        return None
    code = _object(function, done)
    read = None if code is None else object_file.read(code)
    main = done.fndesc.llvm_func_name
    if code is None or read is None:
        return None
    reached = read.reached(main)
    # an array that is returned is let go of
    release = _RELEASE if array else ""
    if release:
        if release not in {each.name for each in read.symbols if each.section}:
            return None
        reached |= read.reached(release)
    # numba's record of a function: only the wrapper, which is not called, is told of it
    if not reached or done.fndesc.env_name in reached:
        return None
    needed = reached & read.undefined
    layer = ""
    if numba_symbols.needs_layer(needed):
        from numba.np.ufunc.parallel import threading_layer

        layer = threading_layer()
    call = _caller(main, packed, read.undefined - needed, release)
    said = "\n".join(sorted(needed)).encode()
    return {"code": code, "call": call, "needed": said, "layer": layer.encode()}


def compile_for(function: Any, values: tuple[Any, ...]) -> Any:
    """What numba makes of a dispatcher for arguments like `values`; None where it does not hold it."""
    import numba

    signature = tuple(numba.typeof(value) for value in values)
    function.compile(signature)
    return function.overloads.get(signature)


def _plain(kind: str) -> str:
    return "ptr" if kind.endswith("*") else kind


def _object(function: Any, done: Any) -> bytes | None:
    """The object file of what a dispatcher compiled or found in numba's cache; None where it is in neither."""
    library = done.library
    library._ensure_finalized()
    if library._compiled_object:
        return library._compiled_object
    cache = function._cache
    try:
        found = cache._cache_file.load(cache._index_key(done.signature.args, library.codegen))
        _, kind, (code, *_) = found[0]
    except (AttributeError, TypeError, ValueError, IndexError):
        # not kept by numba either, or in another form
        return None
    return code if kind == "object" else None


def _caller(main: str, kinds: list[str], others: frozenset[str], release: str = "") -> bytes:
    """An object file with what calls `main` on words of arguments.

    `others` are defined: they stop the process. `release` is called with the owner of an array that is returned.
    """
    lines = [
        f'declare i32 @"{main}"(ptr, ptr{"".join(f", {kind}" for kind in kinds)})',
        "declare void @llvm.trap()",
    ]
    lines += [
        f'define void @"{each}"() {{\n  call void @llvm.trap()\n  unreachable\n}}' for each in sorted(others)
    ]
    lines += [f"define i32 @{_CALL}(ptr %words, ptr %result) {{", "  %error = alloca ptr"]
    for n, kind in enumerate(kinds):
        lines += [f"  %p{n} = getelementptr i64, ptr %words, i64 {n}", f"  %a{n} = load {kind}, ptr %p{n}"]
    given = "".join(f", {kind} %a{n}" for n, kind in enumerate(kinds))
    lines += [
        f'  %status = call i32 @"{main}"(ptr %result, ptr %error{given})',
        # 0: done; -2: done, and what it returns is None (numba/core/callconv.py)
        "  %done = icmp eq i32 %status, 0",
        "  %none = icmp eq i32 %status, -2",
        "  %well = or i1 %done, %none",
        "  %code = select i1 %well, i32 0, i32 1",
        *([] if not release else ["  br i1 %well, label %made, label %end", "made:"]),
        *([] if not release else ["  %owner = load ptr, ptr %result", f"  call void @{release}(ptr %owner)"]),
        *([] if not release else ["  br label %end", "end:"]),
        "  ret i32 %code",
        "}",
    ]
    lines += [f"declare void @{release}(ptr)"] if release else []
    machine = target_machine()
    module = binding.parse_assembly("\n".join(lines))
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return machine.emit_object(module)


def _found(key: str, name: str) -> Code | None:
    parts = kept.find(key)
    return None if parts is None else _opened(parts, name)


def _opened(parts: dict[str, bytes], name: str) -> Code | None:
    """What is kept, made ready to be called; None where something that it needs is not there."""
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target_machine())
    needed = [each for each in parts["needed"].decode().split("\n") if each]
    layer = parts["layer"].decode()
    try:
        if not numba_symbols.provided(needed, layer):
            return None
    except (ImportError, AttributeError):
        # numba keeps it elsewhere by now
        return None
    for each in ("call", "code"):
        engine.add_object_file(binding.ObjectFileRef.from_data(parts[each]))
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    return Code(name, prototype(engine.get_function_address(_CALL)), layer, engine)
