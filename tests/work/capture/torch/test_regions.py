"""Branches and loops that PyTorch keeps as operators."""

import pytest

torch = pytest.importorskip("torch")

from torch._higher_order_ops import scan, while_loop  # noqa: E402

from rooflab.work.capture.torch import capture  # noqa: E402
from rooflab.work.costs import costs  # noqa: E402

PRODUCT = 2 * 4 * 4 * 4


@pytest.fixture(params=["cpu", "meta"])
def x(request):
    return torch.ones(4, 4, device=request.param)


def flop(graph):
    pairs = zip(costs(graph), graph.ops, strict=True)
    return sum(one.count * op.count for cost, op in pairs for one in cost.flop if one.engine == "matrix")


def branches(x):
    return torch.cond(x.sum() > 0, lambda x: x @ x, lambda x: x + 1, (x,))


def test_cond_that_is_known_takes_its_branch():
    graph = capture(branches, (torch.ones(4, 4),))
    assert [op.name for op in graph.ops if op.kind != "view"] == ["aten.sum", "aten.gt", "aten.mm"]
    assert graph.unknown == ()


def test_cond_that_is_not_counts_the_costlier_branch():
    graph = capture(branches, (torch.ones(4, 4, device="meta"),))
    # counts of both branches, the cheaper one 0
    assert [(op.name, op.branch, op.count) for op in graph.ops] == [
        ("aten.sum", None, 1),
        ("aten.gt", None, 1),
        ("aten.mm", "cond 1 of 2", 1),
        ("aten.add", "cond 2 of 2", 0),
    ]
    assert graph.unknown == (
        "cond: its predicate needs data; the costlier branch counts, the other has a count of 0",
    )


def test_while_counts_its_trips(x):
    def loop(x):
        start = torch.zeros((), dtype=torch.int64, device=x.device)
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x @ x), (start, x))

    assert flop(capture(loop, (x,))) == 3 * PRODUCT


def test_while_of_unknown_trips_says_so():
    graph = capture(
        lambda x: while_loop(lambda x: x.sum() < 3, lambda x: (x @ x,), (x,)), (torch.ones(4, 4, device="meta"),)
    )
    assert flop(graph) == PRODUCT
    assert graph.unknown == ("while_loop: its trip count needs data; 1 recorded",)


def test_scan_counts_its_steps(x):
    steps = torch.ones(5, 4, 4, device=x.device)
    graph = capture(lambda x, steps: scan(lambda c, y: (c @ y, c.clone()), x, steps), (x, steps))
    assert flop(graph) == 5 * PRODUCT
    assert {op.count for op in graph.ops if op.name == "aten.mm"} == {5}
