"""Lanes of tests: who is alone waits for the others, and nobody begins meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path

from support.lanes import lane


def test_alone_waits_for_those_on_the_road_and_keeps_others_off(tmp_path: Path) -> None:
    gate, road = tmp_path / "gate", tmp_path / "road"
    gate.touch()
    road.touch()
    log: list[str] = []
    first_may_end, alone_waits = threading.Event(), threading.Event()

    def first() -> None:
        with lane(alone=False, gate=gate, road=road):
            log.append("first begins")
            alone_waits.set()
            assert first_may_end.wait(30)
            log.append("first ends")

    def alone() -> None:
        with lane(alone=True, gate=gate, road=road):
            log.append("alone")

    def last() -> None:
        with lane(alone=False, gate=gate, road=road):
            log.append("last")

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert alone_waits.wait(30)
    threads.append(threading.Thread(target=alone))
    threads[1].start()
    while not _closed(gate):
        threads[1].join(0.01)
    threads.append(threading.Thread(target=last))
    threads[2].start()
    threads[2].join(0.2)
    assert log == ["first begins"]  # the last one stands before the gate
    first_may_end.set()
    for thread in threads:
        thread.join(30)
    assert log == ["first begins", "first ends", "alone", "last"]


def _closed(gate: Path) -> bool:
    """Whether somebody holds the gate."""
    import fcntl

    with gate.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
