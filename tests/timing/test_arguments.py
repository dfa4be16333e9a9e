"""Arguments of repeated calls: those without data are refused, changes in the others are seen."""

from __future__ import annotations

import numpy as np
import pytest

from rooflab.errors import RooflabError
from rooflab.timing import arguments


def test_arguments_with_data_pass():
    arguments.check("f", (np.ones(3), [1, 2], "text", open), {"x": {"a": 1}})


def test_an_iterator_would_be_used_up():
    with pytest.raises(RooflabError, match=r"^f: argument 2 is a generator, which the first call would use up"):
        arguments.check("f", (1, (n for n in range(3))), {})
    with pytest.raises(RooflabError, match="argument 'xs' is a map"):
        arguments.check("f", (), {"xs": map(int, "12")})


def test_tensors_and_modules_without_data_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(RooflabError, match="argument 1 is a tensor on the meta device"):
        arguments.check("f", ([torch.ones(1, device="meta")],), {})
    with pytest.raises(RooflabError, match="what is called is a module on the meta device"):
        arguments.check("f", (), {}, torch.nn.Linear(2, 2, device="meta"))


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (np.zeros(100_000), lambda a: a.__iadd__(1)),
        (np.asfortranarray(np.zeros((30, 40))), lambda a: a.__iadd__(1)),
        ([3, 1, 2], list.sort),
        ([1], lambda a: a.append(1)),
        (bytearray(b"abc"), lambda a: a.reverse()),
        ({"a": 1}, lambda a: a.update(b=2)),
    ],
)
def test_a_change_is_seen(value, change):
    before = arguments.contents((0, value), {"k": value})
    assert arguments.changed(before, arguments.contents((0, value), {"k": value})) == ()
    change(value)
    after = arguments.contents((0, value), {"k": value})
    assert arguments.changed(before, after) == ("argument 2", "argument 'k'")


def test_a_change_of_a_tensor_is_seen():
    torch = pytest.importorskip("torch")
    for value in (torch.zeros(10_000), torch.zeros(4, dtype=torch.bfloat16), torch.zeros(())):
        before = arguments.contents((value,), {})
        value += 1
        assert arguments.changed(before, arguments.contents((value,), {})) == ("argument 1",)
