"""Where an op ran: module path, source line, phase."""

import inspect
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from rooflab.work.capture.torch import capture  # noqa: E402


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.act = nn.Linear(4, 4), nn.ReLU()

    def forward(self, x):
        x = self.fc(x)
        return self.act(x) * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@pytest.fixture
def net():
    with torch.device("meta"):
        return Net()


X = torch.empty(2, 4, device="meta")


def modules(graph, name, phase="forward"):
    return [op.module for op in graph.ops if op.name == name and op.phase == phase]


def test_each_operation_knows_its_module(net):
    graph = capture(net, (X,))
    assert modules(graph, "aten.addmm") == ["blocks.0.fc", "blocks.1.fc"]
    assert modules(graph, "aten.relu") == ["blocks.0.act", "blocks.1.act"]
    assert modules(graph, "aten.mul") == ["blocks.0", "blocks.1"]


def test_backward_runs_in_the_module_of_its_forward(net):
    graph = capture(net, (X,), backward=True)
    assert modules(graph, "aten.threshold_backward", "backward") == ["blocks.1.act", "blocks.0.act"]
    # weights of both layers; the first layer's input needs no gradient
    assert modules(graph, "aten.mm", "backward") == ["blocks.1.fc", "blocks.1.fc", "blocks.0.fc"]
    lines = {op.where for op in graph.ops if op.name == "aten.mul"}
    assert len(lines) == 1


def test_each_operation_knows_its_line(net):
    first = inspect.getsourcelines(Block.forward)[1]
    by_name = {op.name: op.where for op in capture(net, (X,)).ops}
    assert by_name["aten.addmm"] == f"{__file__}:{first + 1}"
    assert by_name["aten.mul"] == f"{__file__}:{first + 2}"


def test_functions_name_the_modules_they_close_over(net):
    graph = capture(lambda x: net(x), (X,))
    assert modules(graph, "aten.addmm") == ["net.blocks.0.fc", "net.blocks.1.fc"]
    assert {one.name for one in graph.held("parameter")} >= {"net.blocks.0.fc.weight"}
    assert modules(capture(partial(net.forward), (X,)), "aten.addmm") == ["blocks.0.fc", "blocks.1.fc"]


def test_a_module_made_on_the_way_is_named_by_its_class():
    graph = capture(lambda x: nn.Linear(4, 4, device="meta")(x), (X,))
    assert modules(graph, "aten.addmm") == ["Linear"]


def test_roles_and_names(net):
    graph = capture(net, (X,), backward=True)
    roles = {spec.name: spec.role for spec in graph.tensors if spec.name}
    assert roles["x"] == "input"
    assert roles["blocks.1.fc.bias"] == "parameter"
    # of two weights and biases, and the one that backward begins with
    assert sorted(spec.elements for spec in graph.held("gradient")) == [4, 4, 8, 16, 16]


def test_an_exported_program_keeps_modules_and_lines():
    first = inspect.getsourcelines(Block.forward)[1]
    exported = torch.export.export(Net(), (torch.ones(2, 4),))
    graph = capture(exported, (torch.ones(2, 4),))
    assert modules(graph, "aten.addmm") == ["blocks.0.fc", "blocks.1.fc"]
    assert {op.where for op in graph.ops if op.name == "aten.addmm"} == {f"{__file__}:{first + 1}"}
    assert "blocks.0.fc.weight" in {one.name for one in graph.held("parameter")}


def test_hooks_are_gone_afterwards(net):
    from torch.nn.modules import module

    capture(net, (X,))
    assert not module._global_forward_hooks
    assert not module._global_forward_pre_hooks
