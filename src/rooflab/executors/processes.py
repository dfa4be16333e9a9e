"""Processes on this host: started anew, one item each at a time; what a lost one was doing is done again."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from rooflab.errors import RooflabError
from rooflab.executors.work import MOST_TRIES, Answer, Function, Outcome, Place, bound, here, lost

_Queue = deque[tuple[int, int]]  # the number of an item, and which try it is


class Processes:
    """Workers that are processes of this host (see `Workers`)."""

    merges = True
    sets_threads = False

    def __init__(self, count: int) -> None:
        self.count = count
        self.name = f"{count} process{'es' if count > 1 else ''} here"
        self.notes: list[str] = []
        self.run = uuid.uuid4().hex

    def places(self) -> tuple[Place, ...]:
        """One for each process: all on this host."""
        return tuple(Place(f"process {n + 1}", here().host) for n in range(self.count))

    def each(
        self, function: Function, items: Sequence[Any], at: Sequence[Place] | None = None
    ) -> Iterator[Outcome]:
        """The outcome of each item (see `Workers.each`); any process takes any of them.

        No more are under way than there are processes. Where one is lost, each of those is run again with no other
        beside it, so that the one that kills its process is known, and is given up alone.
        """
        todo: _Queue = deque((number, 1) for number in range(len(items)))
        suspects: _Queue = deque()
        while todo or suspects:
            queue, beside = (suspects, 1) if suspects else (todo, min(self.count, len(items)))
            yield from self._pooled(function, items, queue, beside, suspects)

    def _pooled(
        self, function: Function, items: Sequence[Any], queue: _Queue, beside: int, suspects: _Queue
    ) -> Iterator[Outcome]:
        """Outcomes of one pool, until `queue` is empty or the pool breaks: what was under way is suspect then."""
        running: dict[Future[Any], tuple[int, int]] = {}
        job = bound(function)
        with _pool(beside) as pool:
            while queue or running:
                try:
                    while queue and len(running) < beside:
                        with _without_main(function):
                            running[pool.submit(job, items[queue[0][0]])] = queue[0]
                        queue.popleft()
                    done = wait(running, return_when=FIRST_COMPLETED).done
                    for future in done:
                        answer = _answer(future)
                        number, tries = running.pop(future)
                        yield Outcome(number, answer.value, answer.failed, tries=tries)
                except BrokenProcessPool:
                    yield from self._broken(running, suspects)
                    return

    def _broken(self, running: dict[Future[Any], tuple[int, int]], suspects: _Queue) -> Iterator[Outcome]:
        for future, (number, tries) in running.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                answer = _answer(future)
                yield Outcome(number, answer.value, answer.failed, tries=tries)
            elif tries >= MOST_TRIES:
                yield Outcome(number, failed=lost("its process", tries), tries=tries)
            else:
                suspects.append((number, tries + 1))
        if suspects:
            again = f"{len(suspects)} item{'s' if len(suspects) > 1 else ''}"
            self.notes.append(f"a process was lost: {again} that it or its neighbours were at, done again")


def _answer(future: Future[Any]) -> Answer:
    """What came back; an item or a value that cannot travel has failed alone.

    Raises:
        BrokenProcessPool: its process was lost.
        RooflabError: another version of rooflab there.
    """
    try:
        return future.result()
    except (BrokenProcessPool, RooflabError):
        raise
    except Exception as error:  # noqa: BLE001 — what cannot be pickled raises whatever it likes; it is said
        return Answer(None, f"{type(error).__name__}: {error}")


@contextmanager
def _pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of `count` new processes; on the way out through an error they are ended, whatever they do."""
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_deaf)
    try:
        yield pool
    except BaseException:
        for each in multiprocessing.active_children():
            if each not in before:
                each.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _deaf() -> None:
    """Ctrl-C reaches a whole group of processes: the one in front decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _without_main(function: Function) -> Iterator[None]:
    """While it is open, processes that are started do not run the user's script again, unless `function` is in it.

    A script that calls `rooflab.load` on its top level would otherwise be run by each of them, without end.
    """
    main = sys.modules["__main__"]
    kept = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    if getattr(function, "__module__", None) == "__main__":
        kept = {}
    for name in kept:
        setattr(main, name, None)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(main, name, value)
