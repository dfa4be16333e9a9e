"""The commands `serve` and `serve-plan`: what is printed and written, and bad input in one line."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import rooflab
from rooflab.cli import cli
from rooflab.cli.serving import per_second, prices_of
from rooflab.errors import RooflabError


def run(*words):
    return CliRunner().invoke(cli, list(words), standalone_mode=False)


def test_serve_prints_the_answer_and_writes_files(tmp_path):
    paths = [tmp_path / f"answer{suffix}" for suffix in (".json", ".csv", ".md", ".html", ".svg")]
    got = run("serve", "llama-3.1-8b", "--machine", "h100-sxm", "--rate", "120/min", "--requests", "60",
              "--osl", "64", *(word for path in paths for word in ("-o", str(path))))  # fmt: skip
    assert got.exception is None, got.exception
    for words in ("first token after", "A step that decodes", "Memory of the fullest device", "event by event"):
        assert words in got.output
    found = rooflab.load(paths[0])
    assert found.demand.rate_per_s == 2.0
    assert found.replay.requests == 60
    assert (
        json.loads(paths[0].read_text())["output_tokens_per_s_per_device"] == found.output_tokens_per_s_per_device
    )
    assert "The stream over time" in paths[3].read_text()
    assert paths[4].read_text().startswith("<svg")


def test_serve_plan_prints_and_writes(tmp_path):
    page, data = tmp_path / "plan.html", tmp_path / "plan.parquet"
    got = run("serve-plan", "llama-3.1-8b", "--machine", "h100-sxm,l40s", "--slo", "ttft=500ms,tpot=20ms",
              "--gpus", "1", "--precision", "bf16,fp8", "--price", "h100-sxm=2.5,l40s=1", "-o", str(page),
              "-o", str(data))  # fmt: skip
    assert got.exception is None, got.exception
    for words in ("The best of each layout", "for a million tokens", "None is better for the user"):
        assert words in got.output
    assert "Why each loses its time" in page.read_text()


def test_prices_of_a_file(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text('currency = "USD, on demand"\n[prices]\ndgx-h100 = 24\n', encoding="utf-8")
    plan = rooflab.serve_plan("llama-3.1-8b", "dgx-h100", price=path, precision=["fp8"])
    assert plan.currency == "USD, on demand"
    assert plan.prices == {"NVIDIA H100 SXM 80GB": 3.0}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("serve", "llama-3.1-8b", "--machine", "h100-sxm", "--rate", "fast"),
            "--rate fast: expected requests a second",
        ),
        (
            ("serve-plan", "llama-3.1-8b", "--machine", "h100-sxm", "--slo", "ttft"),
            "expected ttft=TIME or tpot=TIME",
        ),
        (
            ("serve-plan", "llama-3.1-8b", "--machine", "h100-sxm", "--slo", "itl=5ms"),
            "itl: expected ttft and tpot",
        ),
        (("serve-plan", "llama-3.1-8b", "--machine", "h100-sxm", "--slo", "tpot=5"), "has no unit"),
        (("serve-plan", "llama-3.1-8b", "--machine", "h100-sxm", "--price", "none.toml"), "No such file"),
    ],
)
def test_bad_input_is_one_line(words, said):
    got = run(*words)
    assert isinstance(got.exception, RooflabError)
    assert said in str(got.exception)
    assert "\n" not in str(got.exception)


def test_rates_and_prices_are_read():
    assert [per_second(text, "--rate") for text in ("10/s", "600/min", "36000/h", "10")] == [10.0] * 4
    assert prices_of("a=1.5,b=2") == {"a": 1.5, "b": 2.0}
