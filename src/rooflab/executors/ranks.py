"""The ranks of a job that srun, mpirun or torchrun started: each does its share, and they meet in a folder."""

from __future__ import annotations

import itertools
import os
import pickle
import re
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rooflab.errors import FileError, RooflabError
from rooflab.executors.work import Answer, Function, Outcome, Place, bound

# Rank, size and name of the job, as each launcher says them: srun (srun(1), "OUTPUT ENVIRONMENT VARIABLES"), Open
# MPI (docs.open-mpi.org, "Environment variables that mpirun sets"), MPICH and Intel MPI (Hydra's PMI), torchrun.
_LAUNCHERS = (
    ("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ("SLURM_JOB_ID", "SLURM_STEP_ID")),
    ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ("PMIX_NAMESPACE",)),
    ("mpiexec", "PMI_RANK", "PMI_SIZE", ("PMI_KVSNAME",)),
    ("torchrun", "RANK", "WORLD_SIZE", ("TORCHELASTIC_RUN_ID", "MASTER_PORT")),
)
_MEETINGS = itertools.count(1)  # of this process: all ranks of a job count alike
BEAT_S, DEAD_S, LATE_S = 2.0, 90.0, 300.0  # NFS may keep a file's times for a minute
_POLL_S = 0.2


class Job(NamedTuple):
    """This process among the ranks of a job; `name` tells the job from others, empty where nothing does."""

    launcher: str
    rank: int
    size: int
    name: str


def job(environment: Mapping[str, str]) -> Job:
    """This process among the ranks of the job that `environment` tells of.

    Raises:
        RooflabError: of none.
    """
    for launcher, rank, size, names in _LAUNCHERS:
        if environment.get(rank, "").isdecimal() and environment.get(size, "").isdecimal():
            name = "-".join(environment[each] for each in names if environment.get(each))
            found = Job(launcher, int(environment[rank]), int(environment[size]), re.sub(r"\W+", "-", name)[:80])
            if found.rank >= found.size:
                raise RooflabError(f"{rank} is {found.rank}, expected less than {size}, which is {found.size}")
            return found
    wanted = ", ".join(f"{rank} and {size} ({launcher})" for launcher, rank, size, _ in _LAUNCHERS)
    raise RooflabError(f"on: ranks of a job are asked for, but the environment tells of none: expected {wanted}")


class Ranks:
    """This process as one of a job's ranks (see `Workers`): it does each `size`-th item, and writes what it found.

    Rank 0 reads what the others write, and does what a lost rank has not done. The others give what they did
    themselves, and end. Files are written whole and then named, and read only where this user owns them. Their
    names hold the job's; a launcher that gives it none needs a folder in which no earlier job was broken off.
    """

    sets_threads = False

    def __init__(self, job: Job, folder: str, dead_s: float = DEAD_S, late_s: float = LATE_S) -> None:
        """Meet in `folder`.

        Raises:
            FileError: no such folder, one that cannot be written, or that others may write.
        """
        self.job, self.folder, self.dead_s, self.late_s = job, Path(folder), dead_s, late_s
        self.name = f"{job.size} ranks of {job.launcher}"
        self.notes: list[str] = []
        self._call, self._meeting = 0, next(_MEETINGS)
        # All ranks of a host have one parent, the launcher's daemon, and it was not there in an earlier job.
        self.run = f"{job.name or f'{os.getppid()}-{_started(os.getppid())}'}-{self._meeting}"
        _check(self.folder)
        self._oldest_s = 0.0  # by the folder's clock: what is older an earlier job has left
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, daemon=True)

    @property
    def merges(self) -> bool:
        """Whether this is the rank that reads what the others write."""
        return self.job.rank == 0

    def __enter__(self) -> Ranks:
        """Say that this rank is there, again and again until the end."""
        _write(self._path("alive", self.job.rank), os.urandom(8))
        self._oldest_s = self._path("alive", self.job.rank).stat().st_mtime - self.late_s
        self._beating.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop that; rank 0 takes away the files of the job."""
        self._ended.set()
        self._beating.join()
        if self.merges:
            for path in self.folder.glob(f"{self._stem}.*"):
                path.unlink(missing_ok=True)

    @property
    def _stem(self) -> str:
        return f"rooflab-{self.job.name or 'job'}-{self.job.size}-{self._meeting}"

    def _path(self, what: str, number: int) -> Path:
        return self.folder / f"{self._stem}.{what}.{number}"

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_S):
            _write(self._path("alive", self.job.rank), os.urandom(8))

    def places(self) -> tuple[Place, ...]:
        """One for each rank; hosts are known where it runs."""
        return tuple(Place(f"rank {n}", "") for n in range(self.job.size))

    def each(
        self, function: Function, items: Sequence[Any], at: Sequence[Place] | None = None
    ) -> Iterator[Outcome]:
        """The outcome of each item on rank 0, of its own on another (see `Workers.each`).

        `at` is in the order of ranks; without, item n is that of rank n modulo their number.
        """
        self._call += 1
        work, what = bound(function), f"call{self._call}"
        of = [n % self.job.size for n in range(len(items))]
        for number in (n for n in range(len(items)) if of[n] == self.job.rank):
            answer = work(items[number])
            if not self.merges:
                _write(self._path(what, number), pickle.dumps(answer))
            yield Outcome(number, answer.value, answer.failed, f"rank {self.job.rank}")
        if self.merges:
            yield from self._gathered(work, items, what, of, bound_to_ranks=at is not None)

    def _gathered(
        self, work: Any, items: Sequence[Any], what: str, of: list[int], bound_to_ranks: bool
    ) -> Iterator[Outcome]:
        """What the other ranks write, as it comes; what a lost one leaves is done here where it may be."""
        left = {number for number in range(len(items)) if of[number]}
        begun, beats = time.monotonic(), {rank: (b"", time.monotonic()) for rank in range(1, self.job.size)}
        while left:
            for number in sorted(left):
                content = _read(self._path(what, number), self._oldest_s)
                if content is None:
                    continue
                left.discard(number)
                answer: Answer = pickle.loads(content)
                yield Outcome(number, answer.value, answer.failed, f"rank {of[number]}")
            silent = self._silent(beats, begun) & {of[number] for number in left}
            for rank in sorted(silent):
                its = sorted(number for number in left if of[number] == rank)
                left -= set(its)
                self.notes.append(
                    f"rank {rank} was lost: {'given up' if bound_to_ranks else 'its work done by rank 0'}"
                )
                for number in its:
                    if bound_to_ranks:
                        yield Outcome(number, failed=f"rank {rank} was lost, or never came", worker=f"rank {rank}")
                    else:
                        answer = work(items[number])
                        yield Outcome(number, answer.value, answer.failed, "rank 0", tries=2)
            if left:
                time.sleep(_POLL_S)

    def _silent(self, beats: dict[int, tuple[bytes, float]], begun: float) -> set[int]:
        """Ranks that have said nothing for long, by this process' clock: those of hosts differ."""
        now, silent = time.monotonic(), set()
        for rank, (last, since) in beats.items():
            beat = _read(self._path("alive", rank)) or b""
            if beat != last:
                beats[rank] = beat, now
            elif now - since > self.dead_s if last else now - begun > self.late_s:
                silent.add(rank)
        return silent


def _started(pid: int) -> str:
    """When a process began, in clock ticks since the system did (proc(5), stat, field 22); "" where unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _check(folder: Path) -> None:
    """Return where `folder` can be met in: what is read there is trusted, so nobody else may write."""
    if not folder.is_dir():
        raise FileError(f"{folder}: no such folder, expected one that all ranks can reach (--on ranks:FOLDER)")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(f"{folder}: cannot be written, expected a folder that all ranks can write")
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise FileError(
            f"{folder}: others may write there, and ranks trust what they read: chmod go-w, or another"
        )


def _write(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{socket.gethostname()}-")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _read(path: Path, oldest_s: float = 0.0) -> bytes | None:
    """The content of a file of this user's; None where there is none that was written since `oldest_s`."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid():
                raise FileError(f"{path}: belongs to another user, and ranks trust what they read")
            return file.read() if status.st_mtime >= oldest_s else None
    except FileNotFoundError:
        return None
