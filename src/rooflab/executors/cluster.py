"""Workers of a Dask cluster: their versions asked first, lost workers noticed, a dead scheduler said."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rooflab.errors import MissingExtraError, RooflabError
from rooflab.executors.work import MOST_TRIES, Function, Outcome, Place, bound, lost, other_version

CONNECT_S = 5.0  # for a scheduler to answer
GRACE_S = 20.0  # for a worker to come back, or another of its host
_POLL_S = 0.5
# What Dask says in its own words of what is said here in ours.
_LOUD = ("distributed", "distributed.client", "distributed.core", "distributed.comm", "distributed.comm.tcp")


@contextmanager
def connected(to: str | Any) -> Iterator[Any]:
    """A client of the scheduler at the address `to`; a client that is given stays open afterwards.

    Raises:
        RooflabError: nothing answers there within seconds.
        MissingExtraError: Dask is not installed.
    """
    if not isinstance(to, str):
        yield to
        return
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "distributed", "dask", "work on a Dask cluster") from None
    with _hushed():
        try:
            client = Client(to, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise RooflabError(
                f"{to}: no Dask scheduler answers ({_first(error)}), expected one within {CONNECT_S:.0f} s: "
                "start it with `dask scheduler`, or correct the address"
            ) from None
        try:
            yield client
        finally:
            client.close(timeout=2)


@contextmanager
def _hushed() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _LOUD]
    before = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for each, level in zip(loggers, before, strict=True):
            each.setLevel(level)


class Cluster:
    """Workers of a Dask cluster (see `Workers`), each of which has this version of rooflab."""

    merges = True
    sets_threads = True

    def __init__(self, client: Any) -> None:
        """Look who is there.

        Raises:
            RooflabError: no workers; another version of rooflab on one, or none.
        """
        self.client, self.notes, self.run = client, [], uuid.uuid4().hex
        self.address = str(client.scheduler.address) if client.scheduler is not None else "the scheduler"
        self._hosts: dict[str, str] = {}
        found = self._look()
        if not found:
            raise RooflabError(
                f"{self.address}: a Dask scheduler without workers: start some with `dask worker {self.address}`"
            )
        self.name = f"{len(found)} worker{'s' if len(found) > 1 else ''} of Dask at {self.address}"

    def places(self) -> tuple[Place, ...]:
        """The workers that are there now, by address."""
        return tuple(Place(worker, host) for worker, host in sorted(self._look().items()))

    def _look(self) -> dict[str, str]:
        """The hosts of the workers that are there now; those that are new are asked for their version first."""
        from rooflab import __version__

        def asked() -> tuple[str, str]:
            # Travels by value: a worker may have another rooflab, or none.
            import socket
            from pathlib import Path

            try:
                version = __import__("rooflab").__version__
            except ImportError:
                version = "no rooflab"
            boot = Path("/proc/sys/kernel/random/boot_id")
            return version, boot.read_text().strip() if boot.exists() else socket.gethostname()

        alive = self._asked(lambda: list(self.client.nthreads()))
        unknown = [worker for worker in alive if worker not in self._hosts]
        if unknown:
            told = self._asked(lambda: self.client.run(asked, workers=unknown, on_error="return"))
            told = {worker: each for worker, each in told.items() if isinstance(each, tuple)}
            others = {worker: version for worker, (version, _) in told.items() if version != __version__}
            if others:
                raise RooflabError(f"{self.address}: {other_version(others, __version__)}")
            self._hosts |= {worker: host for worker, (_, host) in told.items()}
        return {worker: self._hosts[worker] for worker in alive if worker in self._hosts}

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """What the scheduler answers.

        Raises:
            RooflabError: it does not.
        """
        if self.client.status != "running":
            raise self._gone()
        try:
            return ask()
        except (OSError, TimeoutError) as error:
            raise self._gone(f" ({_first(error)})") from None

    def _gone(self, why: str = "") -> RooflabError:
        return RooflabError(f"{self.address}: the Dask scheduler is gone{why}: start it, and run this again")

    def each(
        self, function: Function, items: Sequence[Any], at: Sequence[Place] | None = None
    ) -> Iterator[Outcome]:
        """The outcome of each item (see `Workers.each`).

        Raises:
            RooflabError: the scheduler was lost in the middle; what had come until then was yielded.
        """
        from distributed import CancelledError, wait

        started = set(self._look())
        under_way = _UnderWay(self, bound(function), items, at)
        try:
            while under_way.futures:
                # Nothing has ended, or all is cancelled: below it is asked who was lost.
                with contextlib.suppress(TimeoutError, CancelledError), self.client.as_current():
                    wait(list(under_way.futures), timeout=_POLL_S, return_when="FIRST_COMPLETED")
                if self.client.status != "running":
                    raise self._gone(f" ({len(under_way.futures)} of {len(items)} items were not done)")
                yield from under_way.ended()
                yield from under_way.stranded()
        finally:
            if under_way.futures and self.client.status == "running":
                self.client.cancel(list(under_way.futures))
        gone = sorted(started - set(self._look()))
        if gone:
            self.notes.append(
                f"lost: {', '.join(gone)}; what {'they were' if gone[1:] else 'it was'} at, done again"
            )


class _UnderWay:
    """The items that are being done, each by a future; those whose worker is lost are begun again."""

    def __init__(
        self, cluster: Cluster, job: Callable[[Any], Any], items: Sequence[Any], at: Sequence[Place] | None
    ) -> None:
        self.cluster, self.job, self.items, self.at = cluster, job, items, at
        self.futures: dict[Any, tuple[int, int, str | None]] = {}  # number, try, the worker that it is bound to
        self.alone_since: float | None = None
        self.waiting: dict[Any, float] = {}
        for number in range(len(items)):
            self._begin(number, 1, None if at is None else at[number].worker)

    def _begin(self, number: int, tries: int, worker: str | None) -> None:
        how: dict[str, Any] = {"pure": False}
        if worker is not None:
            how |= {"workers": [worker], "allow_other_workers": False}
        self.futures[self.cluster.client.submit(self.job, self.items[number], **how)] = (number, tries, worker)

    def ended(self) -> Iterator[Outcome]:
        """The outcomes that have come.

        Raises:
            RooflabError: another version of rooflab on a worker that came later.
        """
        for future in [each for each in self.futures if each.done()]:
            number, tries, worker = self.futures.pop(future)
            self.waiting.pop(future, None)
            if future.status == "finished":
                answer = future.result()
                yield Outcome(number, answer.value, answer.failed, worker, tries)
            elif future.status == "cancelled":
                yield Outcome(number, failed="cancelled on the cluster", worker=worker, tries=tries)
            else:
                error = future.exception()
                if isinstance(error, RooflabError):
                    raise error
                if type(error).__name__ == "KilledWorker":  # Dask began it again as often as it allows
                    yield Outcome(number, failed=lost("its worker", MOST_TRIES + 1), tries=MOST_TRIES + 1)
                else:
                    cause = error if error is None else error.__cause__ or error  # Dask wraps what a worker lacks
                    yield Outcome(number, failed=f"{type(cause).__name__}: {_first(cause)}", worker=worker)

    def stranded(self) -> Iterator[Outcome]:
        """Items whose worker is gone: begun again on another of its host, or given up once none has come back."""
        alive = self.cluster._look()
        now = time.monotonic()
        for future, (number, tries, worker) in list(self.futures.items()):
            if (worker in alive) if worker is not None else alive:
                self.waiting.pop(future, None)
                continue
            since = self.waiting.setdefault(future, now)
            home = None if self.at is None else self.at[number].host
            others = [each for each, host in alive.items() if home is not None and host == home]
            if others and tries < MOST_TRIES:
                self._drop(future)
                self._begin(number, tries + 1, others[number % len(others)])
            elif others or now - since > GRACE_S:
                self._drop(future)
                what = "its worker" if worker is None else worker
                yield Outcome(number, failed=lost(what, tries), worker=worker, tries=tries)

    def _drop(self, future: Any) -> None:
        del self.futures[future]
        self.waiting.pop(future, None)
        future.cancel()


def _first(error: BaseException | None) -> str:
    """The first line of what `error` says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
