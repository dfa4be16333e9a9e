"""A copy of this process that runs one thing and ends: what it prints goes nowhere, what it reads is empty."""

from __future__ import annotations

import faulthandler
import os
import warnings
from collections.abc import Callable
from typing import Any


def start(run: Callable[[], Any]) -> int:
    """The number of a copy of this process that runs `run`; what it raises is lost, what it writes stays in it."""
    with warnings.catch_warnings():
        # that threads are not copied: what a copy runs is compiled code, or begins its own
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        _play(run)
    return pid


def _play(run: Callable[[], Any]) -> None:
    """`run` in the copy, which then ends."""
    try:
        faulthandler.disable()
        null = os.open(os.devnull, os.O_RDWR)
        for each in (0, 1, 2):
            os.dup2(null, each)
        run()
    except BaseException:  # noqa: BLE001, S110
        # what it refuses, the process that it is a copy of comes upon too, and says in words
        pass
    finally:
        os._exit(0)
