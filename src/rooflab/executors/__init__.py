"""Many pieces of work over many workers: processes here, a Dask cluster, any executor, or the ranks of a job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from rooflab.errors import RooflabError
from rooflab.executors.work import Outcome, Place, Workers

__all__ = ["On", "Outcome", "Place", "Workers", "granted", "merges", "over"]

# Where work runs: an address of Dask, "ranks:FOLDER", an executor (or a client of Dask), None for processes here.
On = str | Executor | None
_SCHEMES = ("tcp", "tls", "ucx", "ucxx", "ws", "wss", "inproc")
_RANKS = "ranks:"


@contextmanager
def over(on: On | Any = None, *, workers: int | None = None) -> Iterator[Workers]:
    """The workers that `on` means, until the end of the block.

    All of them stream what they have found as it comes, do again what a lost worker was doing (a few times, and
    say so in `notes`), and let no failing item lose the others' results.

    Args:
        on: None for processes here; "tcp://HOST:PORT" for a Dask cluster, "ranks:FOLDER" for the ranks of a job
            that srun, mpirun or torchrun started, which meet in FOLDER; a `concurrent.futures.Executor`, a client
            of Dask.
        workers: how many processes here, the granted threads by default; how many an executor has.

    Raises:
        RooflabError: none of these; no scheduler there, or without workers; another version of rooflab there.
        MissingExtraError: Dask is not installed.
    """
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise RooflabError(f"workers: got {workers!r}, expected a whole number above zero")
    if on is None:
        from rooflab.executors.processes import Processes

        yield Processes(workers or granted())
        return
    client = getattr(on, "_client", None) or (on if hasattr(on, "get_executor") else None)
    if isinstance(on, str) and on.startswith(_RANKS):
        from rooflab.executors.ranks import Ranks, job

        _unasked(workers, on)
        with Ranks(job(os.environ), on.removeprefix(_RANKS)) as meeting:
            yield meeting
    elif client is not None or (isinstance(on, str) and on.partition("://")[0] in _SCHEMES and "://" in on):
        from rooflab.executors.cluster import Cluster, connected

        _unasked(workers, "a Dask cluster")
        with connected(on if client is None else client) as open_client:
            yield Cluster(open_client)
    elif isinstance(on, Executor):
        from rooflab.executors.given import Given

        yield Given(on, workers or getattr(on, "_max_workers", None))
    else:
        raise RooflabError(
            f"on: got {on!r:.80}, expected the address of a Dask scheduler (tcp://HOST:8786), ranks:FOLDER, or a "
            "concurrent.futures.Executor"
        )


def merges(on: On | Any) -> bool:
    """Whether results come together in this process: not on the ranks of a job other than the first.

    Raises:
        RooflabError: ranks of a job are asked for, and there is no job.
    """
    if not (isinstance(on, str) and on.startswith(_RANKS)):
        return True
    from rooflab.executors.ranks import job

    return job(os.environ).rank == 0


def granted() -> int:
    """Hardware threads that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _unasked(workers: int | None, on: str) -> None:
    if workers is not None:
        raise RooflabError(f"workers: {workers}, but {on} knows how many it has: leave it out")
