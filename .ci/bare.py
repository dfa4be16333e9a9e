"""Checks an installation without extras, outside the checkout: `python bare.py IMPORT_S HELP_S NOISE`."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

ROUNDS = 7


def main(import_goal_s: float, help_goal_s: float, noise: float) -> None:
    """Run every check; the first that fails ends the program with a sentence."""
    import rooflab

    for name in rooflab.__all__:
        getattr(rooflab, name)
    print(f"public names: {', '.join(rooflab.__all__)}")
    python = _median_s([sys.executable, "-c", "pass"])
    _within("import rooflab", _median_s([sys.executable, "-c", "import rooflab"]) - python, import_goal_s, noise)
    _within("rooflab --help", _median_s(["rooflab", "--help"]), help_goal_s, noise)
    shown = _run(["rooflab", "machine", "h200-sxm"])
    if "NVIDIA H200" not in shown:
        sys.exit(f"rooflab machine h200-sxm: expected NVIDIA H200 in its output, got\n{shown}")
    start = time.perf_counter()
    measured = json.loads(_run(["rooflab", "measure", "--quick", "--json"]))
    took = time.perf_counter() - start
    levels = [level["name"] for level in measured["levels"]]
    if "DRAM" not in levels or "L1" not in levels:
        sys.exit(f"rooflab measure --quick --json: expected levels L1 to DRAM, got {levels}")
    print(f"rooflab measure --quick --json: {', '.join(levels)} in {took:.1f} s")
    for check in measured["checks"]:
        if not check["ok"]:
            print(f"  {check['message']}")


def _median_s(command: list[str]) -> float:
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        _run(command)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def _within(what: str, seconds: float, goal_s: float, noise: float) -> None:
    print(f"{what}: {seconds:.3f} s, median of {ROUNDS} (goal {goal_s} s)")
    if seconds > noise * goal_s:
        sys.exit(f"{what}: {seconds:.3f} s, expected at most {noise:g} × {goal_s} s")


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
