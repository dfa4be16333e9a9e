"""The graph of a program: operations and tensors, folded by module where there are many; pictures of all."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import msgspec
import pytest

import rooflab
from rooflab import Cache, cli, core_streams, streams
from rooflab.errors import RooflabError
from rooflab.machines.years import growth_of_catalogue
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.views import cores, simulation
from rooflab.views import graph as views
from rooflab.views.common import drawing
from rooflab.views.common.theme import DARK, LIGHT
from rooflab.views.graph import dot, layout, picture
from rooflab.views.graph.files import as_dict
from rooflab.views.graph.nodes import MOST_NODES, graph, leaves, sums
from rooflab.views.machine import topology, years
from rooflab.work.counting import report as counted

SIDE = 64
BYTES = SIDE * SIDE * 4


def spec(storage: int = -1, **more) -> TensorSpec:
    return TensorSpec((SIDE, SIDE), "fp32", BYTES, storage, **more)


def block(ops: list[Op], tensors: list[TensorSpec], x: int, module: str) -> int:
    """A matrix product with a weight, a view of it, a ReLU, and the input added: the tensor that comes out."""
    n = len(tensors)
    # weight, product, its view on the same memory, activation, sum
    tensors += [spec(role="parameter"), spec(n), spec(n), spec(), spec()]
    ops += [
        Op(name="mm", kind="matmul", inputs=(x, n), outputs=(n + 1,), attrs={"k": SIDE}, module=f"{module}.lin"),
        Op(name="view", kind="view", inputs=(n + 1,), outputs=(n + 2,), module=f"{module}.lin"),
        Op(
            name="relu",
            kind="pointwise",
            inputs=(n + 2,),
            outputs=(n + 3,),
            attrs={"function": "relu"},
            module=module,
        ),
        Op(
            name="add",
            kind="pointwise",
            inputs=(x, n + 3),
            outputs=(n + 4,),
            attrs={"function": "add"},
            module=module,
        ),
    ]
    return n + 4


def program(blocks: int):
    """A chain of residual blocks."""
    tensors, ops = [spec(role="input", name="x")], []
    x = 0
    for number in range(blocks):
        x = block(ops, tensors, x, f"layers.{number}")
    return counted(Graph(framework="hand", tensors=tuple(tensors), ops=tuple(ops)), "chain")


def test_nodes_are_operations_and_edges_tensors_seen_through_views():
    found = graph(program(2))
    assert (found.operations, found.drawn, found.folded) == (8, 6, 0)
    # A node for the input, three operations in each of two blocks; weights are no edges.
    assert [leaf.title for leaf in leaves(found.nodes)] == ["x: 64 × 64 fp32"] + ["lin: mm", "relu", "add"] * 2
    title = {leaf.key: leaf.title for leaf in leaves(found.nodes)}
    # Per block: x to mm, x to add, mm to relu through the view, relu to add.
    assert sorted((title[e.source][:3], title[e.target][:3]) for e in found.edges) == sorted(
        [("x: ", "lin"), ("x: ", "add"), ("add", "lin"), ("add", "add"), *[("lin", "rel"), ("rel", "add")] * 2]
    )
    assert {edge.nbytes for edge in found.edges} == {BYTES}
    assert sum(edge.tensors for edge in found.edges) == 8


def test_many_operations_are_folded_by_module_and_nothing_is_lost():
    report = program(700).on("h200-sxm")
    found = graph(report)
    assert found.drawn == 2100
    boxes = leaves(found.nodes)
    assert len(boxes) <= MOST_NODES
    assert sorted(number for leaf in boxes for number in leaf.rows) == [
        number for number, row in enumerate(report.rows) if row.takes_time
    ]
    (alike,) = [leaf for leaf in boxes if leaf.alike > 1]
    assert alike.title == "layers.1 … layers.699: 699 alike"
    time = sum(sums(report, leaf.rows).time_s or 0 for leaf in boxes)
    assert time == pytest.approx(sum(row.prediction.time_s for row in report.rows if row.prediction))
    # Everything in DOT.
    text = dot.text(report)
    assert len(re.findall(r'^ *"op \d+" \[', text, re.M)) == 2100
    assert text.count(" -> ") == 2800


def test_blocks_that_differ_are_not_alike():
    report = program(60)
    rows = [
        msgspec.structs.replace(row, op=msgspec.structs.replace(row.op, name="gelu"))
        if row.op.module == "layers.30" and row.op.name == "relu"
        else row
        for row in report.rows
    ]
    found = graph(msgspec.structs.replace(report, rows=tuple(rows)))
    titles = [leaf.title for leaf in leaves(found.nodes)]
    assert "layers.1 … layers.29: 29 alike" in titles
    assert "layers.32 … layers.59: 28 alike" in titles


def test_operations_without_modules_are_gathered():
    report = program(100)
    rows = tuple(
        msgspec.structs.replace(row, op=msgspec.structs.replace(row.op, module="")) for row in report.rows
    )
    boxes = leaves(graph(msgspec.structs.replace(report, rows=rows)).nodes)
    assert len(boxes) <= 21
    assert sum(len(leaf.rows) for leaf in boxes) == 300
    assert boxes[1].title == "15 operations: mm, relu, add"


@pytest.mark.parametrize("width", [picture.WIDE, picture.NARROW])
@pytest.mark.parametrize("blocks", [1, 3, 10, 200])
@pytest.mark.parametrize("machine", [None, "h200-sxm"])
def test_the_picture_holds_every_box_and_edge_and_no_words_overlap(blocks, width, machine):
    report = program(blocks)
    report = report if machine is None else report.on(machine)
    found, drawn = graph(report), picture.drawing(report, width=width)
    assert drawn.overlaps() == ()
    right, bottom = drawing.extent(drawn.items)
    assert right <= drawn.width + 1
    assert bottom <= drawn.height + 1
    arrows = [item for item in drawn.items if isinstance(item, drawing.Line) and item.arrow]
    assert len(arrows) == len(found.edges)
    tips = [item.tip for item in drawn.items if isinstance(item, drawing.Box) and item.tip]
    assert len(tips) == len(leaves(found.nodes))
    root = ElementTree.fromstring(drawing.svg(drawn))
    assert sum(each.tag.endswith("path") for each in root.iter()) == len(found.edges)


def test_boxes_do_not_overlap_and_stand_in_their_frames():
    found = graph(program(8).on("h200-sxm"))
    frame, around = layout.placed(found.nodes, found.edges, 880, lambda node, room: (min(190, room), 40))
    boxes = {leaf.key: frame.places[leaf.key] for leaf in leaves(found.nodes)}
    for key, box in boxes.items():
        for other, second in boxes.items():
            apart = (
                box.x + box.width <= second.x
                or second.x + second.width <= box.x
                or box.y + box.height <= second.y
                or second.y + second.height <= box.y
            )
            assert key == other or apart
        for holder in around[key]:
            outer = frame.places[holder]
            assert outer.x <= box.x
            assert outer.y <= box.y
            assert box.x + box.width <= outer.x + outer.width
            assert box.y + box.height <= outer.y + outer.height


def test_higher_boxes_take_longer():
    report = program(1).on("h200-sxm")
    frame = picture.drawing(report)
    heights = {}
    for item in frame.items:
        if isinstance(item, drawing.Box) and item.tip and "time" in item.tip:
            heights[item.tip.split(";")[0]] = item.height
    times = {row.op.name: row.prediction.time_s for row in report.rows if row.prediction}
    longest = max(times, key=times.__getitem__)
    assert max(heights, key=heights.__getitem__).endswith(longest)


def test_fused_groups_are_drawn_together():
    pytest.importorskip("torch")
    import torch

    with torch.device("meta"):
        module = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.LayerNorm(256))
        x = torch.empty(512, 256)

    class Twice(torch.nn.Module):
        def forward(self, x):
            return torch.tanh(torch.relu(x) * 2 + 1)

    report = rooflab.analyze(torch.nn.Sequential(module, Twice()), x).on("h200-sxm", mode="compiled")
    fused = [leaf for leaf in leaves(graph(report).nodes) if leaf.members]
    assert fused
    texts = [text.text for text in picture.drawing(report).texts()]
    for leaf in fused:
        assert all(member in texts for member in leaf.members)
    assert sum(len(leaf.members) for leaf in fused) >= 4


def test_a_part_without_a_prediction_is_a_dash_or_at_least_so_long():
    report = program(3).on("h200-sxm")
    rows = list(report.rows)
    rows[0] = msgspec.structs.replace(rows[0], prediction=None, bound=None, cost=None)
    report = msgspec.structs.replace(report, rows=tuple(rows), prediction=None)
    texts = [text.text for text in picture.drawing(report).texts()]
    assert "–" in texts
    assert any(re.match(r"layers\.0  > ", text) for text in texts)
    raw = as_dict(report)
    inner = raw["nodes"][1]["inside"][0]["inside"][0]
    assert (inner["time_s"], inner["bytes"]) == (None, None)


NASTY = "</script><b>\"x\"\\ & 'y'\n\x07"


def test_names_are_escaped_everywhere():
    report = program(1)
    rows = tuple(
        msgspec.structs.replace(row, op=msgspec.structs.replace(row.op, name=NASTY, module=NASTY.replace(".", "")))
        for row in report.rows
    )
    report = msgspec.structs.replace(report, rows=rows, name=NASTY)
    assert "<b>" not in views.html(report)
    assert "<b>" not in drawing.svg(picture.drawing(report))
    ElementTree.fromstring(drawing.svg(picture.drawing(report)))
    text = dot.text(report)
    strings = re.findall(r'"(?:[^"\\]|\\.)*"', text)
    # What is outside strings is DOT alone: nothing broke out of them.
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    assert "b>" not in outside
    assert "\x07" not in text
    assert any("script" in string for string in strings)


def test_an_empty_program_has_no_picture():
    empty = counted(Graph(framework="hand", tensors=(), ops=()), "nothing")
    with pytest.raises(RooflabError, match="no operation takes time"):
        picture.drawing(empty)
    assert "nothing" in views.html(empty)


def run(*arguments: str) -> int:
    """The exit code of `rooflab` with those arguments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["rooflab", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return int(ended.value.code or 0)


def test_the_command_writes_every_form(tmp_path, capsys):
    pytest.importorskip("torch")
    paths = [tmp_path / f"g{suffix}" for suffix in views.WRITERS]
    target = "examples/two_layers.py:model"
    options = ("--graph", "--machine", "h200-sxm", "--style", "paper")
    assert run("analyze", target, *options, *(f"-o{path}" for path in paths)) == 0
    assert "0: addmm" in capsys.readouterr().out
    raw = json.loads((tmp_path / "g.json").read_text())
    assert raw["drawn"] == 3
    assert [edge["bytes"] for edge in raw["edges"]] == [8 * 1024 * 2, 8 * 4096 * 2, 8 * 4096 * 2]
    assert 'width="3.5in"' in (tmp_path / "g.svg").read_text()
    assert (tmp_path / "g.dot").read_text().startswith('digraph "')


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "x.csv"], "expected one of .json, .html, .dot, .svg, .png, .pdf"),
        (["--machine", "h200-sxm,a100-sxm-80gb"], "--graph draws a program on one machine"),
    ],
)
def test_bad_input_is_one_line(arguments, said, capsys):
    assert run("analyze", "examples/two_layers.py:model", "--graph", *arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_saved_report_is_drawn_again(tmp_path, capsys):
    program(3).on("h200-sxm").save(tmp_path / "r.json")
    assert run("show", str(tmp_path / "r.json"), "--graph", "-o", str(tmp_path / "g.svg")) == 0
    assert "layers.2" in capsys.readouterr().out
    assert "layers.2" in (tmp_path / "g.svg").read_text()
    machine = rooflab.machine("h200-sxm")
    machine.save(tmp_path / "m.json")
    assert run("show", str(tmp_path / "m.json"), "--graph") == 2
    assert "holds a Machine, and --graph is of a Report's operations" in capsys.readouterr().err


# A page of this room, of a machine, of several cores and of accesses one by one.
PAGES = {
    "graph": lambda: views.html(program(700).on("h200-sxm")),
    "system": lambda: topology.html(rooflab.machine("dgx-h100")),
    "cores": lambda: cores.html(rooflab.simulate_cores(core_streams.counters(8, 50), levels=CACHES)),
    "steps": lambda: simulation.html(rooflab.simulate(streams.matmul(4), levels=CACHES, steps=True)),
    "years": lambda: years.html(growth_of_catalogue()),
}
CACHES = [Cache(1024, 2), Cache(4096, 4)]


@pytest.fixture(scope="module")
def page_of(tmp_path_factory):
    """A function that gives the file of a page by name, written when it is first asked for."""
    folder = tmp_path_factory.mktemp("pages")

    def path_of(name):
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(PAGES[name](), encoding="utf-8")
        return path

    return path_of


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_shows_the_form_that_fits_without_errors_or_requests(browser, page_of, name, scheme):
    path = page_of(name)
    for width in (1440, 768, 390):
        opened, said, asked = (
            browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900}),
            [],
            [],
        )
        opened.on("console", lambda message, said=said: said.append(message.text))
        opened.on("pageerror", lambda error, said=said: said.append(str(error)))
        opened.on("request", lambda request, asked=asked: asked.append(request.url))
        opened.goto(path.as_uri())
        assert (said, asked) == ([], [path.as_uri()])
        assert opened.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert opened.locator(".drawing .wide svg").first.is_visible() == (width > 640)
        assert opened.locator(".drawing .narrow svg").first.is_visible() == (width <= 640)
        # In the colours of the scheme.
        ink = opened.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--draw-ink').trim()")
        assert ink == {"light": LIGHT, "dark": DARK}[scheme].ink
        opened.close()
