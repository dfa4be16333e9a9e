"""Passes that were run on a core before, by all that they follow from: in this process, or in one before it."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from rooflab.loops import kept

_MOST = 2000  # of a loop, and those of its changed forms
_KNOWN: dict[str, tuple[float, ...]] = {}


def known(asked: Any, simulated: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
    """What `simulated` returns, found if it was before: it follows from `asked` alone, whose `repr` says all."""
    digest = hashlib.sha256(repr(asked).encode()).hexdigest()
    if digest not in _KNOWN:
        if len(_KNOWN) >= 4 * _MOST:
            _KNOWN.clear()
        _KNOWN[digest] = simulated()
    return _KNOWN[digest]


@contextmanager
def of_loop(place: str) -> Iterator[None]:
    """Within it, what an earlier process found for the loop at `place` is known; the rest is kept for the next."""
    key = kept.key("flows", place, _text())
    entry = kept.find(key)
    found = {} if entry is None else msgspec.msgpack.decode(entry["flows"], type=dict[str, tuple[float, ...]])
    _KNOWN.update(found)
    before = set(_KNOWN)
    yield
    fresh = {each: value for each, value in _KNOWN.items() if each not in before}
    if fresh:
        latest = list((found | fresh).items())[-_MOST:]
        kept.keep(key, {"flows": msgspec.msgpack.encode(dict(latest))})


@functools.cache
def _text() -> str:
    """The text of what simulates: another text, another answer."""
    return Path(__file__).with_name("flow.py").read_text("utf-8")
