"""Results of meta operators made again from their shapes: as PyTorch's own, each new, one per kind of call."""

from __future__ import annotations

import pytest
import torch

from rooflab.work.capture.torch.results import Results, repeatable

aten = torch.ops.aten


class Counted:
    """An operator that counts how often PyTorch computes it."""

    def __init__(self, func) -> None:
        self.func, self.calls = func, 0

    def __call__(self, *args, **kwargs):
        """The operator's result."""
        self.calls += 1
        return self.func(*args, **kwargs)


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def form(one: torch.Tensor) -> tuple:
    return one.shape, one.stride(), one.dtype, one.device


CALLS = [
    (aten.mul.Tensor, (meta(3, 4).t(), meta(4, 1)), {}),
    (aten.cat.default, ([meta(2, 3), meta(5, 3)], 0), {}),
    (aten.mm.default, (meta(3, 4), meta(4, 5)), {}),
    (aten._to_copy.default, (meta(2, 3).t(),), {"dtype": torch.bfloat16}),
    (aten.native_layer_norm.default, (meta(2, 8), [8], meta(8), meta(8), 1e-5), {}),
    (aten.clone.default, (meta(2, 3, 4, 5),), {"memory_format": torch.channels_last}),
]


@pytest.mark.parametrize(("func", "args", "kwargs"), CALLS, ids=lambda one: str(one) if callable(one) else "")
def test_second_result_is_made_from_the_first_and_has_a_storage_of_its_own(func, args, kwargs):
    assert repeatable(func)
    results, counted = Results(), Counted(func)
    first, second = (results.call(counted, args, kwargs) for _ in range(2))
    assert counted.calls == 1
    assert type(first) is type(second)
    pairs = list(zip(first, second, strict=True)) if isinstance(first, tuple) else [(first, second)]
    for one, other in pairs:
        assert form(one) == form(other)
        assert one.untyped_storage()._cdata != other.untyped_storage()._cdata


# What PyTorch promotes to differs: int64 · 2 is int64, · 2.0 is the default floating format; 1 == 1.0 == True.
def test_numbers_that_are_equal_but_of_other_types_are_other_calls():
    results, x = Results(), meta(3, dtype=torch.int64)
    formats = [results.call(aten.mul.Tensor, (x, one), {}).dtype for one in (1, 1.0, 1)]
    assert formats == [torch.int64, torch.float32, torch.int64]
    truth = meta(3, dtype=torch.bool)
    formats = [results.call(aten.mul.Tensor, (truth, one), {}).dtype for one in (True, 1)]
    assert formats == [torch.bool, torch.int64]


def test_default_number_format_is_part_of_the_call():
    results, x = Results(), meta(3, dtype=torch.int64)
    assert results.call(aten.mul.Tensor, (x, 2.0), {}).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert results.call(aten.mul.Tensor, (x, 2.0), {}).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "other", [meta(2, 3), meta(3, 2).t(), meta(2, 3, dtype=torch.float16)], ids=["size", "strides", "format"]
)
def test_other_tensors_are_another_call(other):
    results, counted = Results(), Counted(aten.exp.default)
    results.call(counted, (meta(2, 4),), {})
    results.call(counted, (meta(2, 3, dtype=torch.float64),), {})
    assert form(results.call(counted, (other,), {})) == form(aten.exp.default(other))
    assert counted.calls == 3


def test_data_is_computed_each_time():
    results, x = Results(), torch.tensor([1.0, 2.0])
    assert results.call(aten.neg.default, (x,), {}).tolist() == [-1.0, -2.0]
    assert results.call(aten.neg.default, (x + 1,), {}).tolist() == [-2.0, -3.0]


# aten._unsafe_view says nothing of an alias in its schema, yet looks at its argument's storage.
def test_a_view_that_its_schema_hides_keeps_its_storage():
    results, func = Results(), aten._unsafe_view.default
    assert repeatable(func)
    for _ in range(2):
        x = meta(2, 6)
        assert results.call(func, (x, [3, 4]), {}).untyped_storage()._cdata == x.untyped_storage()._cdata


@pytest.mark.parametrize(
    "func", [aten.view.default, aten.add_.Tensor, aten.split.Tensor, aten.mm.out, aten._local_scalar_dense.default]
)
def test_views_writes_and_numbers_are_not_repeatable(func):
    assert not repeatable(func)
