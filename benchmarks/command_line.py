"""How long whole commands take, from nothing to their last line, in a process of their own each time.

Run: python benchmarks/command_line.py [FILE.py …] [--machine FILE] [--only NAME …] [--c] [--sizes FILE]

Of the kernels of files (a function NAME beside NAME_args(n), as for loop_files.py), and with --c of those of
c_kernels.py: `rooflab loop` for the first time, with a folder of its own for what is kept, and again. Without
files and --c: `rooflab --help`, `op` and `serve`. Sizes are chosen so that a run takes about 2 ms; --sizes names a
file that they are kept in, so that a later run need not look for them. A new folder is filled with the simulator
first, by one loop that is not timed. Figures to keep are those of a machine on which nothing else runs: the load
is said.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import c_kernels
import loop_files

PLAIN = (
    ("--help",),
    ("op", "matmul", "1024x1024", "1024x1024", "--machine", "h100-sxm"),
    ("serve", "llama-3.1-70b", "--machine", "h100-sxm", "--gpus", "8"),
)
_RUN_S = 2e-3
_WARMING = "def fill(a):\n    for i in range(len(a)):\n        a[i] = 1.0\n\ndef args():\n    import numpy\n"


def main() -> None:
    """Print a line a command, then the medians."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", nargs="*", type=Path)
    options.add_argument("--machine", help="measured here; without it loops have no roofs")
    options.add_argument("--only", nargs="*", help="these kernels")
    options.add_argument("--c", action="store_true", help="those of C too")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--sizes", type=Path)
    given = options.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, XDG_CACHE_HOME=folder)
        if not given.files and not given.c:
            for command in PLAIN:
                _row(" ".join(command), command, environment, given.repeats)
        else:
            loops = [*_of_python(given.files, given.sizes), *(_of_c() if given.c else ())]
            machine = () if given.machine is None else ("--machine", given.machine)
            rows = []
            _warm(Path(folder), environment)
            for name, command in loops:
                if given.only and name not in given.only:
                    continue
                rows.append(_row(name, ("loop", *command, *machine), environment, given.repeats))
            _said("first, its report", [row[0].report for row in rows if row])
            _said("first, with advice", [row[0].all for row in rows if row])
            _said("again, its report", [statistics.median(each.report for each in row[1:]) for row in rows if row])
            _said("again, with advice", [statistics.median(each.all for each in row[1:]) for row in rows if row])
    print(f"load {os.getloadavg()[0]:.1f}")


def _said(what: str, seconds: Sequence[float]) -> None:
    if seconds:
        print(f"{what}: median {statistics.median(seconds):.2f} s, most {max(seconds):.2f} s of {len(seconds)}")


def _of_python(files: Sequence[Path], sizes: Path | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    known = json.loads(sizes.read_text()) if sizes is not None and sizes.exists() else {}
    for kernel in loop_files.kernels(list(files)):
        if kernel.name not in known:
            known[kernel.name] = loop_files.size(kernel, _RUN_S)
            if sizes is not None:
                sizes.write_text(json.dumps(known))
        path = kernel.fn.__code__.co_filename
        yield kernel.name, (f"{path}:{kernel.name}", "--n", str(known[kernel.name]))


def _of_c() -> Iterator[tuple[str, tuple[str, ...]]]:
    places = (
        (c_kernels.FILE, Path(c_kernels.__file__), c_kernels.SIZES),
        (
            c_kernels.EXAMPLES,
            c_kernels.EXAMPLES.with_suffix(".py"),
            c_kernels.EXAMPLE_SIZES,
        ),
    )
    for path, maker, sizes in places:
        for name, n in sizes.items():
            yield f"C: {name}", (f"{path}:{name}", "--args", str(maker), "--n", str(n))


def _warm(folder: Path, environment: dict[str, str]) -> None:
    path = folder / "fill.py"
    path.write_text(f"{_WARMING}    return (numpy.zeros(100),)\n")
    _seconds(("loop", f"{path}:fill"), environment)


class _Seconds(NamedTuple):
    """Of a command: until its first line (a loop's report but for what would help), and until its end."""

    report: float
    all: float

    def __str__(self) -> str:
        return f"{self.report:5.2f} s, all {self.all:5.2f} s"


def _row(name: str, command: Sequence[str], environment: dict[str, str], repeats: int) -> list[_Seconds]:
    """Seconds of the first time and of those after it, printed too; none where it is refused."""
    found = [_seconds(command, environment) for _ in range(1 + repeats)]
    seconds = [each for each in found if each is not None]
    if len(seconds) < len(found):
        print(f"{name:<16} refused", flush=True)
        return []
    again = _Seconds(*(statistics.median(each) for each in zip(*seconds[1:], strict=True)))
    print(f"{name:<16} first {seconds[0]}; again {again}", flush=True)
    return seconds


def _seconds(command: Sequence[str], environment: dict[str, str]) -> _Seconds | None:
    """Seconds of a whole command; None where it is refused."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "rooflab", *command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    process.stdout.readline()
    report = time.perf_counter() - begun
    process.stdout.read()
    code = process.wait()
    return _Seconds(report, time.perf_counter() - begun) if code == 0 else None


if __name__ == "__main__":
    main()
