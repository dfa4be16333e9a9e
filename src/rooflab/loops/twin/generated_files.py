"""Generated functions as versioned files in the user's cache folder: numba keeps compiled only what has a file."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import rooflab
from rooflab.loops.read.source import Source

FORMAT = 2  # raise it when generated files of before must not be found any more


def folder() -> Path:
    """Where generated files lie: under XDG_CACHE_HOME, else ~/.cache, else the folder for temporary files."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    chosen = Path(home) / "rooflab" / f"loops-{rooflab.__version__}-{FORMAT}"
    try:
        chosen.mkdir(parents=True, exist_ok=True)
        if os.access(chosen, os.W_OK):
            return chosen
    except OSError:
        # no home folder, or a read-only one: what is compiled then lives until the next reboot
        pass
    chosen = Path(tempfile.gettempdir()) / f"rooflab-{os.getuid()}" / chosen.name
    chosen.mkdir(parents=True, exist_ok=True, mode=0o700)
    return chosen


def preamble(source: Source) -> str:
    """The imports and constants that the body of `source` needs."""
    lines = ["import math", "import numba", "import numpy as np", "from numba import njit, prange"]
    for name, module_name in source.modules.items():
        if module_name in ("prange", "range") or "." not in module_name:
            if name != module_name:
                lines.append(f"{name} = {module_name}")
        else:
            lines.append(f"{name} = {module_name}")
    for name, value in source.constants.items():
        lines.append(f"{name} = {_written(value)}")
    return "\n".join(lines) + "\n"


def _written(value: Any) -> str:
    """`value` as Python writes it; repr of inf and nan is none."""
    if isinstance(value, complex):
        text = f"complex({_written(float(value.real))}, {_written(float(value.imag))})"
    elif isinstance(value, (float, np.floating)):
        text = f"float({str(float(value))!r})" if not np.isfinite(value) else repr(float(value))
    else:
        return repr(value)
    kind = type(value).__name__
    return text if kind in ("float", "complex") else f"np.{kind}({text})"


def module(name: str, text: str, key: str = "") -> ModuleType:
    """The module with that `text`, from a file that is written where it is not there yet.

    Args:
        name: what the file's name begins with.
        text: of the module.
        key: what else compiled code depends on: another key is another file.
    """
    digest = hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()[:20]
    path = folder() / f"{name}_{digest}.py"
    loaded = sys.modules.get(f"rooflab_{path.stem}")
    if loaded is not None:
        return loaded
    if not path.exists():
        write(path, text.encode())
    spec = importlib.util.spec_from_file_location(f"rooflab_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    # numba looks the function's module up by name.
    sys.modules[spec.name] = fresh
    spec.loader.exec_module(fresh)
    return fresh


def write(path: Path, content: bytes) -> None:
    """Write a file as a whole: whoever reads it meanwhile sees the old one, or none."""
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, suffix=path.suffix, delete=False) as file:
        file.write(content)
    os.replace(file.name, path)
