"""Predicted gains against measured ones: `python benchmarks/advice.py [--truth DIR]`.

For each model that was timed eager and as a CUDA graph or compiled: the gain that the advice predicts and the one
that was measured, as shares of the eager time; then how often the sign is right, and the median of |predicted /
measured − 1|. A compiled model is taken by the sum of its kernels, which is what `mode="reduce-overhead"` replays.
Below 2 % nothing is said: such a pair counts as right where less than 10 % was measured. Advice that says that it
may lose, and a change that was not asked for with the reason, claim no sign: they are counted apart. Public
architectures change with the version of transformers: that of the measurement is named where another is there.
"""

from __future__ import annotations

import argparse
import json
import re
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
    _other_versions(folder)
    times: dict[tuple[str, str], dict[str, Case]] = {}
    for builder in (measured.OWN, measured.PUBLIC):
        for case in measured.models(folder, builder):
            if isinstance(case, Case) and " train" not in case.name:
                times.setdefault((case.name, case.machine.name), {})[case.settings["mode"]] = case
    found: dict[str, list[tuple[float, float, bool]]] = {rule: [] for rule in _RULES.values()}
    for (name, machine), modes in times.items():
        if "eager" not in modes or len(modes) < 2:
            continue
        eager = modes["eager"]
        given = eager.report.on(eager.machine, **{**eager.settings, "dispatch_s": None})
        recorded = modes["graph"].report if "graph" in modes else None
        advised = _advised(given, recorded)
        advice = {one.rule: one for one in advised.each}
        unasked = {line.partition(":")[0] for line in advised.unasked}
        for mode, rule in _RULES.items():
            if mode in modes:
                one, gained = advice.get(rule), 1 - modes[mode].measured_s / eager.measured_s
                said = 0.0 if one is None else one.gain_share
                more = "may lose" if one is not None and one.gain_low_s < 0 else ""
                more = "not asked" if rule in unasked else more
                found[rule].append((said, gained, bool(more)))
                pair = f"predicted {said:6.1%} measured {gained:6.1%} {more}"
                print(f"{name:28s} {machine:24s} {rule:11s} {pair.rstrip()}")
    for rule, pairs in found.items():
        sure = [(predicted, gained) for predicted, gained, unsure in pairs if not unsure]
        right = sum(gained > 0 if predicted else gained < 0.1 for predicted, gained in sure)
        off = [abs(predicted / gained - 1) for predicted, gained, _ in pairs if predicted]
        median = f"{statistics.median(off):.1%}" if off else "–"
        print(
            f"{rule}: sign right in {right} of {len(sure)}, {len(pairs) - len(sure)} claim none, size off "
            f"by {median} in the median of {len(off)}"
        )


def _advised(report, recorded):
    import rooflab

    return rooflab.advise(report, as_recorded=None if recorded is None else lambda: recorded).advice


def _other_versions(folder: Path) -> None:
    """Say which libraries are not as they were when a file's times were measured."""
    from importlib import metadata

    for path in sorted(folder.glob(f"{measured.PUBLIC}_*.json")):
        note = json.loads(path.read_text()).get("note", "")
        for library, version in re.findall(r"(transformers) (\d+\.\d+)", note):
            here = metadata.version(library)
            if not here.startswith(f"{version}."):
                print(f"{path.name}: {library} {here} here, {version} when measured: models may run other kernels")


if __name__ == "__main__":
    main()
