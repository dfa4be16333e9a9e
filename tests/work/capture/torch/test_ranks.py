"""Programs of several ranks: what one computes and sends, by DTensor, DDP, FSDP, plans and collectives alone.

All on a process group of 6 that only pretends. Wire bytes are those of rings: of n bytes, an all-reduce sends
2·5/6·n, an all-gather and a reduce-scatter 5/6·n of the whole.
"""

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from torch import nn  # noqa: E402
from torch.distributed import _functional_collectives as funcol  # noqa: E402

import rooflab  # noqa: E402
from rooflab.errors import RooflabError  # noqa: E402

RANKS = 6


@pytest.fixture(scope="module")
def mesh():
    """All ranks in one dimension."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    yield init_device_mesh("cpu", (RANKS,))
    dist.destroy_process_group()


def exchanged(report):
    """Function, phase, wire bytes, ranks and whether asynchronous, of each collective."""
    return [
        (op.attrs["function"], op.phase, row.cost.wire_bytes, op.attrs["ranks"], op.attrs["asynchronous"])
        for row in report.rows
        if (op := row.op).kind == "collective"
    ]


def test_a_sharded_product_is_one_rank_s_on_every_call(mesh):
    """48/6 rows of 32 by 32 × 20: 2·8·32·20 FLOP."""
    from torch.distributed.tensor import DTensor, Replicate, Shard

    a = DTensor.from_local(torch.empty(8, 32, device="meta"), mesh, [Shard(0)], run_check=False)
    b = DTensor.from_local(torch.empty(32, 20, device="meta"), mesh, [Replicate()], run_check=False)
    for _ in range(2):
        report = rooflab.analyze(torch.mm, a, b)
        assert (report.flop, report.wire_bytes, len(report.rows)) == (2 * 8 * 32 * 20, 0, 1)


@pytest.mark.parametrize("backward", [False, True])
def test_a_tensor_parallel_plan(mesh, backward):
    """Columns, then rows: 10 tokens of 24 by 24 × 96/6, back to 24, and the sum over ranks; 3 times with backward.

    Backward sums the input's gradient over the ranks too: it wants one here.
    """
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    with torch.device("meta"):
        mlp = nn.Sequential(nn.Linear(24, 96, bias=False), nn.Linear(96, 24, bias=False))
        x = torch.empty(10, 24, requires_grad=True)
    mlp = parallelize_module(mlp, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
    for _ in range(2):
        report = rooflab.analyze(mlp, x, backward=backward)
        assert report.matrix_flop == (3 if backward else 1) * 2 * (2 * 10 * 24 * 16)
        sums = [one for one in exchanged(report) if one[0] == "all_reduce"]
        assert [one[1] for one in sums] == (["forward", "backward"] if backward else ["forward"])
        assert all(one[2] == 2 * 5 / 6 * 10 * 24 * 4 for one in sums)
        assert report.coverage.complete


def test_distributed_data_parallel(mesh):
    """One all-reduce of 96·32 gradients in fp32, begun in the backward pass and waited for at its end."""
    model = nn.parallel.DistributedDataParallel(nn.Linear(96, 32, bias=False))
    for _ in range(2):
        report = rooflab.analyze(model, torch.empty(4, 96), backward=True)
        assert exchanged(report) == [("all_reduce", "backward", 2 * 5 / 6 * 96 * 32 * 4, RANKS, True)]
        assert report.matrix_flop == 2 * (2 * 4 * 96 * 32)
        assert report.coverage.complete
    assert all(one.grad is None for one in model.parameters())


def test_fully_sharded(mesh):
    """Each layer's 96·96 parameters are gathered in forward and again in backward, its gradients scattered."""
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(*(nn.Linear(96, 96, bias=False) for _ in range(3)))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    whole = 5 / 6 * 96 * 96 * 4
    report = rooflab.analyze(model, torch.empty(4, 96), backward=True)
    gathered = ("all_gather", "forward", whole, RANKS, True)
    by_phase = sorted(one[:2] for one in exchanged(report))
    assert by_phase == sorted(
        3 * [gathered[:2]] + 3 * [("all_gather", "backward")] + 3 * [("reduce_scatter", "backward")]
    )
    assert all(one[2:] == (whole, RANKS, True) for one in exchanged(report))
    assert report.coverage.complete


def _in_place(x):
    dist.all_reduce(x)
    whole = torch.empty(RANKS * x.shape[0], x.shape[1])
    dist.all_gather([*whole.chunk(RANKS)], x)
    return whole


def test_collectives_in_place(mesh):
    """12·5 fp32 on each rank, 240 B: summed in place, then gathered into 1440 B."""
    report = rooflab.analyze(_in_place, torch.empty(12, 5))
    assert exchanged(report) == [
        ("all_reduce", "forward", 2 * 5 / 6 * 240, RANKS, False),
        ("all_gather", "forward", 5 / 6 * 1440, RANKS, False),
    ]
    costs = [row.cost.compulsory for row in report.rows if row.op.kind == "collective"]
    assert [(one.read_bytes, one.write_bytes) for one in costs] == [(240, 240), (240, 1440)]


def _functional(x, between):
    started = torch.ops._c10d_functional.all_reduce(x, "sum", dist.group.WORLD.group_name)
    y = torch.relu(x) if between else x
    return torch.ops._c10d_functional.wait_tensor(started) + y


@pytest.mark.parametrize("between", [False, True])
def test_a_functional_collective_says_what_runs_beside_it(mesh, between):
    report = rooflab.analyze(_functional, torch.empty(12, 5), kwargs={"between": between})
    assert exchanged(report) == [("all_reduce", "forward", 2 * 5 / 6 * 240, RANKS, between)]
    said = [one for one in report.conventions if one.startswith("ranks: ")]
    assert f"{int(between)} of its 1 collectives" in said[0]


def test_coalesced_functional_collectives(mesh):
    """Two tensors of 240 B at once, then gathered: 2 · 1440 B in all."""

    def program(x):
        summed = funcol.all_reduce_coalesced([x, x + 1], "sum", dist.group.WORLD)
        group = dist.group.WORLD.group_name
        parts = [*map(torch.relu, summed)]
        gathered = torch.ops._c10d_functional.all_gather_into_tensor_coalesced(parts, RANKS, group)
        # What nobody waits for is complained of when the process ends.
        return [torch.ops._c10d_functional.wait_tensor(one) for one in gathered]

    report = rooflab.analyze(program, torch.empty(12, 5))
    assert [one[:3] for one in exchanged(report)] == [
        ("all_reduce", "forward", 2 * 5 / 6 * 480),
        ("all_gather", "forward", 5 / 6 * 2880),
    ]


def test_a_mesh_larger_than_the_process_group(mesh):
    from torch.distributed.device_mesh import init_device_mesh

    def program(x):
        init_device_mesh("cpu", (2 * RANKS,))
        return x

    with pytest.raises(RooflabError, match="bigger than default world size 6") as caught:
        rooflab.analyze(program, torch.empty(2))
    assert "\n" not in str(caught.value)
