"""How quick pages and saved reports are: `python benchmarks/pages.py [--only PART]`.

For programs of distinct operations: how long the page takes to write, its size, how long Chromium takes from
opening it until its table is there, and until it has drawn again after a slider moved, best and median. An
8-billion Llama's decode step: analysis and five formats in one process, and `rooflab show` of the saved report to
the terminal and to HTML, as whole commands. 4,000 distinct operations: analysis, advice and five formats, once
and first. Needs PyTorch and Chromium with Playwright.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import rooflab

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

_REDRAW = """() => {
  const times = [];
  for (let i = 0; i < 25; i++) {
    const start = performance.now();
    Page.set({ knobs: { bandwidth: 1.25 + i / 8 } }, "slider");
    document.body.offsetHeight;
    times.push(performance.now() - start);
  }
  return times;
}"""


def program(rows: int) -> rooflab.Report:
    """A program of about so many operations, no two alike, predicted on an H200."""
    widths = [64 + 8 * number for number in range(rows // 3)]

    def run(inputs: list[torch.Tensor], weights: list[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.softmax(torch.relu(x @ w), -1) for x, w in zip(inputs, weights, strict=True)]

    with torch.device("meta"):
        inputs = [torch.empty(64, width, dtype=torch.bfloat16) for width in widths]
        weights = [torch.empty(width, width, dtype=torch.bfloat16) for width in widths]
    report = rooflab.analyze(run, inputs, weights, name=f"{rows} operations")
    return rooflab.advise(report.on("h200-sxm", mode="graph"))


def pages(rows: int, folder: Path, rounds: int) -> None:
    """Print a line for the page of a program of so many operations."""
    from playwright.sync_api import sync_playwright

    path = folder / f"{rows}.html"
    report = program(rows)
    write_s = min(_timed(lambda: report.save(path)) for _ in range(rounds))
    loads, redraws = [], []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
        for _ in range(rounds):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            start = time.perf_counter()
            page.goto(path.as_uri())
            page.wait_for_selector("#operations-table tbody tr")
            loads.append(time.perf_counter() - start)
            redraws += page.evaluate(_REDRAW)
            page.close()
        browser.close()
    print(
        f"{len(report.rows):6,} operations: write {write_s:.2f} s, {path.stat().st_size / 1e6:.2f} MB, open "
        f"{min(loads):.2f} s (median {statistics.median(loads):.2f}), draw again {min(redraws):.0f} ms "
        f"(median {statistics.median(redraws):.0f})"
    )


def llama(folder: Path, rounds: int) -> None:
    """Print the times of an 8-billion Llama's decode step: five formats, and shown again."""
    from support.model.torch_models import build  # pyright: ignore[reportMissingImports] (tests, put on the path above)

    module, inputs = build("llama8b-b1-t1-c1024")
    paths = [folder / f"llama.{suffix}" for suffix in ("json", "csv", "html", "svg", "png")]

    def whole() -> None:
        with torch.no_grad():
            rooflab.analyze(module, *inputs, machine="h200-sxm", name="llama").save(*paths)

    times = [_timed(whole) for _ in range(rounds)]
    print(f"Llama 8B, decode: analyzed and saved in five formats {min(times):.2f} s (first {times[0]:.2f})")
    for words, more in (("to the terminal", []), ("to HTML", ["-q", "-o", str(folder / "again.html")])):
        command = [sys.executable, "-m", "rooflab", "show", str(paths[0]), *more]
        took = [_timed(lambda command=command: _run(command)) for _ in range(rounds)]
        print(f"  shown {words}: {min(took):.2f} s (median {statistics.median(took):.2f})")


def distinct(rows: int, folder: Path) -> None:
    """Print how long a program of so many distinct operations takes, advice and five formats included."""
    paths = [folder / f"distinct.{suffix}" for suffix in ("json", "csv", "html", "svg", "png")]
    took = _timed(lambda: program(rows).save(*paths))
    print(f"{rows:,} distinct operations: analyzed, advised and saved in five formats {took:.2f} s")


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "COLUMNS": "120"})


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _chromium() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise SystemExit("benchmarks/pages.py: no Chromium found, expected chromium or google-chrome on the path")
    return found


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("llama", "distinct", "pages"), help="one part alone")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if asked.only in (None, "distinct"):
            distinct(4000, folder)  # first: what it imports is part of its time
        if asked.only in (None, "llama"):
            llama(folder, asked.rounds)
        for rows in asked.rows if asked.only in (None, "pages") else ():
            pages(rows, folder, asked.rounds)


if __name__ == "__main__":
    main()
