"""llama.cpp predicted against a run of it: `python benchmarks/llama_bench.py RUN.csv --machine machine.toml`.

RUN.csv is what `llama-bench -m FILE.gguf -t THREADS -p 128 -n 24 -o csv` wrote; of FILE.gguf the header is read
again (random weights will do), machine.toml is what `rooflab measure` wrote in the same minute. Rows whose own
runs differ by more than a quarter are shown and not counted.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

import rooflab
from rooflab.model.engines.engine import engine
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.step import StepModel
from rooflab.types.machine import Machine
from rooflab.work.llm import models
from rooflab.work.llm.precision import stored

_STEADY = 0.25  # most standard deviation of a rate over its mean


class Row(NamedTuple):
    """One figure: seconds of a token, measured and predicted."""

    name: str
    what: str
    measured_s: float
    predicted_s: float
    steady: bool


def rows(path: Path, machine: Machine) -> list[Row]:
    """The figures of llama-bench's CSV."""
    found = []
    for each in csv.DictReader(path.open(encoding="utf-8")):
        file = Path(each["model_filename"])
        model = models.model(file)
        how = {"engine": engine("llama.cpp"), "precision": stored(model, "fp16")}
        step = StepModel(model, machine, threads=int(each["n_threads"]), **how)
        prompt, answer = int(each["n_prompt"]), int(each["n_gen"])
        if prompt:
            what, tokens, batch = f"pp{prompt}", prompt, Batch(prefill_sequences=1.0, prefill_tokens=float(prompt))
        else:
            what, tokens, batch = f"tg{answer}", 1, Batch(decode_sequences=1.0, decode_context=answer / 2.0)
        rate, spread = float(each["avg_ts"]), float(each["stddev_ts"])
        predicted_s = float(step.time(batch).seconds[0]) / tokens
        found.append(Row(file.name, what, 1.0 / rate, predicted_s, spread < _STEADY * rate))
    return found


def main() -> None:
    """Print every figure, and the median error of those that are steady."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--machine", required=True)
    asked = parser.parse_args()
    found = rows(asked.run, rooflab.machine(asked.machine))
    for row in found:
        note = "" if row.steady else "  not steady"
        ratio = row.predicted_s / row.measured_s
        times = f"{row.measured_s * 1e3:8.2f} ms{row.predicted_s * 1e3:8.2f} ms"
        print(f"{row.name:28}{row.what:7}{times}{ratio:6.2f}{note}")
    for kind in ("tg", "pp"):
        errors = [abs(np.log(r.predicted_s / r.measured_s)) for r in found if r.steady and r.what.startswith(kind)]
        if errors:
            median, most = np.exp(np.median(errors)) - 1, np.exp(max(errors)) - 1
            print(f"{kind}: {len(errors)} steady, median {median:.1%}, most {most:.1%}")


if __name__ == "__main__":
    main()
