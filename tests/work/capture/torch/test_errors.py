"""What a program that cannot run on these tensors says: op, module, line, what to do."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from rooflab.errors import RooflabError  # noqa: E402
from rooflab.work.capture.torch import capture  # noqa: E402

X = torch.empty(3, 4, device="meta")


class Gate(nn.Module):
    def forward(self, x):
        return x if x.sum().item() > 0 else -x


HERE = r"test_errors\.py:\d+"
FAILURES = [
    (
        "item",
        lambda: capture(nn.Sequential(Gate()), (X,)),
        rf"^aten._local_scalar_dense in module 0 at .*{HERE}: needs the value of a tensor \(fp32 \[\]\), which"
        r" a meta tensor does not have; give a real tensor for what it depends on \(a mask, say\), or a plain"
        r" number$",
    ),
    (
        "nonzero",
        lambda: capture(torch.nonzero, (X,)),
        rf"^aten.nonzero at .*{HERE}: the shape of its result needs data that meta tensors do not have \(got fp32"
        r" \[3, 4\]\); give real tensors, or use a form with a fixed shape$",
    ),
    (
        "mask",
        lambda: capture(lambda x: x[x > 0], (X,)),
        rf"^aten.index at .*{HERE}: the shape of its result needs data",
    ),
    (
        "shape",
        lambda: capture(nn.Sequential(nn.Linear(3, 3, device="meta")), (X,)),
        rf"^aten.addmm in module 0 at .*{HERE}: .* \(got fp32 \[3\], fp32 \[3, 4\], fp32 \[3, 3\]\); check the",
    ),
    (
        "dtype",
        lambda: capture(nn.Linear(4, 3, device="meta"), (X.half(),)),
        rf"^aten.addmm at .*{HERE}: its tensors differ in dtype \(got fp32 \[3\], fp16 \[3, 4\], fp32"
        r" \[4, 3\]\); give the inputs the module's dtype$",
    ),
    (
        "missing input",
        lambda: capture(nn.Bilinear(3, 4, 5, device="meta"), (X,)),
        r"^Bilinear: TypeError: .* missing 1 required positional argument: 'input2'; check what it is called"
        r" with$",
    ),
    (
        "attention",
        lambda: capture(Gate(), (X,), attention="flash"),
        r"^attention: got 'flash'; expected 'fused' or",
    ),
]


@pytest.mark.parametrize(("call", "message"), [one[1:] for one in FAILURES], ids=[one[0] for one in FAILURES])
def test_each_failure_is_one_line_that_says_what_is_wrong(call, message):
    with pytest.raises(RooflabError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_after_an_error_everything_works_again():
    with pytest.raises(RooflabError):
        capture(nn.Sequential(Gate()), (X,))
    graph = capture(nn.Sequential(nn.ReLU()), (X,))
    assert [(op.name, op.module) for op in graph.ops] == [("aten.relu", "0")]


def test_a_number_known_from_constants_needs_no_data():
    def causal(x):
        mask = torch.arange(4, device=x.device) >= torch.zeros((), device=x.device, dtype=torch.int64)
        return x if mask.all() else -x

    assert not [op for op in capture(causal, (X,)).ops if op.name == "aten.neg"]
    count = capture(lambda x: x[: torch.full((), 2, device="meta", dtype=torch.int64).item()] + 1, (X,))
    assert count.tensors[count.ops[-1].outputs[0]].shape == (2, 4)
    rows = capture(lambda x: x[torch.nonzero(torch.arange(3, device="meta"))[:, 0]], (X,))
    assert rows.tensors[rows.ops[-1].outputs[0]].shape == (2, 4)


def test_a_real_mask_beside_meta_tensors_is_enough():
    graph = capture(lambda x, mask: x if mask.all().item() else -x, (X, torch.ones(3, dtype=torch.bool)))
    assert [op.name for op in graph.ops if op.kind != "view"] == ["aten.all"]


def test_without_torch_it_says_what_to_install():
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from rooflab.work.capture.torch import capture\n"
        "try: capture(print)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "MissingExtraError capturing a PyTorch program needs torch: python -m pip install 'rooflab[torch]'"
    )


def test_a_lazy_tensor_is_refused_in_one_line():
    # Looking at its storage ends the process: this one lives on.
    code = (
        "import torch, torch._lazy.ts_backend as lazy\n"
        "lazy.init()\n"
        "from rooflab.errors import RooflabError\n"
        "from rooflab.work.capture.torch import capture\n"
        "try:\n"
        "    capture(lambda x: x.to('lazy') * 2, (torch.ones(2),))\n"
        "except RooflabError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("a tensor on the device 'lazy', which only promises its data")
