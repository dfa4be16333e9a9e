"""Quantised weights: their true bytes, packed formats, products in eager and compiled programs."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from rooflab import analyze  # noqa: E402
from rooflab.work.capture.torch import capture  # noqa: E402
from rooflab.work.costs import costs  # noqa: E402

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn


def parameter_bytes(graph):
    """Each storage once, as much of it as its largest tensor touches."""
    sizes = {}
    for spec in graph.tensors:
        if spec.role == "parameter":
            sizes[spec.storage] = max(sizes.get(spec.storage, 0), spec.nbytes)
    return sum(sizes.values())


def linear(out, features, config, device="meta"):
    """A bf16 layer, quantised by torchao."""
    quantization = pytest.importorskip("torchao.quantization")
    layer = nn.Sequential(nn.Linear(features, out, bias=False, dtype=BF16, device=device)).eval()
    quantization.quantize_(layer, config(quantization))
    return layer


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize(("name", "scales"), [("Int8WeightOnlyConfig", 4 + 1), ("Float8WeightOnlyConfig", 4)])
def test_parameters_are_as_large_as_they_are_stored(device, name, scales):
    layer = linear(512, 768, lambda q: getattr(q, name)(), device)
    with torch.no_grad():
        graph = capture(layer, (torch.zeros(3, 768, dtype=BF16, device=device),))
    # One byte each; a scale of fp32 for each row, with int8 a zero point too
    assert parameter_bytes(graph) == 512 * 768 + 512 * scales
    named = {spec.name for spec in graph.tensors if spec.role == "parameter"}
    assert {"0.weight.qdata", "0.weight.scale"} <= named


@pytest.mark.parametrize("name", ["Int8WeightOnlyConfig", "Float8WeightOnlyConfig"])
def test_a_compiler_widens_weights_inside_the_product(name):
    layer = linear(2048, 4096, lambda q: getattr(q, name)())
    x = torch.zeros(2, 4096, dtype=BF16, device="meta")
    with torch.no_grad():
        eager = analyze(layer, x, machine="h100-sxm")
        compiled = analyze(layer, x, machine="h100-sxm", mode="compiled")

    def heaviest(report):
        return max(row.cost.compulsory.nbytes for row in report.rows if row.cost)

    # Eager writes the widened copy and reads it; compiled reads each byte and scale once, and x, and writes y.
    assert heaviest(eager) >= 3 * 2048 * 4096
    ((product, cost),) = [(row.op, row.cost) for row in compiled.rows if row.cost and row.cost.total_flop]
    assert product.kind == "matmul"
    nbytes = 2048 * 4096 + 2048 * 4 + 2 * 2 * (4096 + 2048)
    assert cost.compulsory.nbytes == pytest.approx(nbytes, rel=2e-3)
    assert compiled.matrix_flop == 2 * 2 * 2048 * 4096


def test_the_what_if_and_the_real_thing_agree():
    plain = nn.Sequential(*(nn.Linear(8192, 8192, bias=False, dtype=BF16, device="meta") for _ in range(4)))
    x = torch.zeros(1, 8192, dtype=BF16, device="meta")
    quantization = pytest.importorskip("torchao.quantization")
    with torch.no_grad():
        before = analyze(plain, x, machine="h100-sxm", mode="compiled", cache="cold")
        imagined = before.on("h100-sxm", what_if="dtype=int8")
        quantization.quantize_(plain, quantization.Int8WeightOnlyConfig())
        real = analyze(plain, x, machine="h100-sxm", mode="compiled", cache="cold")
    bf16_s, imagined_s, real_s = (one.prediction.time_s for one in (before, imagined, real) if one.prediction)
    assert real_s == pytest.approx(imagined_s, rel=0.06)
    assert real_s < 0.75 * bf16_s


def test_fp4_lies_two_in_a_byte():
    # 96 × 128 by 128 × 64, along k: bytes are half, and k is what is stored twice over.
    a = torch.empty(96, 64, dtype=torch.float4_e2m1fn_x2, device="meta")
    b = torch.empty(64, 64, dtype=torch.float4_e2m1fn_x2, device="meta").t()
    scales = [torch.empty(128 * 8, dtype=FP8, device="meta") for _ in range(2)]

    def product(a, b, scale_a, scale_b):
        return torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=BF16)

    graph = capture(product, (a, b, *scales))
    (cost,) = [one for one in costs(graph) if one and one.total_flop]
    assert cost.total_flop == 2 * 96 * 128 * 64
    assert {(spec.shape, spec.nbytes) for spec in graph.tensors if spec.dtype == "fp4"} == {
        ((96, 128), 96 * 64),
        ((128, 64), 64 * 64),
    }


def test_packed_products_of_pytorch_read_their_packed_bytes():
    x = torch.zeros(5, 256, dtype=BF16, device="meta")

    def cost_of(fn, *args):
        (cost,) = [one for one in costs(capture(fn, args)) if one and one.total_flop]
        assert cost.total_flop == 2 * 5 * 256 * 64
        return cost

    int8 = torch.zeros(64, 256, dtype=torch.int8, device="meta")
    scales = torch.zeros(64, dtype=BF16, device="meta")
    cost = cost_of(lambda x, w, s: torch._weight_int8pack_mm(x, w, s), x, int8, scales)
    assert cost.compulsory.read_bytes == 5 * 256 * 2 + 64 * 256 + 64 * 2
    # Eight int4 to each int32: n/8 × k/(16·8) × 32 × 4/2
    int4 = torch.zeros(64 // 8, 256 // 128, 32, 4, dtype=torch.int32, device="meta")
    both = torch.zeros(256 // 32, 64, 2, dtype=BF16, device="meta")
    cost = cost_of(lambda x, w, s: torch._weight_int4pack_mm(x, w, 32, s), x, int4, both)
    assert cost.compulsory.read_bytes == 5 * 256 * 2 + 64 * 256 / 2 + 8 * 64 * 2 * 2


class Odd(torch.Tensor):
    """A tensor that holds another, packed, and tells nobody how."""

    @staticmethod
    def __new__(cls, packed, shape):
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=BF16, device=packed.device)

    def __init__(self, packed, shape):
        self.packed = packed

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.mm.default:
            x, w = args
            return x @ w.packed.to(BF16)
        if func is torch.ops.aten.detach.default:
            return Odd(args[0].packed, args[0].shape)
        raise NotImplementedError(str(func))


def test_a_wrapper_that_nobody_knows_is_counted_by_what_it_holds():
    packed = torch.zeros(32, 16, dtype=torch.int8, device="meta")
    module = nn.Module()
    module.weight = nn.Parameter(Odd(packed, (32, 16)), requires_grad=False)
    graph = capture(lambda x: x @ module.weight, (torch.zeros(4, 32, dtype=BF16, device="meta"),))
    assert [op.kind for op in graph.ops if op.kind != "view"] == ["cast", "matmul"]
    assert parameter_bytes(graph) == 32 * 16
