"""`rooflab analyze --formulas FILE.py`: a file of formulas is run before the program is counted."""

import json

import pytest

from rooflab.work import own_formulas

PROGRAM = """
import torch

@torch.library.custom_op("rooflab_cli::half", mutates_args=())
def half(x: torch.Tensor) -> torch.Tensor:
    return x / 2

@half.register_fake
def _(x):
    return torch.empty_like(x)

def run():
    return torch.ops.rooflab_cli.half(torch.empty(8, 4, device="meta"))
"""
FORMULA = """
import rooflab

@rooflab.formula("rooflab_cli::half")
def half(x, *, out):
    return {"flop": 3 * out.elements, "kind": "vector"}
"""


def test_formulas_of_a_file(called, tmp_path):
    """3 FLOP for each of 32 elements, by a file that knows nothing of the program."""
    pytest.importorskip("torch")
    (tmp_path / "half_program.py").write_text(PROGRAM)
    (tmp_path / "half_formulas.py").write_text(FORMULA)
    try:
        said = called(
            "analyze",
            f"{tmp_path / 'half_program.py'}:run",
            "--formulas",
            tmp_path / "half_formulas.py",
            "--json",
        )
    finally:
        own_formulas.forget("rooflab_cli::half")
    (flop,) = json.loads(said)["rows"][-1]["cost"]["flop"]
    assert (flop["engine"], flop["count"]) == ("vector", 96)


def test_a_file_that_is_not_there(refused, tmp_path):
    assert "none.py: no such file" in refused("analyze", "x.onnx", "--formulas", tmp_path / "none.py")
