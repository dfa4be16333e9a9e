"""What a core takes for calls of numba's own functions (memory, random numbers), and for a locked change.

They are the same code as in every compiled function, called by their addresses. References to an array are counted
by additions that no other core comes between.
"""

from __future__ import annotations

import importlib

import numpy as np

from rooflab.machines.bench.experiments.core_programs import NONE, SLOTS, Item, compiled, looped, renamed

ALLOCATION = "call allocation"
RANDOM_STATE, RANDOM_REFILL = "call random_state", "call random_refill"
LOCKED = "locked"
ROWS = (ALLOCATION, RANDOM_STATE, RANDOM_REFILL, LOCKED)
BESIDE = 2 * SLOTS  # instructions between two askings for the state, as there are where a number is made of it
_SMALL_BYTES = 64
_STATE_WORDS = 1024  # a Mersenne twister has 624, and numba keeps some before and behind


def items() -> dict[str, Item]:
    """Loops over one call each (an allocation and what frees it) by the name of its row."""
    # slow to import, and without types
    memory = importlib.import_module("numba.core.runtime._nrt_python").c_helpers
    helpers = importlib.import_module("numba._helperlib").c_helpers
    allocated = [
        f"  %r = call ptr {_at(memory['Allocate'])}(i64 {_SMALL_BYTES})",
        f"  call void {_at(memory['Free'])}(ptr %r)",
    ]
    counted = ["  %old = atomicrmw add ptr %out, i64 1 monotonic"]
    asked = [f"  %r = call ptr {_at(helpers['get_np_random_state'])}()", *renamed(BESIDE)]
    # of a state of its own, so that nobody's numbers change
    words = np.random.default_rng(0).integers(0, 1 << 32, _STATE_WORDS, np.uint32)
    refilled = [f"  call void {_at(helpers['rnd_shuffle'])}(ptr %startp)"]
    return {
        ALLOCATION: _item(allocated),
        LOCKED: _item(counted),
        RANDOM_STATE: _item(asked),
        RANDOM_REFILL: Item(compiled(looped(refilled)), 1, words.ctypes.data, (NONE, NONE), (words,)),
    }


def _at(address: int) -> str:
    return f"inttoptr (i64 {address} to ptr)"


def _item(lines: list[str]) -> Item:
    return Item(compiled(looped(lines)), 1, NONE.ctypes.data, (NONE, NONE), ())
