"""What a notebook shows: the page without scripts, escaped into a frame, small."""

from __future__ import annotations

import html
import re
from pathlib import Path

import msgspec
import pytest

import rooflab
from rooflab.views import machine
from rooflab.views.common.page import still
from rooflab.views.report.verdict import headline

EXAMPLES = Path(__file__).parents[3] / "examples"


def framed(shown: str) -> str:
    found = re.fullmatch(r'<iframe title="[^"]*" style="[^"]*" srcdoc="([^"]*)"></iframe>', shown)
    assert found is not None
    return html.unescape(found[1])


@pytest.mark.slow
def test_a_machine_is_its_page_with_its_charts_as_pictures(measured):
    with still():
        assert framed(measured._repr_html_()) == machine.html(measured)


@pytest.mark.slow
def test_a_report_says_what_limits_it_and_where_the_time_goes():
    matmul = rooflab.op("matmul", (64, 64), (64, 64), dtype="bf16", machine="h200")
    shown = framed(matmul._repr_html_())
    assert headline(matmul) in shown
    assert "matmul" in shown


def test_a_machine_prints_itself(measured, capsys):
    measured.show()
    assert measured.name in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["h200", str(EXAMPLES / "zen4-guest.toml")])
def test_a_cell_is_small_and_has_no_script(name):
    shown = rooflab.machine(name)._repr_html_()
    assert len(shown) <= 300_000
    assert "<script" not in framed(shown)
    assert 'src="data:image/svg+xml;base64,' in framed(shown)


@pytest.mark.slow
def test_a_cell_of_many_operations_is_small():
    wide = rooflab.op("matmul", (64, 64), (64, 64), dtype="bf16", machine="h200")
    rows = tuple(
        msgspec.structs.replace(row, op=msgspec.structs.replace(row.op, module=f"block.{n}"))
        for n, row in enumerate(wide.rows * 3000)
    )
    ops = tuple(row.op for row in rows)
    graph = msgspec.structs.replace(wide.graph, ops=ops)
    many = msgspec.structs.replace(wide, rows=rows, graph=graph)
    assert len(many._repr_html_()) <= 300_000
