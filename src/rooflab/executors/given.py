"""An executor that the caller gives: whatever has the interface of concurrent.futures."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, as_completed
from typing import Any

from rooflab.errors import RooflabError
from rooflab.executors.processes import Processes
from rooflab.executors.work import Function, Outcome, Place, bound


class Given:
    """Workers of somebody's executor, which say nothing of themselves (see `Workers`)."""

    merges = True
    sets_threads = False

    def __init__(self, executor: Executor, count: int | None) -> None:
        self.executor, self.count = executor, count
        self.name = f"{type(executor).__name__}{'' if count is None else f' of {count}'}"
        self.notes: list[str] = []
        self.run = uuid.uuid4().hex

    def places(self) -> tuple[Place, ...]:
        """As many as it is said to have, hosts unknown."""
        return tuple(Place(f"worker {n + 1}", "") for n in range(self.count or 0))

    def each(
        self, function: Function, items: Sequence[Any], at: Sequence[Place] | None = None
    ) -> Iterator[Outcome]:
        """The outcome of each item (see `Workers.each`); who does which is the executor's affair.

        An executor that breaks cannot be started again from outside: what it leaves is done by processes here.
        """
        job, left = bound(function), list(range(len(items)))
        try:
            futures = {self.executor.submit(job, item): number for number, item in enumerate(items)}
        except (BrokenExecutor, RuntimeError) as error:
            raise RooflabError(f"on: the executor takes no work: {error}") from None
        broken = ""
        for future in as_completed(futures):
            number = futures.pop(future)
            try:
                answer = future.result()
            except (BrokenExecutor, CancelledError) as error:
                broken = f"{type(error).__name__}: {error}"
                continue
            except RooflabError:
                for other in futures:
                    other.cancel()
                raise
            except Exception as error:  # noqa: BLE001 — what the executor itself could not do with this item; said
                left.remove(number)
                yield Outcome(number, failed=f"{type(error).__name__}: {error}")
                continue
            left.remove(number)
            yield Outcome(number, answer.value, answer.failed)
        if left:
            self.notes.append(f"{self.name} broke ({broken}): {len(left)} items were done by processes here")
            rest = Processes(self.count or 1)
            for one in rest.each(function, [items[number] for number in left]):
                yield one._replace(at=left[one.at], tries=one.tries + 1)
            self.notes += rest.notes
