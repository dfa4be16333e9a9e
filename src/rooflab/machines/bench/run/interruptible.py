"""Ctrl-C between two runs, never inside one: a kernel would wait for ever at its barrier."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """A function that raises KeyboardInterrupt once Ctrl-C was pressed, and does nothing before.

    Kernels wait for each other at barriers: an exception between two starts would leave one waiting for
    ever. So the signal is noted, and raised between runs; a second Ctrl-C is Python's own again.
    """
    pressed = threading.Event()

    def tick() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield tick
        return

    def note(number: int, frame: FrameType | None) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield tick
    finally:
        signal.signal(signal.SIGINT, previous)
