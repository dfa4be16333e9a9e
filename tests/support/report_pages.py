"""Programs whose pages the tests of reports open, and a page as a browser has it open."""

from __future__ import annotations

import numpy as np
import pytest

from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import counting

# Labels that are written straight, where they are on the screen.
BOXES = """() => [...document.querySelectorAll("#roofline .label")]
  .filter((text) => !text.getAttribute("transform"))
  .map((text) => text.getBoundingClientRect().toJSON())"""
EVIL = "</script><img src=x onerror=alert(1)>"


def program(count=40, odd=False):
    """Products, norms and copies of many sizes in a tree of modules; with `odd`, one that is not counted."""
    specs: list[TensorSpec] = []
    ops: list[Op] = []

    def tensor(*shape):
        elements = 1
        for size in shape:
            elements *= size
        specs.append(TensorSpec(shape, "bf16", 2.0 * elements, storage=len(specs)))
        return len(specs) - 1

    for i in range(count):
        m, k, n = 256 * (1 + i % 37), 64 * (1 + i % 11), 64 + 64 * i
        module, where = f"part{i % 5}.layer{i // 5}.{'x' * (i % 3)}y", f"model.py:{i}"
        a, w, c = tensor(m, k), tensor(k, n), tensor(m, n)
        ops.append(
            Op(
                name="aten.mm",
                kind="matmul",
                inputs=(a, w),
                outputs=(c,),
                attrs={"k": k},
                module=module,
                where=where,
            )
        )
        norm = {"function": "rms"}
        ops.append(
            Op(name=f"norm{i % 7}", kind="norm", inputs=(c,), outputs=(tensor(m, n),), attrs=norm, module=module)
        )
        ops.append(Op(name="aten.copy", kind="copy", inputs=(c,), outputs=(tensor(m, n),), module=module))
    ops.append(
        Op(name=EVIL, kind="copy", inputs=(0,), outputs=(tensor(64, 64),), module=f"<b>{EVIL}", where="'\"><i>")
    )
    if odd:
        ops.append(Op(name="my::sampling", inputs=(0,), outputs=(0,), module="L" * 5000))
        nothing = {"function": "empty"}
        ops.append(Op(name="aten.empty", kind="create", inputs=(), outputs=(tensor(4),), attrs=nothing))
    return counting.report(Graph(framework="hand", tensors=tuple(specs), ops=tuple(ops)), f"mixed & {EVIL}")


def softmax(a):
    e = np.exp(a - a.max())
    return e / e.sum()


def queued():
    """Equal products of a moment each, one after the other, called from a host."""
    shape, elements = (1024, 1024), 1024.0 * 1024
    specs = tuple(TensorSpec(shape, "bf16", 2 * elements, storage=number) for number in range(26))
    ops = tuple(
        Op(name="aten.mm", kind="matmul", inputs=(number, 25), outputs=(number + 1,), attrs={"k": 1024})
        for number in range(24)
    )
    return counting.report(Graph(framework="torch", tensors=specs, ops=ops), "queue").on("h200-sxm", mode="eager")


class Opened:
    """A page in the browser, with all that it said and asked for."""

    def __init__(self, browser, path, width=1440, scheme="light"):
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message) or dialog.dismiss())
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("#operations-table tbody tr")

    def texts(self, selector):
        return self.page.locator(selector).all_text_contents()

    def column(self, name):
        """The cells of that column of the table of operations, top to bottom."""
        keys = self.page.eval_on_selector_all("#operations-table thead th", "all => all.map(th => th.dataset.key)")
        return self.texts(f"#operations-table tbody tr > :nth-child({keys.index(name) + 1})")


def close(found, wanted):
    """Whether two columns agree to a millionth, and in what is unknown."""
    if [each is None for each in found] != [each is None for each in wanted]:
        return False
    known = [each for each in wanted if each is not None]
    return [each for each in found if each is not None] == pytest.approx(known, rel=1e-6)
