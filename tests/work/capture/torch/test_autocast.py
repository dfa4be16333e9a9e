"""Autocast and TF32 where there is no GPU: the casts and formats that PyTorch's dispatcher would choose there."""

from __future__ import annotations

from collections import Counter

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from rooflab.work.capture.torch import autocast, capture  # noqa: E402
from rooflab.work.costs import costs  # noqa: E402

BF16, FP16 = torch.bfloat16, torch.float16


def seen(graph, phase=None):
    """(name, formats of the inputs, formats of the outputs) of all but views."""
    formats = [spec.dtype for spec in graph.tensors]
    return [
        (op.name, tuple(formats[i] for i in op.inputs), tuple(formats[i] for i in op.outputs))
        for op in graph.ops
        if op.kind != "view" and phase in (None, op.phase)
    ]


def matrix_flop(graph):
    flop: Counter[str] = Counter()
    for cost in costs(graph):
        for one in cost.flop if cost else ():
            if one.engine == "matrix":
                flop[one.dtype] += int(one.count)
    return dict(flop)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_the_lists_are_those_of_the_dispatcher(device):
    key = {"cuda": "AutocastCUDA", "cpu": "AutocastCPU"}[device]
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    theirs = {name.removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names() if has(name, key)}
    ours = {name for names in autocast.lists(device).values() for name in names}
    assert theirs <= ours
    assert len(ours - theirs) <= 2  # kernels of libraries that a build has or has not


@pytest.mark.parametrize("where", ["meta", "cpu"])
def test_products_run_in_the_lower_precision_forward_and_backward(where):
    layer = nn.Linear(48, 80, device=where)

    def program(x):
        with torch.autocast("cuda", dtype=BF16):
            return layer(x).float().sum()

    graph = capture(program, (torch.ones(12, 48, device=where),), backward=True)
    # Forward, and the weight's gradient: x asks for none.
    assert matrix_flop(graph) == {"bf16": 2 * 2 * 12 * 48 * 80}
    # x, weight and bias are cast, then the result; backward: the gradient of the result, and of both weights
    casts = [one for one in seen(graph) if one[0] == "aten._to_copy"]
    assert Counter(one[1:] for one in casts) == {(("fp32",), ("bf16",)): 4, (("bf16",), ("fp32",)): 3}
    assert not torch.is_autocast_enabled("cuda")


def test_fp16_is_the_default_and_layers_may_leave_it():
    a, b = nn.Linear(16, 32, device="meta"), nn.Linear(32, 8, device="meta")

    def program(x):
        with torch.autocast("cuda"):
            y = a(x)
            with torch.autocast("cuda", enabled=False):
                return b(y.float())

    graph = capture(program, (torch.ones(4, 16, device="meta"),))
    assert matrix_flop(graph) == {"fp16": 2 * 4 * 16 * 32, "fp32": 2 * 4 * 32 * 8}


def test_weights_are_cast_once_in_an_autocast():
    layer = nn.Linear(24, 24, bias=False, device="meta")
    x = torch.ones(3, 24, device="meta", dtype=BF16)

    def once(x):
        with torch.autocast("cuda", dtype=BF16):
            return layer(layer(layer(x)))

    def anew(x):
        for _ in range(3):
            with torch.autocast("cuda", dtype=BF16):
                x = layer(x)
        return x

    def uncached(x):
        with torch.autocast("cuda", dtype=BF16, cache_enabled=False):
            return layer(layer(layer(x)))

    counts = [sum(one[0] == "aten._to_copy" for one in seen(capture(fn, (x,)))) for fn in (once, anew, uncached)]
    assert counts == [1, 3, 3]


def test_softmax_norms_and_losses_are_computed_in_fp32_and_operands_promoted():
    norm = nn.LayerNorm(20, device="meta")

    def program(x, wide):
        with torch.autocast("cuda", dtype=FP16):
            y = norm(x)
            z = torch.softmax(x, -1)
            total = x.sum()
            length = torch.norm(x)
            mixed = torch.addcmul(x, x, wide)
            same = torch.addcmul(x, x, x)
        return y, z, total, length, mixed, same, torch.exp(x)

    half = torch.ones(6, 20, device="meta", dtype=FP16)
    graph = capture(program, (half, torch.ones(6, 20, device="meta")))
    outputs = [(name, out[0]) for name, _, out in seen(graph) if name != "aten._to_copy"]
    assert outputs == [
        ("aten.native_layer_norm", "fp32"),
        ("aten._softmax", "fp32"),
        ("aten.sum", "fp32"),
        ("aten.linalg_vector_norm", "fp32"),
        ("aten.addcmul", "fp32"),
        ("aten.addcmul", "fp16"),
        ("aten.exp", "fp16"),  # outside
    ]


def test_functions_with_their_own_gradient_see_autocast():
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=BF16)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return grad @ b.T, a.T @ grad

    def program(a, b):
        with torch.autocast("cuda", dtype=FP16):
            return Product.apply(a, b).float().sum()

    a = torch.ones(8, 4, device="meta", requires_grad=True)
    b = torch.ones(4, 6, device="meta", requires_grad=True)
    assert matrix_flop(capture(program, (a, b), backward=True)) == {"bf16": 3 * 2 * 8 * 4 * 6}


def test_a_tensor_s_own_device_stands_for_the_machine_s():
    layer = nn.Linear(16, 16, device="meta")

    def program(x):
        with torch.autocast(device_type=x.device.type, dtype=BF16):
            assert torch.is_autocast_enabled(x.device.type)
            return layer(x)

    x = torch.ones(2, 16, device="meta")
    for device in ("cuda", "cpu"):
        assert matrix_flop(capture(program, (x,), device=device)) == {"bf16": 2 * 2 * 16 * 16}


class Heard(TorchDispatchMode):
    """What PyTorch itself dispatches: names and number formats."""

    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not func.is_view and isinstance(out, torch.Tensor):
            self.ops.append((str(func).rpartition(".")[0], out.dtype))
        return out


def test_a_cpu_s_autocast_does_on_meta_tensors_what_pytorch_does_on_real_ones():
    conv, layer = nn.Conv2d(3, 6, 3), nn.Linear(6, 5)

    def program(x):
        with torch.autocast("cpu", dtype=BF16):
            y = layer(torch.relu(conv(x)).mean((-1, -2)))
            y = torch.cat([y, y.float()])
            y = nn.functional.mse_loss(y, torch.zeros_like(y))
        return y * 2

    image = torch.ones(2, 3, 9, 9)
    with torch.no_grad(), Heard() as heard:
        program(image)
    real = [(name, {BF16: "bf16", torch.float32: "fp32"}[dtype]) for name, dtype in heard.ops]
    conv, layer = conv.to("meta"), layer.to("meta")
    with torch.no_grad():
        graph = capture(program, (image.to("meta"),), device="cpu")
    ours = [(name, out[0]) for name, _, out in seen(graph)]

    def told(ops):
        return [(name.replace("mkldnn_", ""), dtype) for name, dtype in ops if "zeros" not in name]

    assert told(ours) == told(real)


def test_tf32_is_what_the_flags_say_when_the_product_runs():
    layer, conv = nn.Linear(32, 32, device="meta"), nn.Conv2d(2, 4, 1, device="meta")
    x, image = torch.ones(8, 32, device="meta"), torch.ones(1, 2, 6, 6, device="meta")

    def program(x, image):
        before = torch.get_float32_matmul_precision()
        y = layer(x)
        torch.set_float32_matmul_precision("high")
        z = layer(y)
        torch.set_float32_matmul_precision(before)
        with torch.backends.cudnn.flags(allow_tf32=False):
            exact = conv(image)
        return z, exact, conv(image)

    one, kernel = 2 * 8 * 32 * 32, 2 * 36 * 2 * 4
    assert matrix_flop(capture(program, (x, image))) == {"fp32": one + kernel, "tf32": one + kernel}
    assert set(matrix_flop(capture(program, (x, image), device="cpu"))) == {"fp32"}


def test_casts_and_copies_cost_the_same_under_inference_mode():
    def program(x):
        return x.to(BF16).t().reshape(-1)

    x = torch.ones(6, 8, device="meta")
    with torch.inference_mode():
        inside = capture(program, (x,))
    assert seen(inside) == seen(capture(program, (x,)))
    assert [name for name, _, _ in seen(inside)] == ["aten._to_copy", "aten.clone"]
