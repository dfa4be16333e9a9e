"""Machines to draw: a measured two-core guest, and the shape of a datasheet accelerator."""

from __future__ import annotations

import math
import shutil
from typing import Any, NamedTuple

import pytest

from rooflab.types.machine import (
    Check,
    Curve,
    Level,
    Link,
    Machine,
    Plateau,
    Point,
    Rate,
    Runtime,
    Source,
)

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Pairs of texts in one chart whose boxes share more than a pixel each way. A halo lies under its own text.
OVERLAPS = """() => {
  const found = [];
  for (const chart of document.querySelectorAll(".chart svg")) {
    const texts = [...chart.querySelectorAll("text")].filter(t => t.textContent && !t.getAttribute("stroke")
      && t.getAttribute("opacity") !== "0" && !/rotate\\((?!0)/.test(t.getAttribute("transform") || ""));
    const boxes = texts.map(t => [t.textContent, t.getBoundingClientRect()]);
    boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
      if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1
        && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 2.5) found.push(a + " / " + b);
    }));
  }
  return found;
}"""
KIB, MIB, GIB = 2**10, 2**20, 2**30
MEASURED = Source(kind="measured", ref="rooflab measure", date="2026-01-15")
DERIVED = Source(kind="derived", ref="2 cores × 3.6 GHz × 8 lanes × 2 FLOP × 1 pipe", date="2026-01-15")
SHEET = Source(kind="datasheet", ref="https://example.com/sheet.pdf, page 3", date="2026-01-15")
CLOCK = 3.6e9

# name, found, reported, latency in cycles or s, read by one core and by both (GB/s)
HIERARCHY = (
    ("L1", 32 * KIB, 32 * KIB, 4 / CLOCK, 230, 455),
    ("L2", 960 * KIB, 1 * MIB, 14 / CLOCK, 115, 220),
    ("L3", 11 * MIB, 32 * MIB, 15e-9, 60, 110),
    ("DRAM", None, 8 * GIB, 108e-9, 25, 38),
)


def attained(value: float, what: str, scope: str, **more) -> Rate:
    """A measured rate: its median 2 % below the best of 7 runs."""
    filled = {
        "per_s": "byte",
        "basis": "attained",
        "source": MEASURED,
        "threads": 1 if scope == "core" else 2,
        "clock_hz": CLOCK,
        "median": value * 0.98,
        "spread": 0.02,
        "runs": 7,
    }
    return Rate(value=value, what=what, scope=scope, **{**filled, **more})


def level(name, found, reported, latency, core, both) -> Level:
    """One level with reads, and the writing kernels at fixed shares of them."""
    rates = [attained(core * 1e9, "read", "core"), attained(both * 1e9, "read", "all")]
    for what, ordinary, streamed in (("write", 0.5, 0.62), ("copy", 0.7, 0.85), ("triad", 0.74, 0.9)):
        for scope, read in (("core", core), ("all", both)):
            rates.append(attained(read * 1e9 * ordinary, what, scope, stores="ordinary"))
            if name in ("L3", "DRAM"):
                rates.append(attained(38e9 * streamed, what, scope, stores="nontemporal"))
    if name == "L1":  # two 32-byte loads a clock
        rates.append(theory(2 * 64 * CLOCK, "read", None, per_s="byte", engine=None))
    return Level(
        name=name,
        source=MEASURED,
        capacity_bytes=found,
        reported_capacity_bytes=reported,
        shared_by=1 if name in ("L1", "L2") else 2,
        line_bytes=64,
        latency_s=latency,
        loaded_latency_s=190e-9 if name == "DRAM" else None,
        latency_source=MEASURED,
        rates=tuple(rates),
    )


def theory(value, what, dtype, **more) -> Rate:
    """A theoretical peak at the measured clock."""
    filled = {
        "per_s": "flop",
        "basis": "theoretical",
        "source": DERIVED,
        "clock_hz": CLOCK,
        "dtype": dtype,
        "engine": "vector",
    }
    return Rate(value=value, what=what, **{**filled, **more})


def peaks() -> tuple[Rate, ...]:
    """Arithmetic of two Zen 4 cores: fp64 16 FLOP a clock and core with FMA, 24 with ADD beside it."""
    rows = (
        ("fma", "fp64", "vector", 57.6e9),
        ("fma+add", "fp64", "vector", 82e9),
        ("add", "fp64", "vector", 28.7e9),
        ("fma", "fp64", "scalar", 14.3e9),
        ("fma", "fp32", "vector", 115e9),
        ("fma+add", "fp32", "vector", 164e9),
        ("dot", "bf16", "vector", 230e9),
    )
    made = []
    for what, dtype, engine, value in rows:
        for scope, cores in (("core", 1), ("all", 2)):
            more = {"per_s": "flop", "dtype": dtype, "engine": engine}
            made.append(attained(value * cores * 0.995, what, scope, **more))
            made.append(theory(value * cores, what, dtype, engine=engine, scope=scope))
    made.append(attained(918e9, "dot", "all", per_s="op", dtype="int8", engine="vector", accumulate="int32"))
    return tuple(made)


def sweep(bounds, heights, sizes) -> tuple[float, ...]:
    """A height over each size: plateaus that give way to the next over about a factor of two."""
    values = []
    for size in sizes:
        share = [1 / (1 + (size / bound) ** 4) if bound else 0.0 for bound in bounds]
        height = heights[-1]
        for inside, own in zip(reversed(share), reversed(heights[:-1]), strict=True):
            height = math.exp(math.log(own) * inside + math.log(height) * (1 - inside))
        values.append(height)
    return tuple(values)


def curves() -> tuple[Curve, ...]:
    """Read bandwidth of one core and of both, latency, and DRAM read over threads."""
    sizes = tuple(4 * KIB * 2 ** (i / 4) for i in range(65))
    bounds = (32 * KIB * 1.25, 960 * KIB * 1.1, 11 * MIB * 1.1)
    spans = ((4 * KIB, 28 * KIB), (64 * KIB, 700 * KIB), (1.5 * MIB, 8 * MIB), (32 * MIB, 256 * MIB))
    made = []
    for name, unit, scope, column in (
        ("read bandwidth", "byte/s", "core", 4),
        ("read bandwidth", "byte/s", "all", 5),
        ("latency", "s", "core", 3),
    ):
        heights = [row[column] * (1e9 if unit == "byte/s" else 1) for row in HIERARCHY]
        best = sweep(bounds, heights, sizes)
        worse = 0.96 if unit == "byte/s" else 1.05
        made.append(
            Curve(
                name=name,
                x_unit="byte",
                y_unit=unit,
                scope=scope,
                x=sizes,
                best=best,
                median=tuple(value * worse for value in best),
                source=MEASURED,
                threads=1 if scope == "core" else 2,
                runs=7,
                plateaus=tuple(
                    Plateau(level=row[0], first=first, last=last, value=height)
                    for row, height, (first, last) in zip(HIERARCHY, heights, spans, strict=True)
                ),
            )
        )
    made.append(
        Curve(
            name="thread scaling",
            x_unit="thread",
            y_unit="byte/s",
            scope="all",
            x=(1, 2),
            best=(25e9, 38e9),
            median=(24.5e9, 36e9),
            source=MEASURED,
            runs=7,
        )
    )
    return tuple(made)


def checks() -> tuple[Check, ...]:
    """Six self-checks of which two failed."""
    return (
        Check(name="level order", ok=True, message="Each level is at least as fast as the next one."),
        Check(
            name="capacity",
            ok=False,
            message="L3: 11 MiB found where the system reports 32 MiB: other guests of this host share it.",
        ),
        Check(name="theory", ok=True, message="Nothing is above theory at the measured clock."),
        Check(name="latency order", ok=True, message="Latency rises with size."),
        Check(
            name="spread",
            ok=False,
            message="DRAM read with 2 threads: spread 11 %, over 8 %; a noisy neighbour is likely. "
            "Run again when the machine is quiet.",
        ),
        Check(name="thread scaling", ok=True, message="2 threads read DRAM 1.5 times as fast as 1."),
    )


@pytest.fixture(scope="session")
def measured() -> Machine:
    """A measured Zen 4 guest of two cores."""
    disk_rates = tuple(
        attained(value, what, "all", threads=1, clock_hz=None)
        for what, value in (("read", 1.9e9), ("write", 0.8e9))
    ) + tuple(
        attained(value, what, "all", per_s="transaction", threads=1, clock_hz=None)
        for what, value in (("random read 4 KiB", 21e3), ("random write 4 KiB", 9e3))
    )
    disk = Level(name="disk", source=MEASURED, rates=disk_rates, note="O_DIRECT on /tmp (ext4)")
    return Machine(
        name="AMD EPYC 9R14 (2 cores of a guest)",
        kind="cpu",
        source=MEASURED,
        vendor="AMD",
        compute_unit="core",
        compute_units=2,
        levels=(*(level(*row) for row in HIERARCHY), disk),
        peaks=peaks(),
        clocks=(attained(CLOCK, "under load", "core", per_s="cycle"),),
        links=(Link(name="core to core", to="the other core", source=MEASURED, latency_s=52e-9),),
        runtimes=(
            Runtime(framework="numpy", version="2.4.6", dispatch_s=410e-9, source=MEASURED, runs=7, spread=0.03),
            Runtime(framework="numba", version="0.68.1", dispatch_s=160e-9, source=MEASURED, runs=7),
        ),
        points=(
            # a = b + s·c: 2 FLOP and 24 bytes an element
            Point(name="triad", flop=2e8, bytes=2.4e9, time_s=0.0667, level="DRAM", dtype="fp64", source=MEASURED),
            # 5-point stencil: 4 additions and 1 multiplication, one read and one write an element
            Point(
                name="5-point stencil",
                flop=5e8,
                bytes=1.6e9,
                time_s=0.052,
                level="DRAM",
                dtype="fp64",
                source=MEASURED,
            ),
            # matmul of 2000: 2·2000³ FLOP, 3·2000²·8 bytes
            Point(
                name="NumPy matmul",
                flop=1.6e10,
                bytes=9.6e7,
                time_s=0.118,
                level="DRAM",
                dtype="fp64",
                source=MEASURED,
            ),
        ),
        checks=checks(),
        curves=curves(),
        environment={
            "microarchitecture": "Zen 4",
            "granted": "2 of 192 CPUs (cpuset), 8 GiB of memory (cgroup)",
            "hypervisor": "KVM",
            "kernel": "6.1.0",
            "isa": ["AVX2", "AVX-512", "FMA"],
            "<script>alert(1)</script>": "<b>escaped & safe</b>",
        },
    )


@pytest.fixture(scope="session")
def accelerator() -> Machine:
    """A datasheet accelerator: one memory, many precisions, several of the same rate."""
    rows = (
        ("fp64", "vector", None, 33.5e12),
        ("fp64", "matrix", None, 66.9e12),
        ("fp32", "vector", None, 66.9e12),
        ("tf32", "matrix", "fp32", 494.7e12),
        ("fp16", "matrix", "fp32", 989.4e12),
        ("bf16", "matrix", "fp32", 989.4e12),
        ("fp8", "matrix", "fp32", 1978.9e12),
    )
    return Machine(
        name="Example H100-like SXM",
        kind="gpu",
        source=SHEET,
        vendor="Example",
        year=2022,
        compute_unit="SM",
        compute_units=132,
        levels=(
            Level(name="L2", source=SHEET, capacity_bytes=50 * MIB),
            Level(
                name="HBM",
                source=SHEET,
                capacity_bytes=80e9,
                rates=(Rate(value=3.35e12, per_s="byte", what="any", basis="theoretical", source=SHEET),),
            ),
        ),
        peaks=tuple(
            theory(value, "fma", dtype, engine=engine, accumulate=accumulate, source=SHEET)
            for dtype, engine, accumulate, value in rows
        ),
        links=(
            Link(name="PCIe 5.0 x16", to="host", source=SHEET, each_way_bytes_per_s=64e9, duplex=True),
            Link(name="NVLink 4", to="other GPUs", source=SHEET, each_way_bytes_per_s=450e9, duplex=True),
        ),
    )


class Seen(NamedTuple):
    """What a browser shows of a page: console lines, addresses asked for, pixels too wide, texts that overlap."""

    said: list[str]
    asked: list[str]
    sideways: int
    wider: int
    overlaps: list[str]
    background: str


@pytest.fixture(scope="session")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if BROWSER is None:
        pytest.skip("no chromium, chromium-browser or google-chrome on the path")
    with api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=BROWSER, args=list(QUIET))
        yield opened
        opened.close()


@pytest.fixture
def opened(browser):
    """A function (path, scheme, width, charts) that opens a page, waits for its charts and says what is seen."""

    def look(path, scheme: str, width: int, charts: int) -> Seen:
        shown = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        said: list[str] = []
        asked: list[str] = []
        shown.on("console", lambda message: said.append(message.text))
        shown.on("pageerror", lambda error: said.append(str(error)))
        shown.on("request", lambda request: asked.append(request.url))
        shown.goto(path.as_uri())
        shown.wait_for_function(f"document.querySelectorAll('.chart svg').length === {charts}")
        found: list[Any] = [
            shown.evaluate(script)
            for script in (
                "document.documentElement.scrollWidth - innerWidth",
                "[...document.querySelectorAll('figure')].filter(f => f.scrollWidth > f.clientWidth).length",
                OVERLAPS,
                "getComputedStyle(document.body).backgroundColor",
            )
        ]
        shown.close()
        return Seen(said, asked, *found)

    return look
