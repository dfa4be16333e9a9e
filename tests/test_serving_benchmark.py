"""How published serving times are judged: prompts that data-parallel ranks gather, rows of several servers."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import serving
import serving_rows

from rooflab.model.parallel.layout import Layout


def _case(data: int = 8, **changes: object) -> serving_rows.ServingCase:
    layout = Layout(data=data, experts=data) if data > 1 else Layout(tensor=8)
    step = serving_rows.step_of("deepseek-v3", "b200", "trtllm", layout, ("nvfp4", "bf16", "nvfp4", "fp8"))
    case = serving_rows.ServingCase(
        table="t",
        group="g",
        step=step,
        clients=128.0,
        prompt=7373.0,
        answer=922.0,
        tpot_s=1.0,
        ttft_s=1.0,
        rounds=4,
        spread=1 / 9,
    )
    return case._replace(**changes)  # type: ignore[arg-type]


def _times(case: serving_rows.ServingCase) -> dict[str, float]:
    return {each.what: math.exp(each.error) for each in serving.judged([case])}


def test_ranks_that_wait_for_each_others_prompts_decode_faster_and_begin_later() -> None:
    at_once, gathered = _times(_case()), _times(_case(gathers=True))
    assert gathered["TPOT"] < 0.9 * at_once["TPOT"]
    assert gathered["TTFT"] > at_once["TTFT"]


def test_one_rank_alone_waits_for_nobody() -> None:
    alone = _case(data=1)
    assert _times(alone._replace(gathers=True)) == pytest.approx(_times(alone), rel=0.02)


def test_of_two_servers_the_middle_is_told_and_the_bar_holds_both() -> None:
    one, other = _case(), _case(clients=64.0)
    both = serving.judged([one._replace(others=(other,))])
    for figure, low, high in zip(both, serving.judged([one]), serving.judged([other]), strict=True):
        assert figure.error == pytest.approx((low.error + high.error) / 2)
        assert figure.bar == pytest.approx(math.exp(abs(low.error - high.error) / 2) * low.bar)


def test_prompts_that_come_again_are_computed_once() -> None:
    all_differ, again = _times(_case()), _times(_case(prompts=100))
    assert again["TTFT"] < 0.6 * all_differ["TTFT"]
    assert again["TPOT"] < all_differ["TPOT"]
    assert _times(_case(prompts=10_000)) == all_differ  # more than there are requests: none comes twice
