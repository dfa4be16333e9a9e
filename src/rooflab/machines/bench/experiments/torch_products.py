"""PyTorch's products timed in a process of its own, so that measuring loads no framework into the caller's.

    python -m rooflab.machines.bench.experiments.torch_products BUDGET_S MOST_THREADS

prints one line of JSON: a `TimedLibrary`.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from rooflab.machines.bench.experiments.products import (
    TimedLibrary,
    TimedProduct,
    collect,
    faster_of,
    settings,
    thread_counts,
)
from rooflab.timing import time_call

# What importing PyTorch from a cold disk may take beside the timing itself.
_IMPORT_S = 30.0
_POLL_S = 0.05
_DISPATCH_ROUNDS = 5


class TorchLibrary:
    """PyTorch's products by the library that it is built with."""

    def __init__(self) -> None:
        import torch

        self.torch = torch

    def threads(self) -> int:
        """How many threads PyTorch takes inside an operation."""
        return self.torch.get_num_threads()

    def set_threads(self, count: int) -> None:
        """Give it so many."""
        self.torch.set_num_threads(count)

    def array(self, values: np.ndarray) -> Any:
        """A tensor over the memory of `values`."""
        return self.torch.from_numpy(values)

    def multiply(self, a: Any, b: Any) -> Any:
        """`torch.matmul`."""
        return self.torch.matmul(a, b)


def timed_here(budget_s: float, most_threads: int) -> TimedLibrary:
    """PyTorch's products and its bare call, timed in this process."""
    import torch

    library = TorchLibrary()
    counts = thread_counts(min(library.threads(), most_threads))
    one = torch.zeros(1)
    with torch.no_grad():
        dispatch = [
            time_call(lambda: torch.neg(one), rounds=1, run_s=0.005).best_s for _ in range(_DISPATCH_ROUNDS)
        ]
        timed = collect(library, counts, budget_s / 2)
        again = iter(dict.fromkeys(each[:4] for each in timed))
        timed = faster_of(timed, collect(library, counts, budget_s / 2, again))
    blas = blas_of(torch.__config__.show())
    kernels = torch.backends.cpu.get_cpu_capability()
    return TimedLibrary("torch", torch.__version__, blas, kernels, tuple(timed), tuple(dispatch), settings())


def blas_of(built: str) -> str | None:
    """The library of linear algebra in the text that PyTorch gives of its build: "MKL 2024.2"."""
    version = re.search(r"Math Kernel Library Version (\d+(?:\.\d+)*)", built)
    if version and "USE_MKL=ON" in built:
        return f"MKL {version[1]}"
    info = re.search(r"BLAS_INFO=(\w+)", built)
    return info[1] if info else None


def timed_in_a_child(
    budget_s: float, most_threads: int, tick: Callable[[], None] = lambda: None
) -> TimedLibrary | None:
    """What a process of its own times; None where PyTorch is not installed.

    A child that fails, or does not end, is named in `refused`.
    """
    if importlib.util.find_spec("torch") is None:
        return None
    command = [sys.executable, "-m", __spec__.name, str(budget_s), str(most_threads)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = _answer(child, time.monotonic() + budget_s + _IMPORT_S, tick)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    return said


def _answer(child: subprocess.Popen[str], until: float, tick: Callable[[], None]) -> TimedLibrary:
    while True:
        tick()
        try:
            out, errors = child.communicate(timeout=_POLL_S)
            break
        except subprocess.TimeoutExpired:
            if time.monotonic() > until:
                return TimedLibrary("torch", "", refused=f"importing it and timing took over {_IMPORT_S:.0f} s")
    if child.returncode:
        last = (errors.strip().splitlines() or ["no message"])[-1]
        return TimedLibrary("torch", "", refused=f"its process ended with exit code {child.returncode}: {last}")
    return decoded(out)


def decoded(text: str) -> TimedLibrary:
    """A `TimedLibrary` from its JSON, the last line of `text`."""
    fields = json.loads(text.strip().splitlines()[-1])
    fields["timed"] = tuple(TimedProduct(*each) for each in fields["timed"])
    fields["dispatch_s"] = tuple(fields["dispatch_s"])
    return TimedLibrary(**fields)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(timed_here(float(sys.argv[1]), int(sys.argv[2])))) + "\n")
