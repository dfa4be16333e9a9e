"""Linear algebra and CTC in PyTorch: each operator is counted, by what is asked of it, on meta tensors too."""

import pytest

torch = pytest.importorskip("torch")

from rooflab.work.capture.torch import capture  # noqa: E402
from rooflab.work.costs import costs, uncosted  # noqa: E402

linalg = torch.linalg
PROGRAMS = {
    "solve": lambda a, b, t: linalg.solve(a, b),
    "inv": lambda a, b, t: linalg.inv(a),
    "det": lambda a, b, t: linalg.det(a),
    "slogdet": lambda a, b, t: linalg.slogdet(a),
    "lu": lambda a, b, t: linalg.lu(a),
    "lu_solve": lambda a, b, t: linalg.lu_solve(*linalg.lu_factor(a), b),
    "ldl_solve": lambda a, b, t: linalg.ldl_solve(*linalg.ldl_factor(a), b),
    "cholesky": lambda a, b, t: linalg.cholesky(a),
    "cholesky_solve": lambda a, b, t: torch.cholesky_solve(b, a),
    "cholesky_inverse": lambda a, b, t: torch.cholesky_inverse(a),
    "qr": lambda a, b, t: linalg.qr(t),
    "ormqr": lambda a, b, t: torch.ormqr(t, t[0], t),
    "lstsq": lambda a, b, t: linalg.lstsq(t, t).solution,
    "svd": lambda a, b, t: linalg.svd(t),
    "pinv": lambda a, b, t: linalg.pinv(t),
    "eigh": lambda a, b, t: linalg.eigh(a),
    "eig": lambda a, b, t: linalg.eig(a),
    "matrix_exp": lambda a, b, t: linalg.matrix_exp(a),
    "matrix_rank": lambda a, b, t: linalg.matrix_rank(t),
    "cdist": lambda a, b, t: torch.cdist(t, t),
    "fft2": lambda a, b, t: torch.fft.fft2(t),
}


def operands(device):
    eye = torch.eye(12, device=device)
    return (eye + 1, torch.ones(12, 3, device=device), torch.eye(20, device=device)[:, :12] + 1)


def flop(graph):
    return sum(one.total_flop for one in costs(graph) if one is not None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_is_counted_and_alike_on_meta_tensors(name):
    graphs = [capture(PROGRAMS[name], operands(device)) for device in ("cpu", "meta")]
    assert [uncosted(graph) for graph in graphs] == [{}, {}]
    assert flop(graphs[0]) == flop(graphs[1]) > 0


@pytest.mark.parametrize("function", [linalg.svdvals, linalg.eigvalsh, linalg.eigvals])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_vectors_beside_values_count_where_a_gradient_wants_them(function, device):
    a = operands(device)[0]
    alone = capture(function, (a,))
    with_gradient = capture(function, (a.clone().requires_grad_(),))
    assert flop(with_gradient) > 2 * flop(alone)


def test_r_alone_forms_no_q():
    tall = operands("meta")[2]
    both, r = (capture(lambda t, mode=mode: linalg.qr(t, mode=mode), (tall,)) for mode in ("reduced", "r"))
    assert flop(r) < 0.6 * flop(both)


@pytest.mark.parametrize(
    ("device", "lengths", "states"),
    [
        # 2 sequences: 30 times × (2 × 5 + 1) states, 20 times × (2 × 3 + 1)
        ("cpu", ([30, 20], [5, 3]), 30 * 11 + 20 * 7),
        ("meta", ([30, 20], [5, 3]), 30 * 11 + 20 * 7),
        ("meta", None, 2 * 30 * 11),  # tensors without data: the longest that fit
    ],
)
def test_ctc_counts_the_states_of_its_targets(device, lengths, states):
    x = torch.zeros(30, 2, 8, device=device).log_softmax(2).requires_grad_()
    targets = torch.ones(2, 5, dtype=torch.long, device=device)
    times, labels = lengths or (torch.empty(2, dtype=torch.long, device=device) for _ in range(2))

    def program(x):
        return torch.nn.functional.ctc_loss(x, targets, tuple(times), tuple(labels), reduction="sum")

    def by_tensors(x):
        return torch.nn.functional.ctc_loss(x, targets, times, labels, reduction="sum")

    graph = capture(program if lengths else by_tensors, (x,), backward=True)
    counted = {op.name: cost for op, cost in zip(graph.ops, costs(graph), strict=True)}
    assert {one.engine: one.count for one in counted["aten._ctc_loss"].flop} == {
        "vector": 9 * states,
        "special": 4 * states,
    }
    classes = 8 * (sum(lengths[0]) if lengths else 60)
    assert counted["aten._ctc_loss_backward"].total_flop == (13 + 9) * states + 6 * classes
