"""A program timed here: each row, the whole, what is refused, and what `calibrate` makes of it."""

from __future__ import annotations

import re

import msgspec
import pytest

import rooflab
from rooflab.types.machine import Source

torch = pytest.importorskip("torch")


def layers(count=4):
    with torch.device("meta"):
        blocks = [block for _ in range(count) for block in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
        return torch.nn.Sequential(*blocks), torch.empty(16, 64)


@pytest.fixture(scope="module")
def timed(here):
    net, x = layers(5)
    return rooflab.analyze(net, x, machine=here, measure=True)


def test_every_row_that_takes_time_is_timed(timed):
    for row in timed.rows:
        assert (row.observation is not None) == row.takes_time
    seen = [row.observation for row in timed.rows if row.observation is not None]
    assert len(seen) == 10
    assert all(0 < one.low_s <= one.time_s <= one.high_s and one.runs >= 3 for one in seen)
    assert timed.measured_s > 0
    assert timed.unmeasured == ()
    assert timed.measurement.by == "timed here"
    assert timed.own_times[0].rows == tuple(range(len(timed.rows)))
    assert len(timed.own_times) == 11


def test_only_what_may_be_otherwise_in_the_program_is_suspected(timed):
    allowed = {"cold caches", "one thread", "power limit", "low clock", "remote memory", "data in a cache"}
    allowed |= {"cold and sustained"}
    assert {one.rule for own in timed.own_times for one in own.suspects} <= allowed


def test_calibrate_takes_the_json_and_says_why_not_the_csv(timed, here, tmp_path):
    saved, table = tmp_path / "timed.json", tmp_path / "timed.csv"
    timed.save(saved, table)
    assert rooflab.calibrate(saved, here).rows == 10
    with pytest.raises(rooflab.RooflabError, match=r"give its \.json"):
        rooflab.calibrate(table, here)
    with pytest.raises(rooflab.RooflabError, match="taken with warm caches, got cold: --cache warm"):
        rooflab.calibrate(saved, here, cache="cold")
    with pytest.raises(rooflab.RooflabError, match=re.escape(f"its times are of {here.name}, got AMD EPYC 7763")):
        rooflab.calibrate(saved, "epyc-7763")


def test_it_is_shown_everywhere(timed, capsys):
    from rooflab.views.report import html
    from rooflab.views.report.files import markdown

    timed.show()
    for text in (capsys.readouterr().out, html(timed), markdown(timed)):
        assert "10 of 10 operations" in text.replace("\\", "")
        assert "timed here: PyTorch eager" in text


def test_what_cannot_be_timed_says_why_and_is_no_part_of_a_whole(here, tmp_path, capsys):
    sparse = torch.eye(16).to_sparse()
    timed = rooflab.analyze(
        lambda a: torch.relu(torch.sparse.mm(sparse, a)), torch.ones(16, 8), machine=here, measure=True
    )
    (row,) = timed.unmeasured
    assert row.unobserved == "it takes a tensor that is not strided"
    path = tmp_path / "part.json"
    timed.save(path)
    assert rooflab.load(path) == timed
    timed.show()
    shown = " ".join(capsys.readouterr().out.split())
    takes = sum(row.takes_time for row in timed.rows)
    assert f"{takes - 1} of {takes} operations: > " in shown
    assert "not timed, 1: it takes a tensor that is not strided" in shown
    assert "lies between them" not in shown
    assert all(row.unobserved is None for row in timed.on("epyc-7763").rows)


def test_cold_caches_are_emptied_before_each_pass(here):
    net, x = layers(1)
    cold = rooflab.analyze(net, x, machine=here, measure=True, cache="cold", advice=False)
    assert any("the caches emptied before each" in note for note in cold.measurement.notes)
    assert cold.unmeasured == ()


def test_the_program_is_as_it_was_afterwards(here):
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5))
    x = torch.randn(4, 8)
    torch.manual_seed(3)
    before, seed = {name: one.clone() for name, one in net.state_dict().items()}, torch.get_rng_state()
    timed = rooflab.analyze(net, x, machine=here, measure=True, backward=True, advice=False)
    assert timed.measured_s > 0
    assert all(torch.equal(before[name], one) for name, one in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), seed)
    assert all(one.grad is None for one in net.parameters())


def test_steps_of_an_optimizer_in_the_program_are_undone(here):
    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    before = net.weight.detach().clone()
    timed = rooflab.analyze(step, torch.ones(4, 8), machine=here, measure=True, advice=False)
    assert timed.measured_s > 0
    assert "optimizer" in {row.op.phase for row in timed.rows}
    assert torch.equal(net.weight, before)
    assert optimizer.state_dict()["state"] == {}


def machine_like(here, **changes):
    return msgspec.structs.replace(here, **changes)


@pytest.mark.parametrize(
    ("changes", "how", "says"),
    [
        ({"name": "Sparc M8"}, {}, "is not this machine"),
        ({"kind": "gpu"}, {}, "is a gpu"),
        ({"source": Source("datasheet", "a test"), "compute_units": 4096}, {}, "has 4096 cores"),
        ({}, {"device": "cuda"}, "not as cuda runs them"),
        ({}, {"mode": "compiled"}, "not compiled"),
        ({}, {"mode": "graph"}, "not graph"),
        ({}, {"what_if": "bandwidth=2x"}, "leave out what_if"),
    ],
)
def test_what_cannot_be_held_against_a_time_here_is_refused(here, changes, how, says):
    net, x = layers(1)
    with pytest.raises(rooflab.RooflabError, match=says) as caught:
        rooflab.analyze(net, x, machine=machine_like(here, **changes), measure=True, **how)
    assert "\n" not in str(caught.value)


def test_without_a_machine_or_pytorch_it_is_refused(here):
    net, x = layers(1)
    with pytest.raises(rooflab.RooflabError, match="expected the machine that this is"):
        rooflab.analyze(net, x, measure=True)
    with pytest.raises(rooflab.RooflabError, match="PyTorch programs alone"):
        rooflab.analyze("model.onnx", machine=here, measure=True)


def test_the_command_measures_and_refuses_early(command, here, tmp_path):
    program, machine = tmp_path / "net.py", tmp_path / "here.json"
    program.write_text(
        "import torch\ndef f():\n    return torch.nn.Linear(64, 64), torch.ones(16, 64)\n", encoding="utf-8"
    )
    here.save(machine)
    target = (f"{program}:f", "--machine", str(machine), "--measure", "--advice", "none")
    code, out, err = command("analyze", *target, "--json")
    assert (code, err) == (0, "")
    assert '"observation":' in out.replace(" ", "") or '"observation"' in out
    for more, says in (
        (("--time", "3ms"), "leave out --time"),
        (("--graph",), "leave out --measure"),
        (("--mode", "graph"), "leave out --mode graph"),
        (("--what-if", "bandwidth=2x"), "without --what-if"),
    ):
        code, out, err = command("analyze", *target, *more)
        assert (code, out) == (2, "")
        assert says in err
    code, _, err = command("analyze", str(tmp_path / "none.py:f"), "--machine", "h200-sxm", "--measure")
    assert code == 2
    assert "is a gpu" in err
