"""How fast serving is predicted: one setting from the command line, one more, a plan, a simulated stream.

Run: python benchmarks/serving_speed.py [--turns 5] [--requests 1000000]

Each figure is the least and the median of so many turns, by the clock, beside its goal. The command is a process
of its own, with compiled bytecode there; the others are timed inside one that has done the same once before.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import rooflab
from rooflab.model.engines.engine import engine
from rooflab.model.parallel.layout import Layout
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.step import StepModel
from rooflab.work.llm import models

MODEL, MACHINE = "llama-3.1-8b", "h100-sxm"
COMMAND = (sys.executable, "-m", "rooflab", "serve", MODEL, "--machine", MACHINE)


def main() -> int:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--requests", type=int, default=1_000_000)
    asked = parser.parse_args()
    step = StepModel(models.model(MODEL), rooflab.machine(MACHINE), engine=engine("vllm"), layout=Layout())
    batch = Batch(decode_sequences=np.arange(1.0, 1025.0), decode_context=2048.0)
    plan_of = {"ttft": "500ms", "tpot": "30ms", "gpus": 8}
    machines = ("h100-sxm", "h200", "b200", "mi300x", "a100-sxm-80gb", "l40s")
    settings = rooflab.serve_plan("llama-3.1-70b", machines, **plan_of).settings
    show("one setting, the command", asked.turns, command, "1 s")
    show("one setting more, in Python", asked.turns, lambda: rooflab.serve(MODEL, MACHINE, concurrency=16), "–")
    show("one step's time more, of 1,024 at once", asked.turns, lambda: step.time(batch), "1 ms", parts=1024)
    plan_name = f"a plan over {settings:,} settings"
    show(
        plan_name, asked.turns, lambda: rooflab.serve_plan("llama-3.1-70b", machines, **plan_of), "3 s for 10,000"
    )
    rooflab.serve(MODEL, MACHINE, rate=5.0, requests=50)  # compiles
    show("--rate, 2,000 requests, in Python", asked.turns, lambda: rooflab.serve(MODEL, MACHINE, rate=5.0), "1 s")
    many = f"{asked.requests:,} simulated requests"
    show(many, 1, lambda: rooflab.serve(MODEL, MACHINE, rate=7.0, requests=asked.requests), "30 s")
    return 0


def command() -> None:
    """The command, its answer thrown away."""
    subprocess.run(COMMAND, check=True, stdout=subprocess.DEVNULL)


def show(name: str, turns: int, run: Callable[[], object], goal: str, *, parts: int = 1) -> None:
    """Time `run`, once before to warm up, and print it for each of `parts`."""
    if turns > 1:
        run()
    took = []
    for _ in range(turns):
        began = time.perf_counter()
        run()
        took.append((time.perf_counter() - began) / parts)
    least, median = min(took) * 1e3, statistics.median(took) * 1e3
    print(f"{name:40}  least {least:10.3f} ms  median {median:10.3f} ms  goal {goal}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
