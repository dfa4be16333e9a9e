"""Attention as PyTorch runs it on a GPU: the machine's kernel in the row's name, math as its own operators."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rooflab  # noqa: E402

BF16 = torch.bfloat16


def attend(q: Any, k: Any, v: Any, mask: Any = None, **more: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, **more)


def three(*shape: int, dtype: Any = BF16) -> tuple[Any, Any, Any]:
    return tuple(torch.empty(shape, dtype=dtype, device="meta") for _ in range(3))  # type: ignore[return-value]


def names(report: rooflab.Report) -> list[str]:
    return [row.op.name for row in report.rows if row.op.kind not in ("view", None)]


def test_row_names_the_kernel_of_the_machine() -> None:
    report = rooflab.analyze(attend, *three(2, 4, 128, 64))
    for machine, kernel in (("h100-sxm", "cudnn"), ("a100-sxm-80gb", "flash"), ("v100-sxm2-32gb", "math")):
        row = report.on(machine).rows[0]
        assert kernel in row.op.name
    again = report.on("h100-sxm").on("a100-sxm-80gb")
    assert names(again) == ["aten._scaled_dot_product_flash_attention"]
    assert "attention kernels: flash × 1, as PyTorch chooses on sm80" in again.conventions


def test_math_where_the_card_lacks_a_kernel_writes_the_scores() -> None:
    # bf16 on Volta: 2 × 4 heads of 128 × 128 scores, twice written as scores and as weights, of 2 bytes or more
    report = rooflab.analyze(attend, *three(2, 4, 128, 64))
    fused, math = report.on("a100-sxm-80gb"), report.on("v100-sxm2-32gb")
    assert math.write_bytes >= fused.write_bytes + 2 * 2 * 4 * 128 * 128 * 2
    assert {one.dtype for one in math.flop_by} == {"fp32"}
    assert math.on("a100-sxm-80gb").write_bytes == fused.write_bytes


def test_transposed_bias_runs_math_operator_by_operator() -> None:
    # a bias as T5 keeps it: heads innermost
    bias = torch.empty(96, 96, 4, dtype=BF16, device="meta").permute(2, 0, 1).unsqueeze(0)
    report = rooflab.analyze(attend, *three(2, 4, 96, 32), bias)
    found = names(report)
    assert found.count("aten.bmm") == 2
    assert "aten.isneginf" in found
    assert not any("scaled_dot" in name for name in found)
    # q·kᵀ and P·v in fp32, 2 FLOP a multiply-add over 2 × 4 heads
    assert report.matrix_flop == 2 * (2 * 4) * 96 * 96 * (32 + 32)
    products = [row for row in report.rows if row.op.name == "aten.bmm"]
    assert all(one.dtype == "fp32" for row in products if row.cost for one in row.cost.flop)
    said = [line for line in report.conventions if "math form" in line]
    assert "1 of its calls" in said[0]
    assert "stride 1, not 4" in said[0]


def test_same_bias_kept_row_by_row_stays_fused() -> None:
    bias = torch.empty(1, 4, 96, 96, dtype=BF16, device="meta")
    report = rooflab.analyze(attend, *three(2, 4, 96, 32), bias)
    assert "efficient" in names(report)[-1]
    assert not any("math form" in line for line in report.conventions)


def test_kernels_that_the_user_turns_off() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def program(*qkv: Any) -> Any:
        with sdpa_kernel([SDPBackend.MATH]):
            return attend(*qkv)

    assert names(rooflab.analyze(program, *three(2, 4, 96, 32))).count("aten.bmm") == 2


def test_a_cpu_has_its_own_rules() -> None:
    bias = torch.empty(96, 96, 4, dtype=BF16, device="meta").permute(2, 0, 1).unsqueeze(0)
    report = rooflab.analyze(attend, *three(2, 4, 96, 32), bias, device="cpu")
    assert any("scaled_dot" in name for name in names(report))


def test_gradients_run_the_same_kernel() -> None:
    def program(*qkv: Any) -> Any:
        return attend(*qkv).sum()

    qkv = [one.requires_grad_() for one in three(2, 4, 128, 64)]
    report = rooflab.analyze(program, *qkv, backward=True).on("h100-sxm")
    kernels = [name for name in names(report) if "scaled_dot" in name]
    assert kernels == [
        "aten._scaled_dot_product_cudnn_attention",
        "aten._scaled_dot_product_cudnn_attention_backward",
    ]


def test_saved_and_read_back(tmp_path: Any) -> None:
    report = rooflab.analyze(attend, *three(2, 4, 128, 64))
    report.save(tmp_path / "attention.json")
    again = rooflab.load(tmp_path / "attention.json")
    assert isinstance(again, rooflab.Report)
    assert names(again.on("h100-sxm")) == names(report.on("h100-sxm"))


def test_a_window_given_as_a_mask_runs_the_full_square() -> None:
    # as Hugging Face gives a sliding window: a mask of booleans
    mask = torch.ones(1, 1, 96, 96, dtype=torch.bool, device="meta")
    report = rooflab.analyze(attend, *three(2, 4, 96, 32), mask)
    said = [line for line in report.conventions if "sliding window" in line]
    assert said == [
        "attention: 1 of its calls take a mask (a sliding window given so, too): "
        "a mask hides pairs and skips none: the full square is computed"
    ]
    assert report.matrix_flop == 2 * (2 * 4) * 96 * 96 * (32 + 32)
    row = next(row for row in report.rows if row.op.kind == "attention")
    assert row.cost is not None
    assert "full square" in str(row.cost.note)


def test_sliding_window_of_a_model_is_said() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.MistralConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=8,
    )
    with torch.device("meta"):
        model = transformers.MistralForCausalLM(config).eval()
        ids = torch.zeros(1, 24, dtype=torch.long)
    report = rooflab.analyze(model, kwargs={"input_ids": ids, "use_cache": False})
    assert any("2 of its calls take a mask (a sliding window" in line for line in report.conventions)
