"""Programs that ask tensors without data: masks and tokens are taken as ones, and it is said; else refused."""

import pytest

torch = pytest.importorskip("torch")

from rooflab.errors import RooflabError  # noqa: E402
from rooflab.work.capture.torch import capture  # noqa: E402

X = torch.empty(6, 5, device="meta")
MASK = torch.empty(6, dtype=torch.bool, device="meta")
TOKENS = torch.empty(2, 7, dtype=torch.long, device="meta")
SAID = "decide what runs, and are taken as ones; for others give real tensors"


def masked(x, mask):
    return x @ x.T if mask.all() else x


def test_a_mask_of_ones_hides_nothing():
    graph = capture(masked, (X, MASK))
    assert "aten.mm" in [op.name for op in graph.ops]
    assert graph.unknown == (f"the values of mask (bool [6]) {SAID}",)


def test_a_number_from_tokens_is_said_once():
    graph = capture(lambda tokens: tokens * int(tokens.max()) * int(tokens.sum()), (TOKENS,))
    assert graph.unknown == (f"the values of tokens (int64 [2, 7]) {SAID}",)


def test_what_a_mask_picks_has_the_size_of_all():
    graph = capture(lambda x, mask: x[mask] @ x[mask].T, (X, MASK))
    assert [graph.tensors[op.outputs[0]].shape for op in graph.ops if op.name == "aten.mm"] == [(6, 6)]
    assert graph.unknown == (f"the values of mask (bool [6]) {SAID}",)


def test_real_masks_are_asked_and_nothing_is_said():
    mask = torch.tensor([True, False, True, True, False, False])
    graph = capture(lambda x: x[mask] @ x[mask].T, (torch.ones(6, 5),))
    assert [graph.tensors[op.outputs[0]].shape for op in graph.ops if op.name == "aten.mm"] == [(3, 3)]
    assert graph.unknown == ()


def routed(x):
    chosen = x.softmax(-1).topk(2).indices
    return x[(chosen == 1).nonzero()[:, 0]]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (routed, r"aten.nonzero.* at .*test_data_dependent.py:\d+: the shape of its result needs data"),
        (
            lambda x: x * x.sum().item(),
            r"aten._local_scalar_dense at .*test_data_dependent.py:\d+: needs the value",
        ),
        (lambda x: x[x > 0], r"aten.index at .*test_data_dependent.py:\d+: .*give real tensors"),
    ],
)
def test_what_follows_from_real_numbers_is_refused_with_its_line(program, said):
    with pytest.raises(RooflabError, match=said):
        capture(program, (X,))


def test_a_loop_that_ones_never_end_is_ended():
    def waits(mask):
        while mask.any():
            pass

    with pytest.raises(RooflabError, match="needs the value of a tensor"):
        capture(waits, (MASK,))
