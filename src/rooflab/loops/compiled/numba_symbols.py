"""What machine code of numba's calls beside other code of its own: found without numba being imported.

Each is a function in an extension module of numba's, which lists their addresses, or an object of Python's: given
to LLVM under the names under which numba gives them (numba/core/base.py, externals.py, np/ufunc/parallel.py).
"""

from __future__ import annotations

import builtins
import ctypes
import functools
import importlib.util
import os
import sys
from collections.abc import Iterable
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from pathlib import Path
from typing import Any

from llvmlite import binding

from rooflab.machines.bench.experiments import thread_teams

_LAYERS = {
    "tbb": "tbbpool",
    "omp": "omppool",
    "workqueue": "workqueue",
}
_IN = "numba.np.ufunc"
_OF_LAYERS = {
    "numba_parallel_for": "parallel_for",
    **{
        name: name
        for name in (
            "do_scheduling_signed", "do_scheduling_unsigned", "allocate_sched", "deallocate_sched",
            "get_sched_size", "get_num_threads", "set_num_threads", "get_thread_id", "set_parallel_chunksize",
            "get_parallel_chunksize",
        )
    },
}  # fmt: skip


def settings() -> tuple[object, ...]:
    """What numba's code depends on beside its version: its settings, and whether threads can be those of TBB."""
    path = Path(thread_teams.SETTINGS_FILE)
    held = path.read_bytes() if path.is_file() else b""
    asked = sorted((name, value) for name, value in os.environ.items() if name.startswith("NUMBA_"))
    return asked, held, _has_tbb()


@functools.cache
def _has_tbb() -> bool:
    try:
        ctypes.CDLL("libtbb.so.12")
    except OSError:
        return False
    return True


def needs_layer(names: Iterable[str]) -> bool:
    """Whether any of `names` is of what starts and joins threads."""
    return not _OF_LAYERS.keys().isdisjoint(names)


def provided(names: Iterable[str], layer: str) -> bool:
    """Give LLVM the addresses of `names`; whether all are known, once an engine of LLVM's has been made.

    Args:
        names: symbols that machine code needs.
        layer: of threads, where any is of it: "omp", "tbb" or "workqueue".
    """
    for name in names:
        address = _address(name, layer)
        if address is not None:
            binding.add_symbol(name, address)
        elif not binding.address_of_symbol(name):
            return False
    return True


def _address(name: str, layer: str) -> int | None:
    """Where `name` is, if it is none of the process's own symbols."""
    if name.startswith("PyExc_"):
        # as numba has it: the object itself, not where Python keeps its address
        return id(getattr(builtins, name.removeprefix("PyExc_"), None))
    if name in _OF_LAYERS:
        return getattr(threads(layer), _OF_LAYERS[name]) if layer in _LAYERS else None
    if name.startswith("numba_"):
        return _module("numba._helperlib").c_helpers.get(name.removeprefix("numba_"))
    if name.startswith("NRT_"):
        return _module("numba.core.runtime._nrt_python").c_helpers.get(name.removeprefix("NRT_"))
    return None


@functools.cache
def threads(layer: str) -> Any:
    """The module of a layer of threads, which are started."""
    if "numba" in sys.modules:
        import numba
        from numba.np.ufunc import parallel

        # it has started them, or does now
        numba.get_num_threads()
        if parallel.threading_layer() == layer:
            return _module(f"{_IN}.{_LAYERS[layer]}")
    found = _module(f"{_IN}.{_LAYERS[layer]}")
    most = thread_teams.most()
    ctypes.CFUNCTYPE(None, ctypes.c_int)(found.launch_threads)(most)
    ctypes.CFUNCTYPE(None, ctypes.c_int)(found.set_num_threads)(most)
    return found


def set_threads(layer: str, count: int) -> None:
    """Have teams of `count` threads from now on."""
    ctypes.CFUNCTYPE(None, ctypes.c_int)(threads(layer).set_num_threads)(count)


@functools.cache
def _module(name: str) -> Any:
    """An extension module of numba's, by itself where numba is not imported.

    Raises:
        ImportError: it is not there.
    """
    if name in sys.modules:
        return sys.modules[name]
    if "numba" in sys.modules:
        return importlib.import_module(name)
    spec = importlib.util.find_spec("numba")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{name}: numba is not installed")
    place = Path(spec.submodule_search_locations[0]).joinpath(*name.split(".")[1:])
    for suffix in EXTENSION_SUFFIXES:
        path = place.with_name(place.name + suffix)
        if path.is_file():
            loader = ExtensionFileLoader(name, str(path))
            own = importlib.util.spec_from_file_location(name, path, loader=loader)
            assert own is not None
            made = importlib.util.module_from_spec(own)
            loader.exec_module(made)
            return made
    raise ImportError(f"{name}: no such extension module in {place.parent}")
