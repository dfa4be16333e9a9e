"""The target of the command `analyze`: "FILE.py:NAME" or "package.module:NAME" to what is to be captured."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rooflab.cli import target_hints
from rooflab.errors import FileError, MissingExtraError, RooflabError, UnknownNameError

_EXTRAS = ("torch", "jax", "onnx", "tinygrad")  # libraries that an extra of the same name brings


class Target(NamedTuple):
    """What to capture: a module or function, its inputs, and what to call the report.

    Attributes:
        dims: sizes that the target has not taken as keywords: the symbolic ones of an ONNX file.
    """

    program: Any
    args: tuple
    kwargs: Mapping[str, Any]
    name: str
    dims: Mapping[str, int]


def load(text: str, dims: Mapping[str, int] | None = None) -> Target:
    """The program that `text` names.

    A function is called once, with `dims` as its keywords. Where it returns (module or function, inputs)
    or (module or function, args, kwargs), that is the program; else the function itself is. Inputs are a
    tensor, a tuple or list of the arguments, or a dictionary of keywords.

    Raises:
        FileError: no such file, or one that cannot be imported.
        UnknownNameError: no such name in it, with near matches.
        RooflabError: an error inside the target, with its file and line.
    """
    from rooflab.work import front_end

    sizes = dict(dims or {})
    if text.lower().endswith(".onnx"):
        if not os.path.isfile(text):
            raise FileError(f"{text}: no such file")
        return Target(text, (), {}, os.path.basename(text), sizes)
    if front_end.is_model(text):
        return Target(text, (), {}, os.path.basename(text), sizes)
    place, _, name = text.rpartition(":")
    if not name or not place:
        raise RooflabError(target_hints.names_no_function(text))
    return called(text, _attribute(imported(place), place, name), sizes)


def called(text: str, target: Any, sizes: dict[str, int]) -> Target:
    """The program that `target`, which `text` names, is or returns: see `load`.

    Raises:
        RooflabError: nothing that can be called, arguments that are missing, an error inside it.
    """
    place, _, name = text.rpartition(":")
    if not callable(target):
        raise RooflabError(f"{text}: {name} is a {type(target).__name__}, expected a function of no argument")
    plain = inspect.isfunction(target) or inspect.isclass(target) or inspect.ismethod(target)
    if not plain and hasattr(target, "forward"):
        raise RooflabError(
            f"{text}: {name} is a {type(target).__name__} without inputs, expected a function that returns"
            " (module, inputs)"
        )
    _check_keywords(target, sizes, text)
    with located(text):
        returned = target(**sizes)
    return _read(returned, target, sizes, place, name)


def named(text: str) -> tuple[Any, Callable[..., Any]]:
    """The module and the function in it that `text` names, "FILE.py:NAME" or "package.module:NAME"; not called.

    Raises:
        FileError: no such file, or one that cannot be imported.
        UnknownNameError: no such name in it, with near matches.
        RooflabError: no name, or one of something else.
    """
    place, _, name = text.rpartition(":")
    if not name or not place:
        raise RooflabError(f"{text!r} names no function, expected FILE.py:NAME or package.module:NAME")
    module = imported(place)
    function = _attribute(module, place, name)
    if not callable(function):
        raise RooflabError(f"{text}: {name} is a {type(function).__name__}, expected a function")
    return module, function


def default_batch(text: str) -> int | None:
    """The samples that the program called `text` takes by itself, its keyword `batch`; None without one."""
    from rooflab.work import front_end

    if text.lower().endswith(".onnx"):
        return None
    if front_end.is_model(text):
        return 1
    _, function = named(text)
    try:
        keyword = inspect.signature(function).parameters.get("batch")
    except (TypeError, ValueError):
        return None
    size = None if keyword is None else keyword.default
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None


@contextmanager
def located(text: str) -> Iterator[None]:
    """Errors inside as one line that says where in the target they were raised.

    Raises:
        RooflabError: any error of the target; rooflab's own pass as they are.
    """
    try:
        yield
    except RooflabError:
        raise
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _EXTRAS:
            raise RooflabError(
                f"{text}: {_first_line(error)}{_where(error)}; install it, then try again"
            ) from error
        raise MissingExtraError(library, library, f"{text}{_where(error)}") from error
    except SystemExit as error:
        # a script without `if __name__ == "__main__":` may end Python as it is imported
        said = f"it ended the program by sys.exit({error.code!r})"
        raise RooflabError(f"{text}: {said}{_where(error)}; let it return") from None
    except Exception as error:
        raise RooflabError(f"{text}: {type(error).__name__}: {_first_line(error)}{_where(error)}") from error


def _read(returned: Any, target: Callable[..., Any], sizes: dict[str, int], place: str, name: str) -> Target:
    if isinstance(returned, tuple) and len(returned) in (2, 3) and _is_program(returned[0]):
        args, kwargs = _inputs(returned[1])
        if len(returned) == 3:
            if not isinstance(returned[2], Mapping):
                got = type(returned[2]).__name__
                raise RooflabError(f"{name} returned (module, args, {got}), expected keywords last")
            kwargs = {**kwargs, **returned[2]}
        return Target(returned[0], args, kwargs, name, {})
    if _is_program(returned):
        made = type(returned).__name__
        raise RooflabError(
            f"{name} returned a {made} without inputs, expected (module, inputs) or (module, args, kwargs);"
            f" {target_hints.builds_a_model(place, name, made)}"
        )
    return Target(target, (), sizes, name, {})


def _is_program(value: Any) -> bool:
    # Some frameworks' tensors can be called.
    return callable(value) and not (hasattr(value, "shape") and hasattr(value, "dtype"))


def _inputs(inputs: Any) -> tuple[tuple, dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


def _check_keywords(target: Callable[..., Any], sizes: dict[str, int], text: str) -> None:
    """Return where `target` can be called with `sizes` alone.

    Raises:
        RooflabError: a required argument is missing.
        UnknownNameError: a size that is none of its keywords.
    """
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        # Callables of C have no signature to read: they are called as they are.
        return
    starred = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    for each in parameters:
        if each.default is each.empty and each.kind not in starred and each.name not in sizes:
            raise RooflabError(
                f"{text}: {each.name!r} is a required argument, expected none; write a function that returns"
                f" (module, inputs), or give a number by --dim {each.name}=8"
            )
    names = [each.name for each in parameters]
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return
    for name in sizes:
        if name not in names:
            raise UnknownNameError(f"keyword of {text}", name, names, "(--dim and --batch set keywords)")


def imported(place: str) -> Any:
    """The module in file or package `place`; its folder stays first on the path for what it imports later."""
    if place.endswith(".py") or os.sep in place:
        path = Path(place)
        if not path.is_file():
            raise FileError(f"{place}: no such file, expected a Python file")
        _first_on_path(path.resolve().parent)
        spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
        if spec is None or spec.loader is None:
            raise FileError(f"{place}: not a Python file, {target_hints.FORMS}")
        module = importlib.util.module_from_spec(spec)
        # Dataclasses and pickle look its classes up under this name.
        sys.modules[path.stem] = module
        with located(place):
            spec.loader.exec_module(module)
        return module
    _first_on_path(Path.cwd())
    try:
        with located(place):
            return importlib.import_module(place)
    except RooflabError as error:
        parts = place.split(".")
        parents = [".".join(parts[: i + 1]) for i in range(len(parts))]
        if isinstance(error.__cause__, ModuleNotFoundError) and error.__cause__.name in parents:
            missing = error.__cause__.name or place
            raise FileError(
                f"{place}: no module of that name, {target_hints.FORMS}; {missing} is not installed, "
                "or not in this folder"
            ) from None
        raise


def _first_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _attribute(module: Any, place: str, name: str) -> Any:
    value = module
    for part in name.split("."):
        if not hasattr(value, part):
            names = [each for each in dir(value) if not each.startswith("_")]
            raise UnknownNameError(f"name in {place}", part, names)
        value = getattr(value, part)
    return value


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"


def _where(error: BaseException) -> str:
    """` (FILE:LINE)` of the innermost frame that is neither rooflab's nor of an installed package."""
    if isinstance(error, SyntaxError):
        return f" ({error.filename}:{error.lineno})"
    ours = str(Path(__file__).resolve().parents[1])
    elsewhere = (ours, "<")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(elsewhere)
        and "site-packages" not in frame.filename
        and frame.filename != contextmanager.__code__.co_filename
    ]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
