"""What was found out about a loop, kept on disk for the next process: looked up by all that it follows from.

An entry is a file in the user's cache folder, named by a digest of its key; it holds parts by name, packed, behind
a digest of them. One that is cut off or changed is no entry. Each is written whole. Together they take at most
`MOST_BYTES`: those that were asked for longest ago go first. `ROOFLAB_KEEP=0` in the environment switches it off.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import rooflab
from rooflab.loops.read.arguments import place
from rooflab.loops.twin import generated_files

SWITCH = "ROOFLAB_KEEP"  # 0: nothing is kept, and nothing that was is found
MOST_BYTES = 256 << 20
_LEFT = 3 / 4  # of that, once some had to go
_LINE = 64
_MAGIC, _SUFFIX = b"rooflab kept 1\n", ".kept"
_PACKAGES = ("cachesim", "loops", "machines", "types", "timing")  # of rooflab, whose source answers depend on


def is_on() -> bool:
    """Whether anything is kept."""
    return os.environ.get(SWITCH, "") != "0"


def folder() -> Path:
    """Where entries lie."""
    made = generated_files.folder() / "kept"
    made.mkdir(exist_ok=True)
    return made


def key(kind: str, *parts: Any) -> str:
    """A digest of `parts`, whose `repr` says all, and of this version of rooflab and what it is built on."""
    return hashlib.sha256(repr((kind, parts, _versions())).encode()).hexdigest()


def of_values(values: Mapping[str, Any]) -> str | None:
    """A digest of arguments by name: types, places, contents. None where one is neither array nor number."""
    digest = hashlib.sha256()
    arrays: dict[str, np.ndarray] = {}
    for name, value in values.items():
        if not _add(digest, name, value, arrays):
            return None
    # which share memory; how far into a line each begins
    places = [(*each, arrays[each.name].ctypes.data % _LINE) for each in place(arrays)]
    digest.update(repr(places).encode())
    return digest.hexdigest()


def _add(digest: Any, name: str, value: Any, arrays: dict[str, np.ndarray]) -> bool:
    """Add a value to a digest, and the arrays in it to `arrays`; whether it is known."""
    if type(value) is tuple:
        digest.update(f"{name}: {len(value)}\n".encode())
        return all(_add(digest, f"{name}[{n}]", each, arrays) for n, each in enumerate(value))
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return False
        arrays[name] = value
        said = value.dtype.descr, value.dtype.itemsize, value.shape, value.strides, value.flags.writeable
        digest.update(f"{name}: {said}\n".encode())
        digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        return True
    if value is None or isinstance(value, (bool, int, float, complex, np.generic)):
        digest.update(f"{name}: {type(value).__name__} {value!r}\n".encode())
        return True
    return False


@functools.cache
def _versions() -> tuple[Any, ...]:
    """Of rooflab, by the sizes and times of its files too; of Python, NumPy and LLVM; the processor."""
    import sys

    from llvmlite import __version__, binding

    root = Path(rooflab.__file__).parent
    files = sorted(path for each in _PACKAGES for path in (root / each).rglob("*.py"))
    stated = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    host = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return rooflab.__version__, stated, sys.version, np.__version__, __version__, _numba(), host


def _numba() -> tuple[object, ...]:
    """Where numba is, and the size and time of its file of the version: neither is imported for that."""
    from importlib.util import find_spec

    spec = find_spec("numba")
    if spec is None or spec.origin is None:
        return ()
    stated = Path(spec.origin).with_name("_version.py").stat()
    return spec.origin, stated.st_size, stated.st_mtime_ns


def find(digest: str) -> dict[str, bytes] | None:
    """The parts of the entry of that digest; None where there is none that is whole."""
    if not is_on():
        return None
    path = folder() / f"{digest}{_SUFFIX}"
    try:
        content = path.read_bytes()
    except OSError:
        # not there: found out anew
        return None
    start = len(_MAGIC) + 32
    if (
        content[: len(_MAGIC)] == _MAGIC
        and hashlib.sha256(content[start:]).digest() == content[len(_MAGIC) : start]
    ):
        with contextlib.suppress(OSError):
            os.utime(path)
        return msgspec.msgpack.decode(zlib.decompress(content[start:]), type=dict[str, bytes])
    with contextlib.suppress(OSError):
        path.unlink()
    return None


def keep(digest: str, parts: Mapping[str, bytes]) -> None:
    """Keep `parts` under a digest; where the disk takes nothing more, nothing is kept."""
    if not is_on():
        return
    packed = zlib.compress(msgspec.msgpack.encode(dict(parts)), 1)
    if len(packed) > MOST_BYTES // 4:
        return
    with contextlib.suppress(OSError):
        _make_room(len(packed))
        content = _MAGIC + hashlib.sha256(packed).digest() + packed
        generated_files.write(folder() / f"{digest}{_SUFFIX}", content)


def _make_room(nbytes: int) -> None:
    """Have the entries and `nbytes` more take at most `MOST_BYTES`."""
    entries = []
    for path in folder().iterdir():
        with contextlib.suppress(OSError):
            # another process may have taken it away
            found = path.stat()
            entries.append((found.st_mtime_ns, found.st_size, path))
    total = nbytes + sum(size for _, size, _ in entries)
    if total <= MOST_BYTES:
        return
    for _, size, path in sorted(entries):
        path.unlink(missing_ok=True)
        total -= size
        if total <= _LEFT * MOST_BYTES:
            return
