"""Traces of several ranks of one run that was played through: each computes, then all meet in a collective."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.observe.kineto_files import call, file, kernel

ALONE_US = 20.0  # a collective, once the last has come
NAME = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class Run(NamedTuple):
    """Files of the ranks, and in µs what each waited at each collective."""

    files: list[Path]
    waits_us: NDArray[np.float64]


def run(
    folder: Path,
    computes_us: Sequence[Sequence[float]],
    *,
    off_us: Sequence[float] = (),
    gains: Sequence[float] = (),
    named: bool = True,
    told: dict[str, Any] | None = None,
    numbered: bool = True,
    marked: bool = False,
    name: str = NAME,
) -> Run:
    """A run in which rank r computes `computes_us[r][k]` before the k-th collective.

    Args:
        folder: of the files.
        computes_us: for each rank, for each collective.
        off_us, gains: what each rank's clock is ahead, and the share by which it runs faster.
        named: whether the files say their rank.
        told: of each collective; None says nothing.
        numbered: whether collectives have a sequence number.
        marked: whether each collective ends a marked step.
        name: of the collective's kernel.
    """
    compute = np.array(computes_us, float)
    ranks, count = compute.shape
    now, waits = np.zeros(ranks), np.zeros((ranks, count))
    events: list[list[dict[str, Any]]] = [[] for _ in range(ranks)]
    said = {"Collective name": "allreduce", "Group size": ranks, "dtype": "BFloat16", "In msg nelems": 4096}
    said |= {"Process Group Name": "0", "Process Group Ranks": str(list(range(ranks)))}
    said = said if told is None else told
    for k in range(count):
        arrives = now + compute[:, k]
        ends = arrives.max() + ALONE_US
        waits[:, k] = arrives.max() - arrives
        for rank in range(ranks):
            clock = _clock(off_us[rank] if off_us else 0.0, gains[rank] if gains else 0.0)
            begin, came, end = clock(now[rank]), clock(arrives[rank]), clock(ends)
            more = {**said, "Seq": k} if numbered and said else said
            events[rank].append(kernel(begin, came - begin, name="gemm", correlation=2 * k))
            events[rank].append(kernel(came, end - came, name=name, correlation=2 * k + 1, stream=20, **more))
            if marked:
                events[rank].append(call(begin, end - begin, f"ProfilerStep#{k}", cat="user_annotation"))
        now[:] = ends
    files = []
    for rank, several in enumerate(events):
        (folder / f"r{rank}").mkdir(parents=True)
        others = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks}} if named else {}
        files.append(file(folder / f"r{rank}", *several, **others))
    return Run(files, waits)


def _clock(off_us: float, gain: float) -> Any:
    return lambda moment: off_us + moment * (1 + gain)
