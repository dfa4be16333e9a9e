"""A stand-in for `perf stat`: waits for "enable", answers, and at its end writes a line for each event it knows.

It is run as `perf` from PATH. What it counts stands in the JSON file that FAKE_PERF names: {"event": [value, unit,
share of the time in percent]}; an event that is not there was not counted. The line is that of `perf stat -x`
(linux/tools/perf/Documentation/perf-stat.txt, "CSV FORMAT"): value, unit, event, running time, share, metric, its
unit.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import stat
import sys
import threading
from pathlib import Path

from rooflab.machines.detect.counters import Tried
from rooflab.machines.detect.files import Tree
from rooflab.machines.events import Kernel, available


def put_on_path(folder: Path, monkeypatch, counts: dict[str, list], fails: str | None = None) -> Path:
    """Make `perf` in `folder` this file, first on PATH; the file in which it logs its arguments."""
    script = folder / "bin" / "perf"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nimport runpy\nrunpy.run_path({__file__!r}, run_name='__main__')\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    table = folder / "counts.json"
    table.write_text(json.dumps({"counts": counts, "fails": fails, "log": str(folder / "log")}))
    monkeypatch.setenv("FAKE_PERF", str(table))
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    return folder / "log"


def tree(folder: Path, *, memory: bool = True) -> Tree:
    """A Xeon's devices of counters, as sysfs shows them."""
    devices = folder / "sys/bus/event_source/devices"
    files = {
        "cpu/type": "4",
        "cpu/format/event": "config:0-7",
        "cpu/format/umask": "config:8-15",
        **{
            f"uncore_imc_{n}/{name}": text
            for n in (0, 1)
            for name, text in {
                "type": str(20 + n),
                "cpumask": "0",
                "format/event": "config:0-7",
                "format/umask": "config:8-15",
                "events/cas_count_read": "event=0x05,umask=0xcf",
                "events/cas_count_write": "event=0x05,umask=0xf0",
            }.items()
            if memory
        },
    }
    for name, text in files.items():
        path = devices / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return Tree.at(folder)


def kernel(at_once: int, refuses: frozenset[int] = frozenset()) -> Kernel:
    """A kernel that counts `at_once` events beside instructions, and refuses devices of those types."""

    def opens(event, *, cpu=None):
        return Tried(opened=False, error="EACCES") if event.kind in refuses else Tried(opened=True)

    return Kernel(lambda: Tried(opened=True, counted=5), opens, lambda events: len(events) <= at_once + 1)


def events(folder: Path, at_once: int = 8, *, memory: bool = True, refuses: frozenset[int] = frozenset()):
    """What such a Sapphire Rapids can count."""
    return available(tree(folder, memory=memory), lambda: "Sapphire Rapids", kernel(at_once, refuses))


def main() -> None:
    given = json.loads(Path(os.environ["FAKE_PERF"]).read_text())
    words = sys.argv[1:]
    with Path(given["log"]).open("a") as log:
        log.write(" ".join(words) + "\n")
    if given["fails"]:
        sys.exit(f"{given['fails']}")
    value = dict(itertools.pairwise(words))
    control, done = (int(one) for one in value["--control"].removeprefix("fd:").split(","))
    ended = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: ended.set())
    assert os.read(control, 64) == b"enable\n"
    os.write(done, b"ack\n\0")
    ended.wait(60)
    lines = ["# started on Sun Nov 29 08:38:32 2026", ""]
    for text in split(value["-e"]):
        name = text.partition("name=")[2].partition("/")[0] if "name=" in text else text
        number, unit, share = given["counts"].get(name, ["<not counted>", "", 0.0])
        lines.append(f"{number};{unit};{name};1000000;{share:.2f};;")
    Path(value["-o"]).write_text("\n".join(lines) + "\n")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)  # as perf does


def split(text: str) -> list[str]:
    """The events of a list whose events hold commas between slashes."""
    found, within = [""], False
    for sign in text:
        within ^= sign == "/"
        if sign == "," and not within:
            found.append("")
        else:
            found[-1] += sign
    return found


if __name__ == "__main__":
    main()
