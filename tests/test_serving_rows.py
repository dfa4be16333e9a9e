"""How rows of published serving tables are read: layouts whose columns mislead, formats, what is left out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import serving_rows

from rooflab.model.parallel.layout import Layout
from rooflab.work.llm import models


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (("8", "1", "8", "1"), Layout(tensor=8)),
        (("8", "", "1", "8"), Layout(tensor=8, experts=8)),
        (("16", "1", "4", "4"), Layout(tensor=4, experts=4)),  # the same row is there as tp4_ep4
        (("1", "16", "4", "4"), Layout(data=4, experts=4)),
        (("4", "4", "1", "16"), Layout(data=4, experts=4)),
        (("1", "8", "1", "8"), Layout(data=8, experts=8)),
    ],
)
def test_layouts(columns: tuple[str, ...], expected: Layout) -> None:
    names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    assert serving_rows._silicon_layout(dict(zip(names, columns, strict=True))) == expected


def test_formats() -> None:
    row = {"precision": "fp4", "gemm_quant_mode": "nvfp4", "moe_quant_mode": "nvfp4", "system": "b200_sxm"}
    assert serving_rows._silicon_formats(row, models.named("deepseek-v3")) == ("nvfp4", "bf16", "nvfp4", "fp8")
    assert serving_rows._silicon_formats(row, models.named("llama-3.1-70b")) == ("nvfp4", "nvfp4", "nvfp4", "fp8")
    assert serving_rows._silicon_formats(row, models.named("gpt-oss-120b"))[2] == "mxfp4_mxfp8"
