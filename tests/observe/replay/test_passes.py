"""A recorded program run again: which operations are timed, what feeds which, what cannot be and why."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from rooflab.observe.replay import passes  # noqa: E402
from rooflab.observe.replay.operators import detour_s  # noqa: E402
from rooflab.observe.replay.tensors import Tensors  # noqa: E402
from rooflab.observe.replay.whole import Whole  # noqa: E402
from rooflab.work.capture import torch as front  # noqa: E402
from rooflab.work.capture.torch.kept import Keeper, KeptCall, Opaque, Ref  # noqa: E402

QUICK = {"passes": (2, 2)}


def recorded(fn, *args, **how):
    keeper = Keeper()
    graph = front.capture(fn, args, device="cpu", keeper=keeper, **how)
    return graph, keeper.calls


def meta(*shape, **how):
    return torch.empty(*shape, device="meta", **how)


def names(graph, found):
    return [graph.ops[number].name for number in sorted(found.seen)]


def test_there_is_a_call_for_each_operation_of_the_graph():
    graph, calls = recorded(lambda x: torch.relu(x @ x.t()).sum(), meta(8, 8))
    assert len(calls) == len(graph.ops)
    assert [call.func._schema.name.replace("::", ".") for call in calls] == [op.name for op in graph.ops]


def test_every_operation_is_timed_as_often_as_there_are_passes():
    graph, calls = recorded(lambda x: torch.relu(x @ x.t()).sum(), meta(8, 8))
    found = passes.run(calls, range(len(calls)), **QUICK)
    assert names(graph, found) == [op.name for op in graph.ops]
    assert {len(one.seconds) for one in found.seen.values()} == {2}
    assert found.missing == {}


def test_results_feed_later_operations_and_writing_into_a_view_is_seen():
    seen = []

    def fn(x):
        rows = x[2:4]
        rows.add_(1.0)
        return x * 2

    _, calls = recorded(fn, meta(8, 8))
    watched = [
        call._replace(func=_Watched(call.func, seen)) if "mul" in str(call.func) else call for call in calls
    ]
    passes.run(watched, range(len(calls)), passes=(1, 1))
    # Two passes, the warming one included, each add 1 to those rows of what the first made.
    first, second = seen
    assert torch.allclose(second[2:4] - first[2:4], torch.tensor(2.0))
    assert torch.equal(second[:2], first[:2])


class _Watched:
    """An operator that notes its results."""

    def __init__(self, func, seen):
        self._schema = func._schema
        self._func, self._seen = func, seen

    def _op(self, *args, **kwargs):
        out = self._func(*args, **kwargs)
        self._seen.append(out.clone())
        return out


def test_what_cannot_be_run_again_says_why_and_the_rest_is_timed():
    ref = Ref(1, (4,), (1,), torch.float32, 0)
    add = torch.ops.aten.add.Tensor
    calls = [
        KeptCall(None, (ref,), {}, ref),
        KeptCall(add, (Opaque("a tensor that is not strided"), ref), {}, ref),
        KeptCall(add, (ref, Ref(2, (3,), (1,), torch.float32, 0)), {}, Ref(3, (4,), (1,), torch.float32, 0)),
        KeptCall(add, (ref, Ref(3, (4,), (1,), torch.float32, 0)), {}, Ref(4, (4,), (1,), torch.float32, 0)),
    ]
    found = passes.run(calls, range(4), **QUICK)
    assert sorted(found.seen) == [3]
    assert found.missing[0] == "recorded by a rule of its own, not as one operator"
    assert found.missing[1] == "it takes a tensor that is not strided"
    assert found.missing[2].startswith("RuntimeError: The size of tensor a (4)")


def test_a_collective_is_not_run():
    func = type("Func", (), {"_schema": type("Schema", (), {"name": "c10d::allreduce_"})})()
    found = passes.run([KeptCall(func, (), {}, None)], [0], **QUICK)
    assert "a collective" in found.missing[0]


def test_backward_optimizer_embedding_and_attention_are_run_again():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(50, 16)
            self.out = torch.nn.Linear(16, 50)

        def forward(self, tokens):
            x = self.words(tokens)[:, None]
            y = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
            logits = self.out(torch.nn.functional.dropout(y, 0.1)).reshape(-1, 50)
            return {"loss": torch.nn.functional.cross_entropy(logits, tokens.reshape(-1))}

    with torch.device("meta"):
        net, tokens = Net(), torch.zeros(2, 8, dtype=torch.long)
    graph, calls = recorded(net, tokens, backward=True, optimizer=torch.optim.AdamW)
    assert "aten._scaled_dot_product_flash_attention_backward" in [op.name for op in graph.ops]
    found = passes.run(calls, range(len(calls)), **QUICK)
    assert found.missing == {}
    assert len(found.seen) == len(graph.ops)


def test_numbers_under_a_root_are_positive_and_places_lie_within_the_table():
    table, at = Ref(1, (50, 4), (4, 1), torch.float32, 0), Ref(2, (1000,), (1,), torch.int64, 0)
    root = Ref(3, (1000,), (1,), torch.float32, 0)
    calls = [
        KeptCall(torch.ops.aten.embedding.default, (table, at), {}, None),
        KeptCall(torch.ops.aten._foreach_sqrt.default, ([root],), {}, None),
    ]
    tensors = Tensors(calls)
    assert tensors.get(root).min() >= 0
    assert 0 <= tensors.get(at).min() < tensors.get(at).max() < 50
    assert tensors.get(table).min() < 0
    assert tensors.get(table) is tensors.get(table)


def test_a_matrix_to_be_factorised_is_positive_definite():
    graph, calls = recorded(torch.linalg.cholesky, meta(2, 16, 16))
    at = [op.name for op in graph.ops].index("aten.linalg_cholesky_ex")
    matrix = Tensors(calls).get(calls[at].args[0])
    _, info = torch.linalg.cholesky_ex(matrix)
    assert info.tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.bool, torch.int8])
def test_every_number_format_can_be_made_with_its_strides(dtype):
    made = Tensors([]).get(Ref(1, (4, 3), (1, 8), dtype, 0))
    assert (made.shape, made.stride(), made.dtype) == ((4, 3), (1, 8), dtype)


def test_the_detour_is_what_a_call_alone_takes_longer():
    # A clock that moves by 1 at each look: a call alone takes 1, one of 400 in a row 1/400.
    ticks = itertools.count()
    assert detour_s(lambda: float(next(ticks))) == pytest.approx(1 - 1 / 400)


def test_a_time_is_never_taken_off_altogether():
    # Each look at the clock moves it by 1: an operation takes 1, and so does a call alone; 1/4 stays.
    _, calls = recorded(torch.relu, meta(8))
    ticks = itertools.count()
    found = passes.run(calls, [0], clock=lambda: float(next(ticks)), **QUICK)
    assert found.seen[0].seconds == (0.25, 0.25)


def test_no_pass_begins_after_the_limit_but_the_least():
    _, calls = recorded(torch.relu, meta(8))
    ticks = itertools.count()
    found = passes.run(calls, [0], clock=lambda: float(next(ticks)), passes=(3, 30), limit_s=0.0)
    assert found.passes == 3


def test_the_whole_program_runs_in_turns_with_data_where_it_has_none():
    with torch.device("meta"):
        net, x = torch.nn.Linear(4, 3), torch.empty(2, 4)
    whole = Whole(net, (x,), {}, backward=True, optimizer=False)
    for _ in range(4):
        whole.run()
    assert whole.why_not is None
    assert len(whole.seconds) == 3  # the first warmed up
    assert next(net.parameters()).is_meta  # the program's own tensors are as they were


def test_a_function_without_parameters_and_an_exported_program_run_as_a_whole():
    x = torch.ones(4, 4, requires_grad=True)
    layer = torch.nn.Linear(4, 4)
    exported = torch.export.export(layer, (torch.ones(2, 4),))
    for program, args, backward in (
        (lambda a: (a * 2).sum(), (x,), True),
        (lambda a: layer(a).sum(), (torch.ones(2, 4),), True),
        (exported, (torch.ones(2, 4),), False),
    ):
        whole = Whole(program, args, {}, backward=backward, optimizer=False)
        whole.run()
        whole.run()
        assert whole.why_not is None
    assert x.grad is None
    assert layer.weight.grad is None


def test_a_whole_that_fails_says_why():
    weight = meta(4, 4)
    whole = Whole(lambda x: x @ weight, (meta(4, 4),), {}, backward=False, optimizer=False)
    whole.run()
    whole.run()
    assert whole.median_s is None
    assert "on the meta device that is none of its inputs" in whole.why_not
    assert Whole(None, (), {}, backward=True, optimizer=True).why_not.startswith("a program with an optimizer")
