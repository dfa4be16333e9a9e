"""Predicted gains against measured ones: `python benchmarks/advice.py [--truth DIR]`.

For each model that was timed eager and as a CUDA graph or compiled: the gain that the advice predicts and the one
that was measured, as shares of the eager time; then how often the sign is right, and the median of |predicted /
measured − 1|. A compiled model is taken by the sum of its kernels, which is what `mode="reduce-overhead"` replays.
Below 2 % nothing is said: such a pair counts as right where less than 10 % was measured.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import measured
from measured import Case

_RULES = {"graph": "cuda-graph", "compiled": "compile"}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--truth", type=Path, default=measured.SHARED / "truth")
    folder = parser.parse_args().truth
    times: dict[tuple[str, str], dict[str, Case]] = {}
    for builder in (measured.OWN, measured.PUBLIC):
        for case in measured.models(folder, builder):
            if isinstance(case, Case) and " train" not in case.name:
                times.setdefault((case.name, case.machine.name), {})[case.settings["mode"]] = case
    found: dict[str, list[tuple[float, float]]] = {rule: [] for rule in _RULES.values()}
    for (name, machine), modes in times.items():
        if "eager" not in modes or len(modes) < 2:
            continue
        eager = modes["eager"]
        given = eager.report.on(eager.machine, **{**eager.settings, "dispatch_s": None})
        advice = {one.rule: one.gain_share for one in _each(given)}
        for mode, rule in _RULES.items():
            if mode in modes:
                said, gained = advice.get(rule, 0.0), 1 - modes[mode].measured_s / eager.measured_s
                found[rule].append((said, gained))
                print(f"{name:28s} {machine:24s} {rule:11s} predicted {said:6.1%} measured {gained:6.1%}")
    for rule, pairs in found.items():
        right = sum(gained > 0 if predicted else gained < 0.1 for predicted, gained in pairs)
        off = [abs(predicted / gained - 1) for predicted, gained in pairs if predicted]
        median = f"{statistics.median(off):.1%}" if off else "–"
        print(f"{rule}: sign right in {right} of {len(pairs)}, size off by {median} in the median of {len(off)}")


def _each(report):
    import rooflab

    advice = rooflab.advise(report).advice
    return () if advice is None else advice.each


if __name__ == "__main__":
    main()
