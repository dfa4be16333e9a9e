"""Backward and optimizer: what is recorded, and that the program is left as it was."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from rooflab.errors import RooflabError  # noqa: E402
from rooflab.work.capture.torch import capture  # noqa: E402
from rooflab.work.costs import costs, uncosted  # noqa: E402


def model(device="meta"):
    with torch.device(device):
        return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))


def x(device="meta"):
    return torch.ones(2, 8, device=device)


PARAMETERS = 8 * 8 + 8 + 8 + 8 + 8 * 4 + 4


def steps(graph):
    return [op for op in graph.ops if op.phase == "optimizer"]


# optimizer: kinds of its ops that move the parameters
OPTIMIZERS = [
    ("sgd", torch.optim.SGD, ["aten._foreach_add_"]),
    (
        "momentum",
        lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
        ["aten._foreach_mul_", "aten._foreach_add_", "aten._foreach_add_"],
    ),
    ("fused adam", lambda params: torch.optim.Adam(params, fused=True), ["aten._fused_adam_"]),
    ("fused adamw", lambda params: torch.optim.AdamW(params, fused=True), ["aten._fused_adamw_"]),
    ("fused sgd", lambda params: torch.optim.SGD(params, fused=True), ["aten._fused_sgd_"]),
]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("optimizer", "names"), [one[1:] for one in OPTIMIZERS], ids=[o[0] for o in OPTIMIZERS])
def test_an_optimizers_step_is_counted_with_its_states(optimizer, names, device):
    graph = capture(model(device), (x(device),), optimizer=optimizer)
    assert uncosted(graph) == {}
    # counters of steps, one number a parameter, are another op
    moved = [op for op in steps(graph) if sum(graph.tensors[i].elements for i in op.outputs) >= PARAMETERS]
    assert [op.name for op in moved] == names


def test_a_fused_step_reads_parameters_gradients_and_states():
    graph = capture(model(), (x(),), optimizer=lambda params: torch.optim.AdamW(params, fused=True))
    (op,) = (op for op in steps(graph) if op.kind == "optimizer")
    assert (op.attrs["function"], op.attrs["elements"], op.attrs["amsgrad"]) == ("adamw", PARAMETERS, False)
    roles = [graph.tensors[i].role for i in op.inputs]
    assert roles == ["parameter"] * 6 + ["gradient"] * 6 + ["state"] * 18  # two moments and a counter each
    found = costs(graph)[graph.ops.index(op)].compulsory
    assert found.read_bytes == 4 * PARAMETERS * 4 + 6 * 4  # parameter, gradient, two moments; six counters
    assert found.write_bytes >= 3 * PARAMETERS * 4


def test_adam_without_fusion_is_many_passes():
    graph = capture(model(), (x(),), optimizer=torch.optim.AdamW)
    passes = [op.name for op in steps(graph) if op.kind == "pointwise" and len(op.inputs) >= 6]
    assert len(passes) > 5
    assert sum(spec.elements for spec in graph.held("state") if spec.elements > 1) == 2 * (PARAMETERS)


def test_an_optimizer_of_ones_own_is_not_stepped():
    net = model("cpu")
    optimizer = torch.optim.Adam(net.parameters())
    before = [one.detach().clone() for one in net.parameters()]
    graph = capture(net, (x("cpu"),), optimizer=optimizer)
    assert steps(graph)
    assert not optimizer.state
    for one, was in zip(net.parameters(), before, strict=True):
        torch.testing.assert_close(one.detach(), was)


def test_a_step_that_the_program_takes_itself():
    weight = torch.ones(4, requires_grad=True)
    weight.grad = torch.ones(4)
    graph = capture(torch.optim.SGD([weight], lr=0.1).step)
    assert {op.phase for op in graph.ops if op.kind != "view"} == {"optimizer"}


def test_the_module_is_left_as_it_was():
    net, given = model("cpu").train(), x("cpu")
    net[0].weight.grad = torch.full((8, 8), 7.0)
    before = {name: one.clone() for name, one in net.state_dict().items()}
    random = torch.random.get_rng_state()
    capture(nn.Sequential(net, nn.Dropout(0.5)), (given,), optimizer=torch.optim.AdamW)
    for name, one in net.state_dict().items():
        torch.testing.assert_close(one, before[name])
    assert torch.equal(net[0].weight.grad, torch.full((8, 8), 7.0))
    assert net[0].bias.grad is None
    assert given.grad is None
    assert torch.equal(torch.random.get_rng_state(), random)


def test_backward_begins_at_the_loss_of_a_result():
    net = model()

    def run(x):
        y = net(x)
        return {"loss": y.sum(), "other": y * 3}

    graph = capture(run, (x(),), backward=True)
    assert not [op for op in graph.ops if op.phase == "backward" and op.name == "aten.mul"]


def test_a_loss_the_program_follows_itself():
    net = model()

    def train(x):
        net(x).sum().backward()

    graph = capture(train, (x(),))
    assert {op.phase for op in graph.ops} == {"forward", "backward"}


def test_no_gradient_to_follow():
    with pytest.raises(RooflabError, match=r"^backward: no gradient to follow; got 0 .*; leave no_grad"):
        capture(lambda x: x + 1, (x(),), backward=True)


def test_what_is_not_an_optimizer_is_refused():
    with pytest.raises(
        RooflabError, match=r"^optimizer: got str; expected a torch.optim.Optimizer, or a function"
    ):
        capture(model(), (x(),), optimizer="adam")
