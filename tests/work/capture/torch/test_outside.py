"""What NumPy computes with a tensor's data in the middle of a program of PyTorch is missing, and that is said."""

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

import rooflab  # noqa: E402

X = torch.ones(8, 8)


def there_and_back(x):
    array = x.numpy()
    return torch.from_numpy(array @ array) + 1


def by_asarray(x):
    return torch.as_tensor(np.sqrt(np.asarray(x + x)))


@pytest.mark.parametrize("function", [there_and_back, by_asarray, lambda x: torch.tensor(np.exp(x.numpy()))])
def test_work_of_numpy_between_two_tensors_is_named_as_not_followed(function):
    report = rooflab.analyze(function, X, machine="h200")
    (said,) = report.coverage.unknown
    assert said.startswith("what NumPy computed between ")
    assert "test_outside.py:" in said
    assert not report.coverage.complete
    assert report.time_s is None
    assert report.time_at_least_s is not None


def test_a_result_that_ends_as_an_array_is_noted_and_whole():
    report = rooflab.analyze(lambda x: (x @ x).numpy(), X, machine="h200")
    assert report.coverage.complete
    assert any(line.startswith("NumPy: a tensor becomes an array at ") for line in report.conventions)
    assert report.matrix_flop == 2 * 8**3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x @ torch.from_numpy(np.ones((8, 8), np.float32)),  # nothing left before
        lambda x: x + torch.tensor([1.0, 2.0] * 4),
        lambda x: x + float(x.sum()) if str(x) else x,  # PyTorch's own look at the data
    ],
)
def test_constants_and_prints_are_no_doubt(function):
    report = rooflab.analyze(function, X)
    assert report.coverage.complete
    assert not any(line.startswith("NumPy: ") for line in report.conventions)


def test_pytorch_is_as_it_was_afterwards():
    before = [*vars(torch.Tensor)], torch.from_numpy, torch.tensor, torch.Tensor.__array__
    rooflab.analyze(there_and_back, X)
    assert ([*vars(torch.Tensor)], torch.from_numpy, torch.tensor, torch.Tensor.__array__) == before
    assert "numpy" not in vars(torch.Tensor)
