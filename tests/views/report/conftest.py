"""Pages of reports that several files of tests open: written once, and looked at without a word in the console."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

import rooflab
from rooflab.types.advice import Advice, Advices
from support.report_pages import EVIL, Opened, program, queued, softmax


@pytest.fixture(scope="session")
def mixed():
    return program().on("h200-sxm", mode="graph")


@pytest.fixture(scope="session")
def advised(mixed):
    one = Advice(
        rule="fuse",
        change=f"Fuse {EVIL}",
        evidence=("3 of 40 norms read again what was just written.",),
        rows=(1, 4),
        before_s=mixed.time_s,
        after_s=mixed.time_s * 0.75,
        gain_low_s=-1e-6,
        gain_high_s=mixed.time_s * 0.3,
        effort="line",
        code="model = torch.compile(model)",
        page="remedies.html#fuse",
    )
    others = [msgspec.structs.replace(one, change=f"Other {number}") for number in range(4)]
    half = mixed.time_s / 2
    advices = Advices(each=(one, *others), together=("fuse", "batch"), together_s=half, unasked=("tile: no loop",))
    return msgspec.structs.replace(mixed, advice=advices)


@pytest.fixture(scope="session")
def files(mixed, advised, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    fp8 = rooflab.op("matmul", "64x64", "64x64", dtype="fp8")
    written = {
        "mixed": mixed,
        "advised": advised,
        "odd": program(odd=True).on("h200-sxm"),
        "bare": program(),
        "variants": rooflab.variants(program(), ["h200-sxm", "a100-sxm-80gb"], ["bandwidth=2x"], mode="graph"),
        "one": rooflab.op("matmul", "512x512", "512x512", machine="h200-sxm"),
        "fp8": rooflab.variants(fp8, ["h100-sxm", "a100-sxm-80gb"], mode="eager"),
        "copies": rooflab.op("copy", "512x512", machine="h200-sxm"),
        "queued": queued(),
        "cpu": rooflab.analyze(softmax, np.ones(1_000_000), machine="xeon-8480plus"),
        "host": rooflab.op("add", "512x512", "512x512", machine="h200-sxm", mode="eager"),
    }
    for name, result in written.items():
        result.save(folder / f"{name}.html")
    return folder


@pytest.fixture
def look(browser, files):
    """A function (name, width, scheme) that opens a page; nothing may be said or asked for meanwhile."""
    seen = []

    def open_it(name, width=1440, scheme="light"):
        seen.append((Opened(browser, files / f"{name}.html", width, scheme), (files / f"{name}.html").as_uri()))
        return seen[-1][0]

    yield open_it
    for opened, address in seen:
        assert opened.said == []
        assert opened.asked == [address]
        opened.page.close()
