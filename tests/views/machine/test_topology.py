"""The topology of machines as a picture: what is drawn is what the machine states, and no word lies on another."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import msgspec
import pytest

from rooflab import cli, machine
from rooflab.machines import catalog
from rooflab.machines.topology import segments, topology
from rooflab.types.machine import Link, Source
from rooflab.views.common import drawing
from rooflab.views.machine import page, system
from rooflab.views.machine import topology as view

SOURCE = Source("assumed", "a test")


@pytest.mark.parametrize("name", catalog.names())
@pytest.mark.parametrize("width", [view.WIDE, view.NARROW])
def test_every_machine_is_drawn_within_its_width_and_no_words_overlap(name, width):
    drawn = view.drawing(machine(name), width=width)
    assert drawn.overlaps() == ()
    right, bottom = drawing.extent(drawn.items)
    assert right <= width + 1
    assert bottom <= drawn.height + 1
    ElementTree.fromstring(drawing.svg(drawn))


def boxes(name: str, most: int) -> dict[str, list[int]]:
    """By row: how many instances each box stands for."""
    columns, rows = view.grid(topology(machine(name)), most)
    assert sum(column.units for column in columns) == machine(name).compute_units
    return {row.name: [cell.more or 1 for cell in row.cells] for row in rows}


@pytest.mark.parametrize("most", [3, 5, 9, 12, 64, 200])
def test_the_boxes_of_a_level_stand_for_all_its_instances(most):
    # 64 cores; an L1 and L2 each; an L3 for each eight: 8 of them; one memory.
    row = boxes("epyc-7763", most)
    assert {name: sum(counts) for name, counts in row.items()} == {
        "64 cores": 64, "L1": 64, "L2": 64, "L3": 8, "DRAM": 1,
    }  # fmt: skip
    # 304 CUs; an L2 for each 38: 8; one L3 and one memory.
    row = boxes("mi300x", most)
    assert {name: sum(counts) for name, counts in row.items()} == {
        "304 CUs": 304, "registers": 304, "L1": 304, "L2": 8, "L3": 1, "HBM": 1,
    }  # fmt: skip


@pytest.mark.parametrize("units", [1, 2, 8, 37, 128])
@pytest.mark.parametrize("sizes", [(), (2,), (8,), (2, 8), (5,), (128,)])
@pytest.mark.parametrize("most", [3, 5, 10])
def test_columns_cover_every_unit_once_and_folds_end_where_groups_end(units, sizes, most):
    columns = segments(units, sizes, most)
    assert [n for column in columns for n in range(column.first, column.stop)] == list(range(units))
    assert len(columns) <= max(most, 1 + len(sizes) + 1)
    for column in columns:
        for size in sizes:
            if column.units > 1:
                within = column.first // size == (column.stop - 1) // size
                assert within or column.first % size == 0 or column.first // size * size >= column.first


def test_few_cores_are_all_drawn():
    for cores in (1, 2, 8):
        few = msgspec.structs.replace(machine("raspberry-pi-5"), compute_units=cores)
        texts = [text.text for text in view.drawing(few).texts()]
        assert [text for text in texts if text.startswith("core ")] == [f"core {n}" for n in range(cores)]
    assert "shared by 4 cores, 2 granted" in [
        text.text
        for text in view.drawing(msgspec.structs.replace(machine("raspberry-pi-5"), compute_units=2)).texts()
    ]


def test_what_is_not_stated_is_said_and_not_drawn():
    found = topology(machine("gb200"))
    assert found.units is None
    assert [each.instances for each in found.shared][:2] == [None, None]
    assert any("How many units compute is not stated" in line for line in view.said(found))
    assert any("L2: how many units share it is not stated" in line for line in view.said(found))
    # P-cores and E-cores have other caches: how many L1s of 48 KiB there are follows from nothing.
    hybrid = topology(machine("core-i9-14900k"))
    assert hybrid.mixed
    assert [each.instances for each in hybrid.shared] == [None, None, 1, 1]
    texts = [text.text for text in view.drawing(machine("core-i9-14900k")).texts()]
    assert not any("of them" in text for text in texts)
    assert "of a P-core; an E-core has 32 KiB" in texts


def test_lanes_are_those_of_the_stated_peak():
    # H100: 256 fp32 FLOP a clock of an SM, two for each multiply-add.
    assert topology(machine("h100-sxm")).lanes == 128
    drawn = view.drawing(machine("h100-sxm"))
    sms = sum(text.text.startswith("SM ") for text in drawn.texts())
    tiny = [item for item in drawn.items if isinstance(item, drawing.Box) and item.width < 6]
    assert len(tiny) == 128 * sms
    assert topology(machine("gaudi-3")).lanes is None


def test_a_system_draws_each_of_its_parts_once():
    ranks = system.ranks(topology(machine("dgx-h100")))
    assert [(rank.name, rank.boxes) for rank in ranks] == [
        ("4 NVSwitches", 4), ("8 GPUs", 8), ("host", 3), ("8 × NVMe storage", 8),
        ("8 compute network adapters", 8),
    ]  # fmt: skip
    assert [rank.link.name if rank.link else None for rank in ranks][:3] == [None, "NVLink 4", "PCIe 5.0 x16"]
    texts = [text.text for text in view.drawing(machine("dgx-h100")).texts()]
    assert [f"GPU {n}" in texts for n in range(9)] == [True] * 8 + [False]
    assert "InfiniBand NDR" in texts
    # Long facts are wrapped, not cut.
    assert not any("…" in text for text in texts)
    assert "NVSwitch, at full rate" in texts
    assert "HBM 80.0 GB, 3.35 TB/s each" in texts


def test_numa_nodes_are_links_with_their_measured_rates():
    links = tuple(
        Link(
            name=f"node 0 to memory of node {home}", to="remote memory" if home else "local memory", source=SOURCE,
            each_way_bytes_per_s=rate, latency_s=seconds,
        )
        for home, rate, seconds in ((0, 12e9, 90e-9), (1, 7e9, 140e-9))
    )  # fmt: skip
    two = msgspec.structs.replace(machine("epyc-7763"), links=links)
    texts = [text.text for text in view.drawing(two).texts()]
    assert "node 0 to memory of node 1" in texts
    assert "7.00 GB/s read by one core, latency 140 ns" in texts


def test_names_are_escaped_and_control_characters_shown(tmp_path):
    nasty = '<script>alert("x")</script>\x07 & "co"'
    named = msgspec.structs.replace(machine("h100-sxm"), name=nasty, compute_unit="<b>")
    svg = drawing.svg(view.drawing(named))
    assert "<script" not in svg
    assert "\x07" not in svg
    assert "alert" in "".join(ElementTree.fromstring(svg).itertext())
    assert "<script>alert" not in page.html(named)


def run(*arguments: str) -> int:
    """The exit code of `rooflab machine` with those arguments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["rooflab", "machine", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return int(ended.value.code or 0)


def test_the_command_writes_pictures_and_plain_data(tmp_path, capsys):
    paths = [tmp_path / f"dgx{suffix}" for suffix in view.WRITERS]
    assert run("dgx-h100", "--topology", *(f"-o{path}" for path in paths)) == 0
    assert paths[-1].read_bytes()[:4] == b"%PDF"
    assert (tmp_path / "dgx.png").read_bytes()[1:4] == b"PNG"
    assert "[  GPU 0   ]" in capsys.readouterr().out
    raw = json.loads((tmp_path / "dgx.json").read_text())
    assert [part["count"] for part in raw["parts"]] == [8, 2, 4, 8, 1, 8]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--topology"], "--topology needs the NAME of a machine"),
        (["h200", "--topology", "--ladder"], "--ladder and --topology are two pictures"),
        (["h200", "--topology", "-o", "x.csv"], "expected one of .json, .html, .svg, .png, .pdf"),
    ],
)
def test_bad_input_is_one_line(arguments, said, capsys):
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
