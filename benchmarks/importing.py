"""How fast traces become reports: rooflab, json.load alone, HolisticTraceAnalysis; the memory of a large one.

Run: python benchmarks/importing.py [TRACE.json.gz] [--mb 50] [--rounds 5] [--large 1000]

A real trace (by default the one among the examples) is repeated with shifted times and ids until the file has
that many megabytes. In each round each tool reads that file in a process of its own, one after another, imports
left out of its time; it is time of the CPU, and ratios are medians over rounds.
rooflab's time goes through to the printed report; that of HolisticTraceAnalysis (left out where it isn't
installed) to its breakdowns of the GPU's kernels, of idle time and of overlap, which rooflab's report has too.
json.load is timed as it comes, and without Python's garbage collector, which costs it most of its time.

--large makes a file of that many megabytes and says what rooflab takes of memory for it, against the size of the
columns that its kernels, operations and launches become.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[1] / "examples" / "gpt2-h200-trace.json.gz"
IDS = ("External id", "correlation", "Ev Idx", "Sequence number")
# CPU time of the process and of those that it made: other work on the machine lengthens it less than the clock's.
_TIMED = (
    "import os; used = lambda: sum(os.times()[:4]); began = used(); {run}\n"
    "import multiprocessing; [one.join() for one in multiprocessing.active_children()]; print(used() - began)"
)

TOOLS = {
    "json.load": ("import json", "json.load(open({path!r}))"),
    "json.load, no gc": ("import json, gc; gc.disable()", "json.load(open({path!r}))"),
    "rooflab": (
        "import io, rooflab; from rooflab import views; views.show(rooflab.load({example!r}), io.StringIO())",
        "views.show(rooflab.load({path!r}), io.StringIO())",
    ),
    "HolisticTraceAnalysis": (
        "from hta.trace_analysis import TraceAnalysis",
        "one = TraceAnalysis(trace_files={{0: {path!r}}}, trace_dir='/'); "
        "one.get_gpu_kernel_breakdown(visualize=False); one.get_idle_time_breakdown(visualize=False); "
        "one.get_comm_comp_overlap(visualize=False)",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trace", nargs="?", type=Path, default=EXAMPLE)
    parser.add_argument("--mb", type=float, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", type=float, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        if asked.large:
            repeated(asked.trace, path, asked.large * 1e6)
            large(path)
        else:
            repeated(asked.trace, path, asked.mb * 1e6)
            compare(path, asked.rounds)


def repeated(trace: Path, path: Path, nbytes: float) -> int:
    """Write `trace` to `path` again and again, times and ids shifted, until it has `nbytes`; how often."""
    with (gzip.open if trace.suffix == ".gz" else open)(trace, "rt", encoding="utf-8") as file:
        document = json.load(file)
    events = document.pop("traceEvents")
    timed = [one for one in events if one.get("ph") == "X"]
    long = max(one["ts"] + one["dur"] for one in timed) - min(one["ts"] for one in timed) + 10
    ids = 1 + max(int(one.get("args", {}).get(name) or 0) for one in events for name in IDS)
    template, values, steps = _template([one for one in events if one.get("ph") != "M"], long, ids)
    times = 0
    with path.open("w", encoding="utf-8") as out:
        head = [json.dumps(one) for one in events if one.get("ph") == "M"]
        out.write(json.dumps(document)[:-1] + ', "traceEvents": [\n' + ",\n".join(head))
        while out.tell() < nbytes:
            shifted = tuple(value + times * step for value, step in zip(values, steps, strict=True))
            out.write((",\n" if head or times else "") + template % shifted)
            times += 1
        out.write("\n]}\n")
    return times


def _template(events: list[dict[str, Any]], long: float, ids: int) -> tuple[str, list[float], list[float]]:
    """The text of `events` with a place for each value that is shifted; those values, and each one's shift."""
    values: list[float] = []
    steps: list[float] = []

    def mark(value: float, step: float) -> str:
        values.append(value)
        steps.append(step)
        return "@TIME@" if step == long else "@ID@"

    lines = []
    for event in events:
        one = dict(event)
        # In the order in which they stand in the text.
        for key in one:
            if key == "ts":
                one[key] = mark(one[key], long)
            elif key == "id" and isinstance(one[key], int):
                one[key] = mark(one[key], ids)
            elif key == "args":
                one[key] = {
                    name: mark(value, ids) if name in IDS and isinstance(value, int) else value
                    for name, value in one[key].items()
                }
        lines.append(json.dumps(one))
    text = ",\n".join(lines).replace("%", "%%").replace('"@TIME@"', "%.3f").replace('"@ID@"', "%d")
    return text, values, steps


def compare(path: Path, rounds: int) -> None:
    """Print what each tool takes for the file at `path`, and how many times longer than rooflab."""
    megabytes = path.stat().st_size / 1e6
    times: dict[str, list[float]] = {name: [] for name in TOOLS}
    for number in range(rounds):
        for name in list(times):
            seconds = _run(name, path)
            if seconds is None:
                print(f"{name}: not installed, or it cannot read this file")
                del times[name]
            else:
                times[name].append(seconds)
        print(f"round {number + 1}: " + ", ".join(f"{name} {all_s[-1]:.2f} s" for name, all_s in times.items()))
    print(f"{megabytes:.0f} MB, medians of {rounds} rounds")
    for name, all_s in times.items():
        ratios = [one / ours for one, ours in zip(all_s, times["rooflab"], strict=True)]
        print(
            f"{name:22} {statistics.median(all_s):7.2f} s {megabytes / statistics.median(all_s):7.1f} MB/s "
            f"{statistics.median(ratios):6.2f} × rooflab's time ({min(ratios):.2f} to {max(ratios):.2f})"
        )


def _run(name: str, path: Path) -> float | None:
    """Seconds that the tool called `name` takes for the file at `path`, in a process of its own."""
    setup, run = (part.format(path=str(path), example=str(EXAMPLE)) for part in TOOLS[name])
    code = f"{setup}\n{_TIMED.format(run=run)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    lines = done.stdout.split()
    return float(lines[-1]) if done.returncode == 0 and lines else None


def large(path: Path) -> None:
    """Print time and memory of rooflab for the file at `path`."""
    code = (
        "import resource, sys, time, numpy, rooflab\n"
        "from pathlib import Path\n"
        "from rooflab.observe.importers.traces import kineto\n"
        f"rooflab.load({str(EXAMPLE)!r})\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "before, began = peak(), time.perf_counter()\n"
        "seen = []\n"
        "load = kineto.load\n"
        "def noted(file):\n"
        "    trace = load(file)\n"
        "    seen.extend([peak(), sum(getattr(columns, name).nbytes for columns in (trace.kernels, trace.calls,\n"
        "        trace.launches) for name in columns.__struct_fields__)])\n"
        "    return trace\n"
        "kineto.load = noted\n"
        f"rooflab.load({str(path)!r})\n"
        "print(time.perf_counter() - began, before, seen[0], peak(), seen[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, before, read, peak, columns = map(float, done.stdout.split())
    size = path.stat().st_size
    print(f"{size / 1e6:.0f} MB in {seconds:.1f} s, {size / seconds / 1e6:.0f} MB/s")
    print(f"columns of its events {columns / 1e6:.0f} MB; before {before / 1e6:.0f} MB")
    for name, most in (("reading", read), ("through to the profile", peak)):
        print(
            f"most memory {name}: {most / 1e6:.0f} MB, {(most - before) / columns:.2f} × the columns beside that"
        )


if __name__ == "__main__":
    main()
