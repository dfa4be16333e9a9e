"""What a notebook shows: the whole page, escaped into a frame."""

from __future__ import annotations

import html
import re

import pytest

import rooflab
from rooflab.views import machine, report


def framed(shown: str) -> str:
    found = re.fullmatch(r'<iframe title="[^"]*" style="[^"]*" srcdoc="([^"]*)"></iframe>', shown)
    assert found is not None
    return html.unescape(found[1])


@pytest.mark.slow
def test_a_machine_is_its_page(measured):
    assert framed(measured._repr_html_()) == machine.html(measured)


@pytest.mark.slow
def test_a_report_is_its_page():
    matmul = rooflab.op("matmul", (64, 64), (64, 64), dtype="bf16", machine="h200")
    assert framed(matmul._repr_html_()) == report.html(matmul)


def test_a_machine_prints_itself(measured, capsys):
    measured.show()
    assert measured.name in capsys.readouterr().out
