"""How far first predictions of loops were off, and the errors that follow: `python benchmarks/loop_bars.py`.

`loop_first_runs.txt` has sets of kernels that were written without a look at the model, each predicted once
before the model was mended with any of them, by the model of that hour; those whose name ends in "again" are the
same predicted by a later model, which turned out no nearer on them. Each has the shares of its predicted time by
mechanism (`rooflab.model.loop.bars.parts`) and what was measured. The constants "loop.error_…" of cpu.toml are
those under which what was measured is likeliest (a Student distribution with three degrees of freedom, so that a
few loops that something quite unknown befell do not decide), drawn a little to where they began, and wide enough
that four of five lie inside. Printed: constants, then by set and by the mechanism that most of the bar comes from
how many lie inside, and half of the bars' width in the median.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rooflab.model.device.constants import load_family
from rooflab.model.loop import bars

SAMPLE = Path(__file__).with_name("loop_first_runs.txt")
KINDS = tuple(kind for kind in bars.WORDS if kind != "shared")  # the sample is of one core
HIDDEN = "hidden"
FOUR_OF_FIVE = 1.65  # times the scale of the distribution: of the sample four of five lie within
_BEGINS = {
    "chain": 0.04, "chain_other": 0.12, "beside": 0.22, "units": 0.1, "whole": 0.2, "passes": 0.4, "calls": 0.18,
    "missed": 0.18, "learnt": 0.2, "bytes": 0.15, "waiting": 0.4, "both": 0.4, "team": 0.2,
    "least": 0.04, HIDDEN: 2.0,
}  # fmt: skip
_FREEDOM, _LOOSE = 3.0, 0.7  # of the distribution; logarithm by which a constant leaves where it began with ease
_STEPS = (0.4, 0.2, 0.1, 0.05, 0.02, 0.01)  # of the logarithms, tried one after the other


class FirstRun(NamedTuple):
    """A loop that was predicted and timed once.

    Attributes:
        group: its set.
        name: of the kernel.
        ratio: seconds measured ÷ predicted.
        less, more: factors by which it would be faster and slower if a shared cache kept more and less.
        shares: of the predicted time by mechanism.
    """

    group: str
    name: str
    ratio: float
    less: float
    more: float
    shares: dict[str, float]


class Judged(NamedTuple):
    """Of some loops: how many, the share that lies inside the bars, half of their width in the median."""

    loops: int
    inside: float
    half: float


def main() -> None:
    """Print the constants, and how many lie inside."""
    runs = sample()
    found = fitted(runs)
    for kind, value in found.items():
        print(f"loop.error_{kind:<12} {value:.3f}  in cpu.toml {load_family('cpu')(f'loop.error_{kind}'):.3f}")
    used = in_use()
    groups = sorted({each.group for each in runs})
    for group in groups:
        print(f"{group:<48} {said(judged([each for each in runs if each.group == group], used))}")
    by_kind: dict[str, list[FirstRun]] = {}
    for each in runs:
        by_kind.setdefault(most(each, used), []).append(each)
    for kind, mine in sorted(by_kind.items(), key=lambda each: -len(each[1])):
        print(f"{bars.WORDS[kind]:<48} {said(judged(mine, used))}")
    print(f"{'all':<48} {said(judged(runs, used))}")
    for group in groups:
        rest = fitted([each for each in runs if each.group != group])
        print(f"{group}, by the others' constants: {said(judged([e for e in runs if e.group == group], rest))}")


def sample(path: Path = SAMPLE) -> list[FirstRun]:
    """The loops of the file."""
    runs = []
    for line in path.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            group, name, ratio, less, more, *shares = line.split()
            known = {kind: float(share) for kind, share in (each.split("=") for each in shares)}
            runs.append(FirstRun(group, name, float(ratio), float(less), float(more), known))
    return runs


def in_use() -> dict[str, float]:
    """The constants of cpu.toml."""
    constant = load_family("cpu")
    return {kind: constant(f"loop.error_{kind}") for kind in (*KINDS, HIDDEN)}


def ends(runs: list[FirstRun], constants: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the factors down and up that the bars allow, of each loop."""
    each = np.array([[run.shares.get(kind, 0.0) * constants[kind] for kind in KINDS] for run in runs]) ** 2
    waiting, learnt = KINDS.index("waiting"), KINDS.index("learnt")
    down = each.sum(axis=1) + each[:, waiting] * (constants[HIDDEN] ** 2 - 1) - each[:, learnt]
    kept = np.array([[math.log(run.less), math.log(run.more)] for run in runs]) ** 2
    return np.sqrt(down + kept[:, 0]), np.sqrt(each.sum(axis=1) + kept[:, 1])


def fitted(runs: list[FirstRun]) -> dict[str, float]:
    """The constants under which what was measured is likeliest, one after the other in ever smaller steps."""
    logs = {kind: math.log(_BEGINS[kind] * (1 if kind == HIDDEN else FOUR_OF_FIVE)) for kind in (*KINDS, HIDDEN)}
    begun, best = dict(logs), _unlikely(runs, logs, logs)
    for step in _STEPS:
        moved = True
        while moved:
            moved = False
            for kind in logs:
                for change in (step, -step):
                    tried = {**logs, kind: logs[kind] + change}
                    if (now := _unlikely(runs, tried, begun)) < best - 1e-9:
                        logs, best, moved = tried, now, True
    return {kind: math.exp(value) for kind, value in logs.items()}


def _unlikely(runs: list[FirstRun], logs: Mapping[str, float], begun: Mapping[str, float]) -> float:
    down, up = ends(runs, {kind: math.exp(value) for kind, value in logs.items()})
    off = np.log([run.ratio for run in runs])
    scaled = off / np.where(off < 0, down, up) * FOUR_OF_FIVE
    density = -(_FREEDOM + 1) / 2 * np.log1p(scaled**2 / _FREEDOM) - np.log((down + up) / 2)
    drawn = sum(((logs[kind] - begun[kind]) / _LOOSE) ** 2 for kind in logs) / 2
    return drawn - float(density.sum())


def judged(runs: list[FirstRun], constants: Mapping[str, float]) -> Judged:
    """How many of the loops lie inside the bars of these constants."""
    down, up = ends(runs, constants)
    off = np.log([run.ratio for run in runs])
    half = (np.exp(up) - np.exp(-down)) / 2
    return Judged(len(runs), float(np.mean((off >= -down) & (off <= up))), float(np.median(half)))


def most(run: FirstRun, constants: Mapping[str, float]) -> str:
    """The mechanism that most of a loop's bar comes from."""
    return max(KINDS, key=lambda kind: run.shares.get(kind, 0.0) * constants[kind])


def said(found: Judged) -> str:
    """In words."""
    return f"{found.loops:>3} loops, {found.inside:.0%} inside, half of the bars {found.half:.0%}"


if __name__ == "__main__":
    main()
