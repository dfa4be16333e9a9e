"""What tests give to workers: functions that travel by name, a quick real measurement, which can be slowed."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import numpy as np

from rooflab.types.machine import Level, Machine, Rate
from rooflab.types.source import Source

WORK_S, BLOCKS = 0.04, 8


def square(number):
    return number * number


def picky(number):
    if number == 1:
        raise ValueError("one\nis too many")
    return number


def die_at_two(number):
    if number == 2:
        os._exit(9)
    return number


def die_once(item):
    """The number of `item`; the process dies the first time that number 1 is asked for."""
    number, folder = item
    if number == 1 and _first(folder):
        os._exit(9)
    return number


def _first(folder) -> bool:
    try:
        (Path(folder) / "died").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def copying(name="a machine") -> Machine:
    """This machine's speed of copying, the best of eight blocks of five milliseconds: measured, if shortly.

    By the process' CPU time, which other work beside the tests does not lengthen; in L1, which no other core
    shares; the best, as what a hypervisor takes from one block leaves another alone. Where the environment says
    OVER, each copy is made so many times over and counted once: a worker that is slowed.
    """
    source = Source(kind="measured", ref="np.copyto of 8 KiB, again and again")
    a, b, over = np.ones(1 << 10), np.empty(1 << 10), int(os.environ.get("OVER", "1"))
    rate = max(2 * a.nbytes * _copies_per_s(a, b, over) for _ in range(BLOCKS))
    copy = Rate(value=rate, per_s="byte", what="copy", basis="attained", source=source, scope="core")
    memory = Level(name="DRAM", source=source, rates=(copy,))
    return Machine(name=name, kind="cpu", source=source, levels=(memory,))


def _copies_per_s(a, b, over) -> float:
    """Copies of one block by CPU time, each made `over` times over."""
    begun, count = time.process_time(), 0
    while (busy := time.process_time() - begun) < WORK_S / BLOCKS:
        for _ in range(16 * over):
            np.copyto(b, a)
        count += 16
    return count / busy


def slow_down(over):
    """Make the copies of this process `over` times over from now on."""
    os.environ["OVER"] = str(over)


def copying_but_dying(folder) -> Machine:
    """`copying`; the first process of all that is asked dies instead."""
    if _first(folder):
        os._exit(9)
    return copying()


def dying_measure(folder):
    return partial(copying_but_dying, str(folder))
