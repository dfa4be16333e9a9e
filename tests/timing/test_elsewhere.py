"""What changes from run to run by chance is changed within a run: results move, threads get time to sleep."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np

from rooflab.timing.elsewhere import PAUSE_S, Elsewhere


def mover(call, call_s=1e-6, **how):
    pauses = []
    return Elsewhere(call, call_s, pause=pauses.append, **how), pauses


FRESH = """import json
import numpy as np
from rooflab.timing.elsewhere import Elsewhere
a, pauses, places = np.ones(1000), [], set()
move = Elsewhere(lambda: a + a, 1e-6, pause=pauses.append)
for _ in range(20):
    kept = move()
    places.add((a + a).ctypes.data % 4096)
    del kept
print(json.dumps([sorted(places), pauses]))
"""


def test_the_results_of_short_calls_come_to_lie_elsewhere():
    # in a process of its own: what other tests left free in this one's memory is taken first, place by place
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    places, pauses = json.loads(done.stdout)
    assert len(places) > 5
    assert pauses == [PAUSE_S] * 20


def test_long_calls_and_those_whose_work_is_done_later_are_not_made_for_it():
    made = []
    for how in ({"call_s": 0.01}, {"keeps": False}):
        move, pauses = mover(lambda: made.append(1), **how)
        for _ in range(20):
            move()
        assert not made
        assert len(pauses) == 20


def test_no_more_memory_is_kept_than_said():
    made = []

    def call():
        made.append(1)
        return np.empty(100 * 2**20, np.uint8)  # five of which are 500 MiB

    move, _ = mover(call)
    for _ in range(20):
        before = len(made)
        kept = move()
        assert len(made) <= before + 1
        assert not any(isinstance(one, np.ndarray) for one in kept)


def test_the_same_seed_gives_the_same_sizes():
    one, two = (mover(lambda: None, seed=3)[0] for _ in range(2))
    assert [list(map(type, one())) for _ in range(9)] == [list(map(type, two())) for _ in range(9)]
