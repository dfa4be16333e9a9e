"""How well reading many ranks' traces spreads: time against ranks / cores × one rank, memory of a worker.

Run: python benchmarks/fleet.py [--ranks 64] [--on tcp://HOST:8786] [--cutoffs]

Traces of PyTorch's profiler, 18 MB each, of one simulated run are written to a temporary folder (1.2 GB for 64).
First one rank is read alone (median of five), then the folder by `rooflab.load`. The goal is at most
1.3 × (ranks / cores) × one rank, with the memory of one rank in each worker. The result is held against that of
reading the files one after another in this process, which it must equal, for the first few ranks. With --cutoffs:
from which deviation on a node is called slow, by the number of nodes, simulated again.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import rooflab
from rooflab.executors import granted

BYTES, GOAL = 18e6, 1.3
BASE_US, LAYER_US = 4956303848445.5, 400.0
KERNEL = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{0}_{1}_32x{2}_tn_align8>(Params)"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--on")
    parser.add_argument("--cutoffs", action="store_true")
    asked = parser.parse_args()
    if asked.cutoffs:
        cutoffs()
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rank in range(asked.ranks):
            (folder / f"rank{rank}.json").write_text(trace(rank, asked.ranks), encoding="utf-8")
        nbytes = (folder / "rank0.json").stat().st_size
        print(f"{asked.ranks} ranks of {nbytes / 1e6:.1f} MB, {granted()} cores")
        alone, cpu = [], []
        for _ in range(5):
            begun = cpu_s()
            alone.append(seconds(lambda: rooflab.load(folder / "rank0.json")))
            cpu.append(cpu_s() - begun)
        one_s = statistics.median(alone)
        print(f"one rank alone: {one_s:.2f} s ({', '.join(f'{each:.2f}' for each in alone)})")
        alone_bytes = memory(f"rooflab.load({str(folder / 'rank0.json')!r})")
        peak, begun = Peak(), cpu_s()
        whole_s = seconds(lambda: rooflab.load(folder, on=asked.on))
        each_bytes = peak.stop()
        ideal_s = asked.ranks / granted() * one_s
        print(
            f"all ranks: {whole_s:.1f} s, {whole_s / ideal_s:.2f} × (ranks / cores) × one rank (goal {GOAL}); "
            f"peak memory of a worker {each_bytes / 1e6:.0f} MB, of a process that reads one rank alone "
            f"{alone_bytes / 1e6:.0f} MB, of this one {own() / 1e6:.0f} MB"
        )
        used = (cpu_s() - begun) / (asked.ranks * statistics.median(cpu))
        print(f"CPU time of all processes: {used:.2f} × ranks × one rank (which other work does not change)")
        few = [folder / f"rank{rank}.json" for rank in range(min(4, asked.ranks))]
        same = rooflab.load(*few, workers=1) == rooflab.load(*few, on=asked.on)
        print(f"the merged result of {len(few)} ranks equals that of reading one after another: {same}")


def seconds(run: object) -> float:
    begun = time.perf_counter()
    run()  # type: ignore[operator]
    return time.perf_counter() - begun


def cpu_s() -> float:
    """CPU time of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def trace(rank: int, ranks: int, nbytes: float = BYTES) -> str:
    """A run of layers, each some products and pointwise kernels with their calls, then a collective."""
    rng, same = np.random.default_rng(rank), np.random.default_rng(0)
    said = {"Collective name": "allreduce", "Group size": ranks, "dtype": "BFloat16", "In msg nelems": 4096}
    said |= {"Process Group Name": "0", "Process Group Ranks": str(list(range(min(ranks, 8))))}
    parts = []
    for step, layer in enumerate(_layers(nbytes)):
        # All leave a collective at once; each comes to it at its own time.
        now = BASE_US + LAYER_US * step
        arrive, end = now + 300 + 20 * rng.random(), now + 345 + same.random()
        joint = _kernel(NCCL, arrive, end - arrive, 40 * step + 31, 20, **said, Seq=step)
        parts += [layer, json.dumps(joint)]
    told = json.dumps({"backend": "nccl", "rank": rank, "world_size": ranks})
    return f'{{"schemaVersion": 1, "distributedInfo": {told}, "traceEvents": [{", ".join(parts)}]}}'


@functools.cache
def _layers(nbytes: float) -> list[str]:
    """The events of each layer as JSON, without its collective, until they are `nbytes` together."""
    rng, texts, size = np.random.default_rng(0), [], 0
    while size < nbytes:
        layer, step = [], len(texts)
        for n in range(30):
            at, correlation = BASE_US + LAYER_US * step + 10.0 * n, 40 * step + n
            shape = [[4096, 1024 * (1 + n % 4)], [1024 * (1 + n % 4), 4096]]
            args = {"External id": correlation, "Input Dims": shape, "Input type": ["c10::BFloat16"] * 2}
            name, kernel = "aten::mm", KERNEL.format(64 * (1 + n % 4), 128 * (1 + n % 2), n % 8)
            if n % 3 == 2:
                name, kernel = "aten::relu", "void at::native::vectorized_elementwise_kernel<4>(int, F, A)"
                args = {"External id": correlation, "Input Dims": shape[:1], "Input type": ["c10::BFloat16"]}
            host = {"ph": "X", "pid": 411, "tid": 411}
            launch = {"External id": correlation, "cbid": 211, "correlation": correlation}
            start = {"name": "cudaLaunchKernel", "ts": at - 48, "dur": 3.0, "args": launch}
            layer.append({**host, "cat": "cpu_op", "name": name, "ts": at - 50, "dur": 6.0, "args": args})
            layer.append({**host, "cat": "cuda_runtime", **start})
            layer.append(_kernel(kernel, at, float(8 + rng.random()), correlation, 7))
        texts.append(json.dumps(layer)[1:-1])
        size += len(texts[-1]) + 560
    return texts


def _kernel(
    name: str, at: float, long_us: float, correlation: int, stream: int, **more: object
) -> dict[str, object]:
    args = {"device": 0, "stream": stream, "correlation": correlation, "External id": correlation}
    args |= {"grid": [64, 8, 1], "block": [128, 1, 1], "registers per thread": 64, **more}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": stream,
        "ts": at,
        "dur": long_us,
        "args": args,
    }


def memory(expression: str) -> float:
    """Peak bytes of a new process that evaluates `expression`."""
    code = (
        f"import resource, rooflab; {expression}; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
    )
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def own() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


class Peak:
    """The largest resident memory that one of this process' children had, looked at ten times a second."""

    def __init__(self) -> None:
        self.nbytes, self._ended = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        import psutil

        me = psutil.Process(os.getpid())
        while not self._ended.wait(0.1):
            for child in me.children(recursive=True):
                try:
                    self.nbytes = max(self.nbytes, child.memory_info().rss)
                except psutil.Error:
                    continue

    def stop(self) -> float:
        """The largest, in bytes; nothing is looked at afterwards."""
        self._ended.set()
        self._thread.join()
        return self.nbytes


def cutoffs() -> None:
    from rooflab.comparing import robust

    print(f"{'nodes':>6} {'simulated':>10} {'table':>8}")
    for count in robust.CUTOFFS:
        print(f"{count:6} {robust.simulated_cutoff(count):10.2f} {robust.CUTOFFS[count]:8.2f}")


if __name__ == "__main__":
    main()
