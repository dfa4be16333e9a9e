"""What `rooflab run` adds to a command: the command's own time with and without it, in turns, and the whole.

Run: python benchmarks/run.py [--seconds 10] [--rounds 5] [--counters]

In each round the same command, a loop in Python that takes about so many seconds, runs alone and under
`rooflab run`, one after the other, first in turn. Its own time is from its first line to its last; the whole is
from its start to the end of whoever started it, with rooflab's start and report. Start is how long after the call
its first line runs. Ratios are of the same round; medians, the 10th and the 90th percentile.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

_PROGRAM = """
import sys, time
began, used = time.time(), time.process_time()
for _ in range(int(sys.argv[1])):
    for i in range(100_000): i * i
print(began, time.time(), time.process_time() - used)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--counters", action="store_true", help="count events where the CPU has them")
    asked = parser.parse_args()
    alone = [sys.executable, "-S", "-c", _PROGRAM]
    under = [sys.executable, "-m", "rooflab", "run", *([] if asked.counters else ["--no-counters"]), "--", *alone]
    loops = calibrated(alone, asked.seconds)
    rounds = []
    for number in range(asked.rounds):
        order = [("alone", alone), ("under", under)]
        both = {name: timed([*words, str(loops)]) for name, words in order[:: 1 if number % 2 else -1]}
        rounds.append(both)
        print(
            f"round {number + 1}: "
            + ", ".join(
                f"{name} {own:.3f} s of its own, {whole:.3f} s whole, started after {start * 1e3:.0f} ms"
                for name, (own, whole, start, _) in sorted(both.items())
            ),
            flush=True,
        )
    report("its own time, with / without", [one["under"][0] / one["alone"][0] for one in rounds])
    report("its CPU time, with / without", [one["under"][3] / one["alone"][3] for one in rounds])
    report("the whole, with / without", [one["under"][1] / one["alone"][1] for one in rounds])
    report(
        "ms from the call to its first line, more", [(one["under"][2] - one["alone"][2]) * 1e3 for one in rounds]
    )
    after = [one["under"][1] - one["under"][2] - one["under"][0] for one in rounds]
    report("ms after its last line", [seconds * 1e3 for seconds in after])


def calibrated(words: list[str], seconds: float) -> int:
    """How many loops take about so long."""
    own, *_ = timed([*words, "100"])
    return max(round(100 * seconds / own), 1)


def timed(words: list[str]) -> tuple[float, float, float, float]:
    """Seconds that the program itself took, that all took, from the call to its first line, and of its CPU."""
    called = time.time()
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    whole = time.time() - called
    began, ended, used = (float(word) for word in done.stdout.split())
    return ended - began, whole, began - called, used


def report(what: str, values: list[float]) -> None:
    low, high = min(values), max(values)
    if len(values) > 2:
        tenths = statistics.quantiles(values, n=10, method="inclusive")
        low, high = tenths[0], tenths[-1]
    print(f"{what}: {statistics.median(values):.4g} ({low:.4g} to {high:.4g})")


if __name__ == "__main__":
    main()
