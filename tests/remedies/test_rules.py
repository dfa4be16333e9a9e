"""Rules about programs: each finds its case, says nothing of others, and gains what a new prediction says."""

from __future__ import annotations

import msgspec
import pytest
import torch

import rooflab
from rooflab.model.compiler import fusion
from rooflab.remedies import rewriting, rules
from rooflab.types.report import Report
from support.model.torch_models import build

F = torch.nn.functional


def analyzed(function, *shapes, dtype=torch.bfloat16, **how) -> Report:
    inputs = [torch.empty(shape, dtype=dtype, device="meta") for shape in shapes]
    return rooflab.analyze(function, *inputs, **{"machine": "h200-sxm", **how})


def model(name: str, **how) -> Report:
    module, inputs = build(name)
    with torch.no_grad():
        return rooflab.analyze(module, *inputs, machine="h200-sxm", name=name, **how)


def rules_of(report: Report) -> list[str]:
    return [one.rule for one in report.advice.each]


def the(report: Report, rule: str):
    """The advice of `report` by that rule."""
    return next(one for one in (*report.advice.each, *report.advice.trades) if one.rule == rule)


@pytest.fixture(scope="module")
def decode():
    return model("llama8b-b1-t1-c1024")


def test_a_change_of_setting_gains_what_the_setting_is_predicted_to_gain(decode):
    for rule, mode in (("cuda-graph", "graph"), ("compile", "compiled")):
        one = the(decode, rule)
        assert one.before_s == decode.time_s
        assert one.after_s == pytest.approx(decode.on("h200-sxm", mode=mode).time_s, rel=1e-12)
        assert one.changes == {"mode": mode}
    assert rules_of(decode)[0] == "compile"  # the most first


def test_trades_are_predicted_for_the_program_once_the_free_changes_are_made(decode):
    narrow = the(decode, "weight-only")
    assert narrow.price == "numbers"
    assert narrow.after == ("compile",)
    assert narrow.before_s == the(decode, "compile").after_s
    # 4 bits and a 16-bit scale for each 128 weights: 4.125 of 16 bits, so at most 74 % of the weights' time goes.
    assert 0.3 < narrow.gain_share < 1 - 4.125 / 16
    rows = {decode.rows[number].op.kind for number in narrow.rows}
    assert rows == {"matmul"}


def test_a_batch_gains_per_sample_and_only_where_it_can_be_captured(decode):
    assert [text.partition(":")[0] for text in decode.advice.unasked] == ["batch"]

    def at_batch(size: int) -> Report:
        module, inputs = build(f"llama8b-b{size}-t1-c1024")
        with torch.no_grad():
            return rooflab.analyze(module, *inputs, name="llama")

    asked = rooflab.advise(decode, at_batch=at_batch, batch=1)
    one = the(asked, "batch")
    size = one.changes["batch"]
    alone = at_batch(size).on("h200-sxm", mode="compiled").time_s
    assert one.after_s == pytest.approx(alone / size, rel=1e-12)
    assert one.price == "latency"
    assert one.gain_share > 0.9  # one sample reads 16 GB of weights, many read them together
    assert asked.advice.unasked == ()


@pytest.mark.parametrize("name", ["gpt2-b8-t1024", "llama8b-b1-t2048", "vit-b256", "naiveattn-b4-t2048"])
def test_a_compiled_program_gets_no_false_alarm(name):
    report = model(name, mode="compiled")
    assert all(one.gain_share < 0.05 for one in report.advice.each)


def test_attention_written_out_is_found_and_fused():
    def naive(q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) * 0.125, dim=-1) @ v

    report = analyzed(naive, *[(2, 8, 1024, 64)] * 3, mode="graph")
    one = the(report, "fused-attention")
    fused = analyzed(F.scaled_dot_product_attention, *[(2, 8, 1024, 64)] * 3, mode="graph")
    # PyTorch's own call takes cuDNN's kernel on that card, the rewritten one FlashAttention's.
    assert fused.time_s <= one.after_s < 1.5 * fused.time_s
    assert [report.rows[number].op.kind for number in one.rows] == ["softmax"]
    assert "fused-attention" not in rules_of(fused)


def test_planes_are_kept_channels_last():
    layers = torch.nn.Sequential(*[torch.nn.Conv2d(256, 256, 3, padding=1) for _ in range(3)])
    layers = layers.to(device="meta", dtype=torch.bfloat16)
    report = analyzed(layers, (32, 256, 56, 56), mode="graph")
    assert the(report, "channels-last").gain_share > 0.1
    inside = layers.to(memory_format=torch.channels_last)
    image = torch.empty(32, 256, 56, 56, dtype=torch.bfloat16, device="meta").to(memory_format=torch.channels_last)
    assert "channels-last" not in rules_of(rooflab.analyze(inside, image, machine="h200-sxm", mode="graph"))


def test_an_odd_vocabulary_is_padded():
    def head(x, w):
        return x @ w

    odd = analyzed(head, (4096, 768), (768, 50257), mode="graph")
    assert the(odd, "pad").gain_share > 0.2
    assert "50304" in the(odd, "pad").code
    assert "pad" not in rules_of(analyzed(head, (4096, 768), (768, 50304), mode="graph"))


def test_an_optimizer_of_many_passes_becomes_one():
    layer = torch.nn.Linear(4096, 4096, dtype=torch.bfloat16, device="meta")
    inputs = (torch.empty(64, 4096, dtype=torch.bfloat16, device="meta"),)
    step = {"backward": True, "machine": "h200-sxm", "mode": "graph"}
    slow = torch.optim.AdamW(layer.parameters(), foreach=False)
    report = rooflab.analyze(layer, *inputs, optimizer=slow, **step)
    one = the(report, "fused-optimizer")
    fused = rooflab.analyze(layer, *inputs, optimizer="adamw", **step)
    by_hand = rewriting.one_step(report.graph)
    (single,) = [op for op in by_hand.ops if op.phase == "optimizer"]
    moved = sum(by_hand.tensors[index].nbytes for index in (*single.inputs, *single.outputs))
    # Read: parameters, gradients, two states; written: parameters and states: 7 × 2 bytes of each weight and bias.
    assert moved == 7 * 2 * (4096 * 4096 + 4096)
    assert one.after_s < report.time_s
    assert "fused-optimizer" not in rules_of(fused) or any(
        op.kind != "optimizer" for op in fused.graph.ops if op.phase == "optimizer"
    )


def test_code_for_a_cpu_records_no_cuda_graph():
    def chain(x):
        return torch.tanh(torch.sigmoid(x) * 2) + x

    for machine, mode in (("h200-sxm", ', mode="reduce-overhead"'), ("epyc-9654", "")):
        report = analyzed(chain, (4096, 4096), dtype=torch.float32, machine=machine, mode="eager")
        assert the(report, "compile").code == f"model = torch.compile(model{mode})"


def test_fp32_products_get_their_matrix_engines():
    report = analyzed(torch.matmul, (4096, 4096), (4096, 4096), dtype=torch.float32, mode="graph")
    tf32, half = the(report, "tf32"), the(report, "half")
    # 495 against 67 TFLOP/s, 989 TFLOP/s: at most 1 − 67/495 and 1 − 67/989 of the time.
    assert 0.75 < tf32.gain_share < 0.9
    assert tf32.gain_share < half.gain_share < 0.95
    assert tf32.evidence[0].startswith("1 product in fp32 takes 100 % of the time")
    assert half.after_s == pytest.approx(report.on("h200-sxm", what_if={"dtype": "bf16"}).time_s, rel=1e-12)
    old = analyzed(torch.matmul, (4096, 4096), (4096, 4096), dtype=torch.float32, machine="v100-sxm2-32gb")
    assert "tf32" not in [one.rule for one in old.advice.trades]  # a V100 has none


def test_fp8_is_said_where_products_are_bound_by_arithmetic_and_the_machine_has_it():
    shapes = (8192, 8192), (8192, 8192)
    assert the(analyzed(torch.matmul, *shapes, mode="graph"), "fp8").price == "numbers"
    without = analyzed(torch.matmul, *shapes, mode="graph", machine="a100-sxm-80gb")
    assert "fp8" not in [one.rule for one in without.advice.trades]


def test_keys_and_values_in_fp8_where_decoding_reads_them():
    q, kv = (64, 32, 1, 128), (64, 32, 8192, 128)
    report = analyzed(F.scaled_dot_product_attention, q, kv, kv, mode="graph")
    assert 0.3 < the(report, "kv-cache").gain_share < 0.55  # half the bytes
    prefill = analyzed(F.scaled_dot_product_attention, *[(1, 32, 4096, 128)] * 3, mode="graph")
    assert "kv-cache" not in [one.rule for one in prefill.advice.trades]


def test_the_machine_says_why_a_bigger_peak_would_not_help():
    report = analyzed(torch.relu, (8192, 8192), mode="graph")
    one = the(report, "machine")
    faster = rooflab.machine(one.changes["machine"])
    assert one.after_s == pytest.approx(report.on(faster).time_s, rel=1e-12)
    assert "twice the arithmetic peaks would take 0 % off" in one.evidence[0]
    nothing = report.on("h200-sxm", what_if={"compute": 2.0})
    assert nothing.time_s == pytest.approx(report.time_s, rel=0.005)


def test_gains_are_ranked_and_their_bars_hold_them(decode):
    for kind in (decode.advice.each, decode.advice.trades):
        gains = [one.gain_s for one in kind]
        assert gains == sorted(gains, reverse=True)
        for one in kind:
            assert one.gain_low_s <= one.gain_s <= one.gain_high_s <= one.before_s
            assert one.gain_share >= rules.WORTH


def test_changes_that_go_together_are_predicted_together():
    def attention_then_norm(q, k, v):
        out = torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
        return F.linear(out, torch.empty(50257, 64, dtype=out.dtype, device="meta"))

    report = analyzed(attention_then_norm, *[(1, 8, 512, 64)] * 3)
    advice = report.advice
    if "compile" in [one.rule for one in advice.each]:
        assert not {"cuda-graph", "fused-attention", "pad"} & set(advice.together)
    if advice.together_s is not None:
        assert len(advice.together) > 1
        assert advice.together_s <= min(one.after_s for one in advice.each if one.rule in advice.together) * 1.001


def test_advice_is_dropped_where_the_report_is_predicted_again(decode):
    assert decode.on("a100-sxm-80gb").advice is None
    assert rooflab.predict(decode, "h200-sxm").advice is None


def test_it_is_saved_and_read_back(decode, tmp_path):
    decode.save(tmp_path / "x.json")
    assert rooflab.load(tmp_path / "x.json").advice == decode.advice


def test_it_can_be_left_out_and_needs_a_machine():
    assert analyzed(torch.relu, (64, 64), advice=False).advice is None
    assert analyzed(torch.relu, (64, 64), machine=None).advice is None
    with pytest.raises(rooflab.RooflabError, match=r"advise: relu is on no machine, expected a predicted report"):
        rooflab.advise(analyzed(torch.relu, (64, 64), machine=None))


def test_a_part_without_a_prediction_never_looks_like_a_gain():
    # On a CPU without fp16 products half of the program is left out: no change may win by leaving out more.
    report = analyzed(torch.matmul, (512, 512), (512, 512), dtype=torch.float16, machine="epyc-7763", mode="graph")
    if report.time_s is None:
        assert report.advice.each == ()
    empty = msgspec.structs.replace(report, rows=(), prediction=None, predicted_part=None)
    assert rules.advise(empty).unasked == ("all: nothing of it could be predicted",)


def test_linear_algebra_is_neither_recorded_nor_halved():
    report = analyzed(torch.linalg.eigvals, (512, 512), dtype=torch.float32)
    assert not {"cuda-graph", "half"} & {one.rule for one in (*report.advice.each, *report.advice.trades)}
    said = {text.partition(":")[0]: text for text in report.advice.unasked}
    assert "eig: libraries have no bf16 form" in said["half"]


def test_what_has_a_price_is_worth_it_in_four_of_five_cases():
    report = analyzed(
        lambda x: torch.softmax(x, -1), (4096, 4096), dtype=torch.float32, machine="a100-sxm-80gb", mode="graph"
    )
    for name in ("h200-sxm", "a100-sxm-80gb", "l4"):
        for one in rooflab.advise(report.on(name)).advice.trades:
            assert one.gain_low_s >= 0
            assert one.gain_high_s <= one.before_s


def test_what_is_only_added_up_is_computed_inside_the_sum():
    def loss(hidden, head, target):
        return F.cross_entropy((hidden @ head).float(), target)

    hidden, head = (
        torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in ((1024, 512), (512, 50304))
    )
    target = torch.empty(1024, dtype=torch.int64, device="meta")
    report = rooflab.analyze(loss, hidden, head, target, machine="h200-sxm")
    one = the(report, "avoid-materialising")
    # The cast and the softmax in fp32 are not written, nor read again.
    assert "_log_softmax → nll_loss_forward" in one.change
    logits = 1024 * 50304
    changed = rules.FREE[[rule.name for rule in rules.FREE].index(one.rule)]
    assert changed.regime == "memory-bound"
    kernel = next(op for op in fusion.fused_into_sums(report.graph).ops if "members" in op.attrs)
    assert kernel.attrs["read_bytes"] == pytest.approx(2 * logits, rel=1e-3)  # bf16 logits once
    assert kernel.attrs["write_bytes"] < 100
    rows = {report.rows[number].op.name for number in one.rows}
    assert {"aten._to_copy", "aten._log_softmax"} <= rows


def test_a_sum_of_exponentials_is_one_pass_and_a_norm_is_left_alone():
    summed = analyzed(lambda x: x.exp().sum(-1).log(), (4096, 8192), dtype=torch.float32)
    assert "exp → sum → log" in the(summed, "avoid-materialising").change
    normed = analyzed(lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), (4096, 8192))
    assert "avoid-materialising" not in rules_of(normed)  # all of it is written again


def test_copies_that_only_change_the_layout_are_left_out():
    report = analyzed(lambda x, y: x.transpose(1, 2).contiguous() + y, (8, 2048, 4096), (8, 4096, 2048))
    one = the(report, "contiguous")
    assert [report.rows[number].op.name for number in one.rows] == ["aten.clone"]
    assert "contiguous" not in rules_of(analyzed(lambda x, y: x.contiguous() + y, (8, 2048), (8, 2048)))


def test_why_a_bigger_peak_would_not_help(decode):
    evidence = the(decode, "machine").evidence
    assert any("so a bigger peak alone would not help" in line for line in evidence)


class _Asking(torch.nn.Module):
    """Attends by hand while a CUDA graph is recorded, as transformers do under a mask that they may not read."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self.writes = writes  # tensors as large as the scores

    def forward(self, x):
        for _ in range(20):
            if torch.cuda.is_current_stream_capturing():
                scores = x @ x.transpose(-1, -2)
                for _ in range(self.writes):
                    scores = scores * 0.5
                x = torch.softmax(scores, -1) @ x
            else:
                x = F.scaled_dot_product_attention(x, x, x)
        return x


def test_a_program_that_asks_whether_it_is_recorded_is_predicted_as_it_is_recorded():
    few = analyzed(_Asking(0), (1, 4, 64, 64))
    one = the(few, "cuda-graph")
    recorded = analyzed(_Asking(0), (1, 4, 64, 64), mode="graph")
    assert any(f"then runs {len(recorded.rows)} operations instead of 20" in line for line in one.evidence)
    assert one.after_s == pytest.approx(recorded.time_s)
    assert any(line.startswith("a CUDA graph is being recorded: yes") for line in recorded.conventions)
    many = analyzed(_Asking(6), (8, 16, 512, 64))
    assert "cuda-graph" not in rules_of(many)
    assert any(line.startswith("cuda-graph: it would take") for line in many.advice.unasked)
    alone = rooflab.advise(many)  # nobody captures it again
    assert any("asks whether one is being recorded" in line for line in alone.advice.unasked)
