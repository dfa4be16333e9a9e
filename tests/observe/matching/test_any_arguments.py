"""Any operator with any arguments: a damaged trace may record anything, and none of it ends in a traceback."""

from __future__ import annotations

import random

import pytest

from rooflab.observe.matching.countable import countable
from rooflab.observe.matching.torch_calls import graph, resolve
from rooflab.types.trace import Signature
from rooflab.work import vocabulary
from rooflab.work.costs import costs

NAMES = sorted(vocabulary.load("torch"))
DTYPES = ("unrecorded", "float", "float", "c10::BFloat16", "", "Scalar", "TensorList")


@pytest.mark.parametrize("seed", range(4))
def test_any_arguments_are_resolved_or_have_a_reason(seed):
    rng = random.Random(seed)
    for name in NAMES:
        for _ in range(8):
            shapes = tuple(_shape(rng) for _ in range(rng.randrange(7)))
            dtypes = tuple(rng.choice(DTYPES) for _ in range(rng.randrange(len(shapes) + 1)))
            values = tuple(rng.choice(("", "1", "[1, 2]", "x")) for _ in dtypes)
            found = resolve(name.replace(".", "::", 1), Signature(shapes=shapes, dtypes=dtypes, values=values))
            assert found.why is None or found.why
            # What can be resolved need not fit its formula.
            costs(graph([countable(found)]))


def _shape(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.randrange(9) for _ in range(rng.randrange(5)))
